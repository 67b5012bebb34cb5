//! The process that is killed: it makes the calls it is told to, and says what its callers were answered.
//!
//! A caller counts as answered when `once` has returned and the line is written; nothing is said before. The work has one
//! effect, a synced line in a file that no fault reaches, and an outcome that no other effect has.
//!
//! The worker can be told to kill or stop itself at a named point in the source ([`Fault`]), and to make one of the mistakes
//! that the judge must find ([`Flaw`]).

mod desk;
pub(crate) mod fault;

use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hapax_core::{ClaimId, Identity, Inspect, Key, Ledger, Operation, Scope, Source, Width};
use hapax_exec::{Executor, Settings};
use hapax_postgres::Postgres;
use hapax_sqlite::Embedded;
use hapax_store::{Lifecycle, Options};
use hapax_testkit::upstream::CountingFile;
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::desk::Desk;
pub use self::fault::{Deed, Fault};
use crate::guard::Books;
use crate::words::{Ask, Said};

/// What every call of the torture is called.
const OPERATION: &str = "charge";

/// How a worker is set up: its command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Setup {
    /// `embedded:FOLDER` or `postgres://…`
    #[arg(long)]
    pub store: String,
    /// Where effects are counted
    #[arg(long)]
    pub effects: PathBuf,
    /// The session's term
    #[arg(long, default_value_t = 30_000)]
    pub term_ms: u64,
    /// How long a second caller waits
    #[arg(long, default_value_t = 20_000)]
    pub wait_ms: u64,
    /// How long the store tries to reach its database
    #[arg(long, default_value_t = 5_000)]
    pub patience_ms: u64,
    /// Where outcomes go while the ledger is away
    #[arg(long)]
    pub spool: Option<PathBuf>,
    /// `die` or `stop`, then the point and how often it is passed: `die:once.granted:3`
    #[arg(long)]
    pub fault: Option<Fault>,
    /// After a stop: how long the stopped thread sleeps on while the others run again
    #[arg(long, default_value_t = 0)]
    pub drowsy_ms: u64,
    /// A mistake that the checker must find
    #[arg(long)]
    pub flaw: Option<Flaw>,
    /// Whether a change does not wake waiters of other processes
    #[arg(long)]
    pub no_notify: bool,
    /// Whether watched claims are not polled
    #[arg(long)]
    pub no_poll: bool,
    /// Do the work as a row in the same database, settled by the transactional guard
    #[arg(long)]
    pub guard: bool,
}

impl Setup {
    /// The command line that says the same.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec!["worker".to_owned()];
        let mut option = |name: &str, value: String| words.push(format!("--{name}={value}"));
        option("store", self.store.clone());
        option("effects", self.effects.display().to_string());
        option("term-ms", self.term_ms.to_string());
        option("wait-ms", self.wait_ms.to_string());
        option("patience-ms", self.patience_ms.to_string());
        option("drowsy-ms", self.drowsy_ms.to_string());
        if let Some(spool) = &self.spool {
            option("spool", spool.display().to_string());
        }
        if let Some(fault) = &self.fault {
            option("fault", fault.to_string());
        }
        if let Some(flaw) = self.flaw {
            option("flaw", flaw.as_str().to_owned());
        }
        for (name, wanted) in
            [("no-notify", self.no_notify), ("no-poll", self.no_poll), ("guard", self.guard)]
        {
            if wanted {
                words.push(format!("--{name}"));
            }
        }
        words
    }

    fn options(&self) -> Options {
        Options {
            term: Duration::from_millis(self.term_ms),
            patience: Duration::from_millis(self.patience_ms),
            notify: !self.no_notify,
            poll: !self.no_poll,
            ..Options::default()
        }
    }
}

/// Mistakes that others make, to show that the checker finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Flaw {
    /// Answers its caller before the outcome is stored.
    AnswerBeforeStore,
    /// Gives the claim back on any error, although the work may have been done.
    ReleaseOnError,
    /// Runs again whatever is in doubt.
    RerunBlindly,
    /// Answers with what its own run came to, whoever has settled the claim.
    AnswerOwnResult,
    /// Runs the work without asking anybody.
    NoClaim,
    /// Commits the application's transaction without the guard.
    NoGuard,
}

