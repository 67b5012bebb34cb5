//! Taking a service's answer: how much of it is kept, and what its first caller gets.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use hapax_core::{ClaimId, Doubt, Effect, Outcome};
use hapax_exec::{Ended, Seal};
use http::{HeaderMap, Method, Response, response};
use http_body_util::BodyExt as _;

use crate::answer;
use crate::body::Body;
use crate::judge::{Judged, judge};
use crate::rule::{Keep, Rule};
use crate::work::TriedBefore;

/// Counts what a call takes.
pub trait Room {
    /// The work begins: from here on the call is a claim of its own, not somebody's retry.
    fn begin(&mut self) {}

    /// It is known what became of the work, or will be without anybody's decision. Work that began and ends without this leaves
    /// a doubt.
    fn end(&mut self) {}

    /// It holds so many more bytes of an answer in memory. They cannot be refused: the work was done, and whoever would not
    /// take its answer would lose it. Whoever bounds them can only hold back new calls.
    fn grow(&mut self, bytes: usize);
}

/// Nobody counts.
impl Room for () {
    fn grow(&mut self, _: usize) {}
}

/// The answer for the first caller, and what was kept of it: it counts only if the ledger has just that.
pub(crate) struct First<B> {
    pub(crate) response: Response<Body<B>>,
    pub(crate) kept: Option<Outcome>,
}

/// Takes a service's answer to a request with this method: judges it, and keeps what is to be kept. Where
/// the first caller is to get the answer itself, that comes with it.
pub(crate) async fn take<B>(
    response: Response<B>,
    method: &Method,
    rule: &Rule,
    pauses: bool,
    sealing: Option<(&Seal, ClaimId)>,
    room: &mut impl Room,
) -> (Ended, Option<First<B>>)
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let (mut head, body) = response.into_parts();
    let tried_before = head.extensions.get::<TriedBefore>().is_some();
    // What no retry will get, such as the service's own words for its status, the first caller does not get either.
    head.extensions.clear();
    let judged = judge(head.status, &head.headers, rule);
    let status = head.status;
    clean(&mut head.headers, rule);
    let first = |head, body, kept| Some(First { response: Response::from_parts(head, body), kept });
    let settled = |head, body, outcome: Outcome| {
        let first = first(head, body, Some(outcome.clone()));
        (Ended::Settled(outcome), first)
    };
    let answered = || format!("the service answered {status}");
    match judged {
        Judged::Succeeded | Judged::Refused => {}
        Judged::Released => {
            let ended = if tried_before { Ended::Unknown(answered()) } else { Ended::NotRun(answered()) };
            return (ended, first(head, Body::stream(body), None));
        }
        Judged::Unknown => return (Ended::Unknown(answered()), None),
        Judged::Doubted => return (Ended::Doubt(Doubt::Stated, answered()), None),
        Judged::Unclear => {
            let unclear = "and its Idempotency-Outcome is not one of keep, release and doubt";
            return (Ended::Doubt(Doubt::Stated, format!("{}, {unclear}", answered())), None);
        }
    }
    let settle = |bytes: Bytes| match judged {
        Judged::Refused => Outcome::Refused(bytes),
        _ => Outcome::Succeeded(bytes),
    };
    let keep = |head: &response::Parts, body: Option<&[u8]>| kept(method, head, body, sealing);
    let not_kept = |head, body| match tried_before && Effect::of_status(status.as_u16()) == Effect::Nothing {
        // All that would be kept says that nothing was done, which only the last try knows of itself.
        true => (Ended::Unknown(answered()), first(head, body, None)),
        false => settled(head, body, Outcome::NotKept { status: status.as_u16() }),
    };
    match rule.keep {
        Keep::Full => {}
        Keep::Head => {
            // Where there is none, none is missing.
            let is_empty = body.is_end_stream() || body.size_hint().exact() == Some(0);
            let outcome = settle(keep(&head, is_empty.then_some(&[])));
            return settled(head, Body::stream(body), outcome);
        }
        Keep::Fact => {
            return not_kept(head, Body::stream(body));
        }
    }
    match read(body, rule.most_kept(), room).await {
        Ok(Read::Whole(bytes)) => {
            let outcome = settle(keep(&head, Some(&bytes)));
            settled(head, Body::whole(bytes), outcome)
        }
        Ok(Read::TooLong(first, rest)) => not_kept(head, Body::Stream { first, rest }),
        Err(error) => {
            let cause = format!("the service's answer broke off: {error}");
            (if pauses { Ended::Doubt(Doubt::Paused, cause) } else { Ended::Unknown(cause) }, None)
        }
    }
}

