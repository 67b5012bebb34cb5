//! One request under a key, read from top to bottom: run once, keep, answer.
//!
//! An intake has read the request and knows its identity. [`Work`] hands it to the service behind and returns its answer. What
//! is claimed, waited for, settled or left in doubt is decided by the steps of [`Executor::once`]; which status a caller
//! without an answer gets is decided by [`Problem`].

mod stated;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hapax_core::claim::{DoubtEnds, DoubtThen};
use hapax_core::{
    Advice, ClaimId, Doubt, Executed, Identity, LazyLeaves, LeafKey, Leaves, Ledger, OperationId, Outcome,
    RequestParts, Rerun, Timestamp, Width,
};
use hapax_exec::{
    Attach, Begun, Call, Done, Ended, Entered, Executor, Held, How, Mismatch, Reason, Reconciled, Running,
    Seal,
};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Method, Response, StatusCode};
use httpdate::HttpDate;

use crate::answer::{self, Answer, DERIVED, EXPIRES, REPLAYED};
use crate::body::Body;
use crate::clock;
use crate::detach::{Attended, Calls, Recorded};
use crate::limits;
use crate::problem::{Cause, Code, OPERATION_ID, Problem, executed};
use crate::public_id::PublicId;
use crate::request::{KeyedRequest, Message};
use crate::rule::Rule;
use crate::take::{First, Room, known, take};
use crate::work::{EarlierAttempt, Question, SendError, Work};

/// Protects requests. Cheap to clone.
pub struct Protect<L> {
    executor: Arc<Executor<L>>,
    shared: Arc<Shared>,
}

struct Shared {
    leaf_key: Arc<LeafKey>,
    seal: Option<Arc<Seal>>,
    docs: String,
    calls: Calls,
}

impl Shared {
    /// What seals the outcome of this claim, if outcomes are sealed (B9).
    fn sealing(&self, claim: ClaimId) -> Option<(&Seal, ClaimId)> {
        self.seal.as_deref().map(|seal| (seal, claim))
    }
}

/// The caller of a request, as far as its answer goes by it, whatever becomes of the request.
struct Addressee {
    identity: Identity,
    rule: Arc<Rule>,
    method: Method,
    /// Where it fetches its outcome, if it does not wait for it (H6).
    fetches_at: Option<Arc<str>>,
    /// Whether it sent no key, and what it asks is the key (H9).
    derived: bool,
}

impl Addressee {
    fn of(request: &KeyedRequest) -> Self {
        Addressee {
            identity: request.identity.clone(),
            rule: request.rule.clone(),
            method: request.message.method.clone(),
            fetches_at: request.wait.fetches_at.clone(),
            derived: request.wire_key.is_none(),
        }
    }
}

/// How a caller came by its answer, for logs and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is an outcome.
    Outcome(How),
    /// The answer of the service was passed on, and the key is free again.
    Released,
    /// The call goes on; its outcome is to be fetched later.
    Async,
    /// There is none.
    Problem(Code),
}

/// An answer, and how the caller came by it.
pub struct Answered<B> {
    /// The answer.
    pub response: Response<Body<B>>,
    /// How the caller came by it.
    pub event: Event,
    /// The operation.
    pub operation_id: Option<PublicId>,
    /// Why there is no answer of the service, for the log.
    pub cause: Option<Cause>,
}

impl<L: Ledger> Protect<L> {
    /// Protects with the claims of this executor. `leaf_key` is the secret of this installation that explains mismatches.
    pub fn new(executor: Executor<L>, leaf_key: LeafKey) -> Self {
        let shared = Shared {
            leaf_key: Arc::new(leaf_key),
            seal: None,
            docs: crate::problem::DOCS.into(),
            calls: Calls::default(),
        };
        Protect { executor: Arc::new(executor), shared: Arc::new(shared) }
    }

    /// Keeps outcomes sealed (B9).
    #[must_use]
    pub fn sealed(self, seal: Option<Arc<Seal>>) -> Self {
        self.with(|shared| shared.seal = seal)
    }

