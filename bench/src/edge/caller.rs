//! The load on an edge: connections that each send a request and read its answer to the end before the next.
//!
//! It does as little as it can for each request, so that the proxy in between is what is measured, and it looks at every
//! answer, because a fast wrong one counts for nothing.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Failure;

/// The longest head and body of an answer together.
const ANSWER: usize = 8 << 10;
/// The digits of a key that differ from request to request.
const SERIAL: usize = 12;

/// One request, ready to be written.
#[derive(Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    /// Where the changing digits of its key are.
    serial_at: Option<usize>,
    fresh: bool,
    wanted: Wanted,
    signed: Option<Signed>,
}

/// What makes a request a delivery that Stripe signed.
#[derive(Clone)]
struct Signed {
    key: hmac::Key,
    time: String,
    signature_at: usize,
    body_at: usize,
}

/// The digits of a signature.
const SIGNATURE: usize = 64;
/// What stands before the changing digits in a body.
const EVENT: &str = "evt-";

/// What every answer must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The service's own.
    Own,
    /// One that is kept.
    Replay,
}

impl Request {
    /// A request with this API key, and a body if it is no `GET`.
    pub(crate) fn new(method: &str, path: &str, api_key: &str, body: &str) -> Self {
        let mut text = format!(
            "{method} {path} HTTP/1.1\r\nhost: edge.example\r\nuser-agent: hapax-bench\r\naccept: */*\r\n\
             authorization: Bearer {api_key}\r\n"
        );
        if method != "GET" {
            text += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        text += "\r\n";
        if method != "GET" {
            text += body;
        }
        Request { bytes: text.into_bytes(), serial_at: None, fresh: false, wanted: Wanted::Own, signed: None }
    }

    /// A delivery that Stripe signs now with this secret, to this path: another event for each request. The body has [`EVENT`] and
    /// twelve digits in it.
    pub(crate) fn delivered(path: &str, secret: &str, body: &str) -> Result<Self, Failure> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().to_string();
        let before = format!(
            "POST {path} HTTP/1.1\r\nhost: edge.example\r\nuser-agent: hapax-bench\r\naccept: */*\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nstripe-signature: t={time},v1=",
            body.len()
        );
        let bytes = format!("{before}{}\r\n\r\n{body}", "0".repeat(SIGNATURE)).into_bytes();
        let body_at = before.len() + SIGNATURE + 4;
        let serial = body.find(EVENT).ok_or("the body names no event")?;
        let signed = Signed {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
            time,
            signature_at: before.len(),
            body_at,
        };
        let serial_at = Some(body_at + serial + EVENT.len());
        Ok(Request { bytes, serial_at, fresh: true, wanted: Wanted::Own, signed: Some(signed) })
    }

    /// With a key of this prefix: another one for each request, or always the same one, whose answers are then replays.
    pub(crate) fn keyed(mut self, prefix: &str, wanted: Wanted) -> Self {
        let field = format!("idempotency-key: {prefix}-{:0SERIAL$}\r\n", 0);
        let at = memchr::memmem::find(&self.bytes, b"\r\n\r\n").map_or(0, |end| end + 2);
        self.bytes.splice(at..at, field.bytes());
        self.serial_at = Some(at + field.len() - 2 - SERIAL);
        self.fresh = wanted == Wanted::Own;
        self.wanted = wanted;
        self
    }

    /// The same key once more, whose answers say nothing of that.
    pub(crate) fn repeated(mut self) -> Self {
        self.fresh = false;
        self
    }

