//! Spans of requests (O3): one for a request, one below it for each step, recorded by hand.
//!
//! A request that is not sampled has no recording: nothing is allocated and no time is read for it. What is recorded is handed over,
//! finished, to a bounded queue; whoever exports it is elsewhere, and no request waits for that. A span has what the log line of its
//! request has, and no more: no key, no header and no body.

mod context;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::clock;
use crate::limits;

pub use context::{Parent, SpanId, TraceId, told};

/// The header that says which span a request belongs to, as W3C's Trace Context has it.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Which requests are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The share of requests whose caller has not decided it; from 0 to 1.
    pub ratio: f64,
    /// Whether a caller that sends a `traceparent` decides it.
    pub by_parent: bool,
}

/// Decides which requests are recorded, and takes what was. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tracer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sampling: Sampling,
    /// Of 2^64 draws so many are sampled.
    threshold: u64,
    draws: AtomicU64,
    queue: SyncSender<Trace>,
    counts: Arc<SpanCounts>,
}

/// What became of spans.
#[derive(Debug, Default)]
pub struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl SpanCounts {
    /// So many were taken by the collector.
    pub fn exported(&self, spans: usize) {
        self.exported.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// So many were lost.
    pub fn dropped(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// How many were taken and how many were lost so far.
    pub fn read(&self) -> [u64; 2] {
        [&self.exported, &self.dropped].map(|count| count.load(Ordering::Relaxed))
    }
}

/// A request that was recorded, and has come to its end.
#[derive(Debug)]
pub struct Trace {
    /// The trace that it belongs to.
    pub id: TraceId,
    /// The span that it is below of, of the caller.
    pub parent: Option<SpanId>,
    /// The span of the request, then those of its steps.
    pub spans: Vec<Span>,
}

/// A span that has come to its end.
#[derive(Debug)]
pub struct Span {
    /// Its id.
    pub id: SpanId,
    /// What it is about.
    pub name: String,
    /// Which side of a call it is.
    pub side: Side,
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What else is known of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// Whether it failed through a fault that is not the caller's.
    pub failed: bool,
}

/// Which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is done for a caller.
    Server,
    /// What is asked of a service.
    Client,
    /// Neither.
    Internal,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
}

/// A step of a request: what it is at until the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The head is matched, the caller found out, the body read.
    Intake,
    /// The ledger is asked, and another call's outcome waited for.
    Claim,
    /// The service behind has the request.
    Upstream,
    /// The answer is read and the ledger told.
    Settle,
    /// The outcome of an earlier request is looked for.
    Recall,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Intake => "intake",
            Step::Claim => "claim",
            Step::Upstream => "upstream",
            Step::Settle => "settle",
            Step::Recall => "recall",
        }
    }
}

impl Tracer {
    /// A tracer, what it records, and what is counted of that.
    pub fn new(sampling: Sampling) -> (Self, Receiver<Trace>, Arc<SpanCounts>) {
        let (queue, traces) = sync_channel(limits::TRACES_WAITING);
        let counts = Arc::<SpanCounts>::default();
        let threshold = (sampling.ratio.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
        let draws = AtomicU64::new(context::seed());
        let shared = Shared { sampling, threshold, draws, queue, counts: counts.clone() };
        (Tracer(Arc::new(shared)), traces, counts)
    }

    /// What is counted of its spans.
    pub fn counts(&self) -> &SpanCounts {
        &self.0.counts
    }

    /// Begins to record a request with these headers, if it is one that is.
    pub(crate) fn request(&self, headers: &HeaderMap, began: Instant) -> Option<Arc<Recording>> {
        let parent = Parent::of(headers);
        self.samples(parent.as_ref()).then(|| {
            let steps = vec![(Step::Intake, began)];
            Arc::new(Recording::new(self.clone(), parent, began, steps))
        })
    }

    /// The same for a request to another listener, which has no steps.
    pub(crate) fn record(&self, headers: &HeaderMap) -> Option<Recorded> {
        let parent = Parent::of(headers);
        let recording = || Recording::new(self.clone(), parent, clock::now(), Vec::new());
        self.samples(parent.as_ref()).then(|| Recorded(recording()))
    }

    fn samples(&self, parent: Option<&Parent>) -> bool {
        match parent {
            Some(parent) if self.0.sampling.by_parent => parent.sampled,
            _ => self.draw(),
        }
    }

    fn draw(&self) -> bool {
        match self.0.threshold {
            0 => false,
            u64::MAX => true,
            threshold => context::mixed(self.0.draws.fetch_add(1, Ordering::Relaxed)) < threshold,
        }
    }

    fn hand_over(&self, trace: Trace) {
        let spans = trace.spans.len();
        if self.0.queue.try_send(trace).is_err() {
            self.0.counts.dropped(spans);
        }
    }
}

/// A request that is being recorded. It is handed over when nothing is done for it any more, with or without its caller.
#[derive(Debug)]
pub(crate) struct Recording {
    tracer: Tracer,
    id: TraceId,
    parent: Option<SpanId>,
    span: SpanId,
    /// The span that the service behind is told of.
    upstream: SpanId,
    time: SystemTime,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each with when it began.
    steps: Vec<(Step, Instant)>,
    name: String,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
    ended: Option<Instant>,
    /// It is not handed over.
    forgotten: bool,
}

impl Recording {
    fn new(tracer: Tracer, parent: Option<Parent>, began: Instant, steps: Vec<(Step, Instant)>) -> Self {
        let state = State { steps, ..State::default() };
        Recording {
            tracer,
            id: parent.as_ref().map_or_else(TraceId::random, |parent| parent.trace),
            parent: parent.map(|parent| parent.span),
            span: SpanId::random(),
            upstream: SpanId::random(),
            time: clock::time_of_day(),
            began,
            state: Mutex::new(state),
        }
    }

