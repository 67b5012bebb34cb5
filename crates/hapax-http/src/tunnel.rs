//! Another protocol on the same connection, such as WebSocket, on routes where nothing is kept (H11).
//!
//! Nothing is passed either way before the service has said 101. WebSocket is the only such protocol: through a tunnel that
//! speaks HTTP a caller would reach every path of the service, with every header, past the edge.

mod frames;
mod relay;

use http::header::{CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{Request, Response, Version, request};

use crate::listener::OnSwitch;
use crate::upstream::{Failed, Incoming, Outgoing, Pool, Upgrade};

/// The version whose frames are known (RFC 6455, 4.1).
const KNOWN_VERSION: &[u8] = b"13";

/// A request for another protocol.
pub struct Asked {
    protocol: HeaderValue,
    client: OnSwitch,
    /// Whether where its frames end is known.
    is_framed: bool,
}

impl Asked {
    /// What a request asks for, if it does.
    pub fn of(head: &mut request::Parts) -> Option<Self> {
        let mut protocols = head.headers.get_all(UPGRADE).iter();
        let (protocol, None) = (protocols.next()?.clone(), protocols.next()) else { return None };
        let named = head.headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
        let asked =
            named.flat_map(|line| line.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
        let is_websocket = protocol.as_bytes().eq_ignore_ascii_case(b"websocket");
        if head.version != Version::HTTP_11 || !asked || !is_websocket {
            return None;
        }
        let client = head.extensions.remove::<OnSwitch>()?;
        let version = head.headers.get(SEC_WEBSOCKET_VERSION);
        let is_framed = version.is_some_and(|version| version.as_bytes() == KNOWN_VERSION);
        Some(Asked { protocol, client, is_framed })
    }

    /// Says to the service what is asked for.
    pub fn announce(&self, headers: &mut HeaderMap) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, self.protocol.clone());
    }

    /// Asks the service; if it agrees, passes bytes both ways until either side ends or the process does, and the answer has no
    /// body.
    pub async fn carry_out(
        self,
        pool: &Pool,
        request: Request<Outgoing>,
    ) -> Result<Response<Option<Incoming>>, Failed> {
        match pool.upgrade(request).await? {
            Upgrade::Refused(response) => Ok(response.map(Some)),
            Upgrade::Switched(response, service) => {
                let (client, is_framed) = (self.client, self.is_framed);
                tokio::spawn(async move {
                    let Some(client) = client.switched().await else { return };
                    relay::run(client, service, is_framed).await;
                });
                Ok(response.map(|()| None))
            }
        }
    }
}
