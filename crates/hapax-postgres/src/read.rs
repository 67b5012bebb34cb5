//! Reading claims, many at once, on a connection that never waits for a commit.
//!
//! A claim that somebody here watches is marked before it is read, so that whoever changes it notifies us:
//! subscribe, then read, then wait (L9). The mark is a column of the claim itself. Whoever changes the row
//! sees it, and whoever marks it after the change reads the change.

use std::collections::HashMap;
use std::sync::Arc;

use hapax_core::lane::Standing;
use hapax_core::{Claim, ClaimId, Epoch, Error, Now, Sign, Timestamp};
use hapax_store::parts::clock;
use hapax_store::table::Mark;
use tokio::sync::oneshot;

use super::failure::Failure;
use super::link::{Line, Link};
use super::queue::{Weigh, closed_error};
use super::row::{Stored, get};
use super::shared::Shared;

/// A claim as it was read, and when.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) stored: Option<Stored>,
    pub(super) time: Timestamp,
}

impl Seen {
    /// The claim as it is stored.
    pub(super) fn claim(&self) -> Option<&Claim> {
        self.stored.as_ref().map(|stored| &stored.claim)
    }

    /// The moment of the reading. It offers no epoch that could be used: whatever needs one is not decided by
    /// reading.
    pub(super) fn now(&self) -> Now {
        Now {
            time: self.time,
            next_epoch: Epoch::from_packed(u64::MAX),
            holder: self.stored.as_ref().map_or(Sign::UNKNOWN, |stored| stored.holder),
        }
    }
}

/// A claim that somebody wants to read.
pub(super) struct Read {
    claim: ClaimId,
    mark: Mark,
    reply: oneshot::Sender<Result<Seen, Error>>,
}

impl Weigh for Read {
    fn weight(&self) -> usize {
        0
    }
}

impl Shared {
    /// Reads a claim.
    pub(super) async fn read(&self, claim: ClaimId) -> Result<Seen, Error> {
        let (reply, seen) = oneshot::channel();
        self.reads.push(Read { claim, mark: self.table.mark(), reply }).map_err(|(_, error)| error)?;
        seen.await.unwrap_or_else(|_| Err(closed_error()))
    }
}

/// Serves readers.
pub(super) async fn serve(shared: Arc<Shared>) {
    let mut line = Line::careless(shared.database.clone());
    while let Some((reads, _turn)) = shared.reads.share().await {
        let deadline = clock::timer_now() + shared.options.patience;
        let result = loop {
            match attempt(&shared, &mut line, &reads).await {
                Err(Failure::Lost(_) | Failure::Unknown(_) | Failure::Busy)
                    if clock::timer_now() < deadline => {}
                result => break result,
            }
        };
        answer(&shared, reads, result.map_err(Failure::into_error));
    }
}

type Found = HashMap<ClaimId, Result<Stored, Error>>;

async fn attempt(shared: &Shared, line: &mut Line, reads: &[Read]) -> Result<(Timestamp, Found), Failure> {
    let link = line.link().await?;
    let result = read(shared, link, reads).await;
    line.ended(&result);
    result
}

async fn read(shared: &Shared, link: &mut Link, reads: &[Read]) -> Result<(Timestamp, Found), Failure> {
    let mut claims: Vec<ClaimId> = reads.iter().map(|read| read.claim).collect();
    claims.sort_unstable();
    claims.dedup();
    let unmarked = shared.watchers.unmarked(&claims);
    if !unmarked.is_empty() {
        link.query(MARK, &[&digests(&unmarked)]).await?;
    }
    let rows = link.query(READ, &[&shared.session.given_time(), &digests(&claims)]).await?;
    let mut time = Timestamp::ZERO;
    let mut found = Found::with_capacity(rows.len());
    for row in &rows {
        time = Timestamp::from_micros(get(row, 0)?);
        let Some(digest) = get::<Option<&[u8]>>(row, 1)? else { continue };
        let Ok(digest) = digest.try_into() else { continue };
        let id = ClaimId::from_bytes(digest);
        // One claim that cannot be read does not keep others from being read.
        let mut stored = Stored::read(row, 1).and_then(|stored| stored.ok_or_else(super::confused));
        if let Ok(stored) = &mut stored {
            stored.holder = shared.session.judge(time, stored.holder);
            shared.watchers.found(id, stored.watched);
        }
        found.insert(id, stored);
    }
    Ok((time, found))
}

/// How claims stand now, on any connection. One that cannot be read counts as in doubt.
pub(super) async fn standing(
    shared: &Shared,
    link: &mut Link,
    claims: &[ClaimId],
) -> Result<HashMap<ClaimId, Standing>, Failure> {
    let rows = link.query(READ, &[&shared.session.given_time(), &digests(claims)]).await?;
    let mut standing: HashMap<_, _> = claims.iter().map(|claim| (*claim, Standing::Over)).collect();
    for row in &rows {
        let time = Timestamp::from_micros(get(row, 0)?);
        let Some(digest) = get::<Option<&[u8]>>(row, 1)? else { continue };
        let Ok(digest) = digest.try_into() else { continue };
        let is = match Stored::read(row, 1) {
            Ok(Some(mut stored)) => {
                stored.holder = shared.session.judge(time, stored.holder);
                let seen = Seen { stored: Some(stored), time };
                Standing::of(seen.claim(), &seen.now())
            }
            _ => Standing::InDoubt,
        };
        standing.insert(ClaimId::from_bytes(digest), is);
    }
    Ok(standing)
}

fn answer(shared: &Shared, reads: Vec<Read>, result: Result<(Timestamp, Found), Error>) {
    for Read { claim, mark, reply } in reads {
        let seen = match &result {
            Ok((time, found)) => {
                found.get(&claim).cloned().transpose().map(|stored| Seen { stored, time: *time })
            }
            Err(error) => Err(error.clone()),
        };
        if let Ok(Seen { stored: Some(stored), .. }) = &seen
            && stored.may_be_remembered()
        {
            shared.table.put_read(mark, claim, &stored.claim);
        }
        // Whoever asked may have gone.
        let _ = reply.send(seen);
    }
}

/// Claim ids as parameters.
pub(super) fn digests(claims: &[ClaimId]) -> Vec<&[u8]> {
    claims.iter().map(|claim| &claim.as_bytes()[..]).collect()
}

/// Passes by what is locked: whoever has it locked may be an open transaction of the application.
const MARK: &str = "\
    UPDATE hapax.claims SET watched = true WHERE digest = ANY(ARRAY( \
        SELECT c.digest FROM hapax.claims c WHERE c.digest = ANY($1) AND NOT c.watched \
        ORDER BY c.digest FOR UPDATE SKIP LOCKED))";

const READ: &str = "\
    SELECT t.now, st.* \
    FROM (SELECT coalesce($1::bigint, hapax.clock()) AS now) t \
    LEFT JOIN hapax.standing st ON st.digest = ANY($2)";