/// What is kept of an answer that somebody states: no more than of one that has come (B9). `None` for a body that is longer
/// than is read.
pub(crate) fn known(
    answer: Response<Option<Bytes>>,
    settle: fn(Bytes) -> Outcome,
    rule: &Rule,
    sealing: Option<(&Seal, ClaimId)>,
) -> Outcome {
    let (mut head, body) = answer.into_parts();
    clean(&mut head.headers, rule);
    let body = body.filter(|body| body.len() <= rule.most_kept());
    match (rule.keep, body) {
        (Keep::Full, Some(body)) => settle(kept(&Method::GET, &head, Some(&body), sealing)),
        (Keep::Head, body) => {
            let empty = body.filter(Bytes::is_empty);
            settle(kept(&Method::GET, &head, empty.as_deref(), sealing))
        }
        (Keep::Full | Keep::Fact, _) => Outcome::NotKept { status: head.status.as_u16() },
    }
}

/// Removes what is not for callers. A service that sends the key back has it as hapax wrote it, in every header that a key of this rule
/// may stand in (A5, K1).
fn clean(headers: &mut HeaderMap, rule: &Rule) {
    answer::clean(headers);
    rule.keys.remove_from(headers);
}

/// The bytes of an answer that are kept, sealed where they are to be.
fn kept(
    method: &Method,
    head: &response::Parts,
    body: Option<&[u8]>,
    sealing: Option<(&Seal, ClaimId)>,
) -> Bytes {
    let encoded = answer::keep(method, head.status, &head.headers, body);
    match sealing {
        Some((seal, claim)) => seal.seal(&claim, &encoded),
        None => encoded,
    }
}

enum Read<B> {
    Whole(Bytes),
    TooLong(VecDeque<Bytes>, B),
}

/// Reads a body to its end, or until it is longer than what is kept.
async fn read<B>(mut body: B, most: usize, room: &mut impl Room) -> Result<Read<B>, B::Error>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    // Most answers come in one piece, which needs no list.
    let (mut only, mut chunks) = (None, VecDeque::new());
    let mut length = 0;
    if body.size_hint().lower() > most as u64 {
        return Ok(Read::TooLong(chunks, body));
    }
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame?.into_data() else { continue };
        length += chunk.len();
        room.grow(chunk.len());
        if chunk.len() == length {
            only = Some(chunk);
        } else {
            chunks.extend(only.take());
            chunks.push_back(chunk);
        }
        if length > most {
            chunks.extend(only);
            return Ok(Read::TooLong(chunks, body));
        }
    }
    if chunks.is_empty() {
        return Ok(Read::Whole(only.unwrap_or_default()));
    }
    let mut whole = BytesMut::with_capacity(length);
    chunks.iter().for_each(|chunk| whole.extend_from_slice(chunk));
    Ok(Read::Whole(whole.freeze()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::{Frame, SizeHint};

    use super::*;
    use crate::limits::MOST_KEPT_RESPONSE;

    /// A body that is said to be so long.
    struct Long(u64);

    impl http_body::Body for Long {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(None)
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    #[tokio::test]
    async fn no_rule_keeps_an_answer_that_would_not_fit_into_the_spool_l15() {
        let rule = Rule { max_kept_response: usize::MAX, ..Rule::new("charge").unwrap() };
        let taken = async |length: usize| {
            let response = Response::new(Long(length as u64));
            take(response, &Method::POST, &rule, false, None, &mut ()).await.0
        };
        let longest = taken(MOST_KEPT_RESPONSE).await;
        assert!(matches!(longest, Ended::Settled(Outcome::Succeeded(_))), "{longest:?}");
        let longer = taken(MOST_KEPT_RESPONSE + 1).await;
        assert!(matches!(longer, Ended::Settled(Outcome::NotKept { status: 200 })), "{longer:?}");
    }
}
