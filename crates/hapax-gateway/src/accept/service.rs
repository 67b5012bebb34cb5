//! Between hyper and a [`Handler`]: what no handler should see is refused, a panic becomes a 500, and the connection knows
//! that a request runs until its answer is written.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hapax_tower::{Code, Problem};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use pin_project_lite::pin_project;

use super::pulse::{Busy, Pulse};
use super::{Handler, Peer, Site};
use crate::limits;

/// Serves one request.
pub(super) fn answer<H: Handler>(
    site: &Arc<Site>,
    handler: &Arc<H>,
    pulse: &Arc<Pulse>,
    request: Request<Incoming>,
    peer: Peer,
) -> Answering<impl Future<Output = Response<H::Body>> + Send + use<H>> {
    let busy = Some(pulse.request_begins());
    let site = Arc::clone(site);
    if too_large(&request) {
        return Answering { busy, site, future: None, instead: Some(Code::HeadTooLarge) };
    }
    let handler = Arc::clone(handler);
    match catch_unwind(AssertUnwindSafe(|| handler.handle(request, peer))) {
        Ok(future) => Answering { busy, site, future: Some(future), instead: None },
        Err(panic) => {
            note(&site, panic.as_ref());
            Answering { busy, site, future: None, instead: Some(Code::Internal) }
        }
    }
}

/// What is beyond our bounds although hyper reads it.
fn too_large(request: &Request<Incoming>) -> bool {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    target > limits::TARGET || request.headers().len() > limits::FIELDS
}

fn note(site: &Site, panic: &(dyn Any + Send)) {
    site.counters.panics.fetch_add(1, Relaxed);
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text");
    tracing::error!(panic = text, "a handler panicked");
}

pin_project! {
    /// The answer to come.
    pub(super) struct Answering<F> {
        busy: Option<Busy>,
        site: Arc<Site>,
        #[pin]
        future: Option<F>,
        instead: Option<Code>,
    }
}

impl<F, B> Future for Answering<F>
where
    F: Future<Output = Response<B>>,
{
    type Output = Result<Response<Served<B>>, std::convert::Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(future) = this.future.as_mut().as_pin_mut() {
            match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
                Ok(response) => {
                    let response = ready!(response);
                    let busy = this.busy.take();
                    return Poll::Ready(Ok(response.map(|body| Served { body: Either::Left(body), busy })));
                }
                Err(panic) => note(this.site, panic.as_ref()),
            }
        }
        let busy = this.busy.take();
        let problem = Problem::new(this.instead.unwrap_or(Code::Internal));
        let response = problem.response(&this.site.docs);
        Poll::Ready(Ok(response.map(|body| Served { body: Either::Right(Full::new(body)), busy })))
    }
}

pin_project! {
    /// The body of an answer. While it lasts, its request runs.
    pub(super) struct Served<B> {
        #[pin]
        body: Either<B, Full<Bytes>>,
        busy: Option<Busy>,
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
