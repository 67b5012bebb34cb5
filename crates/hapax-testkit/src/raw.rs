//! Bare sockets for tests that care about every byte, and waiting for what a test relies on.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// Longer than anything here takes, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A listener on a free port of this machine.
pub async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// The next connection.
pub async fn accept(listener: &TcpListener) -> TcpStream {
    timeout(PATIENCE, listener.accept()).await.expect("somebody connects").unwrap().0
}

/// Reads up to the end of a head, byte by byte so that nothing behind it is lost.
pub async fn head<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(PATIENCE, stream.read_u8()).await.expect("a head in time");
        head.push(byte.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&head))));
    }
    String::from_utf8(head).unwrap()
}

/// Reads exactly so many bytes.
pub async fn exactly<S: AsyncRead + Unpin>(stream: &mut S, count: usize) -> String {
    let mut bytes = vec![0; count];
    timeout(PATIENCE, stream.read_exact(&mut bytes)).await.expect("bytes in time").unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Reads until the other side closes or breaks off.
pub async fn rest<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an end in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes all of it.
pub async fn write(stream: &mut TcpStream, text: &str) {
    timeout(PATIENCE, stream.write_all(text.as_bytes())).await.expect("room to write").unwrap();
}

/// Waits until something is so.
pub async fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
        sleep(Duration::from_millis(5)).await;
    }
}
