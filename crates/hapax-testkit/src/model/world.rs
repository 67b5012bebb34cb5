//! The state of the model: the ledger's one claim, the processes, what is under way between them, and what
//! happened.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use hapax_core::turn::{Command, Debt, Turn};
use hapax_core::{Claim, SessionId, State, Timestamp};

use super::config::PROCESSES;
use super::properties::Broken;

/// Epochs of the longest run.
pub(super) const EPOCHS: usize = 16;
/// Lives of the claim in the longest run.
pub(super) const LIVES: usize = 6;
/// One unit of the model's time.
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A set of epochs.
pub(super) type Epochs = u16;

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) day: u8,
    pub(super) claim: Stored,
    /// The epoch of the next grant.
    pub(super) next_epoch: u8,
    /// Bit by bit: whether a session is live.
    pub(super) live: u8,
    pub(super) sessions: u8,
    pub(super) processes: [Process; PROCESSES],
    /// A command that went off without an answer and may still arrive.
    pub(super) floating: Option<Message>,
    /// Calls that may still reach the work although nobody waits for them.
    pub(super) orphans: Epochs,
    /// The work refuses calls of earlier epochs: it said that they never will run (L6).
    pub(super) refuses_below: u8,
    pub(super) crashes: u8,
    pub(super) losses: u8,
    pub(super) decisions: u8,
    pub(super) history: History,
    pub(super) broken: Broken,
}

/// The ledger's claim, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored(pub(super) Option<Claim>);

impl Hash for Stored {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Some(claim) = &self.0 else { return 0_u8.hash(hasher) };
        claim.epoch.hash(hasher);
        claim.attempt.hash(hasher);
        claim.terms.rerun.hash(hasher);
        (claim.opened_at, claim.granted_at, claim.session, claim.earlier).hash(hasher);
        claim.doubted.hash(hasher);
        match &claim.state {
            State::Held { run_until } => (1_u8, run_until).hash(hasher),
            State::Settled { settled_at, keep_until, .. } => {
                (2_u8, settled_at, keep_until, tag_of(claim)).hash(hasher);
            }
            State::InDoubt { reason, since, asked_at } => (3_u8, reason, since, asked_at).hash(hasher),
            State::Released { since, ran } => (4_u8, since, ran).hash(hasher),
        }
    }
}

/// What is settled, if anything is.
fn tag_of(claim: &Claim) -> Option<Tag> {
    claim.kept().map(|kept| Tag::of(&kept.outcome))
}

/// A process, with the call that it carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) up: bool,
    pub(super) session: u8,
    /// How many callers it has begun to serve.
    pub(super) callers: u8,
    /// How many attempts it has made; also the number of the last one.
    pub(super) attempts: u8,
    /// What the product's driver makes of the call that is under way.
    pub(super) turn: Option<Turn>,
    /// What the ledger must still hear of a call that is over.
    pub(super) debt: Debt,
    pub(super) call: Call,
    pub(super) copy: Option<Copy>,
}

/// What belongs to a call beside its turn. Of a call that is over only what it owes is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Call {
    /// The day on which its claim was sent.
    pub(super) asked_on: u8,
    /// Whether its claim went off without an answer.
    pub(super) unanswered: bool,
    /// The epoch of its grant; 0 where it has none.
    pub(super) epoch: u8,
    /// The first epoch since the key was absent before the ledger first answered the call; 0 as long as it has not.
    pub(super) heard_from: u8,
    /// Whether the lease has certainly stood since the claim was sent, or confirmed.
    pub(super) sure: bool,
    /// Whether the lease has been renewed. Only a flaw asks for that.
    pub(super) renewed: bool,
    /// What is reported.
    pub(super) report: Option<Told>,
}

/// What is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Settle(Tag),
    ReleaseNo,
    ReleasePerhaps,
    Doubt,
}

/// A command under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Message {
    Claim {
        process: u8,
        attempt: u8,
        session: u8,
    },
    Report {
        process: u8,
        epoch: u8,
        report: Told,
    },
    Clear {
        epoch: u8,
    },
    /// The application's transaction, with the settle in it.
    Guard {
        epoch: u8,
    },
}

/// A process's copy of a settled outcome (B7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Copy {
    pub(super) tag: Tag,
    /// The life of the claim it was copied in.
    pub(super) life: u8,
    /// The day on which it was settled; it is kept for less than a day.
    pub(super) day: u8,
}

/// Which outcome: by the epoch whose run brought it, the operator's, or what is left of either.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Tag {
    Succeeded(u8),
    Refused(u8),
    Stated,
    Erased,
}

