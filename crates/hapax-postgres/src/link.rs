//! One connection to PostgreSQL, set up as every statement of the store expects it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI16, Ordering};
use std::time::Duration;

use futures_util::future::poll_fn;
use hapax_core::Error;
use hapax_store::parts::clock;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Notification, Row, Statement};

use super::address::Address;
use super::failure::Failure;
use super::row::get;
use super::shelf::Shelves;
use crate::limits;

/// Plans are made once, perhaps on an empty table, and used for the life of the connection: only index scans
/// and nested loops stay good whatever the tables become. A commit is durable when it returns, whatever the
/// database's default is. Nobody waits long for a lock, and a process that is frozen within a transaction
/// loses it.
const SET_UP: &str = "\
    SET jit = off; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; \
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; \
    SET default_transaction_isolation = 'read committed'; SET statement_timeout = 0; SET lock_timeout = '1s'; \
    SET idle_in_transaction_session_timeout = '5s'; SET client_min_messages = warning; SET extra_float_digits = 3; \
    DO $$ BEGIN IF current_setting('synchronous_commit') <> 'remote_apply' THEN \
        SET synchronous_commit = on; END IF; END $$";

/// For connections that write nothing which a crash may not take away.
pub(super) const CARELESS: &str = "SET synchronous_commit = off";

/// For connections that write nothing at all; also a replica answers them.
const READING: &str = "SET default_transaction_read_only = on";

/// Parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection with the statements that were prepared on it.
pub(super) struct Link {
    client: Client,
    driver: AbortHandle,
    prepared: HashMap<&'static str, Statement>,
    in_transaction: bool,
    /// How long one statement may take.
    within: Duration,
}

impl Link {
    /// Connects to a database that has hapax's schema, and makes sure of its incarnation (L4), unless it is only read. Hands on what
    /// other connections notify of.
    pub(super) async fn open(
        database: &Database,
        notifications: Option<mpsc::Sender<Notification>>,
    ) -> Result<Link, Error> {
        let mut link = Self::open_bare(&database.address, notifications).await?;
        if database.reading {
            link.run(READING).await.map_err(Failure::into_error)?;
            return Ok(link);
        }
        let incarnation = link.incarnation().await.map_err(Failure::into_error)?;
        if database.incarnation.swap(incarnation, Ordering::SeqCst) != incarnation {
            database.shelves.clear();
        }
        Ok(link)
    }

    /// Connects to any database.
    pub(super) async fn open_bare(
        address: &Address,
        notifications: Option<mpsc::Sender<Notification>>,
    ) -> Result<Link, Error> {
        let (client, mut connection) = address.connect().await?;
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let (AsyncMessage::Notification(notification), Some(sink)) = (message, &notifications) {
                    // A full sink means that much is being woken already; what is lost, the poll finds.
                    let _ = sink.try_send(notification);
                }
            }
        });
        let (driver, prepared, within) = (driver.abort_handle(), HashMap::new(), limits::REPLY_WITHIN);
        let mut link = Link { client, driver, prepared, in_transaction: false, within };
        link.run(SET_UP).await.map_err(Failure::into_error)?;
        Ok(link)
    }

    /// From now on each statement may take this long.
    pub(super) fn allow(&mut self, within: Duration) {
        self.within = within;
    }

    /// A replica cannot grant, and one that is promoted while we are connected would not be noticed.
    async fn incarnation(&mut self) -> Result<i16, Failure> {
        let row = self.query_one("SELECT pg_is_in_recovery()", &[]).await?;
        if get(&row, 0)? {
            return Err(Error::unavailable("the PostgreSQL server is a replica").into());
        }
        Ok(get(&self.query_one("SELECT hapax.incarnation()", &[]).await?, 0)?)
    }

    /// Runs a statement that stays prepared on this connection.
    pub(super) async fn query(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        let statement = self.prepare(sql).await?;
        in_time(self.within, self.client.query(&statement, params)).await
    }

    /// The only row of a statement that always gives one.
    pub(super) async fn query_one(&mut self, sql: &'static str, params: Params<'_>) -> Result<Row, Failure> {
        let row = self.query(sql, params).await?.into_iter().next();
        row.ok_or_else(|| Error::internal("the database gave no row where there is always one").into())
    }

    /// The first row, if there is one.
    pub(super) async fn query_opt(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Option<Row>, Failure> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Begins a transaction and runs its first statement in the same round trip.
    pub(super) async fn begin(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        let statement = self.prepare(sql).await?;
        self.in_transaction = true;
        let begin = self.client.batch_execute("BEGIN");
        let first = self.client.query(&statement, params);
        let (begun, rows) =
            in_time(self.within, async { Ok(futures_util::future::join(begin, first).await) }).await?;
        begun?;
        Ok(rows?)
    }

    /// Makes what was done durable. A connection that is lost here leaves everybody in doubt.
    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        fail::fail_point!("postgres.before_commit", |_| Err(self.cut()));
        in_time(self.within, self.client.batch_execute("COMMIT")).await.map_err(Failure::at_commit)?;
        self.in_transaction = false;
        fail::fail_point!("postgres.after_commit", |_| Err(self.cut().at_commit()));
        Ok(())
    }

    /// Undoes what was done, if anything was.
    pub(super) async fn rollback(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.in_transaction) {
            return Ok(());
        }
        in_time(self.within, self.client.batch_execute("ROLLBACK")).await
    }

    /// Runs statements without parameters.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        in_time(self.within, self.client.batch_execute(sql)).await
    }

    /// Whether the connection is known to be gone.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Cuts the connection, as a broken network would.
    pub(super) fn cut(&self) -> Failure {
        self.driver.abort();
        Failure::Lost("cut".to_owned())
    }

    /// The prepared form of a statement.
    pub(super) async fn prepare(&mut self, sql: &'static str) -> Result<Statement, Failure> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = in_time(self.within, self.client.prepare(sql)).await?;
        self.prepared.insert(sql, statement.clone());
        Ok(statement)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Closes the socket even if the server has not answered.
        self.driver.abort();
    }
}

