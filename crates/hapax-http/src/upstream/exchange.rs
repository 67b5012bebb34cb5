//! One request and its answer on one connection, polled by whoever waits for it.
//!
//! Both directions go on at the same time: an answer may come before the request was sent, and whoever reads its body sends
//! the rest. Every poll tries whatever it returns `Pending` for, so that the task which polled last is the one that is woken.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use super::body::Outgoing;
use super::connection::Open;
use super::head;
use super::wire::{Raw, Wire};
use super::{Failed, FailedKind, Reached};
use crate::clock;
use crate::http1::Malformed;
use crate::http1::framing::{Framing, Step};
use crate::http1::response::Reader;
use crate::http1::sending::Sending;
use crate::limits;

/// A connection to a service, and the exchange that is under way on it.
pub(super) struct Conn {
    wire: Wire,
    sending: Sending<Outgoing>,
    /// Whether what was written may still wait in front of the socket.
    unflushed: bool,
    /// Why no more could be written, though something was.
    broken: Option<io::Error>,
    /// What has come and was not taken yet.
    come: BytesMut,
    /// How much is read at once.
    room: usize,
    reader: Reader,
    framing: Framing,
    keep: bool,
    /// Whether a request was begun on it, and whether one was before the present one.
    used: bool,
    carried: bool,
    /// Whether anything of the present answer has come.
    answered: bool,
    pub(super) idle_since: Instant,
    open: Open,
}

impl Conn {
    pub(super) fn new(wire: Wire, open: Open) -> Self {
        Conn {
            wire,
            sending: Sending::default(),
            unflushed: false,
            broken: None,
            come: BytesMut::new(),
            room: limits::READ,
            reader: Reader::default(),
            framing: Framing::Length(0),
            keep: true,
            used: false,
            carried: false,
            answered: false,
            idle_since: clock::now(),
            open,
        }
    }

    /// Whether it can be used again after it was idle.
    pub(super) fn stands(&mut self, cx: &mut Context<'_>) -> bool {
        self.wire.stands(cx)
    }

    /// Begins with a request; nothing is written yet.
    pub(super) fn begin(&mut self, request: Request<Outgoing>, host: &HeaderValue, reuse: bool) {
        self.wire.begin();
        (self.carried, self.used, self.answered) = (self.used, true, false);
        self.reader = Reader::new(request.method() == Method::HEAD);
        head::begin(request, host, reuse, &mut self.sending);
    }

    /// The head of the answer. The request is sent meanwhile, as far as it goes.
    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Failed>> {
        self.send(cx)?;
        loop {
            if let Some(head) = self.reader.read(&mut self.come).map_err(|why| self.malformed(why))? {
                self.framing = head.framing;
                self.keep = head.keep;
                return Poll::Ready(Ok(head.response));
            }
            if ready!(self.poll_fill(cx))? == 0 {
                self.reader.end(&mut self.come).map_err(|why| self.malformed(why))?;
                return Poll::Ready(Err(self.cut()));
            }
        }
    }

    /// What comes next of the answer's body; `None` at its end.
    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        self.send(cx)?;
        loop {
            match self.framing.next(&mut self.come).map_err(|why| self.malformed(why))? {
                Step::Data(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Step::Trailers(fields) => return Poll::Ready(Some(Ok(Frame::trailers(fields)))),
                Step::End => return Poll::Ready(None),
                Step::More => {}
            }
            if ready!(self.poll_fill(cx))? == 0 {
                self.keep = false;
                return Poll::Ready((!self.framing.ends_with_connection()).then(|| Err(self.cut())));
            }
        }
    }

    /// The body of the answer, if all of it has come with the head.
    pub(super) fn whole_body(&mut self) -> Option<Bytes> {
        match self.framing {
            Framing::Length(length) if length <= self.come.len() as u64 => {
                self.framing = Framing::Length(0);
                // It is not longer than what is in memory.
                Some(self.come.split_to(length as usize).freeze())
            }
            _ => None,
        }
    }

