//! Reports that must reach the ledger although nobody waits for them any more.
//!
//! One thread with a runtime of its own, started when the first debt is made: the caller's runtime may be busy, or shutting
//! down. What lies in the spool is tried until the ledger confirms it, what is in memory alone until a bound is reached. A
//! process that dies takes its debts along; then the lease lapses, which is what leases are for.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hapax_core::journal::Append;
use hapax_core::turn::{self, Paid};
use hapax_core::{Backoff, ClaimId, ClaimRequest, Ending, Epoch, Error, Kind, Ledger, Ran, Report, Verdict};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::late::Contradicted;
use crate::limits;
use crate::spool::{self, Entry};

/// Something the ledger must still hear.
#[derive(Debug)]
pub(crate) enum Debt {
    /// A claim whose fate is unknown and that nobody wants any more (L13).
    Abandon(ClaimRequest),
    /// How an attempt ended.
    Report { claim: ClaimId, epoch: Epoch, report: Report, events: Vec<Append>, spooled: Option<Arc<Entry>> },
}

impl Debt {
    fn claim(&self) -> ClaimId {
        match self {
            Debt::Abandon(request) => request.identity.claim_id(),
            Debt::Report { claim, .. } => *claim,
        }
    }

    fn is_unwanted(&self) -> bool {
        matches!(self, Debt::Abandon(_))
    }

    /// Whether it is bounded by the spool, where it has a place.
    fn has_place(&self) -> bool {
        matches!(self, Debt::Report { spooled: Some(_), .. })
    }

    /// Whether it outlives this process.
    fn is_spooled(&self) -> bool {
        matches!(self, Debt::Report { spooled: Some(entry), .. } if entry.is_written())
    }

    /// What it keeps in memory, in KiB: the outcome and the journal events, which may be long.
    fn kibibytes(&self) -> u32 {
        let Debt::Report { report, events, .. } = self else { return 0 };
        let outcome = if let Report::Settle(outcome, _) = report { outcome.len() } else { 0 };
        let written = events.iter().map(|write| {
            let payloads: usize = write.events.iter().map(|event| event.payload.len()).sum();
            payloads + write.checkpoint.as_ref().map_or(0, Bytes::len)
        });
        u32::try_from((outcome + written.sum::<usize>()).div_ceil(1024)).unwrap_or(u32::MAX)
    }

    fn is_settle(&self) -> bool {
        matches!(self, Debt::Report { report: Report::Settle(..), .. })
    }

    /// Says that it will not be tried any more, and what follows from that.
    fn give_up(&self, why: &dyn fmt::Display) {
        let claim = self.claim();
        match (self.is_settle(), self.is_spooled()) {
            (true, true) => {
                tracing::error!(%claim, %why, "an outcome is left in the spool until the next start");
            }
            (true, false) => {
                tracing::error!(%claim, %why, "an outcome was given up: the ledger never heard it")
            }
            (false, _) if self.is_unwanted() => {
                tracing::warn!(%claim, %why, "a claim was given up: a lease, if any, ends with this process or with max_run")
            }
            (false, _) => {
                tracing::warn!(%claim, %why, "a report was given up: the lease ends with this process or with max_run")
            }
        }
    }
}

/// The debts of one executor.
pub(crate) struct Owed<L>(Arc<Debts<L>>);

struct Debts<L> {
    ledger: L,
    contradicted: Contradicted,
    room: Arc<Semaphore>,
    /// In KiB.
    memory: Arc<Semaphore>,
    /// For claims that nobody wants: whoever asks again and again in vain takes no room from reports.
    unwanted: Arc<Semaphore>,
    unpaid: Arc<Unpaid>,
    sender: Mutex<Option<mpsc::UnboundedSender<Taken>>>,
}

/// A debt, and what counts it until it is paid or given up.
type Taken = (Debt, Counted);

