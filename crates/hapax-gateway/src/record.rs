//! One log line and the counters of a request (O1, O2), and what is seen of it on its way there.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hapax_core::{Key, Ledger, Policy, Scope, Width};
use hapax_exec::How;
use hapax_tower::{Cause, Code, Event, Problem};
use http::{Method, Request};
use tokio::time::Instant;

use crate::auth::remembered::Digest;
use crate::clock;
use crate::limits;
use crate::metrics::{Counters, Hit, Reason, Sent};
use crate::settings::Route;
use crate::stack::{Answer, Shared};
use crate::trace::{Recording, Step, Value};
use crate::webhooks::Webhook;
use crate::webhooks::provider::Refused;

/// The endpoint of what no route was found for.
static NOWHERE: LazyLock<Arc<str>> = LazyLock::new(|| "_none".into());
/// The endpoint of whoever asks for an outcome.
static RECALL: LazyLock<Arc<str>> = LazyLock::new(|| "recall".into());

/// The endpoint of a webhook that is not there.
static WEBHOOK: LazyLock<Arc<str>> = LazyLock::new(|| "webhook".into());

/// Where a request goes.
pub(crate) enum Place {
    /// Nowhere, as far as is known.
    Nowhere,
    /// To an outcome that is kept.
    Recall,
    /// To a service.
    Route(Arc<Route>),
    /// To a webhook that is not known yet.
    Webhook,
}

/// Which of the three kinds of callers an endpoint has: those that send a key, those whose key stands in the transport, and those that
/// only the handler can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// The caller sends a key.
    A,
    /// The sender's own identifier is the key (W).
    B,
    /// The handler derives a token of its own; the edge knows no key.
    C,
}

impl Case {
    fn as_str(self) -> &'static str {
        match self {
            Case::A => "A",
            Case::B => "B",
            Case::C => "C",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Case::A => "header",
            Case::B => "transport",
            Case::C => "handler",
        }
    }
}

/// What is known about a request so far, for the log line and the counters.
pub(crate) struct Seen {
    pub(crate) began: Instant,
    pub(crate) method: Method,
    pub(crate) place: Place,
    pub(crate) scope: Option<Scope>,
    /// The key that came; where what is asked is the key, none did (H9).
    pub(crate) key: Option<Key>,
    /// Who sends, where that is a webhook's provider.
    pub(crate) provider: Option<Arc<str>>,
    /// A key was sent where it has no effect, which the caller is told whatever the answer is (P1).
    pub(crate) key_ignored: bool,
    /// The handler found its own token used (P1, case C).
    pub(crate) handler_hit: bool,
    /// What is counted about it, once that has been looked up.
    pub(crate) counters: Option<Arc<Counters>>,
    pub(crate) peer: SocketAddr,
    /// What a cluster calls the call, where one keeps the claim.
    pub(crate) invocation: Option<String>,
    /// Where it is recorded, if it is (O3).
    pub(crate) trace: Option<Arc<Recording>>,
}

impl Seen {
    pub(crate) fn new<B>(request: &Request<B>, peer: SocketAddr) -> Self {
        Seen {
            began: clock::now(),
            method: request.method().clone(),
            place: Place::Nowhere,
            scope: None,
            key: None,
            provider: None,
            key_ignored: false,
            handler_hit: false,
            counters: None,
            peer,
            invocation: None,
            trace: None,
        }
    }

    /// The next step of the request begins.
    pub(crate) fn step(&self, step: Step) {
        if let Some(trace) = &self.trace {
            trace.step(step);
        }
    }

    fn endpoint(&self) -> &Arc<str> {
        match &self.place {
            Place::Nowhere => &NOWHERE,
            Place::Recall => &RECALL,
            Place::Webhook => &WEBHOOK,
            Place::Route(route) => &route.path,
        }
    }

    fn route(&self) -> Option<&Route> {
        match &self.place {
            Place::Route(route) => Some(route),
            Place::Nowhere | Place::Recall | Place::Webhook => None,
        }
    }

