//! What a run of the model contains: how many of everything, which actions, and which planted flaw.

use hapax_core::Rerun;
use hapax_core::turn::Patience;

use super::flaw::Flaw;

/// Processes of the largest configuration.
pub(super) const PROCESSES: usize = 3;

/// The bounds and the actions of one run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its name in reports.
    pub name: &'static str,
    /// How many processes, at most three.
    pub processes: usize,
    /// How many callers each process serves, one after the other.
    pub callers: u8,
    /// What the work says about running again.
    pub rerun: Rerun,
    /// Whether a safe rerun waits for silence.
    pub quiet: bool,
    /// Where the work is done.
    pub work: Work,
    /// One process with a session of its own for every life, whose restart ends all former sessions (B6);
    /// what are processes otherwise are then its tasks, which crash together.
    pub embedded: bool,
    /// How many crashes.
    pub crashes: u8,
    /// How many commands go off without an answer; each arrives late, at any time, or never (L13).
    pub losses: u8,
    /// How many days pass; a day is longer than every term, retention, quiet and give-up.
    pub days: u8,
    /// How many decisions operators take, of those that are switched on.
    pub decisions: u8,
    /// Which actions there are.
    pub switches: Switches,
    /// What is done wrong on purpose.
    pub flaw: Option<Flaw>,
}

const BASE: Config = Config {
    name: "",
    processes: PROCESSES,
    callers: 1,
    rerun: Rerun::Unsafe,
    quiet: false,
    work: Work::Local,
    embedded: false,
    crashes: 1,
    losses: 1,
    days: 1,
    decisions: 0,
    switches: Switches::NONE,
    flaw: None,
};

const ASKING: Switches =
    Switches { time: true, unknown: true, ask_yes: true, ask_no: true, ask_unknown: true, ..FAULTS };

const FAULTS: Switches =
    Switches { crash: true, loss: true, lapse: true, revive: true, sweep: true, ..Switches::NONE };

impl Config {
    /// Three processes, work elsewhere that must not run twice.
    pub const UNSAFE: Config = Config {
        name: "unsafe",
        work: Work::Remote,
        switches: Switches {
            unheard: true,
            stop: true,
            refused: true,
            not_run: true,
            unknown: true,
            attach: true,
            ..FAULTS
        },
        ..BASE
    };

    /// The same with two callers at each process, and no lost commands.
    pub const UNSAFE_AGAIN: Config =
        Config { name: "unsafe, two callers", callers: 2, losses: 0, ..Config::UNSAFE };

    /// The same with two callers at each of two processes, and more lost commands.
    pub const UNSAFE_LOST: Config =
        Config { name: "unsafe, lost commands", processes: 2, callers: 2, losses: 2, ..Config::UNSAFE };

    /// Three processes, work that may run again.
    pub const SAFE: Config = Config {
        name: "safe",
        rerun: Rerun::Safe,
        switches: Switches { unknown: true, attach: true, ..FAULTS },
        ..BASE
    };

    /// Work that may run again after a silence.
    pub const QUIET: Config = Config {
        name: "quiet",
        processes: 2,
        callers: 2,
        rerun: Rerun::Safe,
        quiet: true,
        switches: Switches { time: true, unknown: true, ..FAULTS },
        ..BASE
    };

    /// Work elsewhere that can be asked whether it ran.
    pub const ASK: Config =
        Config { name: "ask", rerun: Rerun::Ask, work: Work::Remote, losses: 0, switches: ASKING, ..BASE };

    /// The same with lost commands, and fewer processes.
    pub const ASK_LOST: Config = Config {
        name: "ask, lost commands",
        processes: 2,
        losses: 2,
        switches: Switches { unheard: true, ..ASKING },
        ..Config::ASK
    };

    /// Operators who resolve doubts that were asked about in vain.
    pub const ASK_OPERATORS: Config = Config {
        name: "ask, operators",
        processes: 2,
        callers: 2,
        crashes: 0,
        decisions: 1,
        switches: Switches { release: true, settle: true, ..ASKING },
        ..Config::ASK
    };

    /// Operators and time, over work in the process itself.
    pub const OPERATORS: Config = Config {
        name: "operators",
        processes: 2,
        callers: 2,
        crashes: 0,
        decisions: 1,
        switches: Switches {
            time: true,
            unknown: true,
            release: true,
            force: true,
            settle: true,
            reopen: true,
            purge: true,
            erase: true,
            ..FAULTS
        },
        ..BASE
    };

    /// Operators who resolve doubts about work elsewhere.
    pub const OPERATORS_REMOTE: Config = Config {
        name: "operators, remote work",
        crashes: 0,
        decisions: 1,
        work: Work::Remote,
        switches: Switches { time: true, unknown: true, release: true, force: true, settle: true, ..FAULTS },
        ..BASE
    };

    /// Copies of settled outcomes in memory.
    pub const TABLE: Config = Config {
        name: "table",
        callers: 2,
        decisions: 2,
        crashes: 0,
        losses: 0,
        switches: Switches {
            time: true,
            table: true,
            reopen: true,
            purge: true,
            erase: true,
            ..Switches::NONE
        },
        ..BASE
    };

