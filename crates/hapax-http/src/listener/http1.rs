//! One connection of HTTP/1, request by request: head, handler, answer, and again.
//!
//! While a request runs the connection is listened to: for the rest of its body, for what a client sends ahead, and for the
//! connection's breaking, which ends the handler (H5). A client that sends no more may still read: nothing on the wire tells it
//! from one that has left, so what it has sent is answered. What is spoken is in parts that know nothing of sockets (`answer`, and
//! `http1` beside this folder), so that a head is read once, by one reader (ADR 20).

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body::{Body, SizeHint};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;

use super::answer::{self, GO_AHEAD, To};
use super::body::{Flow, Incoming};
use super::pulse::Pulse;
use super::stream::{Breaking, Stream};
use super::{Handler, Peer, Site, Stop, service};
use crate::http1::framing::Framing;
use crate::http1::request::{Head, Reader};
use crate::http1::sending::{BodyError, Left, Sending};
use crate::limits;
use crate::socket::poll_write_both;

/// The connection itself, for a handler that answers 101 to a request that named another protocol. It lies in the request's
/// extensions; of its clones, the first one that asks gets the connection.
#[derive(Clone, Debug)]
pub struct OnSwitch(Arc<Mutex<Option<oneshot::Receiver<Stream>>>>);

impl OnSwitch {
    /// The connection, once the answer is written; `None` if it was another answer, or the client has left.
    pub async fn switched(self) -> Option<Stream> {
        let switched = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        switched.await.ok()
    }
}

/// Serves requests until the client leaves, breaks the rules or the process ends.
pub(super) async fn serve<H: Handler>(
    site: &Arc<Site>,
    handler: &Arc<H>,
    pulse: &Arc<Pulse>,
    mut stream: Stream,
    peer: Peer,
) {
    let come = stream.take_first();
    let mut conn = Conn::new(stream, come, pulse);
    loop {
        let head = match conn.reader.read(&mut conn.come) {
            Ok(Some(head)) => head,
            Ok(None) if conn.more(&site.stop).await => continue,
            Ok(None) => return,
            Err(refused) => {
                let response = handler.refuse(peer, refused);
                return conn.refuse(response).await;
            }
        };
        let (request, facts) = conn.begin(head);
        let answering = pin!(service::answer(site, handler, pulse, request, peer));
        let Some(response) = conn.run(&facts, answering).await else { return };
        match conn.answer(facts, response, &site.stop).await {
            Next::Request => {}
            Next::Cut => return,
            Next::Close { unread } => return conn.close(unread).await,
            Next::Switch(switch) => return conn.switch(switch),
        }
    }
}

/// What is known of the request that runs.
struct Facts {
    to: To,
    keep: bool,
    /// Its body, if that did not come with the head.
    flow: Option<Flow>,
    /// Who gets the connection after a 101.
    switch: Option<oneshot::Sender<Stream>>,
}

/// What follows an answer.
enum Next {
    Request,
    /// Nothing, and the client must see that something is missing.
    Cut,
    /// The end of the connection; whether the client may still be sending what nobody reads.
    Close {
        unread: bool,
    },
    Switch(oneshot::Sender<Stream>),
}

/// What was heard while a request runs.
enum Heard {
    /// More of its body, or of what comes after it.
    More,
    /// That the connection has broken.
    End,
}

struct Conn<B> {
    stream: Stream,
    /// What has come and was not taken yet.
    come: BytesMut,
    reader: Reader,
    /// Whether the time for the present head runs.
    timed: bool,
    sending: Sending<B>,
    unflushed: bool,
    pulse: Arc<Pulse>,
    /// The client sends no more. It is answered, unless the connection breaks.
    ended: Option<Breaking>,
}