    /// Whether this is a delivery to a webhook that is there and whose secrets cannot be had.
    fn is_without_secrets(&self) -> bool {
        matches!(self.place, Place::Webhook) && self.provider.is_some()
    }

    fn policy(&self) -> Option<Policy> {
        self.route().map(|route| route.policy)
    }

    /// Which kind of caller an endpoint with keys has, by its policy.
    fn keyed_case(&self) -> Case {
        match self.policy() {
            Some(Policy::RequiredB) => Case::B,
            _ => Case::A,
        }
    }

    /// The same of this request: one without a key has none, unless its key is the handler's affair.
    fn case(&self) -> Option<Case> {
        match self.policy() {
            Some(Policy::HandlerInternalC) => Some(Case::C),
            _ => self.key.as_ref().map(|_| self.keyed_case()),
        }
    }
}

impl<L: Ledger, R> Shared<L, R> {
    /// What is counted about this request.
    fn counters(&self, seen: &Seen) -> Arc<Counters> {
        self.metrics.counters(seen.scope.as_ref(), seen.endpoint())
    }

    /// A key was refused, or none came where there must be one.
    pub(crate) fn count_key_problem(&self, seen: &Seen, problem: &Problem) {
        let counters = self.counters(seen);
        let reason = match problem.code() {
            Code::KeyMissing => return counters.key_missing(Policy::RequiredA),
            Code::TranslationFailed => return counters.translation_failed(seen.provider.as_ref()),
            Code::KeyReserved => Reason::Reserved,
            Code::KeyDuplicated => Reason::Duplicated,
            Code::KeyProhibited => Reason::Prohibited,
            _ if problem.is_about_length() => Reason::Length,
            _ => Reason::Charset,
        };
        counters.key_invalid(reason);
    }

    /// From here on neither whose the request is nor where it goes will change. A key that was derived was not sent (H9).
    pub(crate) fn count_protected(&self, seen: &mut Seen) {
        let counters = self.counters(seen);
        match (&seen.key, seen.keyed_case()) {
            (Some(_), Case::B) => counters.key_present(Sent::B),
            (Some(_), _) => counters.key_present(Sent::A),
            (None, _) => counters.key_missing(Policy::Accepted),
        }
        seen.counters = Some(counters);
    }

    pub(crate) fn count_unkeyed(&self, seen: &Seen) {
        if seen.policy() == Some(Policy::Accepted) {
            self.counters(seen).key_missing(Policy::Accepted);
        }
    }

    /// What the sender of a delivery that goes nowhere is told: not more than which half failed (W3).
    pub(crate) fn refuse_delivery(&self, seen: &Seen, refused: Refused) -> Problem {
        let (code, why) = match refused {
            Refused::Signature(why) => (Code::SignatureInvalid, why),
            Refused::Identifier(why) => (Code::TranslationFailed, why),
        };
        let problem = Problem::new(code).owing_to(why);
        if code == Code::TranslationFailed {
            self.count_key_problem(seen, &problem);
        }
        problem
    }

    /// A delivery to this webhook was refused before anything was claimed.
    pub(crate) fn count_refused(&self, provider: &Arc<str>, webhook: &str, problem: &Problem) {
        let cause = problem.code().as_str();
        self.metrics.delivery_refused(provider, cause);
        self.refusals.refused(webhook, cause, problem.cause().unwrap_or_default());
    }

    /// What the sender of a request is told whose signature as a schedule's does not hold: the same, whatever is wrong (S2).
    pub(crate) fn refuse_tick(&self, why: &'static str) -> Problem {
        self.metrics.schedule_signature_refused();
        Problem::new(Code::SignatureInvalid).owing_to(why)
    }