    /// Transactions that settle their claim, over work that may otherwise run again.
    pub const GUARD: Config = Config {
        name: "guard",
        rerun: Rerun::Safe,
        work: Work::Guarded,
        switches: Switches { unheard: true, ..FAULTS },
        ..BASE
    };

    /// The same with fewer processes, and more lost commands.
    pub const GUARD_LOST: Config =
        Config { name: "guard, lost commands", processes: 2, losses: 2, ..Config::GUARD };

    /// One process with three tasks on an embedded store.
    pub const EMBEDDED: Config = Config {
        name: "embedded",
        callers: 2,
        embedded: true,
        crashes: 2,
        losses: 0,
        work: Work::Remote,
        switches: Switches {
            crash: true,
            stop: true,
            sweep: true,
            unknown: true,
            not_run: true,
            ..Switches::NONE
        },
        ..BASE
    };

    /// What is checked every time.
    pub const ALL: [Config; 14] = [
        Config::UNSAFE,
        Config::UNSAFE_AGAIN,
        Config::UNSAFE_LOST,
        Config::SAFE,
        Config::QUIET,
        Config::ASK,
        Config::ASK_LOST,
        Config::ASK_OPERATORS,
        Config::OPERATORS,
        Config::OPERATORS_REMOTE,
        Config::TABLE,
        Config::GUARD,
        Config::GUARD_LOST,
        Config::EMBEDDED,
    ];

    /// What is checked when there is time: minutes, and some gigabytes.
    pub const DEEP: [Config; 5] = [
        Config { name: "unsafe, deep", callers: 2, ..Config::UNSAFE },
        Config { name: "safe, deep", crashes: 2, losses: 2, ..Config::SAFE },
        Config { name: "ask, deep", crashes: 0, losses: 1, ..Config::ASK },
        Config {
            name: "operators, deep",
            decisions: 2,
            losses: 1,
            callers: 1,
            crashes: 1,
            ..Config::OPERATORS
        },
        Config { name: "operators, remote work, deep", crashes: 1, ..Config::OPERATORS_REMOTE },
    ];

    /// What a call may do beyond asking once: few words, so that states stay few. No waiter claims for itself here; in the simulation
    /// some do.
    pub(super) fn patience(&self) -> Patience {
        Patience {
            rejects: !self.switches.attach,
            safe: self.rerun == Rerun::Safe,
            retries: 0,
            asks: 2,
            renewals: 1,
        }
    }

    /// The same with a planted flaw.
    #[must_use]
    pub const fn with(self, flaw: Flaw) -> Config {
        Config { flaw: Some(flaw), ..self }
    }

    /// The same with an action switched off.
    #[must_use]
    pub fn without(self, switch: Switch) -> Config {
        Config { switches: self.switches.without(switch), ..self }
    }
}

/// Where the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// In the process: its effect comes at once or never.
    Local,
    /// Elsewhere: a call may reach it until the give-up, even if the caller has crashed.
    Remote,
    /// In a transaction that settles the claim as well (L16).
    Guarded,
}

macro_rules! switches {
    ($($(#[$doc:meta])* $field:ident = $switch:ident,)+) => {
        /// Actions that can be switched off one by one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Switches {
            $($(#[$doc])* pub $field: bool,)+
        }

        /// The name of one switch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Switch {
            $($(#[$doc])* $switch,)+
        }

        impl Switches {
            /// Nothing but claims, work and reports.
            pub const NONE: Switches = Switches { $($field: false,)+ };

            /// Everything.
            pub const ALL: Switches = Switches { $($field: true,)+ };

            /// Those that are on.
            pub fn on(self) -> Vec<Switch> {
                let mut on = Vec::new();
                $(if self.$field { on.push(Switch::$switch); })+
                on
            }

            /// The same with one of them off.
            #[must_use]
            pub fn without(mut self, switch: Switch) -> Switches {
                match switch {
                    $(Switch::$switch => self.$field = false,)+
                }
                self
            }
        }
    };
}

switches! {
    /// Processes crash and are restarted.
    crash = Crash,
    /// Commands are lost, and arrive late.
    loss = Loss,
    /// Time passes.
    time = Time,
    /// Sessions lapse.
    lapse = Lapse,
    /// Lapsed sessions are renewed.
    revive = Revive,
    /// The sweeper comes by.
    sweep = Sweep,
    /// Callers of a held claim wait for its outcome (L9).
    attach = Attach,
    /// The ledger does not answer, and calls end without it; what they owe is paid later (L13).
    unheard = Unheard,
    /// Calls are dropped where they are.
    stop = Stop,
    /// Settled outcomes are answered from memory (B7).
    table = Table,
    /// The work ends with a terminal error.
    refused = Refused,
    /// The work fails and certainly did not run.
    not_run = NotRun,
    /// The work fails and nobody knows whether it ran.
    unknown = Unknown,
    /// Whoever must ask learns the outcome.
    ask_yes = AskYes,
    /// Whoever must ask learns that it never ran and never will.
    ask_no = AskNo,
    /// Whoever must ask learns nothing.
    ask_unknown = AskUnknown,
    /// Operators release a doubt.
    release = Release,
    /// Operators release a doubt by force.
    force = Force,
    /// Operators settle a doubt.
    settle = Settle,
    /// Operators reopen.
    reopen = Reopen,
    /// Operators purge.
    purge = Purge,
    /// Operators erase.
    erase = Erase,
}
