//! One bounded exchange with an outside service: a JWKS URL or a service that verifies keys.
//!
//! A connection for each exchange, because they are rare; no redirects, because the URL is what somebody decided to
//! believe. How often to ask, and what to think of the answer, is decided by the callers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::Error;
use hapax_http::tls;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderName, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::engine;

/// Where a service is, and how much of it is put up with.
pub(crate) struct Outside {
    host: String,
    port: u16,
    host_header: HeaderValue,
    path: PathAndQuery,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    credential: Option<(HeaderName, HeaderValue)>,
    longest_wait: Duration,
    longest_body: usize,
}

impl Outside {
    /// Reads the URL. The system's certificates are believed where it is `https`.
    pub(crate) fn new(url: &str, longest_wait: Duration, longest_body: usize) -> Result<Self, Error> {
        Self::with_roots(url, longest_wait, longest_body, || tls::client_config(None).map_err(engine::error))
    }

    fn with_roots(
        url: &str,
        longest_wait: Duration,
        longest_body: usize,
        roots: impl FnOnce() -> Result<Arc<ClientConfig>, Error>,
    ) -> Result<Self, Error> {
        let bad = |why: &str| Error::invalid(format!("{url}: {why}"));
        let uri: Uri = url.parse().map_err(|_| bad("this is no URL"))?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(bad("the URL must start with http:// or https://")),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or_else(|| bad("the URL must name a host, and no user"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = if secure {
            let name = ServerName::try_from(host.clone()).map_err(|_| bad("this is no host name"))?;
            Some((TlsConnector::from(roots()?), name))
        } else {
            None
        };
        Ok(Outside {
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            host_header: HeaderValue::from_str(authority.as_str())
                .map_err(|_| bad("this is no host name"))?,
            path: uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")),
            credential: None,
            host,
            tls,
            longest_wait,
            longest_body,
        })
    }

    /// Authenticates hapax itself with this.
    pub(crate) fn with_bearer(self, token: &str) -> Result<Self, Error> {
        self.with_credential(AUTHORIZATION, &format!("Bearer {token}"))
    }

    /// Authenticates hapax itself with this header.
    pub(crate) fn with_credential(mut self, name: HeaderName, value: &str) -> Result<Self, Error> {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| Error::invalid("a token for an outside service cannot be sent in a header"))?;
        value.set_sensitive(true);
        self.credential = Some((name, value));
        Ok(self)
    }

    /// Gets a document. The error says why there is none, for the log.
    pub(crate) async fn get(&self) -> Result<Bytes, String> {
        Box::pin(self.exchange(Method::GET, Bytes::new())).await
    }

    /// Sends JSON and gets the answer. The error says why there is none, for the log.
    pub(crate) async fn post(&self, json: Bytes) -> Result<Bytes, String> {
        Box::pin(self.exchange(Method::POST, json)).await
    }

    async fn exchange(&self, method: Method, body: Bytes) -> Result<Bytes, String> {
        let exchange = async {
            let stream =
                TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| e.to_string())?;
            let request = self.request(method, body);
            match &self.tls {
                None => self.over(stream, request).await,
                Some((connector, name)) => {
                    let secure = connector.connect(name.clone(), stream).await;
                    self.over(secure.map_err(|e| e.to_string())?, request).await
                }
            }
        };
        let done = tokio::time::timeout(self.longest_wait, exchange).await;
        let done = done.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.longest_wait)));
        done.map_err(|why| format!("{}:{}: {why}", self.host, self.port))
    }

    fn request(&self, method: Method, body: Bytes) -> Request<Full<Bytes>> {
        let is_json = method == Method::POST;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from(self.path.clone());
        let headers = request.headers_mut();
        headers.insert(HOST, self.host_header.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("hapax"));
        if is_json {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some((name, value)) = &self.credential {
            headers.insert(name, value.clone());
        }
        request
    }

    /// The exchange on a connection, which is driven here and closed with it.
    async fn over<S>(&self, stream: S, request: Request<Full<Bytes>>) -> Result<Bytes, String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|e| e.to_string())?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
            if response.status() != StatusCode::OK {
                return Err(format!("status {}", response.status().as_u16()));
            }
            let body = Limited::new(response.into_body(), self.longest_body).collect().await;
            body.map(|body| body.to_bytes()).map_err(|e| e.to_string())
        };
        tokio::pin!(exchange, connection);
        tokio::select! {
            biased;
            done = &mut exchange => done,
            // What the connection has brought before it ended is still there to be read.
            _ = &mut connection => exchange.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::settings::Tls;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A server for `localhost` over TLS that answers every connection with `{}`, and the file with its certificate.
    async fn secure_server() -> (u16, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let files = Tls { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
        std::fs::write(&files.cert, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        let config = tls::Certificates::load(&files).unwrap().server_config();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&config));
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let _ = stream.read(&mut [0; 4096]).await?;
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await?;
                    stream.shutdown().await
                });
            }
        });
        (port, folder)
    }

    #[tokio::test]
    async fn a_service_is_asked_over_tls_and_only_if_its_certificate_is_believed_a7() {
        let (port, folder) = secure_server().await;
        let ask = async |host: &str, believed: bool| {
            let file = folder.path().join("cert.pem");
            let roots = || tls::client_config(believed.then_some(file.as_path())).map_err(engine::error);
            let url = format!("https://{host}:{port}/");
            Outside::with_roots(&url, PATIENCE, 100, roots).unwrap().get().await
        };
        assert_eq!(ask("localhost", true).await.unwrap(), "{}");
        assert!(ask("127.0.0.1", true).await.is_err(), "the certificate is for another name");
        assert!(ask("localhost", false).await.is_err(), "the system does not know it");
    }

    #[test]
    fn a_url_says_where_to_go_and_nothing_else() {
        let read = |url: &str| Outside::new(url, PATIENCE, 100);
        let service = read("http://[::1]:8080/keys?x=1").unwrap();
        assert_eq!((service.host.as_str(), service.port, service.path.as_str()), ("::1", 8080, "/keys?x=1"));
        let service = read("http://issuer.example").unwrap();
        assert_eq!((service.host.as_str(), service.port, service.path.as_str()), ("issuer.example", 80, "/"));
        for url in ["", "/keys", "issuer.example/keys", "ftp://a/b", "http://user:pass@a/b", "http:///b"] {
            assert!(read(url).is_err(), "{url}");
        }
    }
}
