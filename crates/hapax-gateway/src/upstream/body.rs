//! The bodies of both directions: what is sent to a service, and what comes back while its connection is polled.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

use super::connection::{Broken, Conn};
use super::{Failed, Pool};

/// Why a streamed request body ended early.
pub type StreamError = Box<dyn std::error::Error + Send + Sync>;

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
    body: hyper::body::Incoming,
    from: Option<(Box<Conn>, Pool)>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("ended", &self.from.is_none()).finish_non_exhaustive()
    }
}

impl Incoming {
    pub(super) fn new(body: hyper::body::Incoming, conn: Box<Conn>, pool: Pool) -> Self {
        let mut this = Incoming { body, from: Some((conn, pool)) };
        if this.body.is_end_stream() {
            this.finish();
        }
        this
    }

    /// The answer was read to its end: its connection can serve again, unless hyper says otherwise.
    fn finish(&mut self) {
        if let Some((mut conn, pool)) = self.from.take()
            && conn.is_idle()
        {
            pool.put(conn);
        }
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // What hyper has read already comes first: it may be all there is. It comes while the connection is polled, so that
        // only the connection must wake this task.
        let noop = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(noop) {
            return Poll::Ready(frame);
        }
        let Some((conn, _)) = &mut self.from else { return Poll::Ready(None) };
        conn.poll_driver();
        let frame = Pin::new(&mut self.body).poll_frame(noop);
        if frame.is_pending() {
            conn.wait(cx);
        }
        frame
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        let this = self.get_mut();
        let frame = std::task::ready!(this.poll_body(cx));
        match frame {
            Some(Ok(frame)) => {
                if this.body.is_end_stream() {
                    this.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                if let Some((_, pool)) = this.from.take() {
                    pool.0.failed.fetch_add(1, Relaxed);
                }
                Poll::Ready(Some(Err(Broken { error, request: None, touched: true }.into())))
            }
            None => {
                this.finish();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