    /// Keys that were used before, each of them once.
    pub(crate) fn counting(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// The bytes of the request.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes a number into the key.
    fn number(&mut self, mut serial: u64) {
        let Some(at) = self.serial_at else { return };
        for digit in self.bytes[at..at + SERIAL].iter_mut().rev() {
            *digit = b'0' + (serial % 10) as u8;
            serial /= 10;
        }
        self.sign();
    }

    fn sign(&mut self) {
        let Some(Signed { key, time, signature_at, body_at }) = &self.signed else { return };
        let mut mac = hmac::Context::with_key(key);
        mac.update(time.as_bytes());
        mac.update(b".");
        mac.update(&self.bytes[*body_at..]);
        let mac = mac.sign();
        let digits = self.bytes[*signature_at..*signature_at + SIGNATURE].chunks_exact_mut(2);
        for (digits, byte) in digits.zip(mac.as_ref()) {
            let digit = |part: u8| if part < 10 { b'0' + part } else { b'a' + part - 10 };
            digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// What a load came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rate {
    /// Answers each second.
    pub(crate) per_second: f64,
    /// All of them.
    pub(crate) answers: usize,
    /// Microseconds of each, sorted.
    took: Vec<u32>,
}

impl Rate {
    /// A percentile of the latency in milliseconds.
    pub(crate) fn percentile(&self, part: f64) -> f64 {
        let at = (self.took.len().saturating_sub(1) as f64 * part) as usize;
        self.took.get(at).map_or(0.0, |micros| f64::from(*micros) / 1_000.0)
    }
}

/// One connection.
struct Connection {
    socket: TcpStream,
    request: Request,
    buffer: Box<[u8; ANSWER]>,
    serial: u64,
}

impl Connection {
    async fn open(address: SocketAddr, mut request: Request, number: u64) -> Result<Self, Failure> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        // Each connection has a thousand million keys of its own.
        let serial = number * 1_000_000_000;
        request.number(serial);
        let mut connection = Connection { socket, request, buffer: Box::new([0; ANSWER]), serial };
        // The first one under a key is no replay, unless all keys were used before.
        let first = if connection.request.fresh { connection.request.wanted } else { Wanted::Own };
        connection.exchange(first).await?;
        Ok(connection)
    }

    async fn exchange(&mut self, wanted: Wanted) -> Result<(), Failure> {
        self.socket.write_all(&self.request.bytes).await?;
        let answer = read(&mut self.socket, &mut self.buffer[..]).await?;
        let replayed = answer.replayed == (wanted == Wanted::Replay);
        if !(200..300).contains(&answer.status) || !replayed {
            return Err(format!("an answer that was not asked for: {answer:?}").into());
        }
        Ok(())
    }

    /// The next request: under a fresh key, or the same once more.
    async fn next(&mut self) -> Result<(), Failure> {
        if self.request.fresh {
            self.serial += 1;
            self.request.number(self.serial);
        }
        self.exchange(self.request.wanted).await
    }

    async fn drive(mut self, until: Instant) -> Result<Vec<u32>, Failure> {
        let mut took = Vec::with_capacity(1 << 16);
        let mut began = Instant::now();
        while began < until {
            self.next().await?;
            let ended = Instant::now();
            took.push(u32::try_from((ended - began).as_micros()).unwrap_or(u32::MAX));
            began = ended;
        }
        Ok(took)
    }
}

/// So many connections, for so long, after one request each that does not count.
pub(crate) async fn run(
    address: SocketAddr,
    request: &Request,
    connections: usize,
    time: Duration,
) -> Result<Rate, Failure> {
    let mut open = Vec::with_capacity(connections);
    for number in 0..connections as u64 {
        open.push(Connection::open(address, request.clone(), number).await?);
    }
    let began = Instant::now();
    let mut callers: JoinSet<_> = open.into_iter().map(|connection| connection.drive(began + time)).collect();
    let mut took = Vec::new();
    while let Some(caller) = callers.join_next().await {
        took.extend(caller??);
    }
    let per_second = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort_unstable();
    Ok(Rate { per_second, answers: took.len(), took })
}

/// So many requests on one connection, after one that asks for what the others may get replayed.
pub(crate) async fn send(address: SocketAddr, request: &Request, requests: u64) -> Result<(), Failure> {
    let mut connection = Connection::open(address, request.clone(), 0).await?;
    for _ in 0..requests {
        connection.next().await?;
    }
    Ok(())
}

/// So many requests on one connection, after some that do not count; `counted` is called between the two and at the end.
pub(crate) async fn count(
    address: SocketAddr,
    request: &Request,
    requests: u64,
    mut counted: impl FnMut() -> Result<u64, Failure>,
) -> Result<f64, Failure> {
    let mut connection = Connection::open(address, request.clone(), 0).await?;
    let mut began = 0;
    for number in 0..2 * requests {
        if number == requests {
            began = counted()?;
        }
        connection.next().await?;
    }
    Ok((counted()? - began) as f64 / requests as f64)
}

/// The head of an answer, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) replayed: bool,
    pub(crate) body: Vec<u8>,
}

/// Reads an answer to its end. Its body is returned only where something is wrong with it.
pub(crate) async fn read(socket: &mut TcpStream, buffer: &mut [u8]) -> Result<Answer, Failure> {
    let mut filled = 0;
    loop {
        let count = socket.read(&mut buffer[filled..]).await?;
        if count == 0 {
            return Err("a connection ended within an answer, or an answer is longer than expected".into());
        }
        filled += count;
        let Some(end) = memchr::memmem::find(&buffer[..filled], b"\r\n\r\n") else { continue };
        let (status, replayed, length) = head(&buffer[..end])?;
        if filled < end + 4 + length {
            continue;
        }
        let body = if status == 200 { Vec::new() } else { buffer[end + 4..filled].to_vec() };
        return Ok(Answer { status, replayed, body });
    }
}

fn head(head: &[u8]) -> Result<(u16, bool, usize), Failure> {
    let status = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let (mut length, mut replayed) = (None, false);
    for line in memchr::memchr_iter(b'\n', head).map(|at| &head[at + 1..]) {
        if starts(line, b"content-length: ") {
            let digits = line[16..].iter().take_while(|byte| byte.is_ascii_digit());
            length = Some(digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')));
        } else if starts(line, b"idempotent-replayed: ") {
            replayed = true;
        }
    }
    match (status, length) {
        (Some(status), Some(length)) => Ok((status, replayed, length)),
        _ => Err(format!("no answer as expected: {}", String::from_utf8_lossy(head)).into()),
    }
}

fn starts(line: &[u8], with: &[u8]) -> bool {
    line.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}
