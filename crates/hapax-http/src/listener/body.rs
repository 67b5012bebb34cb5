//! The body of a request, of either protocol.
//!
//! Most bodies of HTTP/1 come with their heads and are handed over whole. One that does not is read by its connection, as far
//! ahead as there is room, and taken from there by whoever has the body; only they two know of each other.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

use crate::http1::framing::{Framing, Step};
use crate::http1::sending::BodyError;
use crate::limits;

/// The body of a request.
pub struct Incoming(State);

enum State {
    Ended,
    /// All of it came with the head.
    Whole(Bytes),
    /// It is still coming.
    Flowing(Shared),
    H2(hyper::body::Incoming),
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = matches!(self.0, State::Ended);
        f.debug_struct("Incoming").field("ended", &ended).finish_non_exhaustive()
    }
}

impl Incoming {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Incoming(if bytes.is_empty() { State::Ended } else { State::Whole(bytes) })
    }

    /// All of the body, if it is there already.
    pub fn at_hand(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.0, State::Ended) {
            State::Ended => Some(Bytes::new()),
            State::Whole(bytes) => Some(bytes),
            State::H2(body) if body.is_end_stream() => Some(Bytes::new()),
            coming => {
                self.0 = coming;
                None
            }
        }
    }

    pub(super) fn flowing(flow: &Flow) -> Self {
        Incoming(State::Flowing(Shared(Arc::clone(&flow.0.0))))
    }

    pub(super) fn h2(body: hyper::body::Incoming) -> Self {
        Incoming(State::H2(body))
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match &mut this.0 {
            State::Ended => Poll::Ready(None),
            State::Whole(whole) => {
                let whole = std::mem::take(whole);
                this.0 = State::Ended;
                Poll::Ready(Some(Ok(Frame::data(whole))))
            }
            State::H2(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            State::Flowing(shared) => {
                let frame = std::task::ready!(shared.lock().poll_frame(cx));
                if !matches!(frame, Some(Ok(_))) {
                    this.0 = State::Ended;
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Ended => true,
            State::Whole(_) => false,
            State::Flowing(shared) => shared.lock().framing.is_over(),
            State::H2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Ended => SizeHint::with_exact(0),
            State::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            State::Flowing(shared) => shared.lock().framing.size_hint(),
            State::H2(body) => body.size_hint(),
        }
    }
}

/// What a connection and the body that comes on it share.
struct Shared(Arc<Mutex<Inner>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Inner {
    /// What has come and was not taken yet; what is behind the body, too.
    come: BytesMut,
    framing: Framing,
    go_ahead: GoAhead,
    end: Option<End>,
    /// Who waits for more of the body.
    taker: Option<Waker>,
    /// Who could read more, if there were room, or has something to say.
    giver: Option<Waker>,
}

/// Whether the client waits to be asked for its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoAhead {
    /// It does not, or was asked.
    Said,
    /// It does.
    Awaited,
    /// It is to be asked.
    Wanted,
}

/// Why no more of a body can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cut,
    Malformed,
}

/// The connection's end of a body. Once it is dropped no more of the body comes, and whoever waits for it hears so.
pub(super) struct Flow(Shared);

impl Drop for Flow {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.end.get_or_insert(End::Cut);
        if let Some(taker) = inner.taker.take() {
            taker.wake();
        }
    }
}

impl Flow {
    /// The body that is framed so, of which this has come.
    pub(super) fn new(come: BytesMut, framing: Framing, expects: bool) -> Self {
        let go_ahead = if expects && come.is_empty() { GoAhead::Awaited } else { GoAhead::Said };
        let inner = Inner { come, framing, go_ahead, end: None, taker: None, giver: None };
        Flow(Shared(Arc::new(Mutex::new(inner))))
    }

    /// Whether the client is to be asked for its body now; it is said once.
    pub(super) fn takes_go_ahead(&self) -> bool {
        let mut inner = self.0.lock();
        let wanted = inner.go_ahead == GoAhead::Wanted;
        if wanted {
            inner.go_ahead = GoAhead::Said;
        }
        wanted
    }