/// A server that does not answer is as good as gone; whether it did what it was told is then unknown.
async fn in_time<T>(
    within: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(within, answer).await {
        Ok(answered) => Ok(answered?),
        Err(_) => Err(Failure::Lost("no answer in time".to_owned())),
    }
}

/// A database with hapax's schema, and what this process knows of it.
pub(super) struct Database {
    pub(super) address: Address,
    pub(super) shelves: Shelves,
    incarnation: AtomicI16,
    /// Whether it is only read.
    pub(super) reading: bool,
}

impl Database {
    pub(super) fn new(address: Address, reading: bool) -> Database {
        Database { address, shelves: Shelves::default(), incarnation: AtomicI16::new(0), reading }
    }
}

/// A connection that is opened when it is needed and again when it was lost.
///
/// One that serves nobody is no better than one that cannot be opened: a server that takes no writes lets everybody in. After
/// either the next attempt to open one waits, ever longer.
pub(super) struct Line {
    database: Arc<Database>,
    set_up: &'static str,
    link: Option<Link>,
    /// Whether the connection has served anybody.
    has_served: bool,
    pause: Duration,
    not_before: Instant,
}

impl Line {
    pub(super) fn new(database: Arc<Database>) -> Line {
        Line {
            database,
            set_up: "",
            link: None,
            has_served: false,
            pause: limits::RECONNECT_PAUSE.0,
            not_before: clock::timer_now(),
        }
    }

    /// One that is open already.
    pub(super) fn over(database: Arc<Database>, link: Link) -> Line {
        Line { link: Some(link), has_served: true, ..Line::new(database) }
    }

    /// A connection whose commits need not be durable.
    pub(super) fn careless(database: Arc<Database>) -> Line {
        Line { set_up: CARELESS, ..Line::new(database) }
    }

    /// The connection. Whoever has used it says how that went.
    pub(super) async fn link(&mut self) -> Result<&mut Link, Failure> {
        if self.link.as_ref().is_some_and(Link::is_closed) {
            self.give_up();
        }
        if self.link.is_none() {
            tokio::time::sleep_until(self.not_before).await;
            match self.open().await {
                Ok(link) => self.link = Some(link),
                Err(failure) => {
                    self.give_up();
                    return Err(failure);
                }
            }
        }
        self.link.as_mut().ok_or_else(|| Failure::Lost("no connection".to_owned()))
    }

    async fn open(&self) -> Result<Link, Failure> {
        let lost = |error| Failure::Lost(format!("{error:#}"));
        let mut link = Link::open(&self.database, None).await.map_err(lost)?;
        link.run(self.set_up).await?;
        Ok(link)
    }

    /// The connection was used. One that was lost over it is given up, any other serves.
    pub(super) fn ended<T>(&mut self, result: &Result<T, Failure>) {
        match result {
            Err(Failure::Lost(_) | Failure::Unknown(_)) => self.give_up(),
            _ => self.serves(),
        }
    }

    /// Whether there is a connection that has served somebody. One that is known to be gone is none.
    pub(super) fn has_served(&self) -> bool {
        self.has_served && self.link.as_ref().is_some_and(|link| !link.is_closed())
    }

    /// The connection has served somebody.
    pub(super) fn serves(&mut self) {
        self.has_served = true;
        self.pause = limits::RECONNECT_PAUSE.0;
    }

    /// Gives the connection up, if there is one.
    pub(super) fn give_up(&mut self) {
        self.link = None;
        if !std::mem::take(&mut self.has_served) {
            self.not_before = clock::timer_now() + self.pause;
            self.pause = (self.pause * 2).min(limits::RECONNECT_PAUSE.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_that_lets_us_in_and_then_says_nothing_is_given_up_l14() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://hapax@{}/ledger", listener.local_addr().unwrap());
        let (told, set_up) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let (mut caller, mut said) = (listener.accept().unwrap().0, [0; 4096]);
            assert!(caller.read(&mut said).unwrap() > 0, "it asks to be let in");
            // It is let in, and may ask.
            caller.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
            assert!(caller.read(&mut said).unwrap() > 0, "it asks for something");
            told.send(()).unwrap();
            while caller.read(&mut said).is_ok_and(|length| length > 0) {}
        });
        let address = Address::parse(&url).unwrap();
        // From then on no time passes but what is waited for.
        let waiting = async {
            set_up.await.unwrap();
            tokio::time::pause();
            tokio::time::sleep(2 * limits::REPLY_WITHIN).await;
        };
        tokio::select! {
            biased;
            opened = Link::open_bare(&address, None) => {
                assert_eq!(opened.err().expect("it has not answered").kind(), hapax_core::Kind::Unavailable);
            }
            () = waiting => panic!("it is still waited for"),
        }
    }
}
