//! Another protocol on the same connection, such as WebSocket, on routes where nothing is kept (H11).
//!
//! Nothing is passed either way before the service has said 101. WebSocket is the only such protocol: through a tunnel that
//! speaks HTTP a caller would reach every path of the service, with every header, past the edge.

use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use http::{Request, Response, Version, request};

use crate::listener::OnSwitch;
use crate::upstream::{Failed, Incoming, Outgoing, Pool, Upgrade};

/// A request for another protocol.
pub struct Asked {
    protocol: HeaderValue,
    client: OnSwitch,
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
        Some(Asked { protocol, client })
    }

    /// Says to the service what is asked for.
    pub fn announce(&self, headers: &mut HeaderMap) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, self.protocol.clone());
    }

    /// Asks the service; if it agrees, passes bytes both ways until either side ends, and the answer has no body.
    pub async fn carry_out(
        self,
        pool: &Pool,
        request: Request<Outgoing>,
    ) -> Result<Response<Option<Incoming>>, Failed> {
        match pool.upgrade(request).await? {
            Upgrade::Refused(response) => Ok(response.map(Some)),
            Upgrade::Switched(response, mut service) => {
                let client = self.client;
                tokio::spawn(async move {
                    let Some(mut client) = client.switched().await else { return };
                    // Either side may be silent for as long as it likes, but not gone. However it ends, both connections are closed.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut service).await;
                });
                Ok(response.map(|()| None))
            }
        }
    }
}
