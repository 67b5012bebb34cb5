//! A client of the admin API: what commands use to talk to a running server (M2).
//!
//! What answers is believed only where it says that it is an admin listener and has what the API promises: any other server
//! that speaks JSON would otherwise report that nothing is in doubt.

use bytes::Bytes;
use clap::Args as ClapArgs;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Failed;
use crate::admin::LISTENER;
use crate::limits;

/// The environment variable with the token.
pub(crate) const TOKEN: &str = "HAPAX_ADMIN_TOKEN";

/// Where the server is.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Server {
    /// The admin listener of the server; its token is taken from HAPAX_ADMIN_TOKEN.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8081")]
    pub(crate) admin: String,
}

/// A server that can be asked.
pub(crate) struct Remote {
    authority: String,
    address: String,
    base: String,
    url: String,
    token: String,
}

impl Remote {
    /// Reads where the server is; nothing is sent yet.
    pub(crate) fn new(server: &Server) -> Result<Remote, Failed> {
        let url = server.admin.trim_end_matches('/');
        let bad = |why: &str| Failed::misuse(format!("--admin {url}: {why}; such as http://127.0.0.1:8081"));
        let uri: Uri = url.parse().map_err(|_| bad("that is no URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(bad("the admin listener speaks plain HTTP; use a tunnel")),
            _ => return Err(bad("the URL starts with http://")),
        }
        let authority = uri.authority().ok_or_else(|| bad("the URL names no host"))?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(bad("the URL has a host, a port and perhaps a path, nothing else"));
        }
        let token = std::env::var(TOKEN).ok().map(|token| token.trim().to_owned());
        let token = token.filter(|token| !token.is_empty()).ok_or_else(|| {
            Failed::misuse(format!(
                "no admin token: set {TOKEN} to the one that the server was started with; a server without one needs \
                 [admin] with `token_env = \"{TOKEN}\"` in its configuration"
            ))
        })?;
        Ok(Remote {
            address: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)),
            authority: authority.to_string(),
            base: uri.path().trim_end_matches('/').to_owned(),
            url: url.to_owned(),
            token,
        })
    }

    /// Asks with a query. What is answered has the members that are named last; so it is below.
    pub(crate) async fn get(
        &self,
        path: &str,
        query: &[(&str, String)],
        promised: &[&str],
    ) -> Result<Value, Failed> {
        self.call(Method::GET, &asking(path, query), None, promised).await
    }

    /// Sends JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value, promised: &[&str]) -> Result<Value, Failed> {
        self.call(Method::POST, path, Some(body), promised).await
    }

    /// Deletes.
    pub(crate) async fn delete(
        &self,
        path: &str,
        query: &[(&str, String)],
        promised: &[&str],
    ) -> Result<Value, Failed> {
        self.call(Method::DELETE, &asking(path, query), None, promised).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        promised: &[&str],
    ) -> Result<Value, Failed> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(HOST, &self.authority)
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.map(Value::to_string).unwrap_or_default())))
            .map_err(|_| Failed::misuse(format!("{TOKEN} or --admin has characters that cannot be sent")))?;
        let stream = self.connect().await?;
        let answered = timeout(limits::REMOTE_ANSWER, exchange(stream, request)).await;
        let Answered { status, ours, bytes } = match answered {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => return Err(self.lost(&error.to_string())),
            Err(_) => return Err(self.lost("it took too long")),
        };
        let body = serde_json::from_slice::<Value>(&bytes).ok().filter(|_| ours);
        match (status, body) {
            (200..300, Some(body)) if promised.iter().all(|name| body.get(name).is_some()) => Ok(body),
            (200..300, _) | (_, None) => Err(self.stranger(status)),
            (_, Some(problem)) => Err(self.refused(status, &problem)),
        }
    }

    async fn connect(&self) -> Result<TcpStream, Failed> {
        let away = |why: &str| {
            Failed::unavailable(format!(
                "no server answers at {} ({why}); start one with `hapax serve --config FILE`, or say where it is with \
                 --admin URL",
                self.url
            ))
        };
        match timeout(limits::REMOTE_CONNECT, TcpStream::connect(&self.address)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(away(&error.to_string())),
            Err(_) => Err(away("it took too long")),
        }
    }

    /// The request was sent and no whole answer came: what it asked for may have been done.
    fn lost(&self, why: &str) -> Failed {
        Failed::unavailable(format!("{} gave no answer ({why}); look before you ask again", self.url))
    }

    /// Whatever it is, what it says is not about claims and keys.
    fn stranger(&self, status: u16) -> Failed {
        Failed::unavailable(format!(
            "what answers at {} is no admin listener of hapax (status {status}); say where that is with --admin URL: the \
             line that `hapax serve` prints names it",
            self.url
        ))
    }

    fn refused(&self, status: u16, problem: &Value) -> Failed {
        let part = |name: &str| problem[name].as_str().unwrap_or_default();
        let (title, detail) = (part("title"), part("detail"));
        let told = if detail.is_empty() { title.to_owned() } else { detail.to_owned() };
        match status {
            401 => Failed::misuse(format!("{} does not know the token in {TOKEN}: {told}", self.url)),
            400 | 413 => Failed::misuse(told),
            403 | 404 | 405 | 409 => Failed::no(told),
            _ => Failed::unavailable(format!("{} answers {status}: {told}", self.url)),
        }
    }
}

struct Answered {
    status: u16,
    /// Whether an admin listener says that it has answered.
    ours: bool,
    bytes: Bytes,
}

async fn exchange(
    stream: TcpStream,
    request: Request<Full<Bytes>>,
) -> Result<Answered, Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let ours = response.headers().get(&LISTENER.0) == Some(&LISTENER.1);
    let bytes = Limited::new(response.into_body(), limits::REMOTE_BYTES).collect().await?.to_bytes();
    driver.abort();
    Ok(Answered { status, ours, bytes })
}

/// A path with a query, if there is one.
fn asking(path: &str, query: &[(&str, String)]) -> String {
    let pairs: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// Text as a part of a query or of a path.
pub(crate) fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_so_that_it_stays_one_part() {
        assert_eq!(encoded("a b&c=d/é"), "a%20b%26c%3Dd%2F%C3%A9");
    }
}
