//! The bodies of both directions: what is sent to a service, and what comes back while its connection is polled.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

use super::exchange::Conn;
use super::{Failed, Pool};
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
pub struct Incoming(State);

enum State {
    Ended,
    /// All of it came with the head; its connection is back already.
    Whole(Bytes),
    Flowing(Box<Conn>, Pool),
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = matches!(self.0, State::Ended);
        f.debug_struct("Incoming").field("ended", &ended).finish_non_exhaustive()
    }
}

impl Incoming {
    pub(super) fn new(mut conn: Box<Conn>, pool: &Pool) -> Self {
        match conn.whole_body() {
            None => Incoming(State::Flowing(conn, pool.clone())),
            Some(whole) => {
                pool.put(conn);
                Incoming(if whole.is_empty() { State::Ended } else { State::Whole(whole) })
            }
        }
    }

    fn finish(&mut self) {
        if let State::Flowing(conn, pool) = std::mem::replace(&mut self.0, State::Ended) {
            pool.put(conn);
        }
    }

    fn fail(&mut self) {
        if let State::Flowing(_, pool) = std::mem::replace(&mut self.0, State::Ended) {
            pool.0.failed.fetch_add(1, Relaxed);
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        let this = self.get_mut();
        let conn = match &mut this.0 {
            State::Ended => return Poll::Ready(None),
            State::Whole(whole) => {
                let whole = std::mem::take(whole);
                this.0 = State::Ended;
                return Poll::Ready(Some(Ok(Frame::data(whole))));
            }
            State::Flowing(conn, _) => conn,
        };
        let frame = std::task::ready!(conn.poll_body(cx));
        match &frame {
            Some(Ok(_)) if !conn.is_read() => {}
            Some(Ok(_)) | None => this.finish(),
            Some(Err(_)) => this.fail(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, State::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Ended => SizeHint::with_exact(0),
            State::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            State::Flowing(conn, _) => conn.size_hint(),
        }
    }
}
