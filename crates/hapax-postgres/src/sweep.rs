//! The sweeper: writes down what time alone has made of claims, folds the tally, and clears away (L6, L10).
//!
//! It never waits for a row and never makes anybody wait for long: small chunks, passing by whatever is
//! locked. Lapsed claims, doubts and tombstones go one by one through `step`; one that cannot be visited, because it cannot be
//! read, say, keeps nobody from the others. Expired outcomes are so many
//! that one statement says the same for a chunk of them: the claim that is settled under this epoch until
//! this time becomes absent.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hapax_core::{Answer, ClaimId, Command, Epoch, Error, Kind, SweepReport, Swept};
use hapax_store::parts::clock;
use tokio_postgres::Row;

use super::change::Order;
use super::clock::Quiet;
use super::confused;
use super::desk::Resend;
use super::failure::Failure;
use super::link::Link;
use super::row::{epoch, get, micros, unreadable};
use super::shared::Shared;
use crate::limits;

/// Sweeps from time to time; of several processes one at a time does.
pub(super) async fn serve(shared: Arc<Shared>) {
    if !shared.options.sweeper {
        return;
    }
    let visit_after = limits::VISIT_AFTER.min(shared.options.term);
    let mut pause = limits::SWEEP_EVERY;
    let mut trouble = Trouble::default();
    loop {
        tokio::time::sleep(pause).await;
        let began = clock::timer_now();
        let more = match turn(&shared).await {
            Ok(true) => {
                let mut failed = Vec::new();
                let done = round(&shared, limits::SWEEP_CHUNK, visit_after, &mut failed).await;
                trouble.tell(&failed);
                let more = done.as_ref().is_ok_and(|report| report.more);
                if done.is_ok() && !more {
                    shared.options.tally.swept();
                }
                more
            }
            // Another process sweeps.
            Ok(false) => {
                shared.options.tally.swept();
                false
            }
            Err(_) => false,
        };
        // With more to do, as much rest as work.
        pause = if more { began.elapsed().min(limits::SWEEP_EVERY) } else { limits::SWEEP_EVERY };
    }
}

/// A visit that failed.
pub(super) type Failed = (ClaimId, Error);

/// Claims that could not be visited in the latest round, each of which is told of once.
#[derive(Default)]
struct Trouble(HashSet<ClaimId>);

impl Trouble {
    fn tell(&mut self, failed: &[Failed]) {
        for (claim, error) in failed.iter().filter(|(claim, _)| !self.0.contains(claim)) {
            tracing::warn!(%claim, error = error.message(), "a claim that is due cannot be swept; the others are");
        }
        self.0 = failed.iter().map(|(claim, _)| *claim).collect();
    }
}

/// Whether it is this process's turn. A turn lasts as long as a pause and is not renewed by the same process
/// alone: the row says until when another one has it. A turn that ends later than any can was given before the server's
/// clock was set back, perhaps to somebody who has died since (L12).
async fn turn(shared: &Shared) -> Result<bool, Error> {
    let own = shared.session.known().id.0.cast_signed();
    let (lasts, ahead) = (micros(2 * limits::SWEEP_EVERY), micros(limits::SWEEP_TURN_AHEAD));
    shared
        .ask(Resend::Always, async move |link: &mut Link| {
            let taken = link.query_opt(TURN, &[&own, &lasts, &ahead]).await?;
            Ok(taken.is_some())
        })
        .await
}

const TURN: &str = "\
    UPDATE hapax.sweeper SET session = $1, until = hapax.clock() + $2::bigint \
    WHERE session = $1 OR until < hapax.clock() OR until > hapax.clock() + $3::bigint RETURNING session";

