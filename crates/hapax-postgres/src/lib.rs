//! The store for many instances: a PostgreSQL database (B1).
//!
//! `step` decides, PostgreSQL keeps. Two transitions are so frequent that SQL makes them for a whole batch at
//! once: absent → held and held → settled (`batch`). Everything else locks one row, lets `step` decide and
//! writes (`change`).
//!
//! The store has threads with a runtime of their own, and everything is done there. Handles reach them through
//! bounded queues, and answers come back one by one. Claims and settles have two threads (`batch`), each with one
//! connection and one batch in flight; `answer` tells everybody what a batch came to. They are no tasks of one thread because
//! the kernel, which places whom it wakes by whoever wakes it, then kept both servers' processes on one core while the other
//! was idle. What runs on the third thread, each with its own connection or connections:
//!
//! * `desk`: transactions for everything else, among them `change`, `sweep`, `list`, journals, lanes,
//!   registry;
//! * `appends`: writes to journals that wait together;
//! * `read`: reading claims, many at once; `watchers`: notifying and listening;
//! * `session`: the session's heartbeat, ahead of everything.
//!
//! [`guard`](guard()) is the one function that runs elsewhere: inside a transaction of the application's own
//! (L16).

#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, reason = "only `hapax_store::parts::clock` reads the time")
)]

mod address;
mod answer;
mod appends;
mod batch;
mod change;
mod checksum;
mod clock;
mod desk;
mod failure;
mod guard;
mod journal;
mod lanes;
mod leases;
pub mod limits;
mod link;
mod list;
mod ports;
mod queue;
mod read;
mod registry;
mod row;
mod schema;
mod session;
mod shared;
mod shelf;
mod stream_rows;
mod sweep;
mod watchers;

pub use guard::{guard, guard_with};
pub use schema::SCHEMA_VERSION;

use std::sync::Arc;

use hapax_core::claim::view;
use hapax_core::journal::Append;
use hapax_core::{
    Answer, Change, ClaimId, ClaimRequest, Command, Ending, Epoch, Error, Identity, Inspect as _, Leaves,
    Ledger, OperationId, Outcome, Report, Retention, Scope, Session, SetAnswer, Timestamp, Verdict, View,
    step,
};
use hapax_store::hub::Watch;
use hapax_store::parts::confused;
use hapax_store::{Lifecycle, Options, Overview, Tally};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use address::Address;
use batch::{Claiming, Item, Settling};
use change::{Order, ending};
use desk::Resend;
use failure::Failure;
use link::{Database, Link};
use queue::closed_error;
use read::Seen;
use session::{Beat, Known, Standing};
use shared::Shared;

/// Beats that are asked for at once.
const BEATS_WAITING: usize = 1_024;

/// A handle on a PostgreSQL database. Cheap to clone; the clones share one session.
#[derive(Clone)]
pub struct Postgres {
    shared: Arc<Shared>,
    /// Ends the store's threads with the last handle.
    _door: Arc<Door>,
}

struct Door(Arc<Shared>);

impl Drop for Door {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let database = self.shared.database.address.name();
        f.debug_struct("Postgres").field("database", &database).finish_non_exhaustive()
    }
}

