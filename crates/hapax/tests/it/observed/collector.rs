//! A collector of spans in the test's process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::rig::wire::Message;

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// It takes spans.
    Takes,
    /// It refuses them.
    Refuses,
    /// It answers nothing, and keeps the connection.
    Silent,
    /// It answers what is no HTTP.
    Garbage,
}

pub(super) struct Collector {
    address: SocketAddr,
    came: Arc<Mutex<Vec<Message>>>,
    mood: Arc<Mutex<Mood>>,
}

impl Collector {
    pub(super) async fn start(mood: Mood) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let collector = Collector { address, came: Arc::default(), mood: Arc::new(Mutex::new(mood)) };
        let (came, mood) = (collector.came.clone(), collector.mood.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, came.clone(), mood.clone()));
            }
        });
        collector
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// The bodies that came.
    pub(super) fn bodies(&self) -> Vec<Vec<u8>> {
        self.came.lock().unwrap().iter().map(|message| message.body.clone()).collect()
    }

    /// The head of the first request.
    pub(super) fn head(&self) -> String {
        self.came.lock().unwrap()[0].head.clone()
    }

    /// Whether any body has this text.
    pub(super) fn holds(&self, text: &str) -> bool {
        self.bodies().iter().any(|body| body.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    /// How many requests are told of, by an attribute that each has once.
    pub(super) fn spans(&self) -> usize {
        let count = |body: &Vec<u8>| body.windows(10).filter(|window| window == b"http.route").count();
        self.bodies().iter().map(count).sum()
    }
}

async fn serve(mut stream: TcpStream, came: Arc<Mutex<Vec<Message>>>, mood: Arc<Mutex<Mood>>) {
    let mut buffer = Vec::new();
    while let Some(message) = Message::read(&mut stream, &mut buffer).await {
        came.lock().unwrap().push(message);
        let mood = *mood.lock().unwrap();
        let answer = match mood {
            Mood::Takes => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            Mood::Refuses => "HTTP/1.1 503 Later\r\ncontent-length: 7\r\n\r\nno room",
            Mood::Garbage => "\u{0}\u{1}garbage\r\n\r\n",
            Mood::Silent => "",
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