    /// Where the pages about problem codes are.
    #[must_use]
    pub fn docs(self, docs: impl Into<String>) -> Self {
        self.with(|shared| shared.docs = docs.into())
    }

    /// Counts its calls together with those of others.
    #[must_use]
    pub fn counting(self, calls: Calls) -> Self {
        self.with(|shared| shared.calls = calls)
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = Shared {
            leaf_key: self.shared.leaf_key.clone(),
            seal: self.shared.seal.clone(),
            docs: self.shared.docs.clone(),
            calls: self.shared.calls.clone(),
        };
        change(&mut shared);
        Protect { executor: self.executor, shared: Arc::new(shared) }
    }

    /// What outcomes are sealed with.
    pub fn seal(&self) -> Option<&Arc<Seal>> {
        self.shared.seal.as_ref()
    }

    /// The executor it runs on.
    pub fn executor(&self) -> &Executor<L> {
        &self.executor
    }

    /// A short keyed digest of a caller's key, for logs (O2).
    pub fn log_digest(&self, tenant: &str, key: &str) -> String {
        self.shared.leaf_key.log_digest(tenant, key)
    }

    /// The calls that go on without a caller.
    pub fn calls(&self) -> &Calls {
        &self.shared.calls
    }

    /// Whether a key was used for one of these methods on this path with this query, or for nothing, as far as its claim says (H7). What is
    /// not there takes as many reads as what is elsewhere.
    pub async fn is_to(
        &self,
        identity: &Identity,
        methods: &[Method],
        path: &str,
        query: &str,
    ) -> Result<bool, Problem> {
        let unavailable = |error| Problem::from(&hapax_exec::Error::from(error));
        let asked = self.executor.ledger().asked(identity.claim_id()).await.map_err(unavailable)?;
        let is_to = |leaves: &Leaves, method: &Method| {
            let request = RequestParts { method: method.as_str(), path, query, ..RequestParts::default() };
            leaves.is_to(&request, &self.shared.leaf_key)
        };
        Ok(asked.is_none_or(|leaves| methods.iter().any(|method| is_to(&leaves, method))))
    }

    /// Answers one request. Its work is done at most once, under the lease. Whatever `room` is, it is let go when the work has
    /// come to its end or will not be done by this call; `alive`, when the whole call is over. Both with or without a caller.
    ///
    /// Dropped before the work has begun, the call is cancelled; dropped later, it goes on (H5).
    pub async fn run<W, G, A>(
        &self,
        request: Arc<KeyedRequest>,
        work: W,
        room: G,
        alive: A,
    ) -> Answered<W::Body>
    where
        W: Work,
        G: Room + Send + 'static,
        A: Send + 'static,
    {
        let addressee = Addressee::of(&request);
        let question = work.question(&request);
        let call = self.call(&request, work.pauses(), question.is_some());
        // What only the work needs: a caller that waits for another one's outcome lets go of it (L9).
        let mut answered = match self.executor.enter(call, (request, work, question, room)).await {
            Ok(Entered::Held(held, (request, work, question, room))) => {
                match self.begin(held, question, &addressee).await {
                    Ok(Begun::Running(running)) => {
                        self.carry_out(running, &addressee, request, work, room, alive).await
                    }
                    Ok(Begun::Done(done)) => self.replay(&addressee.identity, &addressee.method, &done),
                    Err(error) => self.explain(&addressee, None, &error, None),
                }
            }
            Ok(Entered::Done(done)) => self.replay(&addressee.identity, &addressee.method, &done),
            Ok(Entered::Unkeyed(_)) => {
                self.problem(Problem::new(Code::Internal).owing_to("a request without a key was protected"))
            }
            Ok(Entered::Differs(error, (request, ..))) => {
                self.explain(&addressee, Some(&request.message), &error, None)
            }
            Err(error) => match (&addressee.fetches_at, error.reason(), error.operation_id()) {
                (Some(prefix), Reason::InProgress, Some(id)) => self.accepted(Some(id), prefix),
                _ => self.explain(&addressee, None, &error, None),
            },
        };
        if addressee.derived {
            answered.response.headers_mut().insert(DERIVED, HeaderValue::from_static("true"));
        }
        answered
    }