/// The debts that are not paid yet.
#[derive(Default)]
struct Unpaid {
    number: AtomicUsize,
    paid: Notify,
}

/// One debt that is not paid yet, and the room it takes; the spool bounds what lies there.
struct Counted {
    unpaid: Arc<Unpaid>,
    _room: Option<Room>,
}

/// A place, and so much memory.
type Room = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Counted {
    fn new(unpaid: &Arc<Unpaid>, room: Option<Room>) -> Self {
        unpaid.number.fetch_add(1, Ordering::SeqCst);
        Counted { unpaid: unpaid.clone(), _room: room }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.unpaid.number.fetch_sub(1, Ordering::SeqCst);
        self.unpaid.paid.notify_waiters();
    }
}

impl<L: Ledger> Owed<L> {
    pub(crate) fn new(ledger: L, contradicted: Contradicted) -> Self {
        let room = Arc::new(Semaphore::new(limits::OWED));
        let memory = Arc::new(Semaphore::new(limits::OWED_KIB));
        let unwanted = Arc::new(Semaphore::new(limits::UNWANTED));
        let (unpaid, sender) = (Arc::default(), Mutex::default());
        Owed(Arc::new(Debts { ledger, contradicted, room, memory, unwanted, unpaid, sender }))
    }

    /// Returns once every debt is paid or was given up.
    pub(crate) async fn paid(&self) {
        loop {
            let mut paid = pin!(self.0.unpaid.paid.notified());
            paid.as_mut().enable();
            if self.0.unpaid.number.load(Ordering::SeqCst) == 0 {
                return;
            }
            paid.await;
        }
    }

    /// How many debts are not paid yet.
    pub(crate) fn waiting(&self) -> usize {
        self.0.unpaid.number.load(Ordering::SeqCst)
    }

    /// Takes a debt over. Where even that is impossible, the lease lapses instead.
    pub(crate) fn owe(&self, debt: Debt) {
        let room = if debt.has_place() { None } else { self.room_for(&debt) };
        if room.is_none() && !debt.has_place() {
            return debt.give_up(&"too many reports wait for the ledger");
        }
        let mut sender = self.0.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            *sender = start(self.0.ledger.clone(), self.0.contradicted.clone());
        }
        let counted = Counted::new(&self.0.unpaid, room);
        let untold = match &*sender {
            Some(sender) => sender.send((debt, counted)).err().map(|unsent| unsent.0.0),
            None => Some(debt),
        };
        if let Some(debt) = untold {
            debt.give_up(&"there is no thread to deliver it");
        }
    }
}

impl<L> Owed<L> {
    fn room_for(&self, debt: &Debt) -> Option<Room> {
        let places = if debt.is_unwanted() { &self.0.unwanted } else { &self.0.room };
        let place = places.clone().try_acquire_owned().ok()?;
        Some((place, self.0.memory.clone().try_acquire_many_owned(debt.kibibytes()).ok()?))
    }
}

impl<L> Clone for Owed<L> {
    fn clone(&self) -> Self {
        Owed(self.0.clone())
    }
}

fn start<L: Ledger>(ledger: L, contradicted: Contradicted) -> Option<mpsc::UnboundedSender<Taken>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
    let thread = std::thread::Builder::new().name("hapax-owed".into());
    thread.spawn(move || runtime.block_on(deliver_all(ledger, contradicted, receiver))).ok()?;
    Some(sender)
}

/// Ends when the executor is gone and every debt is paid, given up, or left to the next start.
async fn deliver_all<L: Ledger>(
    ledger: L,
    contradicted: Contradicted,
    mut debts: mpsc::UnboundedReceiver<Taken>,
) {
    let mut deliveries = tokio::task::JoinSet::new();
    while let Some((debt, counted)) = debts.recv().await {
        while deliveries.try_join_next().is_some() {}
        let delivery = deliver(ledger.clone(), contradicted.clone(), debt);
        deliveries.spawn(async move {
            delivery.await;
            drop(counted);
        });
    }
    let rest = async { while deliveries.join_next().await.is_some() {} };
    if timeout(limits::OWED_FOR, rest).await.is_err() {
        let outcomes = deliveries.len();
        tracing::error!(
            outcomes,
            "the executor is gone: outcomes are left in the spool until the next start"
        );
    }
}