impl Flaw {
    /// As the command line has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Flaw::AnswerBeforeStore => "answer-before-store",
            Flaw::ReleaseOnError => "release-on-error",
            Flaw::RerunBlindly => "rerun-blindly",
            Flaw::AnswerOwnResult => "answer-own-result",
            Flaw::NoClaim => "no-claim",
            Flaw::NoGuard => "no-guard",
        }
    }
}

/// The claim of a key of the torture.
pub fn claim_id(key: &str) -> Result<ClaimId> {
    let (operation, key) = (Operation::new(OPERATION)?, Key::new(key)?);
    Ok(Identity::new(Source::Derived, Scope::local(), Width::Subject, operation, key).claim_id())
}

/// Runs until there is nothing more to read and every call has been answered.
pub fn main(setup: Setup) -> Result<()> {
    // Whatever ends the parent ends its workers, those that are stopped, too.
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot ask to end with the parent")?;
    let asked = read_asks();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(async {
        match setup.store.strip_prefix("embedded:") {
            Some(folder) => {
                // The index is told of claims after a few of them, so that it is also under way when a worker dies.
                fail::cfg("embedded.recent", "return").map_err(anyhow::Error::msg)?;
                serve(Embedded::open(folder, setup.options())?, setup, asked).await
            }
            None => serve(Postgres::open(&setup.store, setup.options()).await?, setup, asked).await,
        }
    });
    if let Err(error) = &served {
        say(&Said::Broken(format!("{error:#}")));
    }
    served
}

/// Reads what the parent asks, on a thread of its own.
fn read_asks() -> mpsc::Receiver<Ask> {
    let (sender, receiver) = mpsc::channel(1024);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.parse() {
                Ok(ask) => {
                    if sender.blocking_send(ask).is_err() {
                        return;
                    }
                }
                Err(error) => say(&Said::Broken(format!("{error:#}"))),
            }
        }
    });
    receiver
}

async fn serve<S>(store: S, setup: Setup, mut asked: mpsc::Receiver<Ask>) -> Result<()>
where
    S: Ledger + Inspect + Lifecycle,
{
    if let Some(fault) = &setup.fault {
        fault::arm(fault.clone(), Duration::from_millis(setup.drowsy_ms))?;
    }
    let settings = Settings { spool: setup.spool.clone(), ..Settings::default() };
    let executor = Executor::open(store.clone(), settings).await?;
    let books = if setup.guard {
        Some(Books::open(&setup.store, setup.flaw != Some(Flaw::NoGuard)).await?)
    } else {
        None
    };
    let effects = CountingFile::new(&setup.effects);
    let desk = Arc::new(Desk { executor, store, effects, books, setup });
    fault::begin();
    say(&Said::Ready);
    let mut tasks = JoinSet::new();
    while let Some(ask) = asked.recv().await {
        while tasks.try_join_next().is_some() {}
        tasks.spawn(desk.clone().answer(ask));
    }
    while tasks.join_next().await.is_some() {}
    desk.store.close().await.context("the store does not close")
}

/// Says one line, with one write.
pub(crate) fn say(said: &Said) {
    static OUT: OnceLock<Option<File>> = OnceLock::new();
    let out = OUT.get_or_init(|| std::io::stdout().as_fd().try_clone_to_owned().ok().map(File::from));
    if let Some(mut out) = out.as_ref() {
        // A parent that is gone hears nothing any more.
        let _ = out.write_all(format!("{said}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        setup: Setup,
    }

    #[test]
    fn a_setup_survives_its_command_line() {
        use clap::Parser as _;
        let setup = Setup {
            store: "embedded:/x y".into(),
            effects: "/e".into(),
            term_ms: 400,
            wait_ms: 1,
            patience_ms: 2,
            spool: Some("/s".into()),
            fault: Some(Fault { deed: Deed::Stop, point: "once.granted".into(), nth: 2 }),
            drowsy_ms: 3,
            flaw: Some(Flaw::RerunBlindly),
            no_notify: true,
            no_poll: true,
            guard: true,
        };
        assert_eq!(Line::parse_from(setup.arguments()).setup, setup);
        assert!("die:once.granted".parse::<Fault>().is_err());
    }
}
