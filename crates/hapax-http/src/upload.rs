//! The body of a request that is passed on as it comes (H11): without its trailers, and not for ever.
//!
//! Only the time that is spent waiting for the client counts against it, so that a service that reads slowly is not blamed
//! on the client. How long the service may take counts from the last piece that it was given: a long upload is no silence.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock;
use crate::listener::Incoming;
use crate::settings::Pacing;
use crate::upstream::StreamError;

/// How an upload goes on, for whoever waits for the answer.
#[derive(Debug)]
pub struct Pace {
    too_slow: AtomicBool,
    moved: Mutex<Instant>,
}

impl Pace {
    /// Of an upload that begins now.
    pub fn new() -> Arc<Self> {
        Arc::new(Pace { too_slow: AtomicBool::new(false), moved: Mutex::new(clock::now()) })
    }

    /// Whether it was given up because the client sent too slowly.
    pub fn was_too_slow(&self) -> bool {
        self.too_slow.load(Relaxed)
    }

    fn moved(&self) -> Instant {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moves(&self) {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = clock::now();
    }

    /// Returns when nothing has moved for so long; without an upload, that is from now on.
    pub async fn still_for(pace: Option<&Self>, span: Duration) {
        let mut until = pace.map_or_else(clock::now, Pace::moved) + span;
        loop {
            sleep_until(until).await;
            let moved = pace.map(|pace| pace.moved() + span).filter(|moved| *moved > until);
            let Some(later) = moved else { return };
            until = later;
        }
    }
}

/// A body on its way from a client to a service.
pub struct Upload {
    body: Incoming,
    pace: Arc<Pace>,
    patience: Duration,
    rate: u64,
    length: u64,
    waited: Duration,
    /// Since when the client is waited for, and until when.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Upload {
    /// This body, as long as its client keeps this pace.
    pub fn new(body: Incoming, pacing: Pacing, pace: Arc<Pace>) -> Self {
        let (patience, rate) = (pacing.patience, pacing.rate.max(1));
        Upload { body, pace, patience, rate, length: 0, waited: Duration::ZERO, waiting: None }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                // A field hidden in a trailer must not get past those who read the head (A5).
                Poll::Ready(Some(Ok(frame))) if !frame.is_data() => {}
                other => return other,
            }
        }
    }

    fn still_patient(&mut self, cx: &mut Context<'_>) -> bool {
        let left = (self.patience + Duration::from_secs(self.length / self.rate)).saturating_sub(self.waited);
        let (_, timer) = self.waiting.get_or_insert_with(|| {
            let now = clock::now();
            (now, Box::pin(sleep_until(now + left)))
        });
        timer.as_mut().poll(cx).is_pending()
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let Poll::Ready(frame) = self.poll_data(cx) else {
            if self.still_patient(cx) {
                return Poll::Pending;
            }
            self.pace.too_slow.store(true, Relaxed);
            return Poll::Ready(Some(Err("the client sends too slowly".into())));
        };
        if let Some((since, _)) = self.waiting.take() {
            self.waited += since.elapsed();
        }
        if let Some(Ok(frame)) = &frame {
            self.length += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        self.pace.moves();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
