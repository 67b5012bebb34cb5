//! A keyed request on its way to a Restate cluster, which keeps its claim (D1): it never meets the ledger.
//!
//! The edge has authenticated the caller and namespaced the key; it still has to say whose execution an answer is (D3), to compare what was
//! asked with what the cluster *accepted* (D4), and to make an answer in which the cluster cannot be seen (H8). How a node is found
//! that answers is in `ask`, what a call came to in `call`, what a caller then gets in `answer`.

mod answer;
mod ask;
mod call;
mod compare;
mod flights;
pub(crate) mod pass;
pub(crate) mod recall;
mod watch;

use std::sync::Arc;

use hapax_core::json::{NotOneText, text_at};
use hapax_core::{Error, Identity, Key, Ledger, Registry};
use hapax_http::head;
use hapax_tower::{Code, KeyedRequest, Problem};
use http::Uri;

use super::Pools;
use crate::admit::Admitted;
use crate::auth::remembered::Remembered;
use crate::limits;
use crate::record::Seen;
use crate::restate::circuit::Circuits;
use crate::restate::nodes::Nodes;
use crate::restate::{Address, Admin};
use crate::sealed::SealedTarget;
use crate::settings::{Cluster, Handler, ObjectKey, Route, Upstream};
use crate::stack::{Answer, Plan, Shared};

use call::Call;

/// What all threads know of clusters.
pub(crate) struct Delegation {
    circuits: Circuits,
    flights: flights::Flights,
    /// What is known for sure to have been accepted under a key.
    confirmed: Remembered<Confirmed>,
}

impl Default for Delegation {
    fn default() -> Self {
        Delegation {
            circuits: Circuits::default(),
            flights: flights::Flights::default(),
            confirmed: Remembered::new(limits::CONFIRMED),
        }
    }
}

impl Delegation {
    /// The nodes of clusters that are asked nothing now, because they have failed too often.
    pub(crate) fn suspended(&self) -> Vec<String> {
        self.circuits.suspended()
    }
}

/// A call that was seen to be kept, and what it was accepted with. Another run under the same key is kept until another time.
#[derive(Clone, Debug)]
struct Confirmed {
    invocation: Arc<str>,
    expires: Arc<str>,
    fingerprint: Arc<str>,
}

/// The nodes of a cluster, over the connections of one thread.
#[derive(Debug)]
pub(crate) struct ClusterPool {
    pub(super) ingress: Nodes,
    pub(super) admin: Admin,
}

impl ClusterPool {
    pub(super) fn new(upstream: &Upstream, cluster: &Cluster) -> Result<Self, Error> {
        Ok(ClusterPool {
            ingress: Nodes::new(&upstream.name, cluster, &cluster.ingress)?,
            admin: Admin::new(&upstream.name, cluster)?,
        })
    }
}

/// The handler that a keyed request goes to, and the key that the cluster keeps it under.
pub(crate) struct Delegate {
    route: Arc<Route>,
    handler: Arc<Handler>,
    address: Address,
    key: String,
}

impl Delegate {
    /// Where a request of this route goes, if the cluster may get it.
    pub(crate) fn of(
        route: &Arc<Route>,
        handler: &Arc<Handler>,
        identity: &Identity,
        uri: &Uri,
        body: &[u8],
    ) -> Result<Self, Problem> {
        let address = address(handler, uri.path(), body)?;
        let key = namespaced(identity, identity.key())?;
        Ok(Delegate { route: route.clone(), handler: handler.clone(), address, key })
    }

    /// The same for a delivery: what it is claimed under, with the webhook, by which the same delivery to another one is another (W5).
    pub(crate) fn of_delivery(
        route: &Arc<Route>,
        handler: &Arc<Handler>,
        provider: &str,
        webhook: &str,
        identity: &Identity,
        uri: &Uri,
        body: &[u8],
    ) -> Result<Self, Problem> {
        let mut address = address(handler, uri.path(), body)?;
        address.handler = address.handler.replace("{provider}", provider);
        let key = Key::new(format!("{webhook}.{}", identity.key().as_str()));
        let key =
            key.map_err(|error| Problem::new(Code::TranslationFailed).owing_to(format!("{error:#}")))?;
        let key = namespaced(identity, &key)?;
        Ok(Delegate { route: route.clone(), handler: handler.clone(), address, key })
    }
}

/// The key as the cluster keeps it (K4), with what the width of the scope drops.
fn namespaced(identity: &Identity, key: &Key) -> Result<String, Problem> {
    let parts = identity.scope().narrowed(identity.width());
    hapax_core::scope::namespaced(&parts, key)
        .map_err(|error| Problem::new(Code::KeyMalformed).detail(error.message()))
}

/// Which handler, of which object. What the handler could not read would be kept as its answer, so it is refused here.
fn address(handler: &Handler, path: &str, body: &[u8]) -> Result<Address, Problem> {
    let malformed = |detail: &str| Problem::new(Code::RequestMalformed).with("executed", "no").detail(detail);
    match handler.takes_nothing {
        true if !body.is_empty() => return Err(malformed("this route takes no body")),
        true => {}
        false if !is_json(body) => return Err(malformed("the body is not JSON")),
        false => {}
    }
    let key = match &handler.key {
        None => None,
        Some(ObjectKey::Segment { number, .. }) => Some(object_in_path(path, *number)),
        Some(ObjectKey::Body(pointer)) => match text_at(body, pointer) {
            Ok(text) => Some(text),
            Err(NotOneText::DuplicateName) => {
                return Err(malformed("the member that names the object stands there twice"));
            }
            Err(NotOneText::NotText) => return Err(malformed("what names the object is not a string")),
            Err(NotOneText::Unreadable) => return Err(malformed("the body is not JSON")),
        },
    };
    let key = match key {
        None => None,
        Some(None) => return Err(malformed("nothing names the object")),
        Some(Some(key)) if key.is_empty() || key.len() > limits::OBJECT_KEY => {
            return Err(malformed("what names the object is empty or too long"));
        }
        Some(key) => key,
    };
    Ok(Address { service: handler.service.clone(), key, handler: handler.name.clone() })
}

/// The segment of a path, decoded.
fn object_in_path(path: &str, number: usize) -> Option<String> {
    let segment = path.split('/').skip(1).nth(number)?;
    String::from_utf8(head::unescaped(segment, |_| true)).ok()
}

fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

/// The cluster of a route that was configured to lead to one.
fn cluster_of(route: &Route) -> Result<&Cluster, Problem> {
    let none = || {
        Problem::new(Code::Internal).owing_to("a route leads to a handler, and its upstream is no cluster")
    };
    route.upstream.cluster.as_ref().ok_or_else(none)
}

/// Answers a request under a key.
pub(crate) async fn run<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    request: Arc<KeyedRequest>,
    delegate: Delegate,
    room: Admitted,
    pools: &Pools,
    seen: &mut Seen,
) -> Result<Answer, Problem> {
    let cluster = cluster_of(&delegate.route)?;
    let pool = pools.cluster(&delegate.route.upstream, cluster)?;
    let call = Call::new(shared, plan, cluster, &pool, &delegate, request)?;
    let answered = call.answer(room).await;
    seen.invocation = call.invocation();
    answered
}

/// Which handler of which operation a public id leads to.
fn sealed_target(handler: &Handler, operation: &str) -> SealedTarget {
    SealedTarget::of(operation, &handler.service, &handler.name)
}
