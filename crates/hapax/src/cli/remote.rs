//! A client of the admin API: what commands use to talk to a running server (M2).
//!
//! What answers is believed only where it says that it is an admin listener and has what the API promises: any other server
//! that speaks JSON would otherwise report that nothing is in doubt.

use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args as ClapArgs;
use futures_util::Stream;
use hapax_api::{JsonLines, Method, Operation, Problem};
use hapax_gateway::tls::client_config;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, Uri};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Failed;
use crate::limits;
use crate::listen::mount::LISTENER;

/// The environment variable with the token.
pub(crate) const TOKEN: &str = "HAPAX_ADMIN_TOKEN";

/// Where the server is.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Server {
    /// The admin listener of the server; its token is taken from HAPAX_ADMIN_TOKEN.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8081")]
    pub(crate) admin: String,
    /// Certificates to trust instead of the system's, PEM; for an https:// URL.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// A server that can be asked.
pub(crate) struct Remote {
    authority: String,
    address: String,
    base: String,
    url: String,
    token: String,
    /// How it proves its name, where it speaks TLS.
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Remote {
    /// Reads where the server is; nothing is sent yet.
    pub(crate) fn new(server: &Server) -> Result<Remote, Failed> {
        let url = server.admin.trim_end_matches('/');
        let bad = |why: &str| Failed::misuse(format!("--admin {url}: {why}; such as http://127.0.0.1:8081"));
        let uri: Uri = url.parse().map_err(|_| bad("that is no URL"))?;
        let authority = uri.authority().ok_or_else(|| bad("the URL names no host"))?;
        let tls = match uri.scheme_str() {
            Some("http") if server.ca.is_some() => {
                return Err(bad("--ca is for an https:// URL: this one has no certificates"));
            }
            Some("http") => None,
            Some("https") => Some(prove(authority.host(), server.ca.as_deref())?),
            _ => return Err(bad("the URL starts with http:// or https://")),
        };
        let port = if tls.is_some() { 443 } else { 80 };
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
            address: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(port)),
            authority: authority.to_string(),
            base: uri.path().trim_end_matches('/').to_owned(),
            url: url.to_owned(),
            token,
            tls,
        })
    }

    /// Calls an operation. The variable part of its path is given first; empty where it has none. What is answered has all
    /// that the operation promises.
    pub(crate) async fn call<O>(
        &self,
        id: &str,
        query: &O::Query,
        body: &O::Body,
    ) -> Result<O::Answer, Failed>
    where
        O: Operation,
        O::Answer: DeserializeOwned,
    {
        let path = path(O::PATH, id, query)?;
        let body = match O::METHOD {
            Method::Post => serde_json::to_vec(body).map_err(|error| unsendable(&error))?,
            Method::Get | Method::Delete => Vec::new(),
        };
        let body = Full::new(Bytes::from(body));
        let asked = (O::METHOD.as_str(), "application/json", limits::REMOTE_ANSWER);
        self.understood(self.ask(asked, &path, body).await?)
    }

    /// Calls an operation whose body is a file with lines of JSON, which is sent as it is read.
    pub(crate) async fn upload<O>(&self, query: &O::Query, file: File) -> Result<O::Answer, Failed>
    where
        O: Operation<Body = JsonLines>,
        O::Answer: DeserializeOwned,
    {
        let path = path(O::PATH, "", query)?;
        let asked = (O::METHOD.as_str(), JsonLines::KIND, limits::REMOTE_IMPORT);
        self.understood(self.ask(asked, &path, StreamBody::new(pieces(file))).await?)
    }

    fn understood<T: DeserializeOwned>(&self, answered: Answered) -> Result<T, Failed> {
        let Answered { status, ours, bytes } = answered;
        match status {
            200..300 if ours => serde_json::from_slice(&bytes).map_err(|error| self.unreadable(&error)),
            200..300 => Err(self.stranger(status)),
            _ => match serde_json::from_slice::<Problem>(&bytes) {
                Ok(problem) if ours => Err(self.refused(status, problem)),
                _ => Err(self.stranger(status)),
            },
        }
    }

    async fn ask<B>(
        &self,
        (method, kind, within): (&str, &str, Duration),
        path: &str,
        body: B,
    ) -> Result<Answered, Failed>
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
    {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(HOST, &self.authority)
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(CONTENT_TYPE, kind)
            .body(body)
            .map_err(|_| Failed::misuse(format!("{TOKEN} or --admin has characters that cannot be sent")))?;
        let stream = self.connect().await?;
        let asked = match &self.tls {
            None => timeout(within, exchange(stream, request)).await,
            Some((tls, name)) => {
                let stream = self.shake_hands(tls, name.clone(), stream).await?;
                timeout(within, exchange(stream, request)).await
            }
        };
        match asked {
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(error)) => Err(self.lost(&error.to_string())),
            Err(_) => Err(self.lost("it took too long")),
        }
    }

    async fn shake_hands(
        &self,
        tls: &TlsConnector,
        name: ServerName<'static>,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Failed> {
        let why = match timeout(limits::REMOTE_CONNECT, tls.connect(name, stream)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it took too long".into(),
        };
        Err(Failed::unavailable(format!(
            "no TLS with {} ({why}); nothing was asked. --ca FILE names certificates to trust instead of the system's",
            self.url
        )))
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

    /// It says that it is one, and does not say what the API promises.
    fn unreadable(&self, error: &serde_json::Error) -> Failed {
        Failed::unavailable(format!(
            "what answers at {} is no admin listener of hapax, or one of another version ({error}); use the hapax that the server \
             runs, and look before you ask again",
            self.url
        ))
    }

    fn refused(&self, status: u16, problem: Problem) -> Failed {
        let told = problem.detail.filter(|detail| !detail.is_empty()).unwrap_or(problem.title);
        match status {
            401 => Failed::misuse(format!("{} does not know the token in {TOKEN}: {told}", self.url)),
            400 | 413 => Failed::misuse(told),
            403 | 404 | 405 | 409 | 421 => Failed::no(told),
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

/// A file in pieces, each read when the one before it was sent.
fn pieces(mut file: File) -> impl Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Unpin {
    futures_util::stream::iter(std::iter::from_fn(move || {
        let mut piece = vec![0; limits::UPLOAD_PIECE];
        match file.read(&mut piece) {
            Ok(0) => None,
            Ok(length) => {
                piece.truncate(length);
                Some(Ok(Frame::data(piece.into())))
            }
            Err(error) => Some(Err(error)),
        }
    }))
}

/// How a server with this name in its certificate is recognized.
fn prove(host: &str, ca: Option<&Path>) -> Result<(TlsConnector, ServerName<'static>), Failed> {
    let bad = |why: &dyn Display| Failed::misuse(format!("--admin https://{host}: {why}"));
    let config = client_config(ca).map_err(|error| bad(&error))?;
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(bare).map_err(|error| bad(&error))?;
    Ok((TlsConnector::from(config), name))
}

async fn exchange<B>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<B>,
) -> Result<Answered, Box<dyn std::error::Error + Send + Sync>>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let ours = response.headers().get(LISTENER).is_some_and(|name| name == hapax_api::ADMIN.listener);
    let bytes = Limited::new(response.into_body(), limits::REMOTE_BYTES).collect().await?.to_bytes();
    driver.abort();
    Ok(Answered { status, ours, bytes })
}

/// A path with its variable part and its query, as far as it has them.
fn path(template: &str, id: &str, query: &impl Serialize) -> Result<String, Failed> {
    let path = match template.split_once('{').zip(template.split_once('}')) {
        Some(((before, _), (_, after))) => format!("{before}{}{after}", encoded(id)),
        None => template.to_owned(),
    };
    let members = match serde_json::to_value(query).map_err(|error| unsendable(&error))? {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    let pairs = members.into_iter().filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}={}", encoded(&text))),
        other => Some(format!("{name}={}", encoded(&other.to_string()))),
    });
    let pairs: Vec<_> = pairs.collect();
    Ok(if pairs.is_empty() { path } else { format!("{path}?{}", pairs.join("&")) })
}

fn unsendable(error: &serde_json::Error) -> Failed {
    Failed::misuse(format!("this cannot be sent: {error}"))
}

/// Text as a part of a query or of a path.
fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_its_variable_part_and_what_the_query_says() {
        let query = hapax_api::ClaimsQuery {
            key: Some("a&b".into()),
            state: Some(hapax_api::State::InDoubt),
            limit: Some(2),
            ..Default::default()
        };
        assert_eq!(path("/v1/claims", "", &query).unwrap(), "/v1/claims?key=a%26b&limit=2&state=in_doubt");
        assert_eq!(path("/a/{b}/c", "x/y", &hapax_api::Nothing {}).unwrap(), "/a/x%2Fy/c");
    }

    #[test]
    fn text_is_encoded_so_that_it_stays_one_part() {
        assert_eq!(encoded("a b&c=d/é"), "a%20b%26c%3Dd%2F%C3%A9");
    }
}
