//! What callers and the log are told when somebody is late: the ledger, or a service that is asked about an earlier attempt (H2, H5).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Executed, Key, LeafKey, Rerun, Scope, Width};
use hapax_exec::{Attempt, Executor, How};
use hapax_store::{Options, memory::Memory};
use hapax_testkit::faulty::Faulty;
use hapax_tower::answer::IDEMPOTENCY_KEY;
use hapax_tower::{
    Answered, Cause, Claimant, Code, EarlierAttempt, Event, KeyedRequest, Message, Protect, Question, Rule,
    SendError, Wait, WireKey, Work,
};
use http::{HeaderMap, Method, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How long a call may take in these tests.
const GIVE_UP: Duration = Duration::from_secs(1);

fn protect() -> (Protect<Faulty<Memory>>, Faulty<Memory>) {
    let ledger = Faulty::new(Memory::open(Options::default()));
    (Protect::new(Executor::new(ledger.clone()), LeafKey::new([7; 32])), ledger)
}

fn rule() -> Rule {
    Rule::new("charges.create").unwrap()
}

/// The same for a call that may take long.
fn in_peace(limited: Rule) -> Rule {
    Rule { give_up: rule().give_up, ..limited }
}

fn request(rule: Rule) -> Arc<KeyedRequest> {
    let message = Message::new(Method::POST, Uri::from_static("/charges"), HeaderMap::new(), Bytes::new());
    let wire_key = Some(WireKey::in_header(IDEMPOTENCY_KEY, Key::new("k").unwrap()));
    let fingerprint = message.fingerprint(&rule.recipe, rule.max_request_body);
    let claimant =
        Claimant::new(Scope::local(), Width::Subject, rule.source(), wire_key.as_ref(), &fingerprint);
    Arc::new(KeyedRequest {
        identity: claimant.under(&rule),
        wire_key,
        fingerprint,
        rule: Arc::new(rule),
        message,
        wait: Wait::default(),
    })
}

/// A service that charges, and counts how often it was asked to.
struct Charging {
    charges: Arc<AtomicUsize>,
    /// How long it takes to say that an earlier attempt was not made; `None` where it cannot be asked.
    says_never_after: Option<Duration>,
}

impl Work for Charging {
    type Body = Full<Bytes>;

    fn question(&self, _: &Arc<KeyedRequest>) -> Option<Question> {
        let pause = self.says_never_after?;
        Some(Box::new(move |_| {
            Box::pin(async move {
                tokio::time::sleep(pause).await;
                EarlierAttempt::Never
            })
        }))
    }

    async fn send(self, _: Arc<KeyedRequest>, _: Attempt) -> Result<Response<Full<Bytes>>, SendError> {
        self.charges.fetch_add(1, SeqCst);
        Ok(Response::builder().status(201).body(Full::from("charged")).unwrap())
    }
}

/// A service that breaks off.
struct Breaking;

impl Work for Breaking {
    type Body = Full<Bytes>;

    async fn send(self, _: Arc<KeyedRequest>, _: Attempt) -> Result<Response<Full<Bytes>>, SendError> {
        Err(SendError { executed: Executed::Unknown, cause: "it broke off".into() })
    }
}

/// Asks for a charge; how often the service was asked for one is counted.
async fn charge(
    protect: &Protect<Faulty<Memory>>,
    rule: Rule,
    says_never_after: Option<Duration>,
    charges: &Arc<AtomicUsize>,
) -> Answered<Full<Bytes>> {
    let work = Charging { charges: Arc::clone(charges), says_never_after };
    protect.run(request(rule), work, (), ()).await
}

/// Leaves an attempt behind of which nobody knows whether it was done.
async fn break_off(protect: &Protect<Faulty<Memory>>, rule: Rule) {
    let answered = protect.run(request(rule), Breaking, (), ()).await;
    assert!(matches!(answered.cause, Some(Cause::Service(_))), "{:?}", answered.cause);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_has_answered_is_never_said_to_be_late_however_late_the_ledger_is_h5() {
    let ((protect, ledger), charges) = (protect(), Arc::default());
    let (let_go, held) = oneshot::channel::<()>();
    ledger.before_next_report(|| async { drop(held.await) });
    let began = Instant::now();
    let first = charge(&protect, rule(), None, &charges).await;
    assert!(began.elapsed() > rule().timeout, "the ledger is waited for");
    assert_eq!((first.event, first.response.status().as_u16()), (Event::Problem(Code::InProgress), 409));
    assert!(first.response.headers().contains_key("retry-after") && first.operation_id.is_some());
    let Some(Cause::Other(cause)) = first.cause else { panic!("the service is blamed: {:?}", first.cause) };
    assert!(cause.contains("ledger"), "{cause}");
    let told = first.response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&told).contains(r#""executed":"yes""#), "it has answered 201: {told:?}");
    drop(let_go);
    let again = charge(&protect, rule(), None, &charges).await;
    assert!(matches!(again.event, Event::Outcome(How::Attached | How::Replayed)), "{:?}", again.event);
    assert_eq!((again.response.status().as_u16(), charges.load(SeqCst)), (201, 1));
}

#[tokio::test(start_paused = true)]
async fn of_work_that_broke_off_it_is_not_said_that_it_was_answered_e6_h5() {
    let (protect, ledger) = protect();
    let (let_go, held) = oneshot::channel::<()>();
    ledger.before_next_report(|| async { drop(held.await) });
    let first = protect.run(request(rule()), Breaking, (), ()).await;
    assert_eq!(first.event, Event::Problem(Code::UpstreamTimeout));
    assert!(matches!(first.cause, Some(Cause::Other(_))), "the ledger is what is late: {:?}", first.cause);
    let told = first.response.into_body().collect().await.unwrap().to_bytes();
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains(r#""executed":"unknown""#) && told.contains("broke off"), "{told}");
    drop(let_go);
}

#[tokio::test]
async fn a_service_that_was_not_asked_is_not_blamed_where_an_earlier_attempt_may_have_run_l14() {
    let ((protect, ledger), charges) = (protect(), Arc::default());
    let rule = Rule { rerun: Rerun::Safe, give_up: GIVE_UP, ..rule() };
    break_off(&protect, rule.clone()).await;
    ledger.after_next_claim(|| tokio::time::sleep(2 * GIVE_UP));
    let late = charge(&protect, rule.clone(), None, &charges).await;
    assert_eq!(late.event, Event::Problem(Code::LedgerUnavailable));
    assert!(matches!(late.cause, Some(Cause::Other(_))), "the service is blamed: {:?}", late.cause);
    let problem = late.response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&problem).contains(r#""executed":"unknown""#), "{problem:?}");
    assert_eq!(charges.load(SeqCst), 0);
    let again = charge(&protect, in_peace(rule), None, &charges).await;
    assert_eq!((again.response.status().as_u16(), charges.load(SeqCst)), (201, 1), "the key is free");
}

#[tokio::test]
async fn a_service_that_takes_the_time_of_a_call_to_say_what_happened_is_not_a_late_ledger_l6_l14() {
    for (slow_service, code) in [(true, Code::AttemptFailed), (false, Code::LedgerUnavailable)] {
        let ((protect, ledger), charges) = (protect(), Arc::default());
        let rule = Rule { rerun: Rerun::Ask, give_up: GIVE_UP, ..rule() };
        break_off(&protect, rule.clone()).await;
        let pause = if slow_service { 2 * GIVE_UP } else { Duration::ZERO };
        if !slow_service {
            ledger.after_next_claim(|| tokio::time::sleep(2 * GIVE_UP));
        }
        let late = charge(&protect, rule.clone(), Some(pause), &charges).await;
        assert_eq!((late.event, late.response.status().as_u16()), (Event::Problem(code), 503));
        let blamed = matches!(late.cause, Some(Cause::Service(_)));
        assert_eq!(blamed, slow_service, "{:?}", late.cause);
        let problem = late.response.into_body().collect().await.unwrap().to_bytes();
        let said = String::from_utf8_lossy(&problem).contains(r#""executed":"no""#);
        assert!(said, "it was cleared, and did not begin: {problem:?}");
        assert_eq!(charges.load(SeqCst), 0);
        let again = charge(&protect, in_peace(rule), Some(Duration::ZERO), &charges).await;
        assert_eq!((again.response.status().as_u16(), charges.load(SeqCst)), (201, 1), "the key is free");
    }
}
