//! An outside service for tests: it says what it is told to say, counts how often it was asked, and remembers the last
//! request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::OwnedMutexGuard;

#[derive(Clone, Default)]
pub(crate) struct Outside {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    says: Mutex<(u16, Bytes)>,
    takes: Mutex<Duration>,
    held: Arc<tokio::sync::Mutex<()>>,
    asked: AtomicUsize,
    last: Mutex<Option<(HeaderMap, Bytes)>>,
}

impl Outside {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let outside = Outside { port: listener.local_addr().unwrap().port(), state: Arc::default() };
        let serving = outside.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                let service = service_fn(move |request| serving.clone().answer(request));
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        outside
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/some/path?with=query", self.port)
    }

    pub(crate) fn say(&self, status: u16, body: impl ToString) {
        *self.state.says.lock().unwrap() = (status, body.to_string().into());
    }

    pub(crate) fn take(&self, time: Duration) {
        *self.state.takes.lock().unwrap() = time;
    }

    /// Whoever asks is not answered until what this returns is dropped.
    pub(crate) async fn hold(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.state.held).lock_owned().await
    }

    pub(crate) fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }

    /// Headers and body of the last request.
    pub(crate) fn last(&self) -> (HeaderMap, Bytes) {
        self.state.last.lock().unwrap().clone().unwrap()
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        self.state.asked.fetch_add(1, Ordering::SeqCst);
        assert_eq!(request.uri(), "/some/path?with=query");
        let (head, body) = request.into_parts();
        *self.state.last.lock().unwrap() = Some((head.headers, body.collect().await?.to_bytes()));
        let takes = *self.state.takes.lock().unwrap();
        tokio::time::sleep(takes).await;
        drop(self.state.held.lock().await);
        let (status, body) = self.state.says.lock().unwrap().clone();
        Ok(Response::builder().status(status).body(Full::new(body)).unwrap())
    }
}
