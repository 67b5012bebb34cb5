//! Many calls on few connections, to a service that answers in every way there is and hangs up when it likes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use hapax_http::settings::Service;
use hapax_http::upstream::{FailedKind, Outgoing, Pool};
use hapax_testkit::raw;
use http::Request;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const CALLERS: usize = 32;
const CALLS: usize = 60;
/// Calls one after the other, with a pause: of eight connections that are kept, one is hung up on.
const ALONE: usize = 500;

/// Numbers that look random and are the same in every run.
static NEXT: AtomicU64 = AtomicU64::new(1);

fn number(below: u64) -> u64 {
    let seed = NEXT.fetch_add(1, SeqCst).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (seed ^ (seed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 32)) % below
}

/// Answers each request with its own target, until it has had enough.
async fn serve(mut stream: TcpStream, served: Arc<AtomicU64>) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        served.fetch_add(1, SeqCst);
        let head = String::from_utf8(head).unwrap();
        let target = head.split(' ').nth(1).unwrap().to_owned();
        let length = target.len();
        let answer = match number(4) {
            0 => format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{target}\r\n0\r\n\r\n"
            ),
            1 => format!(
                "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{target}"
            ),
            2 => format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{target}"),
            _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{target}"),
        };
        let cut = number(answer.len() as u64) as usize;
        for piece in [&answer[..cut], &answer[cut..]] {
            if stream.write_all(piece.as_bytes()).await.is_err() {
                return;
            }
            if number(3) == 0 {
                tokio::time::sleep(Duration::from_micros(number(500))).await;
            }
        }
        if answer.contains("close") || number(8) == 0 {
            return;
        }
    }
}

#[tokio::test]
async fn every_call_gets_its_own_answer_or_says_that_it_has_none() {
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    let served = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&served);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&count)));
        }
    });
    let pool = Pool::new(Service::new("s", "127.0.0.1", port)).unwrap();
    let callers = (0..CALLERS).map(|caller| tokio::spawn(call(pool.clone(), caller)));
    let (mut answered, mut lost) = (0, 0);
    for caller in callers.collect::<Vec<_>>() {
        let counts = timeout(Duration::from_secs(60), caller).await.expect("nobody hangs").unwrap();
        answered += counts.0;
        lost += counts.1;
    }
    assert_eq!(answered + lost, (CALLERS * CALLS) as u64);
    // Nothing is sent twice: each call is seen at most once, and each answered one exactly once.
    let served = served.load(SeqCst);
    assert!(
        answered <= served && served <= answered + lost,
        "{answered} answered, {lost} lost, {served} seen"
    );
    // A service that hangs up while nobody calls: the next call finds that out, and takes another connection.
    for number in 0..ALONE {
        let request = Request::post(format!("/alone/{number}")).body(Outgoing::Empty).unwrap();
        match pool.send(request).await {
            Ok(response) => drop(response.into_body().collect().await.unwrap()),
            Err(failed) => {
                assert_eq!(failed.kind, FailedKind::Closed, "{failed}");
                lost += 1;
            }
        }
        if pool.counts().stale > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let counts = pool.counts();
    assert!(counts.reused > 0 && counts.stale > 0, "{counts:?}");
    assert_eq!((counts.failed, counts.open), (lost, counts.idle), "{counts:?}");
}

async fn call(pool: Pool, caller: usize) -> (u64, u64) {
    let (mut answered, mut lost) = (0, 0);
    for call in 0..CALLS {
        let target = format!("/{caller}/{call}");
        let request = Request::post(&target).body(Outgoing::Empty).unwrap();
        match pool.send(request).await {
            Ok(response) => {
                let body = response.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(body, target);
                answered += 1;
            }
            Err(failed) => {
                assert_eq!(failed.kind, FailedKind::Closed, "{failed}");
                lost += 1;
            }
        }
        if number(4) == 0 {
            tokio::time::sleep(Duration::from_micros(number(2_000))).await;
        }
    }
    (answered, lost)
}
