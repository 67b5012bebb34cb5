//! The one claim protocol: what a claim is, what can be said to it, and the function that decides ([`step`]).
//!
//! A claim is *absent*, *Held*, *Settled*, *InDoubt* or *Released*. [`step`] takes the present claim, one command and the
//! moment, and returns what the claim becomes and what the asker is told. It is the only place where a transition is
//! decided (L1): stores keep what it decided, `hapax_exec::once` drives it, the model checker calls it.
//!
//! The rules by command are in `claim/`: `grant` (claim, set, peek), `holder` (renew, cleared, settle, release, doubt),
//! `operator` (resolve, reopen, purge, erase) and `sweep`. `standing` holds the rule they all share: what time alone has
//! made of a claim. [`audit`] derives what is written down for people.

pub mod audit;
mod cause;
mod grant;
mod holder;
mod operator;
mod standing;
mod sweep;

use std::time::Duration;

use crate::fingerprint::{Fingerprint, Leaves, RecipeId};
use crate::id::{AttemptId, Epoch, OperationId, SessionId};
use crate::outcome::{Kept, Outcome, Retention};
use crate::time::Timestamp;

pub use cause::Cause;
pub use grant::{is_lapsed_repeat, view};
pub use standing::current;

/// The ledger's record for one identity. Absence is `None` wherever a claim is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The fencing number of the latest grant (or of the operator's decision after it).
    pub epoch: Epoch,
    /// The attempt that was granted last.
    pub attempt: AttemptId,
    /// The public id; it stays the same from the first grant until the claim is absent again.
    pub operation_id: OperationId,
    /// What was asked by the first grant, under the recipe it was hashed with.
    pub fingerprint: Fingerprint,
    /// Keyed hashes of what was asked, to explain a mismatch (H10).
    pub leaves: Option<Leaves>,
    /// What the grant was made under.
    pub terms: Terms,
    /// When the claim was granted from absent.
    pub opened_at: Timestamp,
    /// When the present epoch was granted.
    pub granted_at: Timestamp,
    /// The session that holds it or held it last.
    pub session: SessionId,
    /// Whether an attempt before the present one may have run: then not even "this attempt did not run" makes it certain that
    /// nothing did.
    pub earlier: Ran,
    /// While it is held by somebody who must ask and has not cleared it yet: what is asked about.
    pub doubted: Option<Doubted>,
    /// What the holder saw that left the doubt, as long as there is one: in doubt, or held by a caller that must ask about it.
    pub cause: Option<Cause>,
    /// Where it stands.
    pub state: State,
}

/// Where a present claim stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody has the right to run the work.
    Held {
        /// The end of `max_run`: no renewal reaches beyond it.
        run_until: Timestamp,
    },
    /// The outcome is kept.
    Settled {
        /// What is kept.
        outcome: Outcome,
        /// When it was settled.
        settled_at: Timestamp,
        /// When it becomes absent; fixed at the settle (L10).
        keep_until: Timestamp,
        /// Who said so.
        by: SettledBy,
    },
    /// Nobody knows whether the work happened. Nothing runs until that is resolved (L6).
    InDoubt {
        /// Why nobody knows.
        reason: Doubt,
        /// Since when.
        since: Timestamp,
        /// When it was last asked, and the answer was that nobody knows.
        asked_at: Option<Timestamp>,
    },
    /// Given back; the next claim may run. The record stays for a while as a tombstone.
    Released {
        /// The last sign of the former run.
        since: Timestamp,
        /// Whether the work may have run all the same.
        ran: Ran,
    },
}

impl State {
    /// The state's name, the same in the CLI, the API, the metrics and the console.
    pub fn name(&self) -> StateName {
        match self {
            State::Held { .. } => StateName::Held,
            State::Settled { .. } => StateName::Settled,
            State::InDoubt { .. } => StateName::InDoubt,
            State::Released { .. } => StateName::Released,
        }
    }
}

