//! How long an answer on a stream of HTTP/2 may wait for its client.
//!
//! Each stream has a window, which its client opens. While that is closed nothing is written, and the socket is never full: the
//! connection looks well, and the answer would stay for as long as the client likes, with the connection to the service that
//! it comes from. So such a stream is reset after as long as a connection of HTTP/1 that takes nothing is closed (H11).
//!
//! That a client reads shows only when it opens its window, and some do so only after they have read half of a large one. What was
//! handed out may still lie there unread, so its client has time to read that first, slowly; there is a most to that time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::{Instant, sleep_until};

use crate::{clock, limits};

tokio::task_local! {
    static WAITING: Arc<Waiting>;
}

/// What a stream waits for.
#[derive(Debug, Default)]
struct Waiting {
    /// The piece of an answer that its client has not taken yet, by its number; 0 if it is the client that waits.
    piece: AtomicU64,
    /// Bytes of the answer that were handed out.
    handed: AtomicU64,
}

/// Runs the streams of one connection.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// How long a client may take nothing.
    pub(super) patience: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let waiting = Arc::<Waiting>::default();
        let watched = watched(stream, Arc::clone(&waiting), self.patience);
        tokio::spawn(WAITING.scope(waiting, watched));
    }
}

/// Polls a stream to its end, or until its client has taken nothing for so long: dropped, it is reset.
async fn watched(stream: impl Future, waiting: Arc<Waiting>, patience: Duration) {
    let mut stream = pin!(stream);
    let (mut last, mut timer) = (0, pin!(None));
    let mut reading = Reading { handed: 0, until: clock::now() };
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let piece = waiting.piece.load(Relaxed);
        if piece != last {
            last = piece;
            let read = reading.until(waiting.handed.load(Relaxed), clock::now());
            timer.set((piece != 0).then(|| sleep_until(read + patience)));
        }
        timer.as_mut().as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx))
    })
    .await;
}

/// When a slow client has read what was handed out to it.
struct Reading {
    /// Bytes that were handed out.
    handed: u64,
    until: Instant,
}

impl Reading {
    /// The same with so many bytes handed out in all. Waits in between count: a stream also waits for the socket, a little for
    /// each piece of a large window.
    fn until(&mut self, handed: u64, now: Instant) -> Instant {
        let more = Duration::from_secs_f64((handed - self.handed) as f64 / limits::STREAM_READ_RATE);
        self.handed = handed;
        self.until = (self.until.max(now) + more).min(now + limits::STREAM_READING);
        self.until
    }
}

/// An answer that says whether its client takes it. Only on a stream that [`Streams`] runs.
pub(super) fn watch<B>(response: Response<B>) -> Response<Taken<B>> {
    let waiting = WAITING.try_with(Arc::clone).unwrap_or_default();
    response.map(|body| Taken { body, rest: Bytes::new(), pieces: 0, waiting })
}

/// A body in pieces that are short enough to show that a slow client takes them.
pub(super) struct Taken<B> {
    body: B,
    /// What is left of the last piece.
    rest: Bytes,
    pieces: u64,
    waiting: Arc<Waiting>,
}

impl<B> Taken<B> {
    /// Hands out as much as is one piece.
    fn piece(&mut self, mut data: Bytes) -> Frame<Bytes> {
        self.rest = data.split_off(data.len().min(limits::STREAM_PIECE));
        self.pieces += 1;
        self.waiting.handed.fetch_add(data.len() as u64, Relaxed);
        self.waiting.piece.store(self.pieces, Relaxed);
        Frame::data(data)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Taken<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if !this.rest.is_empty() {
            let rest = std::mem::take(&mut this.rest);
            return Poll::Ready(Some(Ok(this.piece(rest))));
        }
        this.waiting.piece.store(0, Relaxed);
        Pin::new(&mut this.body).poll_frame(cx).map_ok(|frame| match frame.into_data() {
            Ok(data) => this.piece(data),
            Err(other) => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use http::HeaderMap;
    use http_body_util::BodyExt as _;

    use super::*;

    /// Pieces of these lengths, and a trailer behind them.
    struct Pieces(VecDeque<usize>, bool);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let this = self.get_mut();
            let left = this.0.len();
            if let Some(length) = this.0.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![left as u8; length])))));
            }
            let trailers = std::mem::take(&mut this.1);
            Poll::Ready(trailers.then(|| Ok(Frame::trailers(HeaderMap::new()))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty() && !self.1
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0.iter().sum::<usize>() as u64)
        }
    }

    /// How long a client is waited for that is handed so much every second for so long, and then takes nothing.
    async fn waited(each_second: u64, seconds: u64, patience: Duration) -> Duration {
        let waiting = Arc::<Waiting>::default();
        let handing = async {
            for piece in 1..=seconds {
                waiting.handed.fetch_add(each_second, Relaxed);
                waiting.piece.store(piece, Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            std::future::pending::<()>().await;
        };
        let began = Instant::now();
        watched(handing, Arc::clone(&waiting), patience).await;
        began.elapsed() - Duration::from_secs(seconds - 1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_time_to_read_what_was_handed_out_and_no_more_than_a_bound_h11() {
        let (rate, patience) = (limits::STREAM_READ_RATE as u64, Duration::from_secs(75));
        let about = |waited: Duration, wanted: Duration| waited.abs_diff(wanted) < Duration::from_secs(1);
        // All of a window at once, or piece by piece, as the socket takes it.
        assert!(about(waited(100 * rate, 1, patience).await, patience + Duration::from_secs(100)));
        assert!(about(waited(11 * rate, 10, patience).await, patience + Duration::from_secs(101)));
        // Who has read all along owes nothing.
        assert!(about(waited(rate, 60, patience).await, patience + Duration::from_secs(1)));
        assert!(about(waited(u64::from(u32::MAX), 60, patience).await, patience + limits::STREAM_READING));
    }

    #[tokio::test]
    async fn a_body_in_shorter_pieces_is_the_same_body_h11() {
        let longest = limits::STREAM_PIECE;
        for lengths in
            [vec![], vec![0], vec![1, longest, 2], vec![longest + 1, 0, 3 * longest], vec![10 * longest]]
        {
            for trailers in [false, true] {
                let whole: usize = lengths.iter().sum();
                let expected: Vec<u8> = lengths
                    .iter()
                    .rev()
                    .enumerate()
                    .rev()
                    .flat_map(|(at, length)| vec![at as u8 + 1; *length])
                    .collect();
                let mut body = watch(Response::new(Pieces(lengths.clone().into(), trailers))).into_body();
                let (mut come, mut ended) = (Vec::new(), false);
                while let Some(frame) = body.frame().await {
                    match frame.unwrap().into_data() {
                        Ok(data) => {
                            assert!(data.len() <= longest);
                            come.extend_from_slice(&data);
                        }
                        Err(_) => ended = true,
                    }
                    assert_eq!(body.size_hint().exact(), Some((whole - come.len()) as u64), "{lengths:?}");
                    assert_eq!(
                        body.is_end_stream(),
                        come.len() == whole && ended == trailers && body.body.0.is_empty()
                    );
                }
                assert!(come == expected && ended == trailers, "{lengths:?}");
            }
        }
    }
}