/// Tries until the ledger has heard it, or until it is given up. What lies in the spool never is (L13, L15).
async fn deliver<L: Ledger>(ledger: L, contradicted: Contradicted, mut debt: Debt) {
    let (since, mut damaged) = (clock::now(), None);
    let (mut backoff, mut longest) = (Backoff::default(), limits::OWED_PAUSE.1);
    let ending = loop {
        let error = match pay(&ledger, &mut debt).await {
            Ok(ending) => break ending,
            Err(error) => error,
        };
        if !debt.is_spooled() && since.elapsed() >= limits::OWED_FOR {
            return debt.give_up(&error);
        }
        // The claim may be damaged for good, and every caller who retries owes one more. Any other answer may pass.
        damaged = (error.kind() == Kind::Corrupt).then(|| damaged.unwrap_or_else(clock::now));
        if debt.is_unwanted() && damaged.is_some_and(|since| since.elapsed() >= limits::UNWANTED_DAMAGED_FOR)
        {
            return debt.give_up(&error);
        }
        let pause = backoff.pause((limits::OWED_PAUSE.0, longest));
        // As long as this process lives, its lease does not lapse by itself: also what is refused is tried again.
        if error.kind() != Kind::Unavailable && !debt.is_unwanted() && longest != limits::OWED_PAUSE_FAULTY {
            let claim = debt.claim();
            tracing::error!(%claim, %error, "the ledger is there and cannot take a report: it is tried again");
            longest = limits::OWED_PAUSE_FAULTY;
        }
        sleep(pause).await;
    };
    if let (Debt::Report { claim, epoch, report: Report::Settle(outcome, _), .. }, Some(ending)) =
        (&debt, ending)
    {
        contradicted.heard(&ledger, (*claim, *epoch), outcome, &ending).await;
    }
}

/// Gives how a report ended.
async fn pay<L: Ledger>(ledger: &L, debt: &mut Debt) -> Result<Option<Ending>, Error> {
    if let Debt::Abandon(request) = debt {
        // Asking again with the same attempt finds out whether the first command arrived. If it is granted now, it is given
        // back, and the tombstone keeps a straggling first command from being granted to nobody.
        let claim = request.identity.claim_id();
        let verdict = ledger.claim(request.clone()).await?;
        let (paid, grant) = match verdict {
            Verdict::Granted(grant) => (Paid::Granted, Some(grant)),
            _ => (Paid::Heard, None),
        };
        // From here on there is a lease, and its end is owed like any other's.
        let (turn::Debt::NotRun, Some(grant)) = (turn::Debt::Abandon.on(paid), grant) else {
            return Ok(None);
        };
        let report = Report::Release(Ran::No);
        *debt = Debt::Report { claim, epoch: grant.epoch, report, events: Vec::new(), spooled: None };
    }
    let Debt::Report { claim, epoch, report, events, spooled } = debt else { return Ok(None) };
    let of = (*claim, *epoch);
    let Some(entry) = spooled else { return tell(ledger, of, report, events).await.map(Some) };
    let (ending, settled) = spool::settle(ledger, of, report, events).await?;
    entry.heard(settled);
    Ok(Some(ending))
}

/// Reports, with the events that belong to it. Where the journal has moved on without them, the report is true all the same, and
/// is told without them.
pub(crate) async fn tell<L: Ledger>(
    ledger: &L,
    (claim, epoch): (ClaimId, Epoch),
    report: &Report,
    events: &mut Vec<Append>,
) -> Result<Ending, Error> {
    let told = ledger.report(claim, epoch, report.clone(), events.clone()).await;
    if events.is_empty() || !told.as_ref().is_err_and(may_be_about_events) {
        return told;
    }
    events.clear();
    ledger.report(claim, epoch, report.clone(), Vec::new()).await
}

