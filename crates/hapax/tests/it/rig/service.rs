//! The service behind: it lives in the test's process, so that it survives whoever is killed, and counts what is done.
//!
//! It answers as the header `x-do` says: `status=N`, `pause=MS`, `cut` (done, but the connection breaks), `binary`. A request
//! counts as done when it has arrived; while the test holds the service, answers wait.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Something that was done.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    head: String,
    pub(crate) body: String,
}

impl Done {
    /// Whether it was asked for on this path.
    pub(crate) fn is_on(&self, path: &str) -> bool {
        self.head.split(' ').nth(1) == Some(path)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

/// The service.
#[derive(Clone)]
pub(crate) struct Service {
    address: SocketAddr,
    done: Arc<Mutex<Vec<Done>>>,
    held: Arc<watch::Sender<bool>>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = Service { address, done: Arc::default(), held: Arc::new(watch::Sender::new(false)) };
        let serving = service.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().connection(stream));
            }
        });
        service
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers wait from now on.
    pub(crate) fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Answers go out.
    pub(crate) fn let_go(&self) {
        self.held.send_replace(false);
    }

    /// Everything that was done.
    pub(crate) fn done(&self) -> Vec<Done> {
        self.done.lock().unwrap().clone()
    }

    /// How often something was done.
    pub(crate) fn count(&self) -> usize {
        self.done.lock().unwrap().len()
    }

    /// Waits until something was done so often.
    pub(crate) async fn reached(&self, count: usize) {
        super::process::eventually("the service is reached", async || self.count() >= count).await;
    }

    async fn connection(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(done) = read(&mut stream, &mut buffer).await {
            let number = {
                let mut all = self.done.lock().unwrap();
                all.push(done.clone());
                all.len()
            };
            let mut held = self.held.subscribe();
            let _ = held.wait_for(|held| !held).await;
            if !answer(&mut stream, &done, number).await {
                return;
            }
        }
    }
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Done> {
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
    let mut done = Done { head, body: String::new() };
    let length = done.header("content-length").map_or(0, |length| length.parse().unwrap());
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    done.body = String::from_utf8_lossy(&buffer.drain(..length).collect::<Vec<_>>()).into_owned();
    Some(done)
}

/// Answers; says whether the connection goes on.
async fn answer(stream: &mut TcpStream, done: &Done, number: usize) -> bool {
    let told = done.header("x-do").unwrap_or_default();
    let tell = |name: &str| told.split(';').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let is_told = |name: &str| told.split(';').any(|word| word == name);
    if let Some(pause) = tell("pause") {
        tokio::time::sleep(Duration::from_millis(pause.parse().unwrap())).await;
    }
    if is_told("cut") {
        return false;
    }
    let status = tell("status").unwrap_or("201");
    let body = match is_told("binary") {
        true => (0..=255).collect(),
        false => format!("answer {number} to {}", done.body).into_bytes(),
    };
    let head = format!(
        "HTTP/1.1 {status} Told\r\nlocation: /charges/{number}\r\nx-custom: one\r\nx-custom: two\r\ncontent-type: text/plain\r\n\
         set-cookie: session={number}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let bytes = [head.as_bytes(), &body].concat();
    stream.write_all(&bytes).await.is_ok()
}