/// The names of the states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StateName {
    /// See [`State::Held`].
    Held,
    /// See [`State::Settled`].
    Settled,
    /// See [`State::InDoubt`].
    InDoubt,
    /// See [`State::Released`].
    Released,
}

impl StateName {
    /// All of them.
    pub const ALL: [StateName; 4] =
        [StateName::Held, StateName::Settled, StateName::InDoubt, StateName::Released];

    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            StateName::Held => "held",
            StateName::Settled => "settled",
            StateName::InDoubt => "in_doubt",
            StateName::Released => "released",
        }
    }
}

/// Who settled a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledBy {
    /// The holder of the epoch.
    Holder,
    /// An operator, out of doubt (L8).
    Operator,
}

/// Whether the work may have run.
///
/// | | the next claim | is told that an earlier attempt may have run |
/// |---|---|---|
/// | `No` | is granted | no |
/// | `Waived` | is granted | yes |
/// | `Perhaps` | follows its rerun (L6) | yes |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ran {
    /// It certainly did not.
    No,
    /// It may have, and an operator or the terms have decided that it may run again all the same (L8, L10).
    Waived,
    /// It may have.
    Perhaps,
}

impl Ran {
    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Ran::No => "no",
            Ran::Waived => "waived",
            Ran::Perhaps => "perhaps",
        }
    }
}

/// Why a claim is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The lease lapsed while the work may have been running.
    Lapsed,
    /// The holder saw a failure after the work may have been reached: a reset, half an answer, a panic, a give-up.
    Failed,
    /// The work itself said that nobody can know.
    Stated,
    /// No attempt worked, and none may follow, on a route that pauses (P6). Only an operator ends it.
    Paused,
}

impl Doubt {
    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Doubt::Lapsed => "lapsed",
            Doubt::Failed => "failed",
            Doubt::Stated => "stated",
            Doubt::Paused => "paused",
        }
    }
}

/// The doubt over which a claim was granted, for its holder to ask (L6). It goes on, as it was, where nobody learns anything:
/// whoever asked knows neither why nor since when there is a doubt, and has not run the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Doubted {
    /// Why nobody knows.
    pub reason: Doubt,
    /// Since when.
    pub since: Timestamp,
    /// The session that held the claim when the work may have run.
    pub session: SessionId,
    /// When it was granted to that.
    pub granted_at: Timestamp,
}

/// May the work run again when nobody knows whether it ran? Ordered: the later is the stricter (L2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rerun {
    /// Yes, even overlapping an earlier run.
    Safe,
    /// Ask first.
    Ask,
    /// No.
    #[default]
    Unsafe,
}

/// What a grant is made under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// May the work run again after doubt?
    pub rerun: Rerun,
    /// With a safe rerun: how long the former run must have been silent.
    pub quiet: Duration,
    /// How long one attempt may be renewed (L4).
    pub max_run: Duration,
    /// How long after the grant the call may still reach the work; an unforced release waits for it (L8).
    pub give_up: Duration,
    /// What becomes of a doubt that nobody resolves; by default it stays (L10).
    pub doubt: Option<DoubtEnds>,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            rerun: Rerun::default(),
            quiet: Duration::ZERO,
            max_run: crate::limits::DEFAULT_MAX_RUN,
            give_up: Duration::ZERO,
            doubt: None,
        }
    }
}

impl Terms {
    /// How long after the former run's last sign a released claim leaves a tombstone: late reports of its holder must have time
    /// to arrive.
    pub fn tombstone(&self) -> Duration {
        crate::limits::TOMBSTONE_KEPT.saturating_add(self.quiet.max(self.give_up))
    }
}

/// The opt-in end of a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoubtEnds {
    /// How long a doubt lasts at most.
    pub after: Duration,
    /// What happens then.
    pub then: DoubtThen,
}

/// What a doubt ends as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtThen {
    /// The claim is released: the work may run again.
    Release,
    /// The claim is forgotten, with its fingerprint.
    Forget,
}