impl Postgres {
    /// What it notes of its own work.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.shared.options.tally
    }

    /// Whether this is the URL of a database, which is not asked anything.
    pub fn check(url: &str) -> Result<(), Error> {
        Address::parse(url).map(drop)
    }

    /// The statements that grant one claim and settle one, for measuring what they take when somebody else sends them.
    #[doc(hidden)]
    pub fn statements_for_one() -> (&'static str, &'static str) {
        (batch::CLAIM_ONE, batch::SETTLE_ONE)
    }

    /// How often the claims that are waited for here were looked at, in case a notification was lost (L9).
    pub fn polls(&self) -> u64 {
        self.shared.watchers.polls()
    }

    /// How many grants are remembered here until they are reported on, to fill the memory table (B7).
    pub fn grants_known(&self) -> usize {
        self.shared.grants_known()
    }

    /// Opens a store on the database at `postgres://user:password@host:port/database`, creating or migrating
    /// its schema, and starts a session.
    ///
    /// Refuses a server that would lose what it has confirmed, and a schema made for a newer hapax; and any other schema than
    /// its own where the options say that nothing is made.
    pub async fn open(url: &str, options: Options) -> Result<Postgres, Error> {
        Self::open_as(url, options, false).await
    }

    /// Opens a store for reading, beside the processes that write it. Changes nothing and has no session, so that a role which
    /// may only read is enough, and a replica answers, too. Whatever would write is refused.
    pub async fn open_read_only(url: &str) -> Result<Postgres, Error> {
        Self::open_as(url, Options { table_entries: 0, ..Options::default() }, true).await
    }

    async fn open_as(url: &str, options: Options, reading: bool) -> Result<Postgres, Error> {
        let address = Address::parse(url)?;
        let (ready, opened) = oneshot::channel();
        start_thread("hapax-postgres", move |runtime| live(&runtime, address, options, reading, ready))?;
        opened.await.unwrap_or_else(|_| Err(closed_error()))
    }
}

/// Starts one of the store's threads, with a runtime of its own.
fn start_thread(name: &str, live: impl FnOnce(Runtime) + Send + 'static) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let thread = |runtime| std::thread::Builder::new().name(name.to_owned()).spawn(move || live(runtime));
    match runtime.and_then(thread) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::unavailable("the store's threads cannot be started").with_detail(error)),
    }
}

