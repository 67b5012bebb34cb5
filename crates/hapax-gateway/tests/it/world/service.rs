//! A service that writes down what arrives, byte by byte, and answers as the header `x-do` says:
//! `status=N`, `hold` (until the test lets it go), `length=N` (a body of that length), `chunked`, `close`, `cut` (no answer), `half` (half an answer),
//! `stall` (half an answer, and then nothing until the test lets it go), `garbage` (no HTTP), `head=N` (a header of that length), `outcome=WORD` and `hit=WORD` (a line each), `binary`, `cors` (lets another
//! origin in), `expose` (lets scripts read two headers). Several are separated by `;`. A `GET` is answered as `x-ask` says, if that is there.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hapax_testkit::raw::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// What arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    /// Request line and header lines, as they came.
    pub(crate) head: String,
    /// The body, without its framing.
    pub(crate) body: Vec<u8>,
}

impl Arrived {
    /// The request line.
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// All values of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .collect()
    }

    /// The only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} arrived more than once: {}", self.head);
        all.into_iter().next()
    }
}

/// The service.
#[derive(Clone)]
pub(crate) struct Service {
    address: SocketAddr,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    held: Arc<Semaphore>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::at(([127, 0, 0, 1], 0).into()).await
    }

    /// At an address of the test's choice.
    pub(crate) async fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let held = Arc::new(Semaphore::new(0));
        let service = Service { address: listener.local_addr().unwrap(), arrived: Arc::default(), held };
        let serving = service.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serving.clone().connection(stream));
            }
        });
        service
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that arrived, in order.
    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().unwrap().clone()
    }

    /// How many requests arrived.
    pub(crate) fn count(&self) -> usize {
        self.arrived.lock().unwrap().len()
    }

    /// Waits until so many requests have arrived.
    pub(crate) async fn reached(&self, count: usize) {
        until("the service is reached", || self.count() >= count).await;
    }

    /// Requests that were told to hold are answered, now and from now on.
    pub(crate) fn let_go(&self) {
        self.held.close();
    }

    /// The last request that arrived.
    pub(crate) fn last(&self) -> Arrived {
        self.arrived.lock().unwrap().last().cloned().expect("something arrived")
    }

    async fn connection(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(arrived) = read_request(&mut stream, &mut buffer).await {
            let number = {
                let mut all = self.arrived.lock().unwrap();
                all.push(arrived.clone());
                all.len()
            };
            if !answer(&mut stream, &arrived, number, &self.held).await {
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Arrived> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end);
    let mut arrived = Arrived { head, body: Vec::new() };
    if let Some(length) = arrived.header("content-length").and_then(|length| length.parse::<usize>().ok()) {
        while buffer.len() < length {
            if stream.read_buf(buffer).await.ok()? == 0 {
                return None;
            }
        }
        arrived.body = buffer.drain(..length).collect();
    } else if arrived.header("transfer-encoding").is_some() {
        loop {
            let size = read_line(stream, buffer).await?;
            let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
            while buffer.len() < size + 2 {
                if stream.read_buf(buffer).await.ok()? == 0 {
                    return None;
                }
            }
            if size == 0 {
                // Whatever trailers there are belong to what arrived.
                loop {
                    let line = read_line(stream, buffer).await?;
                    if line.is_empty() {
                        return Some(arrived);
                    }
                    arrived.head.push_str(&format!("trailer {line}\r\n"));
                }
            }
            arrived.body.extend(buffer.drain(..size));
            buffer.drain(..2);
        }
    }
    Some(arrived)
}

async fn read_line(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(at) = buffer.windows(2).position(|window| window == b"\r\n") {
            let line = String::from_utf8_lossy(&buffer[..at]).into_owned();
            buffer.drain(..at + 2);
            return Some(line);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// Answers; says whether the connection goes on.
async fn answer(stream: &mut TcpStream, arrived: &Arrived, number: usize, held: &Semaphore) -> bool {
    let ask = arrived.header("x-ask").filter(|_| arrived.line().starts_with("GET "));
    let told = ask.or_else(|| arrived.header("x-do")).unwrap_or_default();
    let tell = |name: &str| {
        told.split(';').find_map(|word| word.trim().strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    let is_told = |name: &str| told.split(';').any(|word| word.trim() == name);
    if is_told("hold") {
        let _ = held.acquire().await;
    }
    if is_told("cut") {
        return false;
    }
    if is_told("garbage") {
        let _ = stream.write_all(b"this is not HTTP\r\n\r\n").await;
        return false;
    }
    let status = tell("status").unwrap_or_else(|| "201".into());
    let mut body = format!("answer {number} to {}", String::from_utf8_lossy(&arrived.body)).into_bytes();
    if is_told("binary") {
        body = (0..=255).collect();
    }
    if let Some(length) = tell("length").and_then(|length| length.parse::<usize>().ok()) {
        body.resize(length, b'.');
    }
    let mut head = format!(
        "HTTP/1.1 {status} Whatever\r\nlocation: /charges/{number}\r\nx-custom: one\r\nx-custom: two\r\n"
    );
    head.push_str(
        "content-type: text/plain\r\netag: \"abc\"\r\nset-cookie: session=1\r\nx-operation-id: forged\r\n",
    );
    // As services do that send back what they were sent.
    head.push_str("idempotency-key: forged\r\nhapax-listener: forged\r\nidempotency-expires: forged\r\n");
    head.push_str("idempotent-replayed: true\r\nkeep-alive: timeout=5\r\nx-hop: 1\r\nconnection: x-hop\r\n");
    if let Some(name) = tell("echo") {
        head.push_str(&format!("{name}: forged\r\n"));
    }
    if let Some(length) = tell("head").and_then(|length| length.parse::<usize>().ok()) {
        head.push_str(&format!("x-long: {}\r\n", "a".repeat(length)));
    }
    for outcome in told.split(';').filter_map(|word| word.trim().strip_prefix("outcome=")) {
        head.push_str(&format!("idempotency-outcome: {outcome}\r\n"));
    }
    for hit in told.split(';').filter_map(|word| word.trim().strip_prefix("hit=")) {
        head.push_str(&format!("idempotency-handler-hit: {hit}\r\n"));
    }
    if is_told("cors") {
        head.push_str(
            "access-control-allow-origin: https://evil.example\r\naccess-control-allow-credentials: true\r\n",
        );
    }
    if is_told("expose") {
        head.push_str("access-control-expose-headers: x-custom, etag\r\n");
    }
    if is_told("close") {
        head.push_str("connection: close\r\n");
    }
    let bodiless = status == "204" || status == "304";
    let mut bytes = head.into_bytes();
    let head_only = arrived.line().starts_with("HEAD");
    if bodiless {
        if tell("length").is_some() {
            bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
    } else if is_told("chunked") && head_only {
        bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
    } else if is_told("chunked") {
        bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        for chunk in body.chunks(1000) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    } else {
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        if is_told("half") || is_told("stall") {
            bytes.extend_from_slice(&body[..body.len() / 2]);
            let _ = stream.write_all(&bytes).await;
            if is_told("stall") {
                let _ = held.acquire().await;
            }
            return false;
        }
        if !head_only {
            bytes.extend_from_slice(&body);
        }
    }
    stream.write_all(&bytes).await.is_ok() && !is_told("close")
}
