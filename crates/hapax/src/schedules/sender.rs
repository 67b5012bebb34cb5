//! Sends a tick: one signed request to the edge's own listener, also where that speaks TLS (S2).
//!
//! What comes back is not what counts: whether a tick was taken and has ended is read from the ledger.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use hapax_core::Error;
use hapax_gateway::auth::scheduled::{SIGNATURE, Secrets, SigningInput};
use hapax_gateway::auth::trusted::{PROJECT, TENANT};
use hapax_tower::answer::IDEMPOTENCY_KEY;
use http::Method;
use http::header::CONTENT_TYPE;
use reqwest::{Url, redirect};
use rustls::{ClientConfig, RootCertStore};

use crate::limits;
use crate::when::now;

/// Calls the edge of this process.
pub(crate) struct Sender {
    http: reqwest::Client,
    origin: String,
}

/// What a tick sends.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) tenant: String,
    pub(crate) project: String,
    pub(crate) key: String,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Bytes,
}

impl Sender {
    /// For the edge that listens here.
    pub(crate) fn new(edge: SocketAddr, tls: Option<Arc<ClientConfig>>) -> Result<Self, Error> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        // Without TLS no certificate is ever looked at.
        let config = match tls {
            Some(config) => (*config).clone(),
            None => {
                ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                    .with_safe_default_protocol_versions()
                    .map_err(|error| Error::internal("TLS cannot be set up").with_detail(error))?
                    .with_root_certificates(RootCertStore::empty())
                    .with_no_client_auth()
            }
        };
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(config)
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .http1_only()
            .timeout(limits::TICK_ANSWER)
            .pool_max_idle_per_host(limits::OPEN_TICKS)
            .build()
            .map_err(|error| Error::internal("ticks cannot be sent").with_detail(error))?;
        Ok(Sender { http, origin: format!("{scheme}://{}", reachable(edge)) })
    }

    /// Sends a tick, and says with which status it was answered.
    pub(crate) async fn send(&self, secrets: &Secrets, request: Request) -> Result<u16, String> {
        let Request { method, target, tenant, project, key, content_type, body } = request;
        let url = Url::parse(&format!("{}{target}", self.origin)).map_err(|error| error.to_string())?;
        let input = SigningInput {
            method: &method,
            // As it is sent: a URL has some characters encoded that a route may have as they are.
            target: url.path(),
            tenant: &tenant,
            project: &project,
            key: &key,
            body: &body,
        };
        let seconds = u64::try_from(now().as_micros() / 1_000_000).unwrap_or(0);
        let signature = secrets.sign(&input, seconds);
        let mut asking = self
            .http
            .request(method, url)
            .header(TENANT, tenant)
            .header(PROJECT, project)
            .header(IDEMPOTENCY_KEY, key)
            .header(SIGNATURE, signature)
            .body(body);
        if let Some(content_type) = content_type {
            asking = asking.header(CONTENT_TYPE, content_type);
        }
        let mut answer = asking.send().await.map_err(|error| format!("{error:?}"))?;
        let (status, mut read) = (answer.status().as_u16(), 0);
        while let Ok(Some(chunk)) = answer.chunk().await {
            read += chunk.len();
            if read > limits::TICK_ANSWER_BYTES {
                break;
            }
        }
        Ok(status)
    }
}

/// Where a listener for every address is reached from this machine.
fn reachable(edge: SocketAddr) -> SocketAddr {
    let ip = match edge.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, edge.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_for_every_address_is_reached_at_loopback() {
        let at = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(at("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(at("[::]:80"), "[::1]:80");
        assert_eq!(at("10.0.0.7:80"), "10.0.0.7:80");
    }
}