/// One round: at most `limit` claims, and grants that are at least so old are visited. Tells which visits failed.
pub(super) async fn round(
    shared: &Arc<Shared>,
    limit: usize,
    visit_after: Duration,
    failed: &mut Vec<Failed>,
) -> Result<SweepReport, Error> {
    let limit = limit.min(limits::SWEEP_CHUNK);
    end_quiet(shared).await?;
    let mut report = SweepReport { more: fold(shared, visit_after).await?, ..SweepReport::default() };
    let due = due(shared, limit + 1).await?;
    report.more |= due.len() > limit;
    let (mut swept, mut unanswered) = (0, 0);
    for (id, seen) in due.into_iter().take(limit) {
        match visit(shared, id, seen).await {
            Ok(Swept::Kept) => continue,
            Ok(Swept::Forgotten) => report.forgotten += 1,
            Ok(Swept::Released) => report.released += 1,
            Ok(Swept::InDoubt) => report.in_doubt += 1,
            Err(error) => {
                unanswered += u64::from(error.kind() == Kind::Unavailable);
                failed.push((id, error));
                report.failed += 1;
                if unanswered == limits::SWEEP_FAILURES {
                    break;
                }
                continue;
            }
        }
        swept += 1;
    }
    let left = limit - swept;
    let forgotten = expire(shared, left).await?;
    report.forgotten += forgotten as u64;
    report.more |= left > 0 && forgotten >= left;
    clear(shared).await?;
    Ok(report)
}

/// Ends sessions that say they were renewed in the future, because the server's clock was set back since, once they have said
/// the same for as long as they last: whoever they are of is gone, and its claims would be held until that time comes (L12).
async fn end_quiet(shared: &Arc<Shared>) -> Result<(), Error> {
    let there = shared.clone();
    shared
        .ask(Resend::Always, async move |link: &mut Link| {
            let given = there.session.given_time();
            let rows = link.query(AHEAD, &[&given]).await?;
            for (id, last) in silent(&rows, &there.ahead, there.session.boot())? {
                link.query(END_QUIET, &[&given, &id, &last]).await?;
            }
            Ok(())
        })
        .await
}

/// Of these sessions (each with when it was last renewed, and its term) those that have said the same for their whole term.
fn silent(rows: &[Row], seen: &Mutex<Quiet>, now: Duration) -> Result<Vec<(i64, i64)>, Failure> {
    let (mut sessions, mut terms) = (Vec::new(), Vec::new());
    for row in rows {
        sessions.push((get::<i64>(row, 0)?, get::<i64>(row, 1)?));
        terms.push(Duration::from_micros(u64::try_from(get::<i64>(row, 2)?).unwrap_or(0)));
    }
    let since = seen.lock().unwrap_or_else(PoisonError::into_inner).look(&sessions, now);
    let silent = sessions.into_iter().zip(terms.into_iter().zip(since));
    Ok(silent.filter(|(_, (term, since))| since >= term).map(|(session, _)| session).collect())
}

const AHEAD: &str =
    "SELECT id, last, until - last FROM hapax.sessions WHERE last > coalesce($1::bigint, hapax.clock())";

/// As if it had ended itself now.
const END_QUIET: &str = "\
    UPDATE hapax.sessions SET last = t.now, until = t.now \
    FROM (SELECT coalesce($1::bigint, hapax.clock()) AS now) t WHERE id = $2 AND last = $3";

/// Folds the tally; whether there is more of it.
async fn fold(shared: &Arc<Shared>, visit_after: Duration) -> Result<bool, Error> {
    let there = shared.clone();
    let chunk = i64::try_from(limits::TALLY_CHUNK).unwrap_or(i64::MAX);
    shared
        .ask(Resend::Always, async move |link: &mut Link| {
            let (given, age) = (there.session.given_time(), micros(visit_after));
            let row = link.query_one("SELECT hapax.fold_tally($1, $2, $3)", &[&given, &age, &chunk]).await?;
            let folded: i64 = get(&row, 0)?;
            Ok(folded >= chunk)
        })
        .await
}

/// Claims that time alone may have changed.
async fn due(shared: &Arc<Shared>, limit: usize) -> Result<Vec<(ClaimId, Epoch)>, Error> {
    let there = shared.clone();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    shared
        .ask(Resend::Always, async move |link: &mut Link| {
            let rows = link.query(DUE, &[&there.session.given_time(), &limit]).await?;
            let read = |row| {
                let digest: &[u8] = get(row, 0)?;
                let id = ClaimId::from_bytes(digest.try_into().map_err(|_| unreadable("digest"))?);
                Ok((id, epoch(get(row, 1)?)))
            };
            Ok(rows.iter().map(read).collect::<Result<_, Error>>()?)
        })
        .await
}

