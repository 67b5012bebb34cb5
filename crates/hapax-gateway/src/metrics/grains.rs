//! What is counted for whom and where: by tenant, project and endpoint.
//!
//! There is one bound on label sets, for scrapes and for the console alike: projects are told apart in the order in which they come
//! first, up to a bound; the rest is counted as `_other`. So no caller can make the set grow without end. A request finds its
//! [`Counters`] once, whatever is counted about it then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use foldhash::{HashMap, HashSet};
use hapax_core::{Policy, Project, Scope, Tenant};

use super::families::{self as family, Family};
use super::latency::{Latency, LatencyCounts};
use super::text::Text;
use crate::limits;

/// The label of what is not told apart.
const OTHER: &str = "_other";

/// Where a key stood, as the sources call the kinds of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The caller sent it.
    A,
    /// It is the sender's own identifier.
    B,
}

impl Sent {
    const WORDS: [&str; 2] = ["A", "B"];
}

/// What is wrong with a key, in the words of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Nothing, or too much.
    Length,
    /// A character that no key may have, or a form that is none.
    Charset,
    /// A prefix that only hapax may write.
    Reserved,
    /// More than one.
    Duplicated,
    /// The route takes none.
    Prohibited,
}

impl Reason {
    const WORDS: [&str; 5] = ["length", "charset", "reserved", "duplicated", "prohibited"];
}

/// How an answer that came from an earlier request came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// It was kept.
    Completed,
    /// This request waited for it.
    Attached,
    /// It was kept, and is an error.
    TerminalError,
}

impl Hit {
    const WORDS: [&str; 3] = ["completed", "attached", "terminal_error"];
}

/// Answers of one event and status.
#[derive(Debug)]
struct Answers {
    event: &'static str,
    /// Where there are too many to tell apart, none.
    status: Option<u16>,
    count: AtomicU64,
    latency: Arc<Latency>,
}

/// What is counted at one endpoint for one tenant's project.
#[derive(Debug)]
pub(crate) struct Counters {
    tenant: Box<str>,
    project: Box<str>,
    endpoint: Arc<str>,
    present: [AtomicU64; 2],
    missing: [AtomicU64; Policy::ALL.len()],
    invalid: [AtomicU64; 5],
    hits: [AtomicU64; 3],
    handler_hits: AtomicU64,
    collisions: AtomicU64,
    /// By provider: one or a few for each endpoint.
    untranslated: Mutex<Vec<(Arc<str>, u64)>>,
    /// By event and status: a few for each endpoint.
    answers: RwLock<Vec<Answers>>,
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    fn new(tenant: &str, project: &str, endpoint: &Arc<str>) -> Arc<Self> {
        Arc::new(Counters {
            tenant: tenant.into(),
            project: project.into(),
            endpoint: endpoint.clone(),
            present: Default::default(),
            missing: Default::default(),
            invalid: Default::default(),
            hits: Default::default(),
            handler_hits: AtomicU64::default(),
            collisions: AtomicU64::default(),
            untranslated: Mutex::default(),
            answers: RwLock::default(),
        })
    }

    pub(crate) fn key_present(&self, sent: Sent) {
        add(&self.present[sent as usize]);
    }

    pub(crate) fn key_missing(&self, policy: Policy) {
        if let Some(at) = Policy::ALL.iter().position(|other| *other == policy) {
            add(&self.missing[at]);
        }
    }

    pub(crate) fn key_invalid(&self, reason: Reason) {
        add(&self.invalid[reason as usize]);
    }

    /// No identifier was found in a request of this provider; an ordinary route has none.
    pub(crate) fn translation_failed(&self, provider: Option<&Arc<str>>) {
        let provider = provider.map_or("_none", |provider| provider);
        let mut all = self.untranslated.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = all.len() < limits::PROVIDERS;
        let label =
            if has_room || all.iter().any(|(known, _)| **known == *provider) { provider } else { OTHER };
        match all.iter_mut().find(|(known, _)| **known == *label) {
            Some((_, count)) => *count += 1,
            None => all.push((label.into(), 1)),
        }
    }

    pub(crate) fn hit(&self, hit: Hit) {
        add(&self.hits[hit as usize]);
    }

    /// A handler found its own token used.
    pub(crate) fn handler_hit(&self) {
        add(&self.handler_hits);
    }

    pub(crate) fn collision(&self) {
        add(&self.collisions);
    }

    fn labels(&self) -> [&str; 3] {
        [&self.tenant, &self.project, &self.endpoint]
    }

