//! Between a connection and a [`Handler`]: what no handler should see is refused, a panic becomes a 500, and the connection knows
//! that a request runs until its answer is written.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;

use super::answer::{To, may_measure};
use super::body::Incoming;
use super::pulse::{Busy, Pulse};
use super::{Handler, Peer, Site};
use crate::http1::sending::Left;
use crate::limits;
use crate::refusal::Refusal;

/// Serves one request.
///
/// A handler's future is large, and is moved as a whole before it is first polled. So it is made where it stays.
pub(super) async fn answer<H: Handler>(
    site: &Site,
    handler: &Arc<H>,
    pulse: &Arc<Pulse>,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<Served<H::Body>> {
    let busy = pulse.request_begins();
    let answered = match too_large(&request) {
        true => Err(Refusal::HeadTooLarge),
        false => {
            let running = Arc::clone(handler);
            let running = pin!(async move { pin!(running.handle(request, peer)).await });
            Caught(running).await.map_err(|panic| {
                note(site, panic.as_ref());
                Refusal::Panicked
            })
        }
    };
    match answered {
        Ok(response) => response.map(|body| Served { body: Either::Left(body), busy }),
        Err(refusal) => {
            let response = handler.refuse(peer, refusal);
            response.map(|body| Served { body: Either::Right(Full::new(body)), busy })
        }
    }
}

/// An answer as HTTP/2 sends it, where nobody else sees to it that what has no body has none. A head alone still says how long
/// the rest would be.
pub(super) fn framed<B>(to: To, response: Response<Served<B>>) -> Response<Served<B>>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let length = response.body().size_hint();
    if to.left(response.status(), &length) != Left::Nothing {
        return response;
    }
    let (mut head, body) = response.into_parts();
    match length.exact() {
        // Some clients take such an answer for a broken one.
        _ if !may_measure(head.status) => drop(head.headers.remove(CONTENT_LENGTH)),
        Some(length @ 1..) => drop(head.headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into())),
        _ => {}
    }
    Response::from_parts(head, Served { body: Either::Right(Full::default()), busy: body.busy })
}

/// What is beyond our bounds although it can be read. HTTP/1 has been held to the length of a head where it was read.
fn too_large(request: &Request<Incoming>) -> bool {
    let (headers, old) = (request.headers(), request.version() < Version::HTTP_2);
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let length = || headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
    target > limits::TARGET || headers.len() > limits::FIELDS || (!old && length() > limits::HEAD)
}

fn note(site: &Site, panic: &(dyn Any + Send)) {
    site.counters.panics.fetch_add(1, Relaxed);
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text");
    tracing::error!(panic = text, "a handler panicked");
}

/// Ends with a panic instead of passing it on.
struct Caught<'a, F>(Pin<&'a mut F>);

impl<F: Future> Future for Caught<'_, F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

pin_project! {
    /// The body of an answer. While it lasts, its request runs.
    pub(super) struct Served<B> {
        #[pin]
        body: Either<B, Full<Bytes>>,
        busy: Busy,
    }
}

impl<B> Body for Served<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