const DUE: &str = "\
    WITH t AS MATERIALIZED (SELECT coalesce($1::bigint, hapax.clock()) AS now) \
    (SELECT c.digest, c.epoch FROM hapax.unsettled u JOIN hapax.claims c ON c.digest = u.digest \
     WHERE u.due <= (SELECT now FROM t) AND c.state <> 'S' ORDER BY u.due LIMIT $2) \
    UNION \
    (SELECT c.digest, c.epoch FROM hapax.unsettled u JOIN hapax.claims c ON c.digest = u.digest AND c.state = 'H' \
     LEFT JOIN hapax.sessions s ON s.id = c.session \
     WHERE u.state = 'H' AND coalesce(s.until, 0) <= (SELECT now FROM t) LIMIT $2) \
    LIMIT $2";

async fn visit(shared: &Arc<Shared>, id: ClaimId, seen: Epoch) -> Result<Swept, Error> {
    let order = Order { id, command: Command::Sweep(seen), identity: None, events: Vec::new(), lease: None };
    match shared.order(Resend::Always, order).await? {
        Answer::Swept(swept) => Ok(swept),
        _ => Err(confused()),
    }
}

/// Makes expired outcomes absent; how many.
async fn expire(shared: &Arc<Shared>, limit: usize) -> Result<usize, Error> {
    if limit == 0 {
        return Ok(0);
    }
    let there = shared.clone();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let gone = shared
        .ask(Resend::Always, async move |link: &mut Link| {
            let rows =
                link.query("SELECT hapax.expire($1, $2)", &[&there.session.given_time(), &limit]).await?;
            rows.iter().map(|row| Ok(get::<&[u8]>(row, 0)?.to_vec())).collect::<Result<Vec<_>, Failure>>()
        })
        .await?;
    if !shared.watchers.is_idle() {
        for id in gone.iter().filter_map(|digest| digest[..].try_into().ok().map(ClaimId::from_bytes)) {
            shared.watchers.changed(&id, false);
        }
    }
    Ok(gone.len())
}

/// Takes away what nobody needs any more.
async fn clear(shared: &Arc<Shared>) -> Result<(), Error> {
    let there = shared.clone();
    shared
        .ask(Resend::Always, async move |link: &mut Link| {
            link.query("SELECT hapax.clear_away($1)", &[&micros(limits::INVALIDATIONS_KEPT)]).await?;
            let given = there.session.given_time();
            let kept = [limits::SESSION_KEPT, limits::LEASE_KEPT].map(micros);
            let rows = link.query(LONG_OVER, &[&given, &kept[0], &kept[1]]).await?;
            let over = silent(&rows, &there.over, there.session.boot())?;
            let (ids, lasts): (Vec<i64>, Vec<i64>) = over.into_iter().unzip();
            if !ids.is_empty() {
                link.query(FORGET, &[&ids, &lasts]).await?;
            }
            Ok(())
        })
        .await
}

/// Sessions that ended long ago, whatever clock is used. After the server's clock was set forward by days, a living one looks like that
/// until its next beat (L12). A lease that is over begins no claim any more.
const LONG_OVER: &str = "\
    SELECT id, last, until - last FROM hapax.sessions \
    WHERE until < coalesce($1::bigint, hapax.clock()) - CASE WHEN term IS NULL THEN $2::bigint ELSE $3::bigint END \
        AND table_until < hapax.clock() - $2::bigint";

/// Unless it holds something, which may not have been met yet.
const FORGET: &str = "\
    DELETE FROM hapax.sessions s USING unnest($1::bigint[], $2::bigint[]) AS o (id, last) \
    WHERE s.id = o.id AND s.last = o.last \
        AND NOT EXISTS (SELECT FROM hapax.tally t WHERE t.first IS NOT NULL AND t.at <= s.until) \
        AND NOT EXISTS (SELECT FROM hapax.unsettled u JOIN hapax.claims c ON c.digest = u.digest \
            WHERE u.state = 'H' AND c.session = s.id)";
