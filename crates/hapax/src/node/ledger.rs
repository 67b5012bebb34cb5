//! Whether the ledger takes new claims: asked every few seconds, told by `/readyz`, by a gauge and by the log (L14, O1, M2).
//!
//! One question without an answer is a lost connection, which every instance may have at the same moment; if all of them said
//! then that they cannot serve, nobody would be left who can. So an instance is ready until two in a row have failed, and again
//! with the first answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hapax_core::registry::DocumentId;
use hapax_core::{
    Counts, Epoch, Error, Identity, Key, Kind, Ledger, Operation, Outcome, Registry, Report, Retention,
    Scope, Source, Timestamp, Width,
};

use crate::{clock, limits, when};

/// A document that nobody writes, and a version that it will never have.
const NOBODYS: (&str, &str, u64) = ("probe", "ledger", u32::MAX as u64);

/// Asks as a claim does, for a write: whoever cannot write may still be able to read. The ledger refuses it only after it has
/// seen that it could have been carried out, because there is nothing to replace; so nothing is written. Then on the way that claims
/// and outcomes take, which may be closed while another one is open: for an outcome of what nobody holds. No row is written for it either;
/// PostgreSQL draws a number from its sequence of epochs before it sees that there is no claim, and epochs may have gaps. Each question
/// has a time of its own, so that it is the store that says why it has no answer.
pub(super) async fn ask(registry: &impl Registry, ledger: &impl Ledger) -> Result<(), Error> {
    let (kind, id, version) = NOBODYS;
    let nobodys = DocumentId::new(kind, id)?;
    let written = registry.put(&nobodys, version, Bytes::new());
    match in_time(limits::LEDGER_ANSWERS, written).await {
        Err(error) if error.kind() == Kind::Conflict => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(Error::internal("the ledger replaced what was not there")),
    }
    let (operation, key) = (Operation::new(kind)?, Key::new(id)?);
    let nobodys = Identity::new(Source::Derived, Scope::local(), Width::Subject, operation, key);
    let outcome = Report::Settle(Outcome::Erased, Retention::Forever);
    let settled = ledger.report(nobodys.claim_id(), Epoch::new(1, 0)?, outcome, Vec::new());
    in_time(limits::LEDGER_SETTLES, settled).await?;
    match ledger.session().left.is_zero() {
        true => Err(Error::unavailable("the session of this process has lapsed and is not renewed")),
        false => Ok(()),
    }
}

async fn in_time<T>(bound: Duration, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Err(Error::unavailable("the ledger does not answer in time"));
    tokio::time::timeout(bound, asked).await.unwrap_or_else(late)
}

/// What the ledger has answered lately.
#[derive(Debug, Default)]
pub(crate) struct Health {
    away: Mutex<Option<Away>>,
    seen: Mutex<Seen>,
}

/// What was seen of the ledger when it was asked last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// How many claims there were.
    pub(crate) counts: Counts,
    /// How long the answer took; `None` before the first.
    pub(crate) took: Option<Duration>,
    /// Since when it does not answer; `None` while it does.
    pub(crate) away_since: Option<Timestamp>,
    /// When a question began that is still under way.
    asking: Option<(Instant, Timestamp)>,
}

/// The ledger does not take claims.
#[derive(Debug)]
struct Away {
    since: Timestamp,
    /// How many questions in a row have failed.
    failed: u32,
    /// The last failure, as anybody may know it.
    why: String,
}

impl Health {
    /// Notes that the ledger is being asked.
    pub(super) fn asks(&self, now: Timestamp) {
        self.last_seen().asking = Some((clock::now(), now));
    }

    /// Notes what came of a question; a change is told in the log, once.
    pub(super) fn note(&self, asked: &Result<(), Error>, now: Timestamp) {
        self.last_seen().asking = None;
        let mut away = self.away();
        match (asked, &mut *away) {
            (Ok(()), None) => {}
            (Ok(()), Some(former)) => {
                tracing::info!(away_since = when::utc(former.since), "the ledger takes claims again");
                *away = None;
            }
            (Err(error), Some(away)) => {
                away.failed = away.failed.saturating_add(1);
                away.why = error.message().to_owned();
            }
            (Err(error), None) => {
                let cause = format!("{error:#}");
                tracing::warn!(cause, "the ledger takes no claims: requests with a key are refused");
                *away = Some(Away { since: now, failed: 1, why: error.message().to_owned() });
            }
        }
    }

    /// Why this instance cannot serve; `None` where it can.
    pub(crate) fn in_the_way(&self) -> Option<String> {
        let away = self.away();
        let away = away.as_ref().filter(|away| away.failed >= limits::LEDGER_FAILURES)?;
        let since = when::utc(away.since).unwrap_or_default();
        Some(format!("the ledger has taken no claims since {since}: {}", away.why))
    }

    /// Notes how long the ledger took to answer, and how many claims it has.
    pub(super) fn saw(&self, took: Option<Duration>, counts: Option<Counts>) {
        let mut seen = self.last_seen();
        seen.took = took.or(seen.took);
        seen.counts = counts.unwrap_or(seen.counts);
    }