    /// The work is this call's to do, unless the service knows that an earlier attempt did it (L6), or it is too late. Dropped
    /// meanwhile, the claim is given back.
    fn begin(
        &self,
        held: Held<L>,
        question: Option<Question>,
        addressee: &Addressee,
    ) -> impl Future<Output = Result<Begun<L>, hapax_exec::Error>> + Send {
        let ask = move |attempt| async move {
            let Some(question) = question else { return Reconciled::Unknown };
            let answer = match question(attempt).await {
                EarlierAttempt::Happened(answer) => answer.map(Some),
                EarlierAttempt::HappenedAtLength(head) => head.map(|()| None),
                EarlierAttempt::Never => return Reconciled::Never,
                EarlierAttempt::Unknown => return Reconciled::Unknown,
            };
            let sealing = self.shared.sealing(addressee.identity.claim_id());
            Reconciled::Happened(known(answer, Outcome::Succeeded, &addressee.rule, sealing))
        };
        held.begin(ask)
    }

    /// The work begins: hands the request on, keeps the answer, and answers with it.
    async fn carry_out<W, G, A>(
        &self,
        running: Running<L>,
        addressee: &Addressee,
        request: Arc<KeyedRequest>,
        work: W,
        room: G,
        alive: A,
    ) -> Answered<W::Body>
    where
        W: Work,
        G: Room + Send + 'static,
        A: Send + 'static,
    {
        let Addressee { rule, fetches_at, .. } = addressee;
        let attempt = running.attempt();
        let (about, calls) = (attempt.operation_id, self.shared.calls.clone());
        let not_yet = running.not_yet(None);
        let working = {
            let (shared, claim) = (self.shared.clone(), addressee.identity.claim_id());
            let (rule, method) = (rule.clone(), addressee.method.clone());
            async move {
                let mut first = None;
                let ended = running.run(async {
                    let (mut room, pauses) = (room, work.pauses());
                    room.begin();
                    if rule.rerun == Rerun::Safe && !pauses {
                        room.end();
                    }
                    let ended = match work.send(request, attempt).await {
                        Ok(response) => {
                            let sealing = shared.sealing(claim);
                            let taken = take(response, &method, &rule, pauses, sealing, &mut room).await;
                            first = taken.1;
                            taken.0
                        }
                        Err(error) if pauses => Ended::Doubt(Doubt::Paused, error.cause),
                        Err(SendError { executed: Executed::No, cause, .. }) => Ended::NotRun(cause),
                        Err(SendError { cause, .. }) => Ended::Unknown(cause),
                    };
                    let is_free = rule.rerun == Rerun::Safe && matches!(ended, Ended::Unknown(_));
                    if is_free || matches!(ended, Ended::Settled(_) | Ended::NotRun(_)) {
                        room.end();
                    }
                    ended
                });
                let concluded = running.judged(ended.await);
                let not_yet = running.not_yet(Some(&concluded));
                let recording = async move {
                    let done = running.conclude(concluded).await;
                    drop(alive);
                    (done, first)
                };
                (not_yet, recording)
            }
        };
        let attended = Attended::new(working, calls);
        match wait(attended, rule.timeout, fetches_at.as_deref()).await {
            Waited::Done((Ok(done), first)) => self.hand_out(addressee, done, first),
            Waited::Done((Err(error), first)) => self.explain(addressee, None, &error, first),
            Waited::TooLong => self.problem(
                Problem::advised(not_yet)
                    .about(about)
                    .retry_after(limits::RETRY_AFTER)
                    .because(format!("no answer within {:?}", rule.timeout)),
            ),
            Waited::Unrecorded(not_yet) => self.problem(Problem::not_recorded_yet(not_yet, about)),
            Waited::Early(prefix) => self.accepted(about, prefix),
        }
    }