    /// The id of the trace, for the log.
    pub(crate) fn id(&self) -> TraceId {
        self.id
    }

    /// The next step begins.
    pub(crate) fn step(&self, step: Step) {
        let now = clock::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.steps.len() < limits::STEPS {
            state.steps.push((step, now));
        }
    }

    /// What the service behind is told.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        context::header(self.id, self.upstream)
    }

    /// The request is answered.
    pub(crate) fn answered(&self, name: String, attributes: Vec<(&'static str, Value)>, failed: bool) {
        let now = clock::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.name, state.attributes, state.failed, state.ended) = (name, attributes, failed, Some(now));
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let last = clock::now();
        let State { steps, name, attributes, failed, ended, forgotten } =
            std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        if forgotten {
            return;
        }
        let span = |id, name, side, from: Instant, to: Instant, attributes, failed| {
            let began = self.time + from.saturating_duration_since(self.began);
            Span { id, name, side, began, took: to.saturating_duration_since(from), attributes, failed }
        };
        let answered = ended.unwrap_or(last);
        // The caller went away before there was an answer: then the request has no name.
        let name = if name.is_empty() { "request".to_owned() } else { name };
        let mut spans = vec![span(self.span, name, Side::Server, self.began, answered, attributes, failed)];
        let mut told = false;
        for (number, (step, from)) in steps.iter().enumerate() {
            // The last step goes on after the answer where the work does without a caller.
            let to = steps.get(number + 1).map_or(answered.max(*from), |(_, next)| *next);
            let (id, side) = match step {
                // A service that is asked again is told of the same span.
                Step::Upstream if !std::mem::replace(&mut told, true) => (self.upstream, Side::Client),
                Step::Upstream => (SpanId::random(), Side::Client),
                _ => (SpanId::random(), Side::Internal),
            };
            spans.push(span(id, step.name().to_owned(), side, *from, to, Vec::new(), false));
        }
        self.tracer.hand_over(Trace { id: self.id, parent: self.parent, spans });
    }
}

/// A request to another listener of this process that is being recorded: one span, which is handed over when this is dropped.
#[derive(Debug)]
pub struct Recorded(Recording);

impl Recorded {
    /// The id of the trace, for the log.
    pub fn id(&self) -> TraceId {
        self.0.id
    }

    /// What services are told that are called for this request.
    pub fn header(&self) -> Option<HeaderValue> {
        context::header(self.0.id, self.0.span)
    }

    /// The request is answered.
    pub fn ended(&self, name: String, attributes: Vec<(&'static str, Value)>, failed: bool) {
        self.0.answered(name, attributes, failed);
    }

    /// The request is one that is not told of: nothing is handed over.
    pub fn forget(mut self) {
        self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner).forgotten = true;
    }
}

#[cfg(test)]
mod tests;