    /// Whether the answer has been read to its end.
    pub(super) fn is_read(&self) -> bool {
        self.framing.is_over()
    }

    /// How much of the answer is still to come.
    pub(super) fn size_hint(&self) -> SizeHint {
        self.framing.size_hint()
    }

    /// Whether it can take another request: the last answer is read, the last request is sent, both sides mean to go on, and
    /// nothing has come that belongs to no answer.
    pub(super) fn is_reusable(&self) -> bool {
        self.keep && self.is_read() && self.is_sent() && self.come.is_empty() && self.wire.is_quiet()
    }

    /// Gives up room that no short exchange needs.
    pub(super) fn rest(&mut self) {
        self.sending.rest();
        if self.room > limits::READ {
            self.room = limits::READ;
            self.come = BytesMut::new();
        }
    }

    /// The bare connection, after a 101 to a request that was sent.
    pub(super) fn into_raw(self) -> Result<Raw, Failed> {
        if !self.is_sent() {
            return Err(self.failed(FailedKind::Malformed, "another protocol in the middle of a request"));
        }
        Ok(Raw::new(self.wire, self.come.freeze(), self.open))
    }

    fn is_sent(&self) -> bool {
        self.sending.is_whole() && !self.unflushed && self.broken.is_none()
    }

    /// Sends what can be sent now. Where the socket breaks under it, the answer may be there all the same.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Failed> {
        if self.is_sent() || self.broken.is_some() {
            return Ok(());
        }
        for _ in 0..limits::SEND_TURN {
            let waits = self.sending.gather(cx).map_err(|error| {
                self.failed(FailedKind::RequestBody, &format!("the request's body broke off: {error}"))
            })?;
            match self.poll_out(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) if !self.wire.touched() => {
                    return Err(self.failed(FailedKind::Closed, &error.to_string()));
                }
                Poll::Ready(Err(error)) => {
                    self.broken = Some(error);
                    self.sending.stop();
                    return Ok(());
                }
                Poll::Ready(Ok(())) if waits || self.is_sent() => return Ok(()),
                Poll::Ready(Ok(())) => {}
            }
        }
        // It could go on, but the answer is to be looked for as well.
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Writes what was gathered.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.sending.is_empty() {
            self.unflushed = true;
            let count = ready!(self.wire.poll_write(cx, &self.sending.slices()))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sending.written(count);
        }
        if self.unflushed {
            ready!(self.wire.poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads more; how much it was.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failed>> {
        if self.come.capacity() - self.come.len() < self.room / 2 {
            self.come.reserve(self.room);
        }
        let count = ready!(self.wire.poll_read(cx, &mut self.come))
            .map_err(|error| self.failed(FailedKind::Closed, &error.to_string()))?;
        self.answered |= count > 0;
        if self.come.len() == self.come.capacity() {
            self.room = (self.room * 2).min(limits::READ_MOST);
        }
        Poll::Ready(Ok(count))
    }

    fn failed(&self, kind: FailedKind, cause: &str) -> Failed {
        let reached = if self.wire.touched() { Reached::Perhaps } else { Reached::No };
        // Who closes a connection that was used, as the next request is on its way, does so again: operators are to know.
        let is_stale = kind == FailedKind::Closed && self.carried && !self.answered;
        let why = if is_stale {
            ", on a connection that had carried a request before (see `reuse` of the upstream)"
        } else {
            ""
        };
        Failed { reached, kind, cause: format!("{cause}{why}") }
    }

    fn malformed(&self, why: Malformed) -> Failed {
        self.failed(FailedKind::Malformed, &why.0)
    }

    /// The connection has ended before the answer.
    fn cut(&self) -> Failed {
        let cause = match &self.broken {
            Some(error) => format!("the connection broke: {error}"),
            None => "the connection ended before the answer did".to_owned(),
        };
        self.failed(FailedKind::Closed, &cause)
    }
}