/// The moment at which a command is decided: everything that is neither in the claim nor in the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The store's clock (L12).
    pub time: Timestamp,
    /// An epoch greater than any the store has given out. Using it up is not required.
    pub next_epoch: Epoch,
    /// The standing of the session that [`Claim::session`] names.
    pub holder: Sign,
}

/// What is known of a session at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// When it was last heard of.
    pub last: Timestamp,
    /// The end of its term; past for a session that ended or was never known.
    pub until: Timestamp,
}

impl Sign {
    /// A session nobody knows of.
    pub const UNKNOWN: Sign = Sign { last: Timestamp::ZERO, until: Timestamp::ZERO };
}

/// Everything that can be said to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// May I run this? (L2)
    Claim(Ask),
    /// Keep this outcome if there is nothing yet (E4).
    Set(Ask, Outcome, Retention),
    /// The holder of an epoch reports.
    Hold(Epoch, Report),
    /// An operator decides (L8).
    Operate(Decision),
    /// The sweeper came by and saw this epoch (L6, L10).
    Sweep(Epoch),
}

/// A request for a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The attempt that asks. Asking again with the same one has no further effect (L13).
    pub attempt: AttemptId,
    /// The public id to use if the claim is absent.
    pub operation_id: OperationId,
    /// What is asked.
    pub fingerprint: Fingerprint,
    /// Keyed hashes of what is asked, kept to explain a later mismatch.
    pub leaves: Option<Leaves>,
    /// What the grant should be made under.
    pub terms: Terms,
    /// The session that asks.
    pub session: SessionId,
}

/// What the holder of an epoch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// I am still here, and about to go on.
    Renew,
    /// I asked, and no earlier attempt ran or ever will: I run it now (L6).
    Cleared,
    /// The work came to its end (L5).
    Settle(Outcome, Retention),
    /// I give it back. To waive is not a holder's to say: it counts as [`Ran::Perhaps`].
    Release(Ran),
    /// Nobody can know.
    Doubt(Doubt),
    /// The same as a doubt with this reason, or without one as a release of what may have run; and what the holder saw, which is
    /// kept with the doubt. Made by [`Report::because`].
    Because(Option<Doubt>, Cause),
}

impl Report {
    /// Adds what the holder saw to a report that may leave a doubt; any other stays as it is.
    #[must_use]
    pub fn because(self, text: &str) -> Report {
        match (self, Cause::new(text)) {
            (Report::Release(Ran::Perhaps), Some(cause)) => Report::Because(None, cause),
            (Report::Doubt(reason), Some(cause)) => Report::Because(Some(reason), cause),
            (report, _) => report,
        }
    }
}

/// What an operator decides, about the epoch that the operator saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The epoch the operator saw; another one by now means that the decision rests on an old picture.
    pub seen: Epoch,
    /// What is to be done.
    pub verb: Verb,
    /// Who decides.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// The operators' verbs (L8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// InDoubt → Settled with this outcome, under a new epoch.
    Settle(Outcome, Retention),
    /// InDoubt → Released.
    Release {
        /// Even while the former run may still be going on.
        force: bool,
    },
    /// Settled → Released, under a new epoch.
    Reopen,
    /// Settled → absent.
    Purge,
    /// Destroys the kept bytes, also those that were set aside. The key stays burned, under a new epoch, or free where it
    /// was released.
    Erase,
}

impl Verb {
    /// As it is written in the audit.
    pub fn as_str(&self) -> &'static str {
        match self {
            Verb::Settle(..) => "resolve-settle",
            Verb::Release { .. } => "resolve-release",
            Verb::Reopen => "reopen",
            Verb::Purge => "purge",
            Verb::Erase => "erase",
        }
    }
}

/// What a claim becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "made once and moved once for each command; a box would be an allocation each"
)]
pub enum Change {
    /// It stays as it is.
    None,
    /// It becomes this.
    Put(Claim),
    /// It becomes absent.
    Remove,
}

