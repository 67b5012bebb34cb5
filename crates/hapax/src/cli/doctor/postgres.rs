//! What `hapax doctor` looks at in a PostgreSQL database: settings that lose what was confirmed, poolers that drop LISTEN,
//! replicas that would lose the last writes, clocks, and the schema (M6).
//!
//! The connections are the doctor's own, made like the store's but with nothing set: what counts is what the server does by
//! itself.

use std::time::{Duration, SystemTime};

use hapax_core::{AttemptId, Filter, Inspect as _};
use hapax_postgres::{Postgres, SCHEMA_VERSION};
use hapax_store::Lifecycle as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row};

use super::{Check, doubts};
use crate::cli::Failed;
use crate::clock;
use crate::limits;

/// Why a check could not be made.
type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// Checks the database at a URL. A URL that cannot be read is misuse; a server that is not there is a failed check.
pub(super) async fn check(url: &str) -> Result<Vec<Check>, Failed> {
    // The cause can quote the URL, and with it the password.
    let bad =
        |_| Failed::misuse("the URL of the store cannot be read: use postgres://user@host:port/database");
    let mut config: Config = url.parse().map_err(bad)?;
    config.connect_timeout(limits::REMOTE_CONNECT).application_name("hapax doctor");
    let connected = timeout(limits::DOCTOR_WAIT, connect(&config)).await;
    let (client, mut notices) = match connected {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => return Ok(vec![unreachable(&told(&*error))]),
        Err(_) => return Ok(vec![unreachable("it does not answer")]),
    };
    let mut checks = vec![Check::ok("server", "answers")];
    let all = timeout(3 * limits::DOCTOR_WAIT, all(&client, &config, &mut notices, &mut checks)).await;
    let trouble = match all {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(told(&*error)),
        Err(_) => Some("it took too long".into()),
    };
    checks.extend(trouble.map(|why| {
        Check::fail("questions", format!("not all could be asked: {why}"), "mend that and ask again")
    }));
    if sound(&checks) {
        checks.push(contents(url).await);
    }
    Ok(checks)
}

fn unreachable(why: &str) -> Check {
    Check::fail(
        "server",
        format!("cannot be reached: {why}"),
        "check the URL, the server and who may connect to it",
    )
}

/// Where something is wrong, reading the store would say the same once more.
fn sound(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.what == "schema" && check.level == super::Level::Ok)
        && checks.iter().all(|check| check.level != super::Level::Fail)
}

async fn all(
    client: &Client,
    config: &Config,
    notices: &mut mpsc::Receiver<String>,
    checks: &mut Vec<Check>,
) -> Result<(), Trouble> {
    checks.extend(settings(client).await?);
    checks.extend(replicas(client).await?);
    checks.push(clock(client).await?);
    checks.push(connections(client).await?);
    checks.push(schema(client).await?);
    checks.push(notifications(client, config, notices).await?);
    Ok(())
}

/// Connects, and hands on the payloads that others notify of.
async fn connect(config: &Config) -> Result<(Client, mpsc::Receiver<String>), Trouble> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                // One that nobody waits for any more may be lost.
                let _ = sender.try_send(notification.payload().to_owned());
            }
        }
    });
    Ok((client, receiver))
}

/// An error with its causes.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}

async fn settings(client: &Client) -> Result<Vec<Check>, Trouble> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version_num')::integer, current_setting('server_version'), \
             current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')",
            &[],
        )
        .await?;
    let mut checks = vec![version(row.try_get(0)?, row.try_get(1)?)];
    for (place, name) in [(2, "fsync"), (3, "full_page_writes")] {
        checks.push(switch(name, row.try_get(place)?));
    }
    checks.push(synchronous_commit(row.try_get(4)?));
    Ok(checks)
}

fn version(number: i32, name: &str) -> Check {
    match number >= limits::POSTGRES_OLDEST {
        true => Check::ok("version", format!("PostgreSQL {name}")),
        false => Check::fail("version", format!("PostgreSQL {name}"), "use version 14 or later"),
    }
}

fn switch(name: &'static str, value: &str) -> Check {
    match value {
        "on" => Check::ok(name, "on"),
        _ => Check::fail(
            name,
            format!("{value}: the server loses what it has confirmed"),
            format!("set {name} = on in postgresql.conf and restart the server"),
        ),
    }
}

