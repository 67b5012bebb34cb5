//! The transactional guard: an outcome that commits with the application's own writes, or not at all (L16), and the journal events
//! that belong to it (L18).

use hapax_core::claim::Report;
use hapax_core::journal::Append;
use hapax_core::{Answer, Change, ClaimId, Command, Ending, Epoch, Error, Kept, Outcome, Retention, step};
use tokio_postgres::{GenericClient, Row};

use super::change::{LOCK, Locked, PUT, Put};
use super::confused;
use super::failure::Failure;
use super::journal::{self, Within};
use super::link::Params;
use super::row::get;

/// Settles a claim inside the application's own transaction, in the database that holds the ledger: both
/// commit, or neither does. To be called last before COMMIT, because the claim stays locked until then.
///
/// An error of kind `LostLease` means that the epoch is stale or the claim is settled already. The
/// transaction must then be rolled back, and the caller answered from the ledger.
///
/// Waiters learn of the outcome when the transaction commits. At an isolation level above READ COMMITTED the
/// transaction must have begun after the claim was granted.
///
/// ```no_run
/// # async fn pay(
/// #     client: &mut tokio_postgres::Client, claim: hapax_core::ClaimId, epoch: hapax_core::Epoch,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use hapax_core::{Outcome, Retention};
///
/// let tx = client.transaction().await?;
/// tx.execute("INSERT INTO payments (amount) VALUES (10)", &[]).await?;
/// let outcome = Outcome::Succeeded("paid".into());
/// hapax_postgres::guard(&tx, claim, epoch, &outcome, Retention::Forever).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub async fn guard<C: GenericClient + Sync>(
    tx: &C,
    claim: ClaimId,
    epoch: Epoch,
    outcome: &Outcome,
    retention: Retention,
) -> Result<Kept, Error> {
    guard_with(tx, claim, epoch, outcome, retention, &[]).await
}

/// The same, with journal events: they commit with the outcome. What the work returns as
/// events (`Ended::with`) after this has settled is not written any more.
///
/// An error of kind `Conflict` means that a stream is not where the events expect it: the transaction must be rolled back.
pub async fn guard_with<C: GenericClient + Sync>(
    tx: &C,
    claim: ClaimId,
    epoch: Epoch,
    outcome: &Outcome,
    retention: Retention,
    events: &[Append],
) -> Result<Kept, Error> {
    let told = |error| Failure::from(error).into_error();
    let no_clock: Option<i64> = None;
    // Short transactions of the store may have the row; waiting for those is right here.
    let row = tx.query_one(LOCK, &[&&claim.as_bytes()[..], &no_clock, &true]).await.map_err(told)?;
    let Locked { now, stored, .. } = Locked::read(&row)?;
    let before = stored.as_ref().map(|stored| &stored.claim);
    let command = Command::Hold(epoch, Report::Settle(outcome.clone(), retention));
    let (Change::Put(after), Answer::Ending(Ending::Settled(kept))) = step(before, &command, &now) else {
        return Err(Error::lost_lease("the claim has another holder by now, or is settled: roll back"));
    };
    journal::append_all(&mut Theirs(tx), events, now.time, None).await.map_err(Failure::into_error)?;
    let put = Put::new(now.time, claim, before, &after, None, None);
    let row = tx.query_opt(PUT, &put.params()).await.map_err(told)?;
    let watched: bool = get(&row.ok_or_else(confused)?, 0)?;
    if watched {
        // Delivered with the commit.
        tx.query("SELECT pg_notify('hapax_changed', $1)", &[&claim.to_string()]).await.map_err(told)?;
    }
    Ok(kept)
}

/// The application's own transaction.
struct Theirs<'a, C>(&'a C);

impl<C: GenericClient + Sync> Within for Theirs<'_, C> {
    async fn query(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        Ok(self.0.query(sql, params).await?)
    }
}