    /// Nobody is asked any more: there is an answer, and in its midst the question would be a part of it.
    pub(super) fn ask_no_more(&self) {
        self.0.lock().go_ahead = GoAhead::Said;
    }

    /// Lets the connection read more behind what has come, if there is room. Whoever waits for it is waked.
    pub(super) fn poll_give(
        &self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut Context<'_>, &mut BytesMut) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let unheard = self.is_unheard();
        let mut inner = self.0.lock();
        if unheard {
            // Its client may not read before it has sent everything.
            inner.passes_over();
        }
        let given = match inner.end {
            None if inner.come.len() < limits::CONNECTION_BUFFER => read(cx, &mut inner.come),
            _ => Poll::Pending,
        };
        match given.is_ready() {
            true => inner.wake_taker(cx),
            false => inner.giver = Some(cx.waker().clone()),
        }
        given
    }

    /// No more comes.
    pub(super) fn cut(&self, cx: &mut Context<'_>) {
        let mut inner = self.0.lock();
        inner.end.get_or_insert(End::Cut);
        inner.wake_taker(cx);
    }

    /// Whether nobody has the body any more.
    fn is_unheard(&self) -> bool {
        Arc::strong_count(&self.0.0) == 1
    }

    /// Whether it will not come to its end: nobody has the body any more, and not all of it has come.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_unheard() && !self.0.lock().passes_over()
    }

    /// What is behind the body: `None` if that has not come to its end, or somebody is still about to take it.
    pub(super) fn rest(&self) -> Option<BytesMut> {
        let unheard = self.is_unheard();
        let mut inner = self.0.lock();
        let over = if unheard { inner.passes_over() } else { inner.is_past() };
        over.then(|| std::mem::take(&mut inner.come))
    }
}

impl Inner {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match (self.end, self.framing.next(&mut self.come)) {
            (Some(End::Malformed), _) | (_, Err(_)) => {
                self.end = Some(End::Malformed);
                Some(Err("the body is not framed as bodies are".into()))
            }
            (_, Ok(Step::Data(data))) => Some(Ok(Frame::data(data))),
            (_, Ok(Step::Trailers(fields))) => Some(Ok(Frame::trailers(fields))),
            (_, Ok(Step::End)) => None,
            (Some(End::Cut), Ok(Step::More)) => Some(Err("the body was cut".into())),
            (None, Ok(Step::More)) => {
                if self.go_ahead == GoAhead::Awaited {
                    self.go_ahead = GoAhead::Wanted;
                }
                self.taker = Some(cx.waker().clone());
                self.wake_giver(cx);
                return Poll::Pending;
            }
        };
        self.taker = None;
        self.wake_giver(cx);
        Poll::Ready(frame)
    }

    /// Goes to the end of the body; whether that has come.
    fn passes_over(&mut self) -> bool {
        loop {
            match self.framing.next(&mut self.come) {
                Ok(Step::Data(_) | Step::Trailers(_)) => {}
                Ok(Step::More | Step::End) => return self.is_past(),
                Err(_) => {
                    self.end = Some(End::Malformed);
                    return false;
                }
            }
        }
    }

    /// Whether the body has come to its end, framed as it should be.
    fn is_past(&self) -> bool {
        self.end != Some(End::Malformed) && self.framing.is_over()
    }

    /// A task that runs now need not be waked.
    fn wake_giver(&mut self, cx: &Context<'_>) {
        if let Some(giver) = self.giver.take_if(|giver| !giver.will_wake(cx.waker())) {
            giver.wake();
        }
    }

    fn wake_taker(&mut self, cx: &Context<'_>) {
        if let Some(taker) = self.taker.take_if(|taker| !taker.will_wake(cx.waker())) {
            taker.wake();
        }
    }
}