/// The life of the thread for everything that is not a batch.
fn live(
    runtime: &Runtime,
    address: Address,
    options: Options,
    reading: bool,
    ready: oneshot::Sender<Result<Postgres, Error>>,
) {
    LocalSet::new().block_on(runtime, async {
        let shared = match reading {
            true => set_up_reading(address, options).await.inspect(start_reading),
            false => match set_up(address, options).await {
                Ok((shared, renewals, link)) => start(&shared, renewals, link).map(|()| shared),
                Err(error) => Err(error),
            },
        };
        // Whoever opened it may have gone; then the door closes behind the handle that nobody took.
        match shared {
            Ok(shared) => {
                let door = Arc::new(Door(shared.clone()));
                drop(ready.send(Ok(Postgres { shared: shared.clone(), _door: door })));
                shared.closed().await;
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    });
}

/// The life of a thread for batches.
fn live_for_batches(runtime: &Runtime, shared: Arc<Shared>) {
    runtime.spawn(always_a_timer());
    // Beside the task of its connection: what is waited for here would cost another look at the sockets for each answer.
    runtime.spawn(batch::serve(shared.clone()));
    runtime.block_on(shared.closed());
}

/// A runtime without any timer wakes itself up when one is set, as each statement does. None of those is due before this one.
async fn always_a_timer() {
    loop {
        tokio::time::sleep(limits::REPLY_WITHIN / 2).await;
    }
}

/// Gives the connection along, for the heart.
async fn set_up(
    address: Address,
    options: Options,
) -> Result<(Arc<Shared>, mpsc::Receiver<Beat>, Link), Error> {
    let mut link = Link::open_bare(&address, None).await?;
    schema::check_server(&mut link).await.map_err(Failure::into_error)?;
    let ready = match options.create {
        true => schema::migrate(&mut link).await,
        false => schema::find(&mut link, address.name()).await,
    };
    ready.map_err(Failure::into_error)?;
    let database = Arc::new(Database::new(address, false));
    let mut link = Link::open(&database, None).await?;
    let known = session::open(&mut link, options.term, options.clock.as_ref()).await;
    let standing = Standing::new(known.map_err(Failure::into_error)?, options.term, options.clock.clone());
    let (renewals, asked) = mpsc::channel(BEATS_WAITING);
    Ok((Arc::new(Shared::new(options, database, standing, renewals)), asked, link))
}

/// Without a session, and with nobody who could be granted anything.
async fn set_up_reading(address: Address, options: Options) -> Result<Arc<Shared>, Error> {
    let database = Arc::new(Database::new(address, true));
    let mut link = Link::open(&database, None).await?;
    schema::find(&mut link, database.address.name()).await.map_err(Failure::into_error)?;
    let standing = Standing::new(Known::nobody(), options.term, None);
    let (renewals, _) = mpsc::channel(1);
    let shared = Arc::new(Shared::new(options, database, standing, renewals));
    shared.batches.close();
    shared.appends.close();
    Ok(shared)
}

fn start_reading(shared: &Arc<Shared>) {
    tokio::task::spawn_local(desk::serve(shared.clone()));
    tokio::task::spawn_local(read::serve(shared.clone()));
}

fn start(shared: &Arc<Shared>, renewals: mpsc::Receiver<Beat>, link: Link) -> Result<(), Error> {
    use tokio::task::spawn_local;
    for _ in 0..limits::BATCHES_IN_FLIGHT {
        let its = shared.clone();
        start_thread("hapax-batch", move |runtime| live_for_batches(&runtime, its))
            .inspect_err(|_| shared.close())?;
    }
    spawn_local(session::beat(shared.clone(), renewals, link));
    for _ in 0..limits::DESK_CONNECTIONS {
        spawn_local(desk::serve(shared.clone()));
    }
    spawn_local(appends::serve(shared.clone()));
    spawn_local(read::serve(shared.clone()));
    spawn_local(watchers::listen(shared.clone()));
    spawn_local(watchers::announce(shared.clone()));
    spawn_local(watchers::poll(shared.clone()));
    spawn_local(watchers::poll_lanes(shared.clone()));
    spawn_local(sweep::serve(shared.clone()));
    Ok(())
}

impl Ledger for Postgres {
    type Watch = Watch;

    async fn claim(&self, request: ClaimRequest) -> Result<Verdict, Error> {
        let shared = &self.shared;
        let mark = shared.table.mark();
        let session = shared.session.known().id;
        if shared.options.table_entries > 0 {
            let id = request.identity.claim_id();
            let ask = request.ask_without_leaves(session);
            if let Some(verdict) = shared.table.claim(&id, ask, shared.session.time()) {
                return Ok(verdict);
            }
        }
        let (reply, verdict) = oneshot::channel();
        let claiming = Claiming::new(request, session, mark, shared.deadline(), reply);
        let item = Item::Claim(Box::new(claiming));
        shared.batches.push(item).map_err(|(_, error)| error)?;
        verdict.await.unwrap_or_else(|_| Err(closed_error()))
    }

    async fn report(
        &self,
        claim: ClaimId,
        epoch: Epoch,
        report: Report,
        events: Vec<Append>,
    ) -> Result<Ending, Error> {
        report.check_events(&events)?;
        match report {
            Report::Settle(outcome, retention) if events.is_empty() => {
                self.settle(claim, epoch, outcome, retention).await
            }
            Report::Renew => {
                self.shared.renew().await?;
                let mut seen = self.shared.read(claim).await?;
                if self.renew_lease_of(seen.claim(), epoch).await? {
                    seen = self.shared.read(claim).await?;
                }
                self.report_seen(&seen, claim, epoch, Report::Renew, events).await
            }
            Report::Cleared => {
                let seen = self.shared.read(claim).await?;
                self.report_seen(&seen, claim, epoch, Report::Cleared, events).await
            }
            report => self.report_locking(claim, epoch, report, events).await,
        }
    }

    async fn set(
        &self,
        request: ClaimRequest,
        outcome: Outcome,
        retention: Retention,
    ) -> Result<SetAnswer, Error> {
        let ask = request.ask(self.shared.session.known().id);
        let order = Order {
            id: request.identity.claim_id(),
            command: Command::Set(ask, outcome, retention),
            identity: Some(request.identity),
            events: Vec::new(),
            lease: None,
        };
        match self.shared.order(Resend::Always, order).await? {
            Answer::Set(answer) => Ok(answer),
            _ => Err(confused()),
        }
    }

    async fn peek(&self, claim: ClaimId) -> Result<Option<View>, Error> {
        if let Some(view) = self.shared.table.peek(&claim, self.shared.session.time()) {
            return Ok(Some(view));
        }
        let seen = self.shared.read(claim).await?;
        Ok(view(seen.stored.as_ref().map(|stored| &stored.claim), &seen.now()))
    }

    async fn asked(&self, claim: ClaimId) -> Result<Option<Leaves>, Error> {
        let seen = self.shared.read(claim).await?;
        Ok(seen.stored.and_then(|stored| stored.claim.leaves))
    }

    async fn locate(&self, operation: OperationId, caller: &Scope) -> Result<Option<Identity>, Error> {
        let found = self.find(operation).await?.map(|record| record.identity);
        Ok(found.filter(|identity| identity.is_visible_to(caller)))
    }

    fn watch(&self, claim: ClaimId) -> Watch {
        self.shared.watchers.watch(claim)
    }

    fn session(&self) -> Session {
        self.shared.session.session()
    }
}

impl Postgres {
    async fn settle(
        &self,
        id: ClaimId,
        epoch: Epoch,
        outcome: Outcome,
        retention: Retention,
    ) -> Result<Ending, Error> {
        let (reply, ending) = oneshot::channel();
        let (mark, deadline) = (self.shared.table.mark(), self.shared.deadline());
        let item = Item::Settle(Box::new(Settling { id, epoch, outcome, retention, mark, deadline, reply }));
        self.shared.batches.push(item).map_err(|(_, error)| error)?;
        ending.await.unwrap_or_else(|_| Err(closed_error()))
    }

    /// For reports that seldom change anything: locks only if there is something to write.
    async fn report_seen(
        &self,
        seen: &Seen,
        id: ClaimId,
        epoch: Epoch,
        report: Report,
        events: Vec<Append>,
    ) -> Result<Ending, Error> {
        let command = Command::Hold(epoch, report.clone());
        if events.is_empty()
            && let (Change::None, answer) = step(seen.claim(), &command, &seen.now())
        {
            return ending(answer);
        }
        self.report_locking(id, epoch, report, events).await
    }

    async fn report_locking(
        &self,
        id: ClaimId,
        epoch: Epoch,
        report: Report,
        events: Vec<Append>,
    ) -> Result<Ending, Error> {
        // What was granted is over, or not what it was.
        self.shared.recall(&id, epoch);
        let order = Order { id, command: Command::Hold(epoch, report), identity: None, events, lease: None };
        ending(self.shared.order(Resend::Always, order).await?)
    }
}

impl Lifecycle for Postgres {
    async fn renew_session(&self) -> Result<(), Error> {
        self.shared.renew().await
    }

    async fn is_shared(&self) -> Result<bool, Error> {
        let shared = self.shared.clone();
        let asked = async move |link: &mut Link| session::is_one_of_several(&shared, link).await;
        self.shared.ask(Resend::Always, asked).await
    }

    async fn time(&self) -> Result<Timestamp, Error> {
        let shared = self.shared.clone();
        let asked = async move |link: &mut Link| session::time(&shared, link).await;
        self.shared.ask(Resend::Always, asked).await
    }

    async fn overview(&self) -> Result<Overview, Error> {
        let shared = self.shared.clone();
        let asked = async move |link: &mut Link| session::overview(&shared, link).await;
        self.shared.ask(Resend::Always, asked).await
    }

    async fn close(&self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let result = match shared.database.reading {
            true => Ok(()),
            false => {
                let end = async move |link: &mut Link| session::end(&shared, link).await;
                self.shared.ask(Resend::Always, end).await
            }
        };
        self.shared.close();
        result
    }
}
