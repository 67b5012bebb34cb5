//! Making a connection to a service: as many as allowed, to whichever address takes it, in time.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::exchange::Conn;
use super::wire::Wire;
use super::{Failed, FailedKind, Shared, bare_host};
use crate::limits;
use crate::socket::{Socket, look_after};

/// Counts a connection as long as it lives.
#[derive(Debug)]
pub(super) struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    /// A new connection, unless there are too many.
    pub(super) async fn connect(&self) -> Result<Box<Conn>, Failed> {
        let settings = &self.settings;
        self.open.fetch_add(1, Relaxed);
        let open = Open(Arc::clone(&self.open));
        if self.open.load(Relaxed) > settings.max_connections {
            let cause = format!("{} connections to {} are in use", settings.max_connections, settings.name);
            return Err(Failed::unsent(FailedKind::TooManyConnections, cause));
        }
        let wire = timeout(settings.connect_timeout, self.dial()).await.map_err(|_| {
            let cause = format!("no connection to {} within {:?}", settings.name, settings.connect_timeout);
            Failed::unsent(FailedKind::Timeout, cause)
        })??;
        Ok(Box::new(Conn::new(wire, open)))
    }

    async fn dial(&self) -> Result<Wire, Failed> {
        let failed = |error: std::io::Error| {
            let late = error.kind() == std::io::ErrorKind::TimedOut;
            let kind = if late { FailedKind::Timeout } else { FailedKind::Connect };
            Failed::unsent(kind, format!("no connection to {}: {error}", self.settings.name))
        };
        let stream = self.dial_any().await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        look_after(&stream);
        let Some((config, name)) = &self.tls else { return Ok(Wire::new(Socket::Plain(stream))) };
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
        Ok(Wire::new(Socket::tls(connector.connect(name.clone(), stream).await.map_err(failed)?)))
    }

    /// Tries every address of the host in turn; none may use up the time of all the others.
    async fn dial_any(&self) -> std::io::Result<TcpStream> {
        let (host, port) = (bare_host(&self.settings.host), self.settings.port);
        let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => tokio::net::lookup_host((host, port)).await?.take(limits::UPSTREAM_ADDRESSES).collect(),
        };
        let each = self.settings.connect_timeout / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
        for address in addresses {
            match timeout(each, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = std::io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }
}