    /// What `once` is asked to do.
    fn call(&self, request: &Arc<KeyedRequest>, pauses: bool, asks: bool) -> Call {
        let KeyedRequest { identity, rule, wait, .. } = &**request;
        let attach = match (rule.attach, wait.at_most) {
            // A caller that fetches the outcome later does not wait for it (H6).
            _ if wait.fetches_at.is_some() => Attach::Reject,
            (Attach::Wait(bound), Some(wanted)) => Attach::Wait(bound.min(wanted)),
            (attach, _) => attach,
        };
        let mut call = Call::of(identity.clone())
            .fingerprint(request.fingerprint)
            .ask_within(rule.timeout)
            // Where the service can be asked whether an earlier attempt happened, it is (L6).
            .rerun(if asks { Rerun::Ask } else { rule.rerun })
            .quiet(rule.quiet)
            .max_run(rule.max_run)
            .give_up(rule.give_up)
            .retention(rule.retention_of(identity.source()))
            .attach(attach)
            .leaves(LazyLeaves::of(request.clone(), self.shared.leaf_key.clone()));
        if let Some(ends) = rule.doubt {
            call = call.doubt_ends(ends);
        }
        // What is asked is the key only for a while, also for a doubt (H9).
        if let (None, Some(window)) = (&request.wire_key, rule.derived) {
            call = call.doubt_ends(DoubtEnds { after: window, then: DoubtThen::Forget });
        }
        if pauses {
            call = call.given_up_as(Doubt::Paused);
        }
        call.rehash(request.clone())
    }

    /// There is an outcome: the first caller gets its answer as it came, everybody else what is kept.
    fn hand_out<B>(&self, addressee: &Addressee, done: Done, first: Option<First<B>>) -> Answered<B> {
        let identity = &addressee.identity;
        let is_kept = |kept: &Outcome| kept == &done.value || self.says_the_same(identity, kept, &done.value);
        let own = first.filter(|first| done.how == How::Executed && first.kept.as_ref().is_some_and(is_kept));
        let Some(mut first) = own else { return self.replay(identity, &addressee.method, &done) };
        stamp(first.response.headers_mut(), done.operation_id, done.keep_until);
        Answered {
            response: first.response,
            event: Event::Outcome(done.how),
            operation_id: done.operation_id.map(PublicId::from),
            cause: None,
        }
    }