    fn untranslated(&self) -> Vec<(Arc<str>, u64)> {
        self.untranslated.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn traffic(&self) -> Traffic {
        let answers = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        let tell = |answers: &Answers| AnswerCount {
            event: answers.event,
            status: answers.status,
            count: read(&answers.count),
        };
        let [completed, attached, terminal_error] = self.hits.each_ref().map(read);
        Traffic {
            tenant: self.tenant.clone(),
            project: self.project.clone(),
            endpoint: self.endpoint.clone(),
            answers: answers.iter().map(tell).collect(),
            present: self.present.iter().map(read).sum(),
            missing: self.missing.iter().map(read).sum(),
            invalid: self.invalid.iter().map(read).sum(),
            untranslated: self.untranslated().iter().map(|(_, count)| count).sum(),
            completed,
            attached,
            terminal_error,
            handler_hits: read(&self.handler_hits),
            collisions: read(&self.collisions),
        }
    }
}

/// What was counted at one endpoint for one tenant's project, as it stood at some time. It only grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The tenant; `_none` where it was not found, `_other` beyond the bound.
    pub tenant: Box<str>,
    /// The project; `_any` where the tenant has none.
    pub project: Box<str>,
    /// The path of the route as it is configured, for deliveries that of their webhooks; `webhook` for a delivery to none that is
    /// there, `recall`, or `_none`.
    pub endpoint: Arc<str>,
    /// All answers, by event and status.
    pub answers: Vec<AnswerCount>,
    /// Requests that carried a key.
    pub present: u64,
    /// Requests without one where one could be.
    pub missing: u64,
    /// Requests refused for their key.
    pub invalid: u64,
    /// Requests in whose transport no key was found.
    pub untranslated: u64,
    /// Answers that were kept.
    pub completed: u64,
    /// Answers that were waited for.
    pub attached: u64,
    /// Answers that were kept and are errors.
    pub terminal_error: u64,
    /// Tokens that handlers found used.
    pub handler_hits: u64,
    /// Keys sent again with another request.
    pub collisions: u64,
}

/// Answers of one event and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerCount {
    /// How they came about: `executed`, `replayed`, `attached`, `passed`, `released`, `async`, or a problem's code.
    pub event: &'static str,
    /// The HTTP status; `None` where an endpoint had too many to tell apart.
    pub status: Option<u16>,
    /// How many.
    pub count: u64,
}

/// What tells two [`Counters`] apart; without a scope, what no caller was found for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    whose: Option<(Tenant, Option<Project>)>,
    endpoint: Arc<str>,
}

/// Who is told apart, and what is counted for them.
#[derive(Debug, Default)]
struct Known {
    projects: HashSet<(Tenant, Option<Project>)>,
    counters: HashMap<Place, Arc<Counters>>,
    /// What is counted for all others, by endpoint.
    others: HashMap<Arc<str>, Arc<Counters>>,
}

impl Known {
    fn has_no_room_for(&self, place: &Place) -> bool {
        let Some(whose) = &place.whose else { return false };
        self.counters.len() >= limits::GRAINS && !self.counters.contains_key(place)
            || self.projects.len() >= limits::LABELS && !self.projects.contains(whose)
    }

    /// The counters of a place that was not known, or had become known in the meantime.
    fn note(&mut self, place: Place) -> Arc<Counters> {
        if self.has_no_room_for(&place) {
            let other = || Counters::new(OTHER, OTHER, &place.endpoint);
            return self.others.entry(place.endpoint.clone()).or_insert_with(other).clone();
        }
        let Some(whose) = &place.whose else {
            let unknown = || Counters::new("_none", "_none", &place.endpoint);
            return self.counters.entry(place.clone()).or_insert_with(unknown).clone();
        };
        self.projects.insert(whose.clone());
        let (tenant, project) = whose;
        let project = project.as_ref().map_or("_any", |project| project.as_str());
        let own = || Counters::new(tenant.as_str(), project, &place.endpoint);
        self.counters.entry(place.clone()).or_insert_with(own).clone()
    }
}

