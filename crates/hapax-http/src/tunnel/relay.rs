//! Passing a WebSocket connection on, both ways, until either side ends it or the process does.
//!
//! When the process is about to end, both sides are told so with a close frame (1001, going away). It is written where a frame
//! ends: in the midst of one it would be taken for a part of it. What cannot be told that way is closed without a word.

use std::hash::{BuildHasher as _, RandomState};
use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::timeout;

use super::frames::Frames;
use crate::limits;
use crate::listener::{Stop, Stream};
use crate::upstream::Raw;

/// The status that says that the process is about to end (RFC 6455, 7.4.1).
const GOING_AWAY: [u8; 2] = 1001_u16.to_be_bytes();

/// How one direction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Its sender sends no more.
    BySender,
    /// The process is about to end; whether a close frame may follow what was passed on.
    ByProcess { may_close: bool },
}

/// Passes bytes both ways. Either side may be silent for as long as it likes, but not gone.
pub(super) async fn run(mut client: Stream, service: Raw, is_framed: bool) {
    let stop = client.becomes_tunnel();
    let (mut from_client, mut to_client) = split(client);
    let (mut from_service, mut to_service) = split(service);
    let (mut up, mut down) = (Frames::default(), Frames::default());
    let passed = tokio::try_join!(
        pass(&mut from_client, &mut to_service, &mut up, is_framed, &stop),
        pass(&mut from_service, &mut to_client, &mut down, is_framed, &stop),
    );
    // However it ends, both connections are closed with this.
    let Ok((up_ended, down_ended)) = passed else { return };
    let closing = async {
        if up_ended == (Ended::ByProcess { may_close: true }) {
            say(&mut to_service, &masked_close()).await?;
        }
        if down_ended == (Ended::ByProcess { may_close: true }) {
            let [high, low] = GOING_AWAY;
            say(&mut to_client, &[0x88, 2, high, low]).await?;
        }
        tokio::join!(closed(&mut from_client, &mut up), closed(&mut from_service, &mut down));
        to_client.shutdown().await
    };
    let _ = timeout(limits::TUNNEL_CLOSING, closing).await;
}

/// Passes one direction on, whole frames only once the process is about to end.
async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    frames: &mut Frames,
    is_framed: bool,
    stop: &Stop,
) -> io::Result<Ended> {
    let mut come = BytesMut::with_capacity(limits::READ);
    loop {
        if stop.is_stopped() && (!is_framed || frames.is_lost() || frames.is_between()) {
            let may_close = is_framed && !frames.is_lost() && !frames.is_closed();
            return Ok(Ended::ByProcess { may_close });
        }
        come.clear();
        let count = tokio::select! {
            count = from.read_buf(&mut come) => count?,
            () = stop.stopped(), if !stop.is_stopped() => continue,
        };
        if count == 0 {
            to.shutdown().await?;
            return Ok(Ended::BySender);
        }
        let mut at = 0;
        while at < come.len() && !(at > 0 && stop.is_stopped() && frames.is_between()) {
            at += frames.take(&come[at..]);
        }
        say(to, &come[..at]).await?;
        if at < come.len() {
            let may_close = !frames.is_closed();
            // What comes behind is not passed on, but may say that its sender closes.
            while at < come.len() {
                at += frames.take(&come[at..]);
            }
            return Ok(Ended::ByProcess { may_close });
        }
    }
}

async fn say(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

/// Reads what still comes until its sender closes, too.
async fn closed(from: &mut (impl AsyncRead + Unpin), frames: &mut Frames) {
    let mut come = BytesMut::with_capacity(limits::READ);
    while !frames.is_closed() && matches!(from.read_buf(&mut come).await, Ok(1..)) {
        let mut at = 0;
        while at < come.len() {
            at += frames.take(&come[at..]);
        }
        come.clear();
    }
}

/// To a service, frames are masked (RFC 6455, 5.3).
fn masked_close() -> [u8; 8] {
    let [a, b, c, d, ..] = RandomState::new().hash_one(()).to_ne_bytes();
    let [high, low] = GOING_AWAY;
    [0x88, 0x82, a, b, c, d, high ^ a, low ^ b]
}