    /// What is kept, as an answer to a request with this method. Also for callers who ask for it by name (H7).
    pub fn replay<B>(&self, identity: &Identity, method: &Method, done: &Done) -> Answered<B> {
        // There are no bytes, but the key is used up until a time all the same.
        let not_kept = |problem: Problem| {
            let mut answered = self.problem(problem.about(done.operation_id));
            stamp(answered.response.headers_mut(), done.operation_id, done.keep_until);
            answered
        };
        let problem = Problem::new(Code::OutcomeNotKept);
        let kept = match &done.value {
            Outcome::Succeeded(bytes) | Outcome::Refused(bytes) => bytes,
            Outcome::NotKept { status } => {
                let problem = problem.with("executed", executed(done.executed));
                return not_kept(problem.with("first_status", *status));
            }
            Outcome::Erased => {
                let problem = problem.with("executed", executed(done.executed));
                return not_kept(problem.detail("the answer was kept and has been erased"));
            }
        };
        let answer = match self.opened(identity, kept).and_then(|kept| Answer::decode(&kept)) {
            Ok(answer) => answer,
            Err(error) => {
                let problem = Problem::new(Code::Internal).detail(error.message());
                return self.problem(problem.about(done.operation_id).owing_to(format!("{error:#}")));
            }
        };
        let body = answer.body.unwrap_or_default();
        let length = body.len();
        let mut response = Response::new(Body::whole(body));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        let headers = response.headers_mut();
        // What a handler settled by itself may be other than what it answered; its caller is the first one all the same.
        if done.how != How::Executed {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        // What a `HEAD` left behind says how long a body is that nobody has.
        let is_measured =
            headers.get(CONTENT_LENGTH).is_some_and(|value| answer::is_length(value, length as u64));
        if answer::has_body(answer.status) && *method != Method::HEAD && !is_measured {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        stamp(headers, done.operation_id, done.keep_until);
        let operation_id = done.operation_id.map(PublicId::from);
        Answered { response, event: Event::Outcome(done.how), operation_id, cause: None }
    }

    /// The bytes of a kept answer, without its seal.
    fn opened(&self, identity: &Identity, kept: &Bytes) -> Result<Bytes, hapax_core::Error> {
        match &self.shared.seal {
            Some(seal) if Seal::is_sealed(kept) => seal.open(&identity.claim_id(), kept),
            None if Seal::is_sealed(kept) => {
                Err(hapax_core::Error::corrupt("a kept answer is sealed, and no key is set"))
            }
            _ => Ok(kept.clone()),
        }
    }

    /// Whether two outcomes differ in nothing but their seals: what a handler settled by itself was sealed apart from its answer (L16).
    fn says_the_same(&self, identity: &Identity, one: &Outcome, other: &Outcome) -> bool {
        let ((Outcome::Succeeded(one), Outcome::Succeeded(other))
        | (Outcome::Refused(one), Outcome::Refused(other))) = (one, other)
        else {
            return false;
        };
        let is_sealed = Seal::is_sealed(one) && Seal::is_sealed(other);
        let plain = |kept: &Bytes| self.opened(identity, kept).ok();
        is_sealed && plain(one).is_some_and(|one| plain(other).as_ref() == Some(&one))
    }

    /// There is no outcome for this caller.
    fn explain<B>(
        &self,
        addressee: &Addressee,
        message: Option<&Message>,
        error: &hapax_exec::Error,
        first: Option<First<B>>,
    ) -> Answered<B> {
        let Addressee { identity, rule, .. } = addressee;
        // What the service itself said goes before what we would say about it.
        if let (Some(mut first), Reason::AttemptFailed { .. }) = (first, error.reason()) {
            stamp(first.response.headers_mut(), error.operation_id(), None);
            let operation_id = error.operation_id().map(PublicId::from);
            return Answered { response: first.response, event: Event::Released, operation_id, cause: None };
        }
        if let Reason::Mismatch(mismatch) = error.reason() {
            let Mismatch { leaves, recipe, keep_until } = &**mismatch;
            // What both were compared by (K7): the leaves were made by it, too.
            let recipe = recipe.as_ref().unwrap_or(&rule.recipe);
            // With a wider scope, and on a public route, the first caller may have been another one, who is not explained to this one
            // (H10, A2).
            let is_one = identity.scope().subject().is_some_and(|subject| !subject.is_anonymous());
            let own = leaves.as_ref().filter(|_| identity.width() == Width::Subject && is_one);
            let explanation = own.zip(message).map(|(leaves, message)| {
                let request = message.parts(&[], rule.max_request_body);
                leaves.explain_request(&request, &self.shared.leaf_key, recipe.ignored())
            });
            let problem = Problem::mismatch(rule.mismatch_status, error.operation_id(), explanation.as_ref())
                // Under a recipe that is not known, this may be a true retry.
                .with("executed", executed(error.executed()));
            let mut answered = self.problem(problem);
            stamp(answered.response.headers_mut(), error.operation_id(), *keep_until);
            return answered;
        }
        self.problem(Problem::from(error))
    }

    /// The call goes on, and its outcome will be found there (H6).
    fn accepted<B>(&self, operation_id: Option<OperationId>, prefix: &str) -> Answered<B> {
        let Some(id) = operation_id else {
            return self
                .problem(Problem::new(Code::Internal).owing_to("a call that goes on has no operation"));
        };
        let place = format!("{prefix}/{id}");
        let body = serde_json::json!({ "operation_id": id.to_string(), "status": place }).to_string();
        let mut response = Response::new(Body::whole(Bytes::from(body)));
        *response.status_mut() = StatusCode::ACCEPTED;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("preference-applied", HeaderValue::from_static("respond-async"));
        headers.insert(RETRY_AFTER, HeaderValue::from(limits::RETRY_AFTER.as_secs()));
        if let Ok(place) = HeaderValue::try_from(place) {
            headers.insert(LOCATION, place);
        }
        stamp(headers, operation_id, None);
        Answered { response, event: Event::Async, operation_id: Some(id.into()), cause: None }
    }

    /// A problem as an answer.
    pub fn problem<B>(&self, mut problem: Problem) -> Answered<B> {
        let (event, operation_id) = (Event::Problem(problem.code()), problem.operation_id().cloned());
        let cause = problem.take_cause();
        Answered {
            response: problem.response(&self.shared.docs).map(Body::whole),
            event,
            operation_id,
            cause,
        }
    }
}

impl<L: Clone> Clone for Protect<L> {
    fn clone(&self) -> Self {
        Protect { executor: self.executor.clone(), shared: self.shared.clone() }
    }
}

impl<L> std::fmt::Debug for Protect<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protect").finish_non_exhaustive()
    }
}

