//! pgbench beside it: two single-row statements, each its own transaction, from clients of its own.
//!
//! There are two pairs of them: the store's own statements on the store's own tables, so that what differs is how they are sent; and
//! the least that a claim and a settle need, on tables that have nothing else, and with an outcome that the server makes itself.

use std::path::Path;
use std::process::Command;

use hapax_postgres::Postgres;

use crate::Failure;
use crate::postgres::OUTCOME;

/// Which two statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    /// The store's own.
    Own,
    /// The least that is needed.
    Least,
}

const SET_UP: &str = "
CREATE TABLE IF NOT EXISTS bench_claims (
    digest bytea PRIMARY KEY, state int2 NOT NULL, epoch int8 NOT NULL, attempt bytea NOT NULL,
    operation bytea NOT NULL, fingerprint bytea NOT NULL, session int8 NOT NULL, granted timestamptz NOT NULL,
    keep_until timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE IF NOT EXISTS bench_outcomes (
    keep_until timestamptz NOT NULL, epoch int8 NOT NULL, body bytea NOT NULL, PRIMARY KEY (keep_until, epoch)
);
CREATE SEQUENCE IF NOT EXISTS bench_epochs CACHE 100;
";

const LEAST: &str = r"
\set a random(1, 9000000000000000000)
\set b random(1, 9000000000000000000)
INSERT INTO bench_claims VALUES (sha256(int8send(:a) || int8send(:b)), 1, nextval('bench_epochs'), int8send(:a) || int8send(:b), int8send(:a) || int8send(:b), sha256(int8send(:b)), 1, clock_timestamp(), NULL) ON CONFLICT DO NOTHING RETURNING epoch;
WITH done AS (UPDATE bench_claims SET state = 2, keep_until = clock_timestamp() + interval '1 day' WHERE digest = sha256(int8send(:a) || int8send(:b)) AND state = 1 RETURNING keep_until, epoch) INSERT INTO bench_outcomes SELECT keep_until, epoch, convert_to(repeat('x', 1024), 'UTF8') FROM done;
";

const DRAW: &str = r"
\set a random(1, 9000000000000000000)
\set b random(1, 9000000000000000000)
";

const DIGEST: &str = "sha256(int8send(:a) || int8send(:b))";

/// What a claim takes, in the order of its parameters. What is long and always the same is no parameter here.
const CLAIM: [&str; 11] = [
    "NULL",
    "1::bigint",
    DIGEST,
    "'6f1c1c5e-5a0f-4c3b-9b0e-0d5a3c2b1a09'::uuid",
    "'0b9e1d7a-7c1f-4d52-8a61-3e2f1a0c9d88'::uuid",
    "convert_to(repeat('f', 40), 'SQL_ASCII')",
    "convert_to(repeat('t', 10), 'SQL_ASCII')",
    "3600000000::bigint",
    "1",
    "convert_to(repeat('i', 82), 'SQL_ASCII')",
    "NULL::bytea",
];

/// What a settle takes; `first` is the epoch that the claim gave.
const SETTLE: [&str; 9] = [
    "NULL",
    DIGEST,
    ":first",
    "false",
    "86400000000::bigint",
    "'S'::\"char\"",
    "NULL::integer",
    "1",
    "convert_to(:body, 'SQL_ASCII')",
];

/// A statement with something in the place of each parameter.
fn filled(statement: &str, parameters: &[&str]) -> String {
    let numbered = parameters.iter().enumerate().rev();
    numbered.fold(statement.to_owned(), |text, (at, value)| text.replace(&format!("${}", at + 1), value))
}

fn script(pair: Pair) -> String {
    match pair {
        Pair::Least => LEAST.to_owned(),
        Pair::Own => {
            let (claim, settle) = Postgres::statements_for_one();
            format!("{DRAW}{} \\gset\n{};\n", filled(claim, &CLAIM), filled(settle, &SETTLE))
        }
    }
}

/// Makes the tables.
pub(crate) async fn set_up(client: &tokio_postgres::Client) -> Result<(), Failure> {
    Ok(client.batch_execute(SET_UP).await?)
}

/// Fills the table, as hapax's own is filled.
pub(crate) async fn fill(client: &tokio_postgres::Client, rows: usize) -> Result<(), Failure> {
    let fill = format!(
        "INSERT INTO bench_claims SELECT sha256(int8send(i)), 2, i, int8send(i) || int8send(i), int8send(i) || int8send(i),
             sha256(int8send(-i)), 1, clock_timestamp(), clock_timestamp() + interval '1 day'
         FROM generate_series(1, {rows}) i ON CONFLICT DO NOTHING;
         INSERT INTO bench_outcomes SELECT clock_timestamp() + interval '1 day', i, convert_to(repeat('x', 1024), 'UTF8')
         FROM generate_series(1, {rows}) i ON CONFLICT DO NOTHING;"
    );
    client.batch_execute(&fill).await?;
    Ok(client.batch_execute("VACUUM ANALYZE bench_claims; ").await?)
}

/// Pairs each second with so many clients.
pub(crate) async fn run(
    url: &str,
    folder: &Path,
    pair: Pair,
    clients: usize,
    seconds: u64,
) -> Result<f64, Failure> {
    let file = folder.join("pair.sql");
    std::fs::write(&file, script(pair))?;
    let program = match std::env::var_os("HAPAX_TEST_PG_BIN") {
        Some(bin) => Path::new(&bin).join("pgbench"),
        None => "pgbench".into(),
    };
    let mut command = Command::new(program);
    command.args(["--no-vacuum", "--protocol=prepared", "--jobs=2"]);
    command.args([format!("--client={clients}"), format!("--time={seconds}")]);
    command.arg(format!("--define=body={}", "x".repeat(OUTCOME)));
    command.arg("--file").arg(&file).arg(url);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("pgbench failed: {text}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")).ok_or_else(|| {
        format!("pgbench did not say how fast it was: {text}{}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(tps.split(' ').next().unwrap_or("").parse()?)
}
