//! Exports recorded spans over OTLP (O3), from a thread of its own with a runtime of its own: nothing is sent on a core that serves
//! requests, and no request waits for a collector. What a collector does not take in time is lost, and counted.

mod otlp;

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};

use hapax_core::{Backoff, Error};
use hapax_gateway::trace::{SpanCounts, Trace, Tracer};
use http::header::CONTENT_TYPE;
use reqwest::{StatusCode, redirect};
use tokio::runtime::{Builder, Runtime};

use crate::config::Traces;
use crate::{clock, limits};

/// Spans are exported while this is there, and until it is told to end.
pub(crate) struct Exporting {
    thread: JoinHandle<()>,
    ends: Arc<AtomicBool>,
}

/// Starts to export.
pub(crate) fn start(traces: &Traces) -> Result<(Tracer, Exporting), Error> {
    let (tracer, recorded, counts) = Tracer::new(traces.sampling);
    let http = reqwest::Client::builder()
        .default_headers(traces.headers.clone())
        .user_agent(concat!("hapax/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .timeout(limits::EXPORT_TIMEOUT)
        .build()
        .map_err(impossible)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(impossible)?;
    let ends = Arc::<AtomicBool>::default();
    let url = traces.endpoint.clone();
    let exporter = Exporter { http, url, counts, recorded, ends: ends.clone(), told: false };
    let thread = thread::Builder::new().name("hapax-traces".into());
    let thread = thread.spawn(move || exporter.run(&runtime)).map_err(impossible)?;
    Ok((tracer, Exporting { thread, ends }))
}

fn impossible(error: impl Display) -> Error {
    Error::internal("spans cannot be exported").with_detail(error)
}

impl Exporting {
    /// Waits, bounded, until the collector has what was recorded.
    pub(crate) async fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        let ended = async {
            while !self.thread.is_finished() {
                tokio::time::sleep(limits::EXPORT_PAUSE).await;
            }
        };
        // What it has not then is lost with the process.
        let _ = tokio::time::timeout(limits::EXPORT_AT_END, ended).await;
    }
}

struct Exporter {
    http: reqwest::Client,
    url: String,
    counts: Arc<SpanCounts>,
    recorded: Receiver<Trace>,
    ends: Arc<AtomicBool>,
    /// Whether the log knows that the collector takes nothing.
    told: bool,
}

impl Exporter {
    /// Works until it is told to end and has nothing left.
    fn run(mut self, runtime: &Runtime) {
        let mut backoff = Backoff::default();
        while let Some(batch) = self.gather() {
            let spans = batch.iter().map(|trace| trace.spans.len()).sum();
            match runtime.block_on(self.send(otlp::request(&batch))) {
                Ok(()) => {
                    self.counts.exported(spans);
                    backoff = Backoff::default();
                    if std::mem::take(&mut self.told) {
                        tracing::info!("the collector takes spans again");
                    }
                }
                Err(cause) => {
                    self.counts.dropped(spans);
                    if !std::mem::replace(&mut self.told, true) {
                        tracing::warn!(cause, "the collector takes no spans; they are counted and dropped");
                    }
                    // What comes meanwhile waits in the queue, which is bounded.
                    if !self.ends() {
                        thread::sleep(backoff.pause(limits::EXPORT_BACKOFF));
                    }
                }
            }
        }
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// What was recorded, once there is something: as much as there is, or comes within a moment. Nothing at the end.
    fn gather(&self) -> Option<Vec<Trace>> {
        let mut batch = Vec::new();
        let mut until = None;
        loop {
            match self.recorded.recv_timeout(limits::EXPORT_PAUSE) {
                Ok(trace) => batch.push(trace),
                Err(RecvTimeoutError::Timeout) if self.ends() => return (!batch.is_empty()).then_some(batch),
                Err(RecvTimeoutError::Timeout) if batch.is_empty() => continue,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return (!batch.is_empty()).then_some(batch),
            }
            let until = until.get_or_insert_with(|| clock::now() + limits::EXPORT_EVERY);
            if batch.len() >= limits::EXPORT_BATCH || clock::now() >= *until {
                return Some(batch);
            }
        }
    }

    /// One request. What it is answered with beyond its status does not count, and is not read.
    async fn send(&self, body: Vec<u8>) -> Result<(), String> {
        let asking = self.http.post(&self.url).header(CONTENT_TYPE, "application/x-protobuf").body(body);
        // The URL of an error may hold what is not for logs.
        let answer = asking.send().await.map_err(|error| why(&error.without_url()))?;
        match answer.status() {
            status if status.is_success() && status != StatusCode::RESET_CONTENT => Ok(()),
            status => Err(format!("it answered {}", status.as_u16())),
        }
    }
}

fn why(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
