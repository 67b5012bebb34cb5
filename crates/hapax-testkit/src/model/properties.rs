//! What must always hold, and what must be seen to happen at least once.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! named {
    ($(#[$outer:meta])* $name:ident { $($variant:ident = $text:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[doc = $text] $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant,)+];

            /// As it is reported.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

named! {
    /// What always holds.
    ///
    /// A *life* of a claim lasts until running again is allowed explicitly: by an operator's release, reopen
    /// or purge, or by the expiry of the outcome. An erase begins another one in which nothing may run.
    Rule {
        OneEffect = "at most one effect in each life, unless running again is safe",
        OneOutcome = "all callers that are answered in one life get the same outcome",
        AcknowledgedIsRecorded = "an outcome that a caller was answered with is recorded until that life ends",
        NothingInvented = "an outcome was brought by a run or stated by an operator",
        OneHolder = "no two processes hold the same epoch",
        BegunUnderLease = "work begins only under a lease that stands",
        EpochsIncrease = "epochs strictly increase",
        ReleasedIsOver = "what an operator released without force has no effect afterwards",
        TrueOutcomeIsKept = "a settle under the current epoch is never refused",
        ReturnedIsSeen = "nobody answers from before a purge, reopen or erase that has returned",
        SetAsideStays = "an outcome that was reopened or erased does not come back",
        OneOperatorWins = "of all operators who saw one settled claim, one decides about it",
        NoMeansNone = "told \"no\": no attempt under this key since it was last absent had an effect, or still can",
        YesMeansOne = "told \"yes\": an attempt under this key had an effect, or an operator said so",
    }
}

named! {
    /// What happens at least once, in one configuration or another.
    Sighting {
        Granted = "granted",
        Replayed = "replayed",
        ErasedReplayed = "an erased outcome was replayed",
        Held = "held",
        Attached = "a waiter got the outcome",
        WaiterSawDoubt = "a waiter ended because of doubt",
        WaiterSawRelease = "a waiter ended because of a release",
        Takeover = "a lapsed lease was taken over",
        QuietWaited = "a takeover waited for silence",
        InDoubt = "in doubt",
        LateSettleAfterLapse = "a settle after the lapse",
        LateSettleOutOfDoubt = "a settle out of doubt",
        LateSettleOutOfReleased = "a settle out of released",
        LostLease = "a lease was lost, the ledger answered",
        TakenBack = "a lapse was taken back by a holder that had not begun",
        RefusedKept = "a terminal error was kept",
        NotRunReleased = "work that did not run was released",
        UnknownReleased = "work that may have run was released",
        UnknownDoubted = "work that may have run was put in doubt",
        Renewed = "a lapsed lease was renewed",
        AskedYes = "it was asked, and had run",
        AskedNo = "it was asked, had not run, and ran",
        AskedUnknown = "it was asked, and nobody knew",
        AskedAgain = "it was asked again",
        Resent = "a lost claim was granted when it was sent again",
        LateArrival = "a lost command changed the ledger when it arrived",
        Spent = "an attempt was spent",
        Abandoned = "a grant was given back by a caller that had gone",
        OrphanEffect = "a call took effect after its caller was gone",
        Crashed = "a crash left a held claim",
        RestartEndedLease = "a restart ended a former session's lease",
        SweptToDoubt = "the sweeper put in doubt",
        SweptToReleased = "the sweeper released",
        SweptAway = "the sweeper removed",
        OperatorReleased = "an operator released",
        AskedReleased = "an operator released what was asked about in vain, while whoever asked lived",
        OperatorForced = "an operator released by force what may still have run",
        OperatorMustWait = "an operator was told that it may still run",
        OperatorSettled = "an operator settled",
        SettleContradicted = "a settle came after an operator's",
        ReleaseRerun = "it ran again after an operator's release",
        ReopenRerun = "it ran again after a reopen",
        PurgeRerun = "it ran again after a purge",
        ExpiryRerun = "it ran again after its expiry",
        TableAnswered = "a copy in memory answered",
        TableInvalidated = "a copy was dropped for an operator's sake",
        GuardSettled = "a transaction settled its claim",
        GuardRefused = "a transaction failed because its lease was lost",
        Dropped = "a call was dropped, and owed something",
        EndedUnheard = "a call ended without an answer of the ledger, and owed something",
        ToldNo = "a caller was told \"no\"",
        ToldYes = "a caller was told \"yes\"",
        ToldUnknown = "a caller was told that nobody knows",
    }
}

/// The rules that were broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken(u16);

impl Broken {
    /// Notes a broken rule.
    pub(super) fn add(&mut self, rule: Rule) {
        self.0 |= 1 << rule as u16;
    }

    /// Whether a rule was broken.
    pub fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u16) != 0
    }

    /// Whether any was.
    pub fn any(self) -> bool {
        self.0 != 0
    }
}

/// What was seen in a run of the checker, which tries transitions from several threads.
#[derive(Debug, Default)]
pub struct Sightings(AtomicU64);

impl Sightings {
    /// Notes a sighting.
    pub(super) fn add(&self, sighting: Sighting) {
        let bit = 1 << sighting as u64;
        // Nearly always it is there already; a plain read keeps the threads out of each other's way.
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Those that were seen.
    pub fn seen(&self) -> Vec<Sighting> {
        let bits = self.0.load(Ordering::Relaxed);
        Sighting::ALL.iter().copied().filter(|sighting| bits & (1 << *sighting as u64) != 0).collect()
    }
}