    /// Notices signed content that comes again under another identifier, which is not signed: the sender's own, or a captured delivery
    /// (W5).
    pub(crate) fn count_repeated_content(&self, seen: &Seen, webhook: &Webhook, content: &[u8], key: &Key) {
        let digest = Digest::of_parts(&[webhook.id.as_bytes(), content]);
        match self.contents.get(&digest) {
            Some(known) if known != *key => {
                self.metrics.content_repeated(&webhook.name);
                self.refusals.content_repeated(&webhook.id);
                tracing::warn!(
                    target: "hapax::webhook",
                    webhook = webhook.id,
                    provider = &*webhook.name,
                    peer = %seen.peer,
                    "signed content came again under another identifier"
                );
            }
            Some(_) => {}
            None => {
                let before = self.contents.before();
                self.contents.insert(digest, key.clone(), limits::CONTENT_REMEMBERED, before);
            }
        }
    }

    /// The key as logs may show it: whose it is, as far as the route tells callers apart (K8), and a short keyed digest in place of
    /// what the caller chose.
    fn namespaced(&self, seen: &Seen) -> Option<String> {
        let (scope, key) = (seen.scope.as_ref()?, seen.key.as_ref()?);
        let rule = seen.route().and_then(|route| route.rule.as_ref());
        let parts = scope.narrowed(rule.map_or(Width::Subject, |rule| rule.width));
        let digest = self.protect.log_digest(parts.tenant(), key.as_str());
        Some(format!("t-{}:{}:{}:#{digest}", parts.tenant(), parts.project(), parts.subject()))
    }

    /// Counts and logs an answered request.
    pub(crate) fn record(&self, seen: &Seen, answered: &Answer) {
        let status = answered.response.status().as_u16();
        let took = seen.began.elapsed();
        let counters = seen.counters.clone().unwrap_or_else(|| self.counters(seen));
        self.metrics.answered(&counters, word(answered.event), status, took);
        let hit = match answered.event {
            Event::Outcome(How::Replayed) if status >= 400 => Some(Hit::TerminalError),
            Event::Outcome(How::Replayed) => Some(Hit::Completed),
            Event::Outcome(How::Attached) => Some(Hit::Attached),
            _ => None,
        };
        match (hit, answered.event) {
            (Some(hit), _) => counters.hit(hit),
            (None, _) if seen.handler_hit => counters.handler_hit(),
            (None, Event::Problem(Code::KeyReused)) => counters.collision(),
            // What a cluster keeps is asked of the cluster.
            (None, Event::Problem(Code::LedgerUnavailable))
                if seen.invocation.is_none() && !seen.is_without_secrets() =>
            {
                self.metrics.ledger_failed();
            }
            _ => {}
        }
        macro_rules! line {
            ($say:ident, $($more:tt)*) => {
                tracing::$say!(
                    target: "hapax::request",
                    method = %seen.method,
                    endpoint = &**seen.endpoint(),
                    status,
                    event = word(answered.event),
                    took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                    peer = %seen.peer,
                    tenant = seen.scope.as_ref().map(|scope| scope.tenant().as_str()),
                    project = seen.scope.as_ref().and_then(|scope| scope.project()).map(|project| project.as_str()),
                    operation_id = answered.operation_id.as_ref().map(tracing::field::display),
                    idempotency_case = seen.case().map(Case::as_str),
                    idempotency_source = seen.case().map(Case::source),
                    provider = seen.provider.as_deref(),
                    idempotency_policy = seen.policy().map(Policy::as_str),
                    idempotency_key_namespaced = self.namespaced(seen),
                    // The name that the log's readers know it by; where hapax keeps the claim, it is the operation's.
                    restate_invocation_id = invocation(seen, answered),
                    restate_cache_hit = hit.is_some() || seen.handler_hit,
                    trace_id = seen.trace.as_ref().map(|trace| tracing::field::display(trace.id())),
                    $($more)*
                    "request"
                )
            };
        }
        if let Some(trace) = &seen.trace {
            self.record_span(trace, seen, answered, hit.is_some() || seen.handler_hit);
        }
        let why = why(answered);
        if let (Why::Service(_), Some(route)) = (&why, seen.route()) {
            self.metrics.upstream_failed(&route.upstream.name, word(answered.event));
        }
        match (why, answered.event) {
            (Why::Service(cause), _) => {
                line!(warn, upstream = seen.route().map(|route| &*route.upstream.name), cause = &*cause,)
            }
            (Why::Other(cause), Event::Problem(Code::Internal)) => line!(error, cause,),
            // Whoever checks credentials gave no answer.
            (Why::Other(cause @ Some(_)), Event::Problem(Code::UpstreamUnreachable)) => line!(warn, cause,),
            // Nor is this webhook's secret where it should be.
            (Why::Other(cause @ Some(_)), _) if seen.is_without_secrets() => line!(warn, cause,),
            // That the ledger is away is a warning of its own, once (M2).
            (Why::Other(cause), _) => line!(info, cause,),
        }
    }

