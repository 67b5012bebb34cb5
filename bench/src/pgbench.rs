//! pgbench beside it: the same two single-row statements, each its own transaction, from clients of its own.

use std::path::Path;
use std::process::Command;

use crate::Failure;

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

const SCRIPT: &str = r"
\set a random(1, 9000000000000000000)
\set b random(1, 9000000000000000000)
INSERT INTO bench_claims VALUES (sha256(int8send(:a) || int8send(:b)), 1, nextval('bench_epochs'), int8send(:a) || int8send(:b), int8send(:a) || int8send(:b), sha256(int8send(:b)), 1, clock_timestamp(), NULL) ON CONFLICT DO NOTHING RETURNING epoch;
WITH done AS (UPDATE bench_claims SET state = 2, keep_until = clock_timestamp() + interval '1 day' WHERE digest = sha256(int8send(:a) || int8send(:b)) AND state = 1 RETURNING keep_until, epoch) INSERT INTO bench_outcomes SELECT keep_until, epoch, convert_to(repeat('x', 1024), 'UTF8') FROM done;
";

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
pub(crate) async fn run(url: &str, folder: &Path, clients: usize, seconds: u64) -> Result<f64, Failure> {
    let script = folder.join("pair.sql");
    std::fs::write(&script, SCRIPT)?;
    let program = match std::env::var_os("HAPAX_TEST_PG_BIN") {
        Some(bin) => Path::new(&bin).join("pgbench"),
        None => "pgbench".into(),
    };
    let mut command = Command::new(program);
    command.args(["--no-vacuum", "--protocol=prepared", "--jobs=2"]);
    command.args([format!("--client={clients}"), format!("--time={seconds}")]);
    command.arg("--file").arg(&script).arg(url);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let text = String::from_utf8_lossy(&output.stdout);
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")).ok_or_else(|| {
        format!("pgbench did not say how fast it was: {text}{}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(tps.split(' ').next().unwrap_or("").parse()?)
}