/// What the asker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Command::Claim`].
    Verdict(Verdict),
    /// To [`Command::Set`].
    Set(SetAnswer),
    /// To [`Command::Hold`].
    Ending(Ending),
    /// To [`Command::Operate`].
    Operated(Operated),
    /// To [`Command::Sweep`].
    Swept(Swept),
}

/// The ledger's answer to a claim (L2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Run it. The grant is durable.
    Granted(Grant),
    /// It was done; this is what was kept. Run nothing.
    Replay(Kept),
    /// Somebody is running it, or must be given time to be silent.
    Held {
        /// The public id of what is running.
        operation_id: OperationId,
        /// When it lapses unless it is renewed.
        until: Timestamp,
    },
    /// The key was used for something else.
    Mismatch {
        /// The public id of what it was used for.
        operation_id: OperationId,
        /// The recipe under which that was hashed: a caller that hashed with another one must hash again.
        recipe: RecipeId,
        /// Keyed hashes of what that was.
        leaves: Option<Leaves>,
        /// Until when its outcome is kept, and the key used up, if it has one.
        keep_until: Option<Timestamp>,
    },
    /// Nobody knows whether it was done.
    InDoubt {
        /// The public id of what is in doubt.
        operation_id: OperationId,
        /// Why.
        reason: Doubt,
        /// Since when.
        since: Timestamp,
    },
    /// This very attempt had its grant and gave it back. Ask again under a new attempt id.
    Spent,
}

/// The right to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fencing number; every report of the holder carries it.
    pub epoch: Epoch,
    /// The public id.
    pub operation_id: OperationId,
    /// No renewal reaches beyond this. Until then the lease lasts as long as the session that asked.
    pub run_until: Timestamp,
    /// An earlier attempt may have run, whatever becomes of this one.
    pub earlier_may_have_run: bool,
    /// Before running, the holder must find out whether an earlier attempt ran (L6).
    pub must_ask: bool,
}

/// The answer to a holder's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The lease goes on.
    Renewed {
        /// When it ends now.
        until: Timestamp,
    },
    /// The outcome is kept.
    Settled(Kept),
    /// The claim is released.
    Released,
    /// The claim is in doubt.
    InDoubt,
    /// Another epoch is current, or none: answer the caller from the ledger.
    LostLease,
    /// The claim is settled already: answer the caller with this.
    AlreadySettled(Kept),
}

/// The answer to [`Command::Set`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetAnswer {
    /// Nothing was there; now this is.
    Stored(Kept),
    /// Something was there; it stays.
    Present(View),
}

/// The answer to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operated {
    /// Done; the claim's epoch is now this one, or the claim is absent.
    Done(Option<Epoch>),
    /// The claim has another epoch than the operator saw. Nothing was changed.
    Changed {
        /// The present epoch.
        epoch: Epoch,
    },
    /// The verb does not apply to a claim in this state. Nothing was changed.
    NotApplicable(StateName),
    /// The former run may still be going on (until then at least); only a forced release would be carried out.
    MayStillRun {
        /// When an unforced release can be tried again.
        until: Timestamp,
    },
    /// There is no such claim.
    Absent,
}

/// What the sweeper did to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// Nothing was due.
    Kept,
    /// It was forgotten: an outcome past its retention, a doubt past its end, an old tombstone.
    Forgotten,
    /// Its lease had lapsed, and it is released.
    Released,
    /// Its lease had lapsed, and it is in doubt.
    InDoubt,
}

/// What a reader sees of a present claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// Somebody runs it.
    Held {
        /// The public id.
        operation_id: OperationId,
        /// When it lapses unless it is renewed.
        until: Timestamp,
    },
    /// It was done.
    Settled(Kept),
    /// Nobody knows.
    InDoubt {
        /// The public id.
        operation_id: OperationId,
        /// Why.
        reason: Doubt,
        /// Since when.
        since: Timestamp,
    },
    /// It was given back; nobody runs it.
    Released {
        /// The public id.
        operation_id: OperationId,
    },
}