#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Waited<'a, B> {
    Done(Recorded<B>),
    /// The work takes too long.
    TooLong,
    /// It has ended, and the ledger takes too long to record it.
    Unrecorded(Advice),
    /// The caller fetches the outcome there, and does not wait.
    Early(&'a str),
}

/// Waits for a call whose work has begun: to its end, for as long as its caller should (H5), or not at all (H6). Of work that has
/// ended by then it can not be said that it takes too long: what the ledger makes of it is waited for, a while.
async fn wait<B>(mut attended: Attended<B>, timeout: Duration, early: Option<&str>) -> Waited<'_, B> {
    let (mut clock, mut recording) = (pin!(None), false);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(recorded) = Pin::new(&mut attended).poll(cx) {
            return Poll::Ready(Waited::Done(recorded));
        }
        if let Some(prefix) = early {
            return Poll::Ready(Waited::Early(prefix));
        }
        if clock.is_none() {
            clock.set(Some(tokio::time::sleep(timeout)));
        }
        let Some(mut clock) = clock.as_mut().as_pin_mut() else { return Poll::Pending };
        ready!(clock.as_mut().poll(cx));
        let Some(not_yet) = attended.not_recorded_yet() else { return Poll::Ready(Waited::TooLong) };
        if !std::mem::replace(&mut recording, true) {
            clock.as_mut().reset(clock::now() + limits::RECORDING);
            ready!(clock.poll(cx));
        }
        Poll::Ready(Waited::Unrecorded(not_yet))
    })
    .await
}

/// The receipt: which operation, and until when its answer is kept (H3, H8).
fn stamp(headers: &mut HeaderMap, operation_id: Option<OperationId>, keep_until: Option<Timestamp>) {
    if let Some(id) = operation_id.and_then(operation_header) {
        headers.insert(OPERATION_ID, id);
    }
    if let Some(until) = keep_until.and_then(date) {
        headers.insert(EXPIRES, until);
    }
}

/// An operation's public id as a field's value.
pub fn operation_header(id: OperationId) -> Option<HeaderValue> {
    // `op_` and 32 digits.
    value_of(id, 35)
}

/// As dates are written in HTTP; what is kept for ever, until the last day that can be written.
fn date(time: Timestamp) -> Option<HeaderValue> {
    const LAST: u64 = 253_402_300_799;
    let seconds = u64::try_from(time.as_micros() / 1_000_000).unwrap_or(0).min(LAST);
    let date = HttpDate::from(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    value_of(date, 29)
}

/// A field's value from a text of this length. In a string that is not longer, what the value is made of is not copied.
fn value_of(text: impl std::fmt::Display, length: usize) -> Option<HeaderValue> {
    use std::fmt::Write as _;
    let mut value = String::with_capacity(length);
    write!(value, "{text}").ok()?;
    HeaderValue::try_from(value).ok()
}