    /// What the span of an answered request says: what its log line does.
    #[cold]
    fn record_span(&self, trace: &Recording, seen: &Seen, answered: &Answer, hit: bool) {
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        let status = answered.response.status().as_u16();
        let scope = seen.scope.as_ref();
        let attributes = [
            ("http.request.method", text(seen.method.as_str())),
            ("http.route", text(seen.endpoint())),
            ("http.response.status_code", Some(Value::Number(status.into()))),
            ("hapax.event", text(word(answered.event))),
            ("hapax.tenant", scope.and_then(|scope| text(scope.tenant().as_str()))),
            (
                "hapax.project",
                scope.and_then(|scope| scope.project()).and_then(|project| text(project.as_str())),
            ),
            ("hapax.upstream", seen.route().and_then(|route| text(&route.upstream.name))),
            ("idempotency_case", seen.case().and_then(|case| text(case.as_str()))),
            ("idempotency_source", seen.case().and_then(|case| text(case.source()))),
            ("idempotency_policy", seen.policy().and_then(|policy| text(policy.as_str()))),
            ("idempotency_key_namespaced", self.namespaced(seen).map(Value::Text)),
            ("restate_invocation_id", invocation(seen, answered).map(Value::Text)),
            ("restate_cache_hit", text(if hit { "true" } else { "false" })),
        ];
        let attributes = attributes.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        trace.answered(format!("{} {}", seen.method, seen.endpoint()), attributes, status >= 500);
    }

    /// Counts and logs what was refused before there was a request to speak of.
    pub(crate) fn record_refused(&self, peer: SocketAddr, code: Code) {
        let (event, status) = (code.as_str(), code.status().as_u16());
        self.metrics.answered(&self.metrics.counters(None, &NOWHERE), event, status, Duration::ZERO);
        tracing::info!(target: "hapax::request", endpoint = &**NOWHERE, status, event, %peer, "request");
    }
}

/// What a cluster calls the call; where hapax keeps the claim, the operation's id.
fn invocation(seen: &Seen, answered: &Answer) -> Option<String> {
    seen.invocation.clone().or_else(|| answered.operation_id.as_ref().map(ToString::to_string))
}

/// Why a request has failed, if it has.
enum Why<'a> {
    /// The service behind has done something wrong.
    Service(Cow<'a, str>),
    /// It is not to blame, but perhaps somebody else.
    Other(Option<&'a str>),
}

fn why(answered: &Answer) -> Why<'_> {
    let status = answered.response.status();
    match (answered.event, &answered.cause) {
        (Event::Outcome(How::Executed | How::PassedThrough) | Event::Released, _)
            if status.is_server_error() =>
        {
            Why::Service(format!("the service answered {}", status.as_u16()).into())
        }
        (_, Some(Cause::Service(cause))) => Why::Service(Cow::from(&**cause)),
        (_, Some(Cause::Other(cause))) => Why::Other(Some(cause)),
        (_, None) => Why::Other(None),
    }
}

fn word(event: Event) -> &'static str {
    match event {
        Event::Outcome(How::Executed) => "executed",
        Event::Outcome(How::Replayed) => "replayed",
        Event::Outcome(How::Attached) => "attached",
        Event::Outcome(How::PassedThrough) => "passed",
        Event::Released => "released",
        Event::Async => "async",
        Event::Problem(code) => code.as_str(),
    }
}