fn synchronous_commit(value: &str) -> Check {
    let name = "synchronous_commit";
    let remedy = "set synchronous_commit = on for the server, the database and the role";
    match value {
        "on" | "remote_apply" => Check::ok(name, value),
        "off" => Check::fail(name, "off: a crash loses what was confirmed just before", remedy),
        weaker => {
            Check::warn(name, format!("{weaker}: hapax asks for more, your own transactions do not"), remedy)
        }
    }
}

/// A replica that is promoted must have everything that was confirmed.
async fn replicas(client: &Client) -> Result<Vec<Check>, Trouble> {
    let row = client
        .query_one(
            // Who follows a logical stream is connected to a database, and is never promoted; nor is who only keeps the log.
            "WITH standby AS (SELECT r.sync_state FROM pg_stat_replication r JOIN pg_stat_activity a USING (pid) \
             WHERE a.datid IS NULL AND r.application_name NOT IN ('pg_basebackup', 'pg_receivewal')) \
             SELECT pg_is_in_recovery(), current_setting('synchronous_standby_names'), \
             (SELECT count(*) FROM standby), (SELECT count(*) FROM standby WHERE sync_state IN ('sync', 'quorum'))",
            &[],
        )
        .await?;
    let mut checks = Vec::new();
    if row.try_get(0)? {
        checks.push(Check::fail("primary", "this server is a replica", "name the primary in the URL"));
    }
    checks.push(standby(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
    Ok(checks)
}

fn standby(names: &str, attached: i64, synchronous: i64) -> Check {
    let what = "replicas";
    match (attached, names.trim().is_empty(), synchronous) {
        (0, true, _) => Check::ok(what, "none attached"),
        (0, false, _) => Check::fail(
            what,
            "a synchronous one is demanded and none is attached: nothing can be committed",
            "start the replica, or change synchronous_standby_names",
        ),
        (_, true, _) => Check::fail(
            what,
            format!("{attached} attached, none synchronous: one that is promoted lacks the last writes"),
            "set synchronous_standby_names, such as 'ANY 1 (*)'",
        ),
        (_, false, 0) => Check::warn(
            what,
            format!("{attached} attached, and this role cannot see whether one is synchronous"),
            "GRANT pg_monitor to the role, or look at pg_stat_replication",
        ),
        _ => Check::ok(what, format!("{attached} attached, {synchronous} synchronous")),
    }
}

async fn clock(client: &Client) -> Result<Check, Trouble> {
    let before = clock::time_of_day();
    let row = client.query_one("SELECT clock_timestamp()", &[]).await?;
    let taken = before.elapsed().unwrap_or_default();
    let theirs: SystemTime = row.try_get(0)?;
    let ours = before + taken / 2;
    let apart =
        theirs.duration_since(ours).unwrap_or_else(|_| ours.duration_since(theirs).unwrap_or_default());
    Ok(apart_by(apart, taken))
}

fn apart_by(apart: Duration, taken: Duration) -> Check {
    let found = format!("{} ms from the server's", apart.as_millis());
    match apart > limits::CLOCK_DIFFERENCE + taken {
        true => Check::warn(
            "clock",
            found,
            "hapax uses the server's clock; set both by NTP, tokens and logs need it",
        ),
        false => Check::ok("clock", found),
    }
}

async fn connections(client: &Client) -> Result<Check, Trouble> {
    let sql = "SELECT current_setting('max_connections')::bigint \
               - current_setting('superuser_reserved_connections')::bigint - (SELECT count(*) FROM pg_stat_activity \
               WHERE backend_type = 'client backend')";
    let left: i64 = client.query_one(sql, &[]).await?.try_get(0)?;
    let found = format!("{left} left");
    Ok(match left >= limits::POSTGRES_CONNECTIONS_LEFT {
        true => Check::ok("connections", found),
        false => Check::warn("connections", found, "an instance needs 9; raise max_connections"),
    })
}

/// Read without opening the store, which would migrate it.
async fn schema(client: &Client) -> Result<Check, Trouble> {
    let there = client.query_one("SELECT to_regclass('hapax.schema_version') IS NOT NULL", &[]).await?;
    if !there.try_get::<_, bool>(0)? {
        let sql = "SELECT has_database_privilege(current_database(), 'CREATE'), quote_ident(current_database()), \
                   quote_ident(current_user)";
        let row = client.query_one(sql, &[]).await?;
        return Ok(no_schema(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    }
    let sql =
        "SELECT coalesce(max(version), 0), coalesce(max(oldest_compatible), 0) FROM hapax.schema_version";
    let row: Row = client.query_one(sql, &[]).await?;
    Ok(schema_is(row.try_get(0)?, row.try_get(1)?))
}

fn no_schema(may_make_it: bool, database: &str, role: &str) -> Check {
    match may_make_it {
        true => Check::warn(
            "schema",
            "there is none yet",
            "`hapax serve` makes it; check the URL if there should be one",
        ),
        false => Check::fail(
            "schema",
            "there is none yet, and this role cannot make it",
            format!("GRANT CREATE ON DATABASE {database} TO {role}, or serve with another role once"),
        ),
    }
}

fn schema_is(version: i32, oldest: i32) -> Check {
    let found = format!("version {version}; this hapax knows version {SCHEMA_VERSION}");
    match (version, oldest) {
        (_, oldest) if oldest > SCHEMA_VERSION => Check::fail("schema", found, "use a newer hapax"),
        (version, _) if version < SCHEMA_VERSION => {
            Check::warn("schema", found, "the next `hapax serve` migrates it; back it up first")
        }
        _ => Check::ok("schema", found),
    }
}

/// A pooler that gives each transaction another connection loses what was listened for.
async fn notifications(
    client: &Client,
    config: &Config,
    notices: &mut mpsc::Receiver<String>,
) -> Result<Check, Trouble> {
    let what = "LISTEN and NOTIFY";
    let mark = format!("{:?}", AttemptId::random());
    client.batch_execute("LISTEN hapax_doctor").await?;
    let (other, _unheard) = connect(config).await?;
    other.execute("SELECT pg_notify('hapax_doctor', $1)", &[&mark]).await?;
    let heard = async { while notices.recv().await.is_some_and(|payload| payload != mark) {} };
    Ok(match timeout(limits::DOCTOR_NOTIFY, heard).await {
        Ok(()) if !client.is_closed() => Check::ok(what, "a notification arrives"),
        _ => Check::fail(
            what,
            "a notification did not arrive: a pooler between hapax and the server drops them",
            "connect to the server itself, or let the pooler keep sessions (pool_mode = session)",
        ),
    })
}

/// What is in the store. It is only read, so that nothing of the doctor stays there.
async fn contents(url: &str) -> Check {
    let counted = async {
        let store = Postgres::open_read_only(url).await?;
        let counts = store.count(&Filter::default()).await;
        store.close().await?;
        counts
    };
    match timeout(limits::DOCTOR_WAIT, counted).await {
        Ok(Ok(counts)) => doubts(&counts),
        Ok(Err(error)) => Check::fail("store", format!("{error:#}"), "mend that and ask again"),
        Err(_) => Check::fail("store", "it took too long to open", "look at the server's load and its log"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn settings_that_lose_what_was_confirmed_are_refused_m6() {
        assert_eq!(version(139_999, "13.9").level, Level::Fail);
        assert_eq!(version(140_000, "14.0").level, Level::Ok);
        assert_eq!(switch("fsync", "off").level, Level::Fail);
        assert_eq!(switch("full_page_writes", "off").level, Level::Fail);
        assert_eq!(synchronous_commit("off").level, Level::Fail);
        assert_eq!(synchronous_commit("local").level, Level::Warn);
        assert_eq!(synchronous_commit("remote_apply").level, Level::Ok);
    }

    #[test]
    fn a_replica_that_would_lose_the_last_writes_is_refused_m6() {
        assert_eq!(standby("", 0, 0).level, Level::Ok);
        assert_eq!(standby("", 1, 0).level, Level::Fail);
        assert_eq!(standby("ANY 1 (*)", 0, 0).level, Level::Fail);
        assert_eq!(standby("ANY 1 (*)", 2, 1).level, Level::Ok);
        assert_eq!(standby("ANY 1 (*)", 2, 0).level, Level::Warn);
    }

    #[test]
    fn clocks_and_schemas_are_judged_m6() {
        assert_eq!(apart_by(Duration::from_secs(3), Duration::ZERO).level, Level::Warn);
        assert_eq!(apart_by(Duration::from_secs(3), Duration::from_secs(2)).level, Level::Ok);
        assert_eq!(schema_is(SCHEMA_VERSION, SCHEMA_VERSION).level, Level::Ok);
        assert_eq!(schema_is(SCHEMA_VERSION + 1, SCHEMA_VERSION).level, Level::Ok);
        assert_eq!(schema_is(SCHEMA_VERSION + 1, SCHEMA_VERSION + 1).level, Level::Fail);
        assert_eq!(schema_is(SCHEMA_VERSION - 1, 1).level, Level::Warn);
    }
}