/// Whether a report may have been refused for its events. What is true is then told without them: a stream that has moved on, has another
/// runner or cannot be read must not keep an outcome from the ledger (L18).
pub(crate) fn may_be_about_events(error: &Error) -> bool {
    matches!(error.kind(), Kind::Conflict | Kind::Fenced | Kind::Invalid | Kind::Corrupt)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hapax_core::{Fingerprint, Identity, Key, Operation, Outcome, Retention, Scope, Source, View, Width};
    use hapax_store::Options;
    use hapax_store::memory::Memory;
    use hapax_testkit::faulty::Faulty;
    use hapax_testkit::lines::Lines;
    use tokio::time::Instant;

    use super::*;
    use crate::spool::Spool;

    fn request(key: &str) -> ClaimRequest {
        let (operation, key) = (Operation::new("charge").unwrap(), Key::new(key).unwrap());
        let identity = Identity::new(Source::Derived, Scope::local(), Width::Subject, operation, key);
        ClaimRequest::new(identity, Fingerprint::of_bytes(b"10 EUR"))
    }

    /// A ledger that goes away after it has granted a claim, and the settle that it must still hear.
    async fn owing() -> (Faulty<Memory>, ClaimId, Epoch, Report) {
        let ledger = Faulty::new(Memory::open(Options::default()));
        let request = request("order-42");
        let claim = request.identity.claim_id();
        let Verdict::Granted(grant) = ledger.claim(request).await.unwrap() else {
            panic!("expected a grant")
        };
        ledger.set_away(true);
        let outcome = Outcome::Succeeded("paid".into());
        (ledger, claim, grant.epoch, Report::Settle(outcome, Retention::Forever))
    }

    async fn keep(spool: &Spool, claim: ClaimId, epoch: Epoch, report: &Report) -> Arc<Entry> {
        let Report::Settle(outcome, retention) = report else { panic!("not a settle") };
        let entry = spool.reserve(claim, epoch, outcome, *retention, &[]).unwrap();
        entry.clone().write().await.unwrap();
        entry
    }

    const DAYS: Duration = Duration::from_secs(3 * 24 * 60 * 60);

    #[tokio::test(start_paused = true)]
    async fn a_spooled_outcome_is_delivered_after_days_without_the_ledger_l13_l15() {
        let (lines, _guard) = Lines::listen();
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        let (ledger, claim, epoch, report) = owing().await;
        let spooled = Some(keep(&spool, claim, epoch, &report).await);
        let debt = Debt::Report { claim, epoch, report, events: Vec::new(), spooled };
        let delivery = tokio::spawn(deliver(ledger.clone(), Contradicted::default(), debt));
        sleep(DAYS).await;
        assert!(!delivery.is_finished(), "it was given up");
        let tried = ledger.reports();
        ledger.set_away(false);
        delivery.await.unwrap();
        assert!(matches!(ledger.peek(claim).await, Ok(Some(View::Settled(_)))));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the spool is empty");
        assert!(tried as u64 <= DAYS.as_secs() / limits::OWED_PAUSE.1.as_secs() + 10, "pauses grow: {tried}");
        let told = lines.told();
        assert!(told.contains("INFO") && told.contains("delivered late"), "{told}");
        assert!(told.contains(&claim.to_string()) && !told.contains("order-42"), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_outcome_in_memory_alone_is_given_up_at_the_bound_and_somebody_is_told_l13() {
        let (lines, _guard) = Lines::listen();
        let (ledger, claim, epoch, report) = owing().await;
        let debt = Debt::Report { claim, epoch, report, events: Vec::new(), spooled: None };
        let since = Instant::now();
        deliver(ledger, Contradicted::default(), debt).await;
        assert!(since.elapsed() >= limits::OWED_FOR && since.elapsed() < 2 * limits::OWED_FOR);
        let told = lines.told();
        assert!(told.contains("ERROR") && told.contains("was given up"), "{told}");
        assert!(told.contains(&claim.to_string()) && !told.contains("order-42"), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_spooled_is_left_to_the_next_start_when_the_executor_is_long_gone_l15() {
        let (lines, _guard) = Lines::listen();
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        let (ledger, claim, epoch, report) = owing().await;
        let spooled = Some(keep(&spool, claim, epoch, &report).await);
        let (sender, receiver) = mpsc::unbounded_channel();
        let counted = Counted::new(&Arc::default(), None);
        sender.send((Debt::Report { claim, epoch, report, events: Vec::new(), spooled }, counted)).unwrap();
        drop(sender);
        deliver_all(ledger.clone(), Contradicted::default(), receiver).await;
        assert!(lines.told().contains("left in the spool until the next start"), "{}", lines.told());
        ledger.set_away(false);
        spool.settle_all(&ledger, &Contradicted::default()).await.unwrap();
        assert!(matches!(ledger.peek(claim).await, Ok(Some(View::Settled(_)))));
    }

    #[tokio::test]
    async fn debts_beyond_the_bound_are_given_up_aloud_but_not_those_in_the_spool_l13_l15() {
        let (lines, _guard) = Lines::listen();
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        let (ledger, claim, epoch, report) = owing().await;
        let owed = Owed::new(ledger.clone(), Contradicted::default());
        let all = owed.0.room.clone().try_acquire_many_owned(limits::OWED as u32).unwrap();
        owed.owe(Debt::Report {
            claim,
            epoch,
            report: Report::Release(Ran::No),
            events: Vec::new(),
            spooled: None,
        });
        assert!(lines.told().contains("too many reports"), "{}", lines.told());
        let spooled = Some(keep(&spool, claim, epoch, &report).await);
        owed.owe(Debt::Report { claim, epoch, report, events: Vec::new(), spooled });
        ledger.set_away(false);
        while !matches!(ledger.peek(claim).await, Ok(Some(View::Settled(_)))) {
            sleep(Duration::from_millis(5)).await;
        }
        drop(all);
        assert_eq!(owed.0.room.available_permits(), limits::OWED, "what is spooled takes no room in memory");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_cannot_be_read_is_not_asked_about_for_long_l13() {
        let (lines, _guard) = Lines::listen();
        let ledger = Faulty::new(Memory::open(Options::default()));
        let request = request("order-42");
        let claim = request.identity.claim_id();
        ledger.damage(Some(claim));
        let since = Instant::now();
        deliver(ledger.clone(), Contradicted::default(), Debt::Abandon(request)).await;
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
        assert!(ledger.claims() > 3, "what is wrong may pass: {}", ledger.claims());
        let told = lines.told();
        assert!(told.contains("was given up") && told.contains(&claim.to_string()), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_the_ledger_refuses_for_minutes_is_still_asked_about_l13() {
        let ledger = Faulty::new(Memory::open(Options::default()));
        let request = request("order-42");
        let claim = request.identity.claim_id();
        ledger.refuse_claims(100);
        let since = Instant::now();
        deliver(ledger.clone(), Contradicted::default(), Debt::Abandon(request)).await;
        assert!(since.elapsed() > Duration::from_secs(60), "{:?}", since.elapsed());
        assert!(matches!(ledger.peek(claim).await, Ok(Some(View::Released { .. }))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_between_two_bad_answers_about_a_claim_does_not_count_as_one_long_fault_l13() {
        let ledger = Faulty::new(Memory::open(Options::default()));
        let request = request("order-42");
        let claim = request.identity.claim_id();
        ledger.damage(Some(claim));
        let delivery = tokio::spawn(deliver(ledger.clone(), Contradicted::default(), Debt::Abandon(request)));
        let asked = async |times: usize| {
            let enough = ledger.claims() + times;
            while ledger.claims() < enough {
                sleep(Duration::from_millis(1)).await;
            }
        };
        asked(1).await;
        ledger.set_away(true);
        sleep(Duration::from_secs(60)).await;
        ledger.set_away(false);
        asked(1).await;
        ledger.damage(None);
        delivery.await.unwrap();
        assert!(matches!(ledger.peek(claim).await, Ok(Some(View::Released { .. }))), "it was given up");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_granted_to_nobody_is_given_back_although_that_is_refused_for_minutes_l13() {
        let ledger = Faulty::new(Memory::open(Options::default()));
        let request = request("order-42");
        let claim = request.identity.claim_id();
        ledger.refuse_reports(12);
        let since = Instant::now();
        deliver(ledger.clone(), Contradicted::default(), Debt::Abandon(request)).await;
        assert!(since.elapsed() > Duration::from_secs(60), "{:?}", since.elapsed());
        assert!(matches!(ledger.peek(claim).await, Ok(Some(View::Released { .. }))));
    }

    #[tokio::test]
    async fn claims_that_nobody_wants_take_no_room_from_reports_l13() {
        let (lines, _guard) = Lines::listen();
        let (ledger, claim, epoch, report) = owing().await;
        let owed = Owed::new(ledger.clone(), Contradicted::default());
        // One caller who tries again and again while the ledger is away does that.
        for _ in 0..limits::OWED {
            owed.owe(Debt::Abandon(request("again and again")));
        }
        let before = lines.told();
        owed.owe(Debt::Report { claim, epoch, report, events: Vec::new(), spooled: None });
        assert_eq!(lines.told().replace(&before, ""), "", "there is room for it");
        ledger.set_away(false);
        while !matches!(ledger.peek(claim).await, Ok(Some(View::Settled(_)))) {
            sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn what_is_owed_takes_no_more_memory_than_is_said_l13() {
        let (lines, _guard) = Lines::listen();
        let (ledger, claim, epoch, _) = owing().await;
        let owed = Owed::new(ledger.clone(), Contradicted::default());
        // They share their bytes here; those of real calls do not.
        let answer = Bytes::from(vec![0; limits::OWED_KIB * 1024 / 4]);
        let owe = || {
            let report = Report::Settle(Outcome::Succeeded(answer.clone()), Retention::Forever);
            owed.owe(Debt::Report { claim, epoch, report, events: Vec::new(), spooled: None });
        };
        (0..4).for_each(|_| owe());
        assert_eq!(lines.told(), "", "there is room for these");
        owe();
        assert!(lines.told().contains("too many reports"), "{}", lines.told());
        // What takes no memory is still told.
        owed.owe(Debt::Abandon(request("another")));
        ledger.set_away(false);
        timeout(Duration::from_secs(30), owed.paid()).await.unwrap();
        owe();
        assert_eq!(lines.told().matches("too many reports").count(), 1, "what is paid makes room again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_spooled_outcome_that_is_refused_after_the_start_is_set_aside_l15() {
        let (lines, _guard) = Lines::listen();
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        let (_theirs, claim, epoch, report) = owing().await;
        keep(&spool, claim, epoch, &report).await;
        // Another ledger, which knows nothing of the claim, and says so at the second time.
        let other = Faulty::new(Memory::open(Options::default()));
        other.refuse_reports(1);
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        for debt in spool.settle_all(&other, &Contradicted::default()).await.unwrap() {
            deliver(other.clone(), Contradicted::default(), debt).await;
        }
        assert_eq!(other.reports(), 2);
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(left.len() == 1 && left[0].extension().is_some_and(|is| is == "refused"), "{left:?}");
        assert!(lines.told().contains("set aside as .refused"), "{}", lines.told());
    }
}