/// What happened, for the properties; no process can read it. The work knows which of its calls took effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct History {
    /// The present life of the claim: a new one begins where running again has been allowed explicitly; and where the
    /// outcome was erased, which takes the effects of the former one along.
    pub(super) life: u8,
    pub(super) began: Began,
    /// The life in which an epoch was granted.
    pub(super) life_of: [u8; EPOCHS],
    pub(super) effects: [u8; LIVES],
    /// What callers were answered in each life.
    pub(super) answered: [Option<Tag>; LIVES],
    /// Runs that ended well, and runs that were refused.
    pub(super) succeeded: Epochs,
    pub(super) refused: Epochs,
    /// Epochs under which an operator stated an outcome.
    pub(super) stated: Epochs,
    /// Every epoch that was or will be the first one after the key was absent. From there to the next is one operation, with one
    /// public id.
    pub(super) opened: Epochs,
    /// Epochs of which a caller was told that they had no effect and will have none.
    pub(super) denied: Epochs,
    /// Epochs that an operator released without force: they must be over.
    pub(super) over: Epochs,
    /// What an operator set aside by reopening, or erased.
    pub(super) set_aside: Option<Tag>,
    pub(super) erased: bool,
    /// Epochs of settled claims that an operator has decided about.
    pub(super) decided: Epochs,
    /// A purge, reopen or erase has been carried out; it returns when nobody answers from an old copy any more.
    pub(super) returning: bool,
    /// Copies from before this life must not answer.
    pub(super) returned_life: u8,
}

/// Why a life began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Began {
    First,
    Expiry,
    Release,
    Reopen,
    Purge,
    Erase,
}

impl World {
    pub(super) fn new(processes: usize, embedded: bool) -> Self {
        let process = |index: usize| Process {
            up: index < processes,
            session: if embedded { 0 } else { small(index) },
            callers: 0,
            attempts: 0,
            turn: None,
            debt: Debt::Nothing,
            call: Call::default(),
            copy: None,
        };
        let sessions = if embedded { 1 } else { small(processes) };
        World {
            day: 0,
            claim: Stored(None),
            next_epoch: 1,
            live: (1 << sessions) - 1,
            sessions,
            processes: std::array::from_fn(process),
            floating: None,
            orphans: 0,
            refuses_below: 0,
            crashes: 0,
            losses: 0,
            decisions: 0,
            history: History {
                life: 0,
                began: Began::First,
                life_of: [0; EPOCHS],
                effects: [0; LIVES],
                answered: [None; LIVES],
                succeeded: 0,
                refused: 0,
                stated: 0,
                opened: bit(1),
                denied: 0,
                over: 0,
                set_aside: None,
                erased: false,
                decided: 0,
                returning: false,
                returned_life: 0,
            },
            broken: Broken::default(),
        }
    }

    pub(super) fn time(&self) -> Timestamp {
        Timestamp::ZERO.after(DAY * (1 + u32::from(self.day)))
    }

    pub(super) fn is_live(&self, session: u8) -> bool {
        self.live & (1 << session) != 0
    }

    /// Whether the claim names this session.
    pub(super) fn holds(&self, session: u8) -> bool {
        let named = SessionId(u64::from(session));
        self.claim.0.as_ref().is_some_and(|claim| {
            claim.session == named || claim.doubted.is_some_and(|doubted| doubted.session == named)
        })
    }

    pub(super) fn settled(&self) -> Option<Tag> {
        self.claim.0.as_ref().and_then(tag_of)
    }
}

impl Process {
    /// What its call does now.
    pub(super) fn command(&self) -> Option<Command> {
        self.turn.map(Turn::command)
    }

    /// The epoch under which this process may still do something.
    pub(super) fn epoch(&self) -> Option<u8> {
        let holds = match self.command() {
            Some(
                Command::Reconcile
                | Command::Clear
                | Command::Check
                | Command::Renew
                | Command::Run
                | Command::Report { .. },
            ) => true,
            Some(_) => false,
            None => matches!(self.debt, Debt::NotRun | Debt::MayHaveRun | Debt::Pending),
        };
        (holds && self.call.epoch != 0).then_some(self.call.epoch)
    }

    /// The epoch under which it may still begin the work, or has begun it.
    pub(super) fn runs(&self) -> Option<u8> {
        self.epoch().filter(|_| !matches!(self.command(), None | Some(Command::Report { .. })))
    }
}

impl History {
    /// The epochs of the operation that this epoch belongs to.
    pub(super) fn operation_of(&self, epoch: u8) -> Epochs {
        let until = bit(epoch) | (bit(epoch) - 1);
        let first = 1 << (self.opened & until).ilog2();
        let behind = self.opened & !until;
        let end = if behind == 0 { 0 } else { 1 << behind.trailing_zeros() };
        (end as Epochs).wrapping_sub(1) & !(first as Epochs - 1)
    }

    /// The first epoch since the key was last absent.
    pub(super) fn present_from(&self) -> u8 {
        u8::try_from(self.opened.ilog2()).expect("a set of epochs is small")
    }
}

/// The set of one epoch.
pub(super) fn bit(epoch: u8) -> Epochs {
    1 << epoch
}

/// Numbers of the model are small.
pub(super) fn small(number: usize) -> u8 {
    u8::try_from(number).expect("the model counts to less than 256")
}