    /// What was seen last. A question without an answer for some time counts as one that failed: a store tries on for longer than
    /// people should wait to hear of it.
    pub(crate) fn seen(&self) -> Seen {
        let away_since = self.away().as_ref().map(|away| away.since);
        let seen = *self.last_seen();
        let silent = seen.asking.filter(|(began, _)| began.elapsed() >= limits::LEDGER_SILENT);
        Seen { away_since: away_since.or(silent.map(|(_, at)| at)), ..seen }
    }

    fn last_seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn away(&self) -> MutexGuard<'_, Option<Away>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{Filter, Inspect as _};
    use hapax_sqlite::{Embedded, Quota};
    use hapax_store::limits::PATIENCE;
    use hapax_store::memory::Memory;
    use hapax_store::{Lifecycle as _, Options};
    use hapax_testkit::faulty::Faulty;
    use hapax_testkit::lines::Lines;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn one_lost_connection_takes_nobody_out_of_rotation_and_the_log_tells_each_change_once_m2() {
        let (lines, _listening) = Lines::listen();
        let health = Health::default();
        let lost = Err(Error::unavailable("the database cannot be reached").with_detail("refused"));
        for (asked, ready) in [
            (&Ok(()), true),
            (&lost, true),
            (&Ok(()), true),
            (&lost, true),
            (&lost, false),
            (&lost, false),
            (&Ok(()), true),
            (&lost, true),
        ] {
            health.note(asked, at(0));
            assert_eq!(health.in_the_way().is_none(), ready, "{asked:?}");
        }
        let told = lines.told();
        assert_eq!(told.matches("WARN").count(), 3, "{told}");
        assert_eq!(told.matches("takes claims again").count(), 2, "{told}");
        assert!(told.contains("cannot be reached") && told.contains("refused"), "{told}");
    }

    #[test]
    fn a_question_without_an_answer_is_told_before_the_store_gives_up_m3() {
        let health = Health::default();
        health.asks(at(60));
        assert_eq!(health.seen().away_since, None, "it has only begun");
        let long_ago = clock::now().checked_sub(2 * limits::LEDGER_SILENT).unwrap();
        health.last_seen().asking = Some((long_ago, at(60)));
        assert_eq!((health.seen().away_since, health.in_the_way()), (Some(at(60)), None));
        health.note(&Ok(()), at(63));
        assert_eq!(health.seen().away_since, None);
    }

    #[test]
    fn what_is_in_the_way_has_its_cause_and_since_when_but_no_detail_m2() {
        let health = Health::default();
        for second in [0, 60] {
            health.note(&Err(Error::unavailable("the disk is full").with_detail("/secret")), at(second));
        }
        let reason = health.in_the_way().unwrap();
        assert_eq!(
            reason,
            "the ledger has taken no claims since 1970-01-01T00:00:00.000000Z: the disk is full"
        );
    }

    /// A store that takes as long as it may to write a document.
    #[derive(Clone)]
    struct Slow(Memory);

    macro_rules! behind {
        ($self:ident, $registry:ident => $call:expr) => {{
            let $registry = &$self.0;
            $call
        }};
    }

    impl Registry for Slow {
        hapax_core::forward!(behind => get, delete, list_documents);

        async fn put(&self, id: &DocumentId, expect: u64, body: Bytes) -> Result<u64, Error> {
            tokio::time::sleep(PATIENCE).await;
            self.0.put(id, expect, body).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_question_may_take_as_long_as_a_store_tries_by_itself_m2() {
        let memory = Memory::open(Options::default());
        let ledger = Faulty::new(memory.clone());
        // On PostgreSQL: in a batch, and then alone.
        ledger.before_next_report(|| tokio::time::sleep(2 * PATIENCE));
        ask(&Slow(memory), &ledger).await.unwrap();
    }

    #[tokio::test]
    async fn asking_writes_nothing_and_hears_of_a_store_that_takes_no_claims_b5() {
        let memory = Memory::open(Options::default());
        ask(&memory, &memory).await.unwrap();
        assert_eq!(memory.list_documents(NOBODYS.0, None, 10).await.unwrap(), []);
        assert_eq!(memory.list(&Filter::default(), None, 10).await.unwrap().items, []);
        assert_eq!(memory.audit(None, 10).await.unwrap().items, []);

        let folder = tempfile::tempdir().unwrap();
        let quota = Quota { bytes: Some(1 << 20) };
        let store = Embedded::open_within(folder.path(), Options::default(), quota).unwrap();
        ask(&store, &store).await.unwrap();
        let (mut kept, mut length) = (Vec::new(), 20_000);
        for number in 0..1_000 {
            if ask(&store, &store).await.is_err() {
                break;
            }
            let id = DocumentId::new("filler", number.to_string()).unwrap();
            match store.put(&id, 0, Bytes::from(vec![7; length])).await {
                Ok(version) => kept.push((id, version)),
                // What is left is filled up with less.
                Err(_) => length = 1_000,
            }
        }
        let told = ask(&store, &store).await.unwrap_err();
        assert!(told.message().contains("no room"), "{told:#}");
        for (id, version) in kept {
            store.delete(&id, version).await.unwrap();
        }
        ask(&store, &store).await.unwrap();
        store.close().await.unwrap();
    }
}
