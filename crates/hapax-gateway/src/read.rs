//! Step 5, the first half: the body of a keyed request, read whole within its bounds.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hapax_tower::Room as _;
use hapax_tower::{Code, Problem};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::admit::Admitted;
use crate::settings::Edge;

/// Reads a body. It may be `most` bytes long and must not come too slowly; its bytes are counted as they come. A body that
/// came in one piece is not copied. Trailers are read and forgotten (A5).
pub(crate) async fn whole<B>(
    mut body: B,
    most: usize,
    edge: &Edge,
    room: &mut Admitted,
) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let too_large = || Problem::new(Code::BodyTooLarge).with("limit", most);
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let began = Instant::now();
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let mut length = 0;
    loop {
        let allowed = edge.header_timeout + Duration::from_secs(length as u64 / edge.body_rate.max(1));
        let frame = match tokio::time::timeout_at(began + allowed, body.frame()).await {
            Err(_) => return Err(Problem::new(Code::RequestTimeout)),
            Ok(None) => break,
            Ok(Some(Err(_))) => {
                return Err(Problem::new(Code::RequestMalformed).detail("the body cannot be read"));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(chunk) = frame.into_data() else { continue };
        length += chunk.len();
        if length > most {
            return Err(too_large());
        }
        room.grow(chunk.len());
        match &first {
            None => first = Some(chunk),
            Some(head) => {
                if rest.is_empty() {
                    rest.extend_from_slice(head);
                }
                rest.extend_from_slice(&chunk);
            }
        }
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}
