//! The body of an answer: held whole, or passed on as it comes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body of an answer.
#[derive(Debug)]
pub enum Body<B> {
    /// In memory.
    Whole {
        /// What is left of it.
        bytes: Option<Bytes>,
    },
    /// Passed on as it comes.
    Stream {
        /// What has come already.
        first: VecDeque<Bytes>,
        /// The rest.
        rest: B,
    },
}

impl<B> Body<B> {
    /// A body in memory.
    pub fn whole(bytes: Bytes) -> Self {
        Body::Whole { bytes: Some(bytes).filter(|bytes| !bytes.is_empty()) }
    }

    /// A body that is passed on.
    pub fn stream(rest: B) -> Self {
        Body::Stream { first: VecDeque::new(), rest }
    }
}

/// What only hapax may say a service cannot say in a trailer either (A5).
fn without_ours(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        crate::answer::remove_ours(trailers);
    }
    frame
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Body::Whole { bytes } => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Stream { first, rest } => match first.pop_front() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => Pin::new(rest).poll_frame(cx).map_ok(without_ours),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole { bytes } => bytes.is_none(),
            Body::Stream { first, rest } => first.is_empty() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole { bytes } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Body::Stream { first, rest } => {
                let read: u64 = first.iter().map(|bytes| bytes.len() as u64).sum();
                let mut hint = rest.size_hint();
                if let Some(upper) = hint.upper() {
                    hint.set_upper(upper + read);
                }
                hint.set_lower(hint.lower() + read);
                hint
            }
        }
    }
}