/// Decides one command: the whole protocol.
///
/// ```
/// use hapax_core::claim::{Answer, Ask, Change, Command, Now, Sign, Terms, Verdict, step};
/// use hapax_core::{AttemptId, ClaimId, Epoch, Fingerprint, OperationId, SessionId, Timestamp};
///
/// let id = ClaimId::from_bytes([1; 32]);
/// let ask = |attempt| {
///     Command::Claim(Ask {
///         attempt: AttemptId::from_bytes([attempt; 16]),
///         operation_id: OperationId::for_claim(&id, [attempt; 6]),
///         fingerprint: Fingerprint::of_bytes(b"pay 10"),
///         leaves: None,
///         terms: Terms::default(),
///         session: SessionId(1),
///     })
/// };
/// let now = Now {
///     time: Timestamp::from_micros(100),
///     next_epoch: Epoch::new(1, 1)?,
///     holder: Sign { last: Timestamp::from_micros(90), until: Timestamp::from_micros(200) },
/// };
/// let (change, answer) = step(None, &ask(1), &now);
/// assert!(matches!(answer, Answer::Verdict(Verdict::Granted(_))));
/// let Change::Put(claim) = change else { panic!("a grant is recorded") };
/// let (change, answer) = step(Some(&claim), &ask(2), &now);
/// assert!(matches!(answer, Answer::Verdict(Verdict::Held { .. })));
/// assert_eq!(change, Change::None);
/// # Ok::<(), hapax_core::Error>(())
/// ```
pub fn step(claim: Option<&Claim>, command: &Command, now: &Now) -> (Change, Answer) {
    match command {
        Command::Claim(ask) => verdict(grant::claim(claim, ask, now)),
        Command::Set(ask, outcome, retention) => {
            let (change, answer) = grant::set(claim, ask, outcome, *retention, now);
            (change, Answer::Set(answer))
        }
        Command::Hold(epoch, report) => {
            let (change, ending) = holder::report(claim, *epoch, report, now);
            (change, Answer::Ending(ending))
        }
        Command::Operate(decision) => {
            let (change, operated) = operator::decide(claim, decision, now);
            (change, Answer::Operated(operated))
        }
        Command::Sweep(seen) => {
            let (change, swept) = sweep::sweep(claim, *seen, now);
            (change, Answer::Swept(swept))
        }
    }
}

fn verdict((change, verdict): (Change, Verdict)) -> (Change, Answer) {
    (change, Answer::Verdict(verdict))
}

impl Claim {
    /// The settled outcome, if there is one.
    pub fn kept(&self) -> Option<Kept> {
        let State::Settled { outcome, settled_at, keep_until, by } = &self.state else { return None };
        Some(Kept {
            operation_id: self.operation_id,
            attempt: self.attempt,
            epoch: self.epoch,
            outcome: outcome.clone(),
            settled_at: *settled_at,
            keep_until: *keep_until,
            by: *by,
            earlier_may_have_run: self.earlier != Ran::No,
        })
    }

    /// The former doubt again: an operator's release waits for the run that it is about, not for whoever asked.
    fn in_doubt_again(&self, doubted: Doubted, asked_at: Option<Timestamp>) -> Claim {
        let Doubted { reason, since, .. } = doubted;
        let mut claim = self.with(State::InDoubt { reason, since, asked_at });
        claim.leave_to_the_run();
        claim
    }

    /// Whoever only asked has run nothing: the session and the grant are again those of the run that was asked about.
    fn leave_to_the_run(&mut self) {
        if let Some(doubted) = self.doubted.take() {
            (self.session, self.granted_at) = (doubted.session, doubted.granted_at);
        }
    }

    /// The claim in another state. The cause of a doubt goes with it.
    fn with(&self, state: State) -> Claim {
        let mut claim = Claim { state, ..self.clone() };
        if claim.state.name() != StateName::InDoubt {
            claim.cause = None;
        }
        claim
    }
}
