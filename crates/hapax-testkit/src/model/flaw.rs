//! What can be done wrong on purpose, by the processes or around the ledger, never in the product.
//!
//! A flaw of the driver is a rewriting of what happens to a call: [`advance`] hands its machine another event, or makes another
//! turn of it. Flaws of the ledger, of the terms and of the copies in memory are planted where those are.

use hapax_core::Effect;
use hapax_core::advice::Work;
use hapax_core::turn::{Command, Due, Event, Patience, Standing, Turn};

macro_rules! flaws {
    ($($(#[$doc:meta])* $flaw:ident,)+) => {
        /// What can be done wrong on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flaw {
            $($(#[$doc])* $flaw,)+
        }

        impl Flaw {
            /// All of them.
            pub const ALL: &[Flaw] = &[$(Flaw::$flaw,)+];
        }
    };
}

flaws! {
    /// Every failure releases the key as if nothing had run.
    ReleaseOnAnyError,
    /// Look whether it was done, do it, record it afterwards.
    BurnAfterSuccess,
    /// Whoever holds a live session may write, whatever its epoch; whoever does not may not.
    FenceByTime,
    /// The caller is answered before the settle is confirmed.
    AnswerBeforeStore,
    /// A grant over a former one keeps its epoch.
    ReuseEpoch,
    /// A lapsed lease is taken over although running again is unsafe.
    TakeoverWhenUnsafe,
    /// Copies of settled outcomes answer for ever; nobody waits for them.
    TableWithoutValidity,
    /// A claim whose answer was lost is taken for granted.
    GuessUnknownCommit,
    /// A settle whose answer was lost is taken for refused: the claim is given back as if nothing had run.
    UnknownSettleIsNo,
    /// A holder whose session lapsed and was revived begins without renewing its claim.
    BeginOnRevivedSession,
    /// A holder begins after a renewal without another look at clock and lease.
    BeginAfterRenewal,
    /// A holder that hears of a lost lease when it renews goes on as if it had been renewed.
    RenewAfterLoss,
    /// A holder forgets that an earlier attempt may have run.
    ForgetEarlierAttempt,
    /// A holder that has begun nothing and does not hear the ledger takes its claim for given back, and what was vouched for at its
    /// grant for true.
    UnheardIsGivenBack,
    /// The work answers the question about an earlier attempt for the key, and not for the operation that it is asked about.
    AnswerForTheKey,
    /// Reopen leaves the epoch as it was.
    ReopenKeepsEpoch,
    /// Erase leaves the epoch as it was.
    EraseKeepsEpoch,
    /// Whoever lost its lease answers its caller with its own result.
    AnswerOwnResult,
    /// A caller of a held claim is answered with the empty place that is kept for its outcome.
    AnswerPlaceholder,
}

/// What a flawed look at clock and lease goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// The session has time left now, whatever was before.
    pub(crate) lives: bool,
    /// The lease has been renewed.
    pub(crate) renewed: bool,
}

/// The call after this event, with a planted flaw or without.
pub(crate) fn advance(flaw: Option<Flaw>, turn: Turn, event: Event, look: Look, patience: Patience) -> Turn {
    let Some(flaw) = flaw else { return turn.on(event) };
    let event = match (flaw, turn.command(), event) {
        (Flaw::ReleaseOnAnyError, Command::Run, Event::Ended(Due::MayHaveRun, work)) => {
            Event::Ended(Due::NotRun, work)
        }
        (Flaw::BeginOnRevivedSession, Command::Check, Event::Standing(Standing::Unsure)) if look.lives => {
            Event::Standing(Standing::Sure)
        }
        (Flaw::BeginAfterRenewal, Command::Check, Event::Standing(_)) if look.renewed => {
            Event::Standing(Standing::Sure)
        }
        (Flaw::RenewAfterLoss, Command::Renew, Event::LostLease) => Event::Renewed,
        (Flaw::UnheardIsGivenBack, Command::Report { due: Due::NotRun, .. }, Event::Unheard(_)) => {
            Event::Released
        }
        (Flaw::ForgetEarlierAttempt, Command::Claim, Event::Granted { must_ask, .. }) => {
            Event::Granted { may_have_run: false, must_ask }
        }
        (
            Flaw::AnswerOwnResult,
            Command::Report { due: Due::Settle, .. },
            Event::LostLease | Event::Kept { .. },
        ) => match turn.work() {
            Work::Ended(effect) => Event::Kept { effect, may_have_run: false },
            _ => event,
        },
        (Flaw::AnswerPlaceholder, Command::Claim, Event::Held) => {
            Event::Kept { effect: Effect::Done, may_have_run: false }
        }
        (Flaw::UnknownSettleIsNo, Command::Report { due: Due::Settle, .. }, Event::Unheard(_)) => {
            let running = Turn::running(patience, turn.history());
            return running.on(Event::Ended(Due::NotRun, Work::NotRun));
        }
        _ => event,
    };
    turn.on(event)
}
