//! The body of a keyed request, read whole within its bounds.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hapax_tower::{Code, Problem};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::admit::Admitted;
use crate::clock;
use crate::settings::Edge;

/// Reads a body. It may be `most` bytes long and must not come too slowly. There must be room for it: for a length that was
/// declared before anything is read, so that what was let in is not thrown away half-read; for any other as it comes. A body
/// that came in one piece is not copied. Trailers are read and forgotten (A5).
pub(crate) async fn whole<B>(
    mut body: B,
    most: usize,
    edge: &Edge,
    room: &mut Admitted,
) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    // What could never be held is not worth another try.
    let most = edge.max_buffered.min(most as u64);
    let too_large = || Problem::new(Code::BodyTooLarge).with("limit", most);
    let declared = body.size_hint().lower();
    if declared > most {
        return Err(too_large());
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    room.reserve(declared)?;
    let mut reserved = declared;
    let mut waits_since: Option<Instant> = None;
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let mut length = 0;
    loop {
        let frame = match at_hand(&mut body).await {
            Some(frame) => frame,
            None => {
                let since = *waits_since.get_or_insert_with(clock::now);
                let allowed = edge.header_timeout + Duration::from_secs(length / edge.body_rate.max(1));
                let frame = tokio::time::timeout_at(since + allowed, body.frame()).await;
                frame.map_err(|_| Problem::new(Code::RequestTimeout))?
            }
        };
        let Some(frame) = frame else { break };
        let frame =
            frame.map_err(|_| Problem::new(Code::RequestMalformed).detail("the body cannot be read"))?;
        let Ok(chunk) = frame.into_data() else { continue };
        length += chunk.len() as u64;
        if length > most {
            return Err(too_large());
        }
        if length > reserved {
            room.reserve(length - reserved)?;
            reserved = length;
        }
        match &first {
            None => first = Some(chunk),
            Some(head) => {
                if rest.is_empty() {
                    // Both are at most `most`, which came as a length in memory.
                    rest.reserve(declared.max(length) as usize);
                    rest.extend_from_slice(head);
                }
                rest.extend_from_slice(&chunk);
            }
        }
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}

/// What can be had of a body without waiting; most bodies come with their heads.
async fn at_hand<B: http_body::Body + Unpin>(
    body: &mut B,
) -> Option<Option<Result<http_body::Frame<B::Data>, B::Error>>> {
    std::future::poll_fn(|cx| match Pin::new(&mut *body).poll_frame(cx) {
        Poll::Ready(frame) => Poll::Ready(Some(frame)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