/// What tells two histograms apart.
type Timed = (Arc<str>, &'static str);

/// All counters by tenant, project and endpoint, and how long answers took by endpoint and event.
#[derive(Debug, Default)]
pub(super) struct Grains {
    known: RwLock<Known>,
    latencies: RwLock<HashMap<Timed, Arc<Latency>>>,
}

impl Grains {
    /// What is counted about a request.
    pub(super) fn of(&self, scope: Option<&Scope>, endpoint: &Arc<str>) -> Arc<Counters> {
        let whose = scope.map(|scope| (scope.tenant().clone(), scope.project().cloned()));
        let place = Place { whose, endpoint: endpoint.clone() };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.counters.get(&place).or_else(|| {
            let other = known.has_no_room_for(&place);
            known.others.get(&place.endpoint).filter(|_| other)
        });
        if let Some(counters) = found {
            return counters.clone();
        }
        drop(known);
        self.known.write().unwrap_or_else(PoisonError::into_inner).note(place)
    }

    /// Counts an answer.
    pub(super) fn answered(&self, counters: &Counters, event: &'static str, status: u16, took: Duration) {
        let at_hand = counters.answers.read().unwrap_or_else(PoisonError::into_inner);
        let known = at_hand.iter().find(|known| known.event == event && known.status == Some(status));
        if let Some(known) = known {
            add(&known.count);
            known.latency.observe(took);
            return;
        }
        drop(at_hand);
        let latency = self.latency(&counters.endpoint, event);
        latency.observe(took);
        let mut all = counters.answers.write().unwrap_or_else(PoisonError::into_inner);
        let is_known = all.iter().any(|known| known.event == event && known.status == Some(status));
        let status = (is_known || all.len() < limits::ANSWERS).then_some(status);
        match all.iter().find(|known| known.event == event && known.status == status) {
            Some(known) => add(&known.count),
            None => all.push(Answers { event, status, count: AtomicU64::new(1), latency }),
        }
    }

    fn latency(&self, endpoint: &Arc<str>, event: &'static str) -> Arc<Latency> {
        let timed = (endpoint.clone(), event);
        if let Some(known) = self.latencies.read().unwrap_or_else(PoisonError::into_inner).get(&timed) {
            return known.clone();
        }
        self.latencies.write().unwrap_or_else(PoisonError::into_inner).entry(timed).or_default().clone()
    }

    /// All counters there are. They are read and written out without the lock, so that no request waits for a scrape.
    fn all(&self) -> Vec<Arc<Counters>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.counters.values().chain(known.others.values()).cloned().collect()
    }

    /// What was counted at every endpoint for everyone who is told apart.
    pub(super) fn traffic(&self) -> Vec<Traffic> {
        self.all().iter().map(|counters| counters.traffic()).collect()
    }

    /// How long answers took.
    pub(super) fn latencies(&self) -> Vec<(Arc<str>, &'static str, LatencyCounts)> {
        let latencies = self.latencies.read().unwrap_or_else(PoisonError::into_inner);
        latencies
            .iter()
            .map(|((endpoint, event), latency)| (endpoint.clone(), *event, latency.counts()))
            .collect()
    }

    /// Writes all of them out.
    pub(super) fn write(&self, text: &mut Text) {
        let all = self.all();
        let mut by_word = |family, words: &[&str], counts: &dyn Fn(&Counters, usize) -> u64| {
            let mut samples = text.family(family);
            for counters in &all {
                let [tenant, project, endpoint] = counters.labels();
                for (number, word) in words.iter().enumerate() {
                    samples.counted(&[tenant, project, endpoint, word], counts(counters, number));
                }
            }
        };
        by_word(&family::PRESENT, &Sent::WORDS, &|of, number| read(&of.present[number]));
        let policies = Policy::ALL.map(Policy::as_str);
        by_word(&family::MISSING, &policies, &|of, number| read(&of.missing[number]));
        by_word(&family::INVALID, &Reason::WORDS, &|of, number| read(&of.invalid[number]));
        by_word(&family::HIT, &Hit::WORDS, &|of, number| read(&of.hits[number]));
        let mut samples = text.family(&family::UNTRANSLATED);
        for counters in &all {
            let [tenant, project, endpoint] = counters.labels();
            for (provider, count) in counters.untranslated() {
                samples.counted(&[tenant, project, endpoint, &provider], count);
            }
        }
        let mut samples = text.family(&family::HANDLER_HIT);
        all.iter().for_each(|of| samples.counted(&of.labels(), read(&of.handler_hits)));
        let mut samples = text.family(&family::COLLISION);
        all.iter().for_each(|of| samples.counted(&of.labels(), read(&of.collisions)));
        self.write_answers(text, &family::REQUESTS, &family::LATENCY);
    }

    /// Writes out what was answered, and how long that took.
    pub(super) fn write_answers(&self, text: &mut Text, answers: &Family, latency: &Family) {
        let mut samples = text.family(answers);
        for counters in self.all() {
            let [tenant, project, endpoint] = counters.labels();
            for AnswerCount { event, status, count } in counters.traffic().answers {
                let status = status.map_or(OTHER.to_owned(), |status| status.to_string());
                samples.counted(&[tenant, project, endpoint, event, &status], count);
            }
        }
        let mut samples = text.family(latency);
        for (endpoint, event, counts) in self.latencies() {
            samples.histogram(&[&endpoint, event], &counts);
        }
    }

    #[cfg(test)]
    pub(super) fn projects(&self) -> usize {
        self.known.read().unwrap().projects.len()
    }
}
