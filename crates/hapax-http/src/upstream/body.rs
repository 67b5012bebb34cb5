//! The bodies of both directions: what is sent to a service, and what comes back while its connection is polled.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::Sleep;

use super::exchange::Conn;
use super::{Failed, FailedKind, Pool, Reached};
use crate::http1::sending::BodyError;

/// Why a streamed request body ended early.
pub type StreamError = BodyError;

/// The body of a request to a service.
#[derive(Debug, Default)]
pub enum Outgoing {
    /// Nothing.
    #[default]
    Empty,
    /// All of it, at hand.
    Whole(Bytes),
    /// As it comes from the client; only where nothing is kept.
    Stream(UnsyncBoxBody<Bytes, StreamError>),
}

impl Outgoing {
    /// A body as it comes from a client.
    pub fn stream<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StreamError>,
    {
        Outgoing::Stream(body.map_err(Into::into).boxed_unsync())
    }
}

impl From<Bytes> for Outgoing {
    fn from(whole: Bytes) -> Self {
        if whole.is_empty() { Outgoing::Empty } else { Outgoing::Whole(whole) }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        match this {
            Outgoing::Empty => Poll::Ready(None),
            Outgoing::Whole(whole) => {
                let whole = std::mem::take(whole);
                *this = Outgoing::Empty;
                Poll::Ready((!whole.is_empty()).then(|| Ok(Frame::data(whole))))
            }
            Outgoing::Stream(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Empty => true,
            Outgoing::Whole(whole) => whole.is_empty(),
            Outgoing::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Empty => SizeHint::with_exact(0),
            Outgoing::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            Outgoing::Stream(body) => body.size_hint(),
        }
    }
}

/// The body of an answer. Polling it polls the connection; at its end the connection goes back to its pool. Dropped before,
/// it closes the connection.
#[must_use = "a body that is not read closes its connection"]
pub struct Incoming {
    state: State,
    silence: Option<Box<Silence>>,
}

/// How long nothing may come.
struct Silence {
    longest: Duration,
    /// Runs while something is waited for.
    ends: Option<Pin<Box<Sleep>>>,
}

enum State {
    Ended,
    /// All of it came with the head; its connection is back already.
    Whole(Bytes),
    Flowing(Box<Conn>, Pool),
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = matches!(self.state, State::Ended);
        f.debug_struct("Incoming").field("ended", &ended).finish_non_exhaustive()
    }
}

impl Incoming {
    pub(super) fn new(mut conn: Box<Conn>, pool: &Pool) -> Self {
        let state = match conn.whole_body() {
            None => State::Flowing(conn, pool.clone()),
            Some(whole) => {
                pool.put(conn);
                if whole.is_empty() { State::Ended } else { State::Whole(whole) }
            }
        };
        Incoming { state, silence: None }
    }

    /// It breaks off when nothing of it has come for so long, from now on. Whoever does not read it does not wait for it.
    pub fn end_after_silence(&mut self, longest: Duration) {
        if matches!(self.state, State::Flowing(..)) {
            self.silence = Some(Box::new(Silence { longest, ends: None }));
        }
    }

    fn finish(&mut self) {
        if let State::Flowing(conn, pool) = std::mem::replace(&mut self.state, State::Ended) {
            pool.put(conn);
        }
    }

    fn fail(&mut self) {
        if let State::Flowing(_, pool) = std::mem::replace(&mut self.state, State::Ended) {
            pool.0.failed.fetch_add(1, Relaxed);
        }
    }

    /// Nothing has come: for too long?
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Failed> {
        let Some(silence) = &mut self.silence else { return Poll::Pending };
        let longest = silence.longest;
        let ends = silence.ends.get_or_insert_with(|| Box::pin(tokio::time::sleep(longest)));
        ready!(ends.as_mut().poll(cx));
        self.fail();
        let cause = format!("nothing of the answer came for {longest:?}");
        Poll::Ready(Failed { reached: Reached::Perhaps, kind: FailedKind::Timeout, cause })
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        let this = self.get_mut();
        let conn = match &mut this.state {
            State::Ended => return Poll::Ready(None),
            State::Whole(whole) => {
                let whole = std::mem::take(whole);
                this.state = State::Ended;
                return Poll::Ready(Some(Ok(Frame::data(whole))));
            }
            State::Flowing(conn, _) => conn,
        };
        let Poll::Ready(frame) = conn.poll_body(cx) else {
            return this.poll_silence(cx).map(|failed| Some(Err(failed)));
        };
        if let Some(silence) = &mut this.silence {
            silence.ends = None;
        }
        match &frame {
            Some(Ok(_)) if !conn.is_read() => {}
            Some(Ok(_)) | None => this.finish(),
            Some(Err(_)) => this.fail(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Ended => SizeHint::with_exact(0),
            State::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            State::Flowing(conn, _) => conn.size_hint(),
        }
    }
}
