//! A server that does what a list says: one entry for each request, in order, whatever connection it comes on. When the list
//! is used up, it answers 200.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What is done with one request.
#[derive(Clone, Debug)]
pub(crate) enum Do {
    /// Answers with this status, these header lines and this body.
    Answer(u16, &'static str, &'static str),
    /// Sends so many bytes of a whole answer, then cuts the connection.
    Cut(usize),
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Came {
    pub(crate) fn key(&self) -> Option<String> {
        let fields = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut keys = fields.filter(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
        let key = keys.next().map(|(_, value)| value.trim().to_owned());
        assert!(keys.next().is_none(), "more than one key: {}", self.head);
        key
    }
}

#[derive(Clone)]
pub(crate) struct Server {
    url: String,
    plan: Arc<Mutex<VecDeque<Do>>>,
    came: Arc<Mutex<Vec<Came>>>,
}

/// What a whole answer looks like.
pub(crate) const WHOLE: &str =
    "HTTP/1.1 201 Created\r\ncontent-type: text/plain\r\ncontent-length: 7\r\n\r\ncharged";

impl Server {
    pub(crate) async fn start(plan: impl IntoIterator<Item = Do>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let plan = Arc::new(Mutex::new(plan.into_iter().collect()));
        let server = Server { url, plan, came: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().connection(stream));
            }
        });
        server
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn came(&self) -> Vec<Came> {
        self.came.lock().unwrap().clone()
    }

    pub(crate) fn keys(&self) -> Vec<Option<String>> {
        self.came().iter().map(Came::key).collect()
    }

    async fn connection(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(came) = read(&mut stream, &mut buffer).await {
            self.came.lock().unwrap().push(came);
            let next = self.plan.lock().unwrap().pop_front();
            let (bytes, cut) = match next {
                None => (WHOLE.replace("201 Created", "200 OK").into_bytes(), false),
                Some(Do::Cut(bytes)) => (WHOLE.as_bytes()[..bytes].to_vec(), true),
                Some(Do::Answer(status, headers, body)) => {
                    let length = body.len();
                    (
                        format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}")
                            .into_bytes(),
                        false,
                    )
                }
            };
            if stream.write_all(&bytes).await.is_err() || cut {
                return;
            }
        }
    }
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Came> {
    loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(buffer[..at].to_vec()).unwrap();
            let length = head
                .lines()
                .filter_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned)
                })
                .find_map(|length| length.trim().parse().ok())
                .unwrap_or(0);
            if buffer.len() >= at + 4 + length {
                let body = String::from_utf8(buffer[at + 4..at + 4 + length].to_vec()).unwrap();
                buffer.drain(..at + 4 + length);
                return Some(Came { head, body });
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