impl<B> Conn<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    fn new(stream: Stream, come: BytesMut, pulse: &Arc<Pulse>) -> Self {
        Conn {
            stream,
            come,
            reader: Reader::default(),
            timed: false,
            sending: Sending::default(),
            unflushed: false,
            pulse: Arc::clone(pulse),
            ended: None,
        }
    }

    /// Waits for more of the next head; whether there is more.
    async fn more(&mut self, stop: &Stop) -> bool {
        if self.ended.is_some() {
            return false;
        }
        let mut waits = false;
        poll_fn(|cx| {
            if !self.come.is_empty() && !self.timed {
                self.timed = true;
                self.pulse.head_begins();
            }
            let filled = fill(&mut self.stream, cx, &mut self.come);
            // What has come by then is answered.
            if filled.is_pending() && self.come.is_empty() && stop.is_stopped() {
                return Poll::Ready(false);
            }
            if filled.is_pending() && self.come.is_empty() {
                // Woken for nothing, as it is now and then while nothing comes: then it needs no room.
                if waits {
                    self.come = BytesMut::new();
                    self.sending = Sending::default();
                }
                waits = true;
            }
            filled.map(|count| matches!(count, Ok(1..)))
        })
        .await
    }

    /// The request with its body, and what must be known of it until it is answered.
    #[inline]
    fn begin(&mut self, head: Head) -> (Request<Incoming>, Facts) {
        self.timed = false;
        let old = head.is_old();
        let to = To::new(head.request.method(), old, head.said.takes_trailers);
        let mut facts = Facts { to, keep: head.keeps(), flow: None, switch: None };
        let body = match head.framing {
            Framing::Length(length) if length <= self.come.len() as u64 => {
                // It is not longer than what is in memory.
                Incoming::whole(self.come.split_to(length as usize).freeze())
            }
            framing => {
                let flow = Flow::new(std::mem::take(&mut self.come), framing, head.said.expects && !old);
                let body = Incoming::flowing(&flow);
                facts.flow = Some(flow);
                body
            }
        };
        let mut request = head.request.map(|()| body);
        // What HTTP/1.0 says of other protocols is not heard (RFC 9110, 7.8).
        if head.said.upgrade && !old {
            let (switch, switched) = oneshot::channel();
            facts.switch = Some(switch);
            request.extensions_mut().insert(OnSwitch(Arc::new(Mutex::new(Some(switched)))));
        }
        (request, facts)
    }

    /// What the handler answers; `None` when the connection breaks before.
    async fn run<F: Future>(&mut self, facts: &Facts, mut answering: Pin<&mut F>) -> Option<F::Output> {
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(output) = answering.as_mut().poll(cx) {
                    return Poll::Ready(Some(output));
                }
                match ready!(self.listen(cx, facts)) {
                    Heard::More => {}
                    Heard::End => return Poll::Ready(None),
                }
            }
        })
        .await
    }

    /// Writes an answer to its end.
    async fn answer(&mut self, mut facts: Facts, response: Response<B>, stop: &Stop) -> Next {
        let (head, body) = response.into_parts();
        // After a 1xx the client would take the next answer for the one to this request.
        if head.status.is_informational() && !self.may_switch(head.status, &mut facts) {
            return Next::Cut;
        }
        if let Some(flow) = &facts.flow {
            flow.ask_no_more();
        }
        let length = body.size_hint();
        let left = facts.to.left(head.status, &length);
        let unread = facts.flow.as_ref().is_some_and(Flow::is_given_up);
        let keep = facts.keep
            && left != Left::Bytes
            && !unread
            && !stop.is_stopped()
            && !answer::says_close(&head.headers);
        answer::write(&head, facts.to, left, &length, keep, self.sending.head());
        self.sending.body(body, left);
        if !poll_fn(|cx| self.poll_answer(cx, &facts)).await {
            if left == Left::Bytes {
                self.stream.breaks_off();
            }
            return Next::Cut;
        }
        self.sending.rest();
        match facts.switch {
            Some(switch) if head.status == StatusCode::SWITCHING_PROTOCOLS => Next::Switch(switch),
            _ => match facts.flow.map(|flow| flow.rest()) {
                Some(None) => Next::Close { unread: true },
                _ if !keep => Next::Close { unread: false },
                Some(Some(rest)) => {
                    self.come = rest;
                    Next::Request
                }
                None => Next::Request,
            },
        }
    }

    /// Whether another protocol was asked for and can begin: what is behind the request is that protocol's, and no part of
    /// the request's own body.
    fn may_switch(&mut self, status: StatusCode, facts: &mut Facts) -> bool {
        match facts.flow.take().map(|flow| flow.rest()) {
            None => {}
            Some(Some(rest)) => self.come = rest,
            Some(None) => return false,
        }
        status == StatusCode::SWITCHING_PROTOCOLS && facts.switch.is_some()
    }

    /// Whether all of the answer was written.
    fn poll_answer(&mut self, cx: &mut Context<'_>, facts: &Facts) -> Poll<bool> {
        loop {
            let Ok(waits) = self.sending.gather(cx) else {
                // What was there is the client's; what is missing must not look as if it were not.
                let _ = self.poll_out(cx);
                return Poll::Ready(false);
            };
            match self.poll_out(cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Ready(Ok(())) if self.sending.is_whole() => return Poll::Ready(true),
                Poll::Ready(Ok(())) if !waits => continue,
                _ => {}
            }
            match ready!(self.listen(cx, facts)) {
                Heard::More => {}
                Heard::End => return Poll::Ready(false),
            }
        }
    }

    /// Listens while a request runs, and says what its client waits to be told.
    fn listen(&mut self, cx: &mut Context<'_>, facts: &Facts) -> Poll<Heard> {
        if let Some(breaking) = &mut self.ended {
            return breaking.as_mut().poll(cx).map(|()| Heard::End);
        }
        let Some(flow) = &facts.flow else {
            while self.come.len() < limits::CONNECTION_BUFFER {
                match ready!(fill(&mut self.stream, cx, &mut self.come)) {
                    Ok(1..) => {}
                    Ok(0) => return Poll::Ready(self.ends()),
                    Err(_) => return Poll::Ready(Heard::End),
                }
            }
            return Poll::Pending;
        };
        if flow.takes_go_ahead() && self.sending.is_empty() {
            self.sending.head().extend_from_slice(GO_AHEAD);
        }
        if matches!(self.poll_out(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(Heard::End);
        }
        let stream = &mut self.stream;
        let count = ready!(flow.poll_give(cx, |cx, come| fill(stream, cx, come)));
        match count {
            Ok(1..) => Poll::Ready(Heard::More),
            Ok(0) => {
                flow.cut(cx);
                Poll::Ready(self.ends())
            }
            Err(_) => Poll::Ready(Heard::End),
        }
    }

    /// The client sends no more. From now on only the connection's breaking is listened for.
    fn ends(&mut self) -> Heard {
        match self.stream.breaking() {
            Ok(breaking) => {
                self.ended = Some(breaking);
                Heard::More
            }
            // Nobody would hear of it.
            Err(_) => Heard::End,
        }
    }

    /// Writes what was gathered.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.sending.is_empty() {
            self.unflushed = true;
            let count = ready!(poll_write_both(&mut self.stream, cx, &self.sending.slices()))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sending.written(count);
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Says why nothing more is read from this client, and ends.
    async fn refuse(mut self, response: Response<Bytes>) {
        let (head, body) = response.into_parts();
        let to = To::new(&http::Method::GET, false, false);
        let length = SizeHint::with_exact(body.len() as u64);
        let out = self.sending.head();
        answer::write(&head, to, Left::Length(body.len() as u64), &length, false, out);
        out.extend_from_slice(&body);
        if poll_fn(|cx| self.poll_out(cx)).await.is_ok() {
            self.close(true).await;
        }
    }

    /// Ends the connection so that the client gets all that was written: to close a socket on which something unread has come
    /// would take back what the client has not read yet.
    async fn close(mut self, unread: bool) {
        if self.stream.shutdown().await.is_err() || !unread {
            return;
        }
        let discarded = async {
            loop {
                self.come.clear();
                self.come.reserve(limits::READ);
                if !matches!(self.stream.read_buf(&mut self.come).await, Ok(1..)) {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(limits::LINGER, discarded).await;
    }

    /// Hands the connection over.
    fn switch(self, switch: oneshot::Sender<Stream>) {
        let _ = switch.send(self.stream.beginning_with(self.come));
    }
}

/// Reads more; how much it was.
fn fill(stream: &mut Stream, cx: &mut Context<'_>, come: &mut BytesMut) -> Poll<io::Result<usize>> {
    if come.capacity() - come.len() < limits::READ / 2 {
        come.reserve(limits::READ);
    }
    pin!(stream.read_buf(come)).poll(cx)
}
