//! A Restate cluster behind the edge, and the handlers of its services that routes lead to (D1). What is spoken with it is in
//! [`restate`](crate::restate); what becomes of a request there, in `outlet/delegate`.

use std::path::PathBuf;
use std::time::Duration;

use hapax_core::json::Pointer;
use hapax_http::settings::Service;
use http::HeaderName;

use crate::limits;

/// A Restate cluster, which keeps the claims of its routes itself.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Where requests go, tried in turn.
    pub ingress: Vec<Node>,
    /// Where journals and states are read, tried in turn.
    pub admin: Vec<Node>,
    /// How sure it must be whose execution an answer is.
    pub classify: Classify,
    /// Headers of callers that handlers get to see, beside the content type.
    pub headers: Vec<HeaderName>,
    /// Failures in a row after which a node is asked nothing for a while.
    pub suspend_after: u32,
    /// How long that while is.
    pub suspend_for: Duration,
    /// Attempts in all; at least one for each node.
    pub max_attempts: u32,
    /// The pause after a round in which no node has answered.
    pub backoff: Duration,
    /// The longest time to connect.
    pub connect_timeout: Duration,
    /// Connections to each node at a time, each thread.
    pub max_connections: usize,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// Certificates to trust instead of the system's, PEM.
    pub ca: Option<PathBuf>,
}

impl Cluster {
    /// The defaults, for these nodes.
    pub fn new(ingress: Vec<Node>, admin: Vec<Node>) -> Self {
        let service = Service::new("", "", 0);
        Cluster {
            ingress,
            admin,
            classify: Classify::Exact,
            headers: limits::DELEGATED_HEADERS.map(HeaderName::from_static).to_vec(),
            suspend_after: limits::SUSPEND_AFTER,
            suspend_for: limits::SUSPEND_FOR,
            max_attempts: 1,
            backoff: limits::BACKOFF,
            connect_timeout: service.connect_timeout,
            max_connections: service.max_connections,
            idle_timeout: service.idle_timeout,
            ca: None,
        }
    }

    /// What the HTTP engine's pool for one node is told.
    pub(crate) fn service(&self, upstream: &str, node: &Node) -> Service {
        let mut service = Service::new(upstream, &node.host, node.port);
        service.https = node.https;
        service.connect_timeout = self.connect_timeout;
        service.max_connections = self.max_connections;
        service.idle_timeout = self.idle_timeout;
        service.ca = self.ca.clone().filter(|_| node.https);
        service
    }
}

/// One address of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// `http` or `https`.
    pub https: bool,
    /// Host name or address, as in its URL.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What stands before every path; empty or `/prefix` without a slash at its end.
    pub base: String,
}

impl Node {
    /// A plain node here.
    pub fn new(host: &str, port: u16) -> Self {
        Node { https: false, host: host.into(), port, base: String::new() }
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.base)
    }
}

/// How sure the edge must be whose execution an answer is (D4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Classify {
    /// The cluster says whether it accepted a request or had one before, and of one that it had before the fingerprint is compared.
    #[default]
    Exact,
    /// One round trip: only an answer that was kept is known to be an earlier request's.
    Marker,
}

/// The handler that a route leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// The service, object or workflow.
    pub service: String,
    /// Its handler; of deliveries, `{provider}` stands for the provider's name.
    pub name: String,
    /// Where the key of an object or of a workflow stands; services have none.
    pub key: Option<ObjectKey>,
    /// Whether it is a workflow, whose `run` is idempotent by the workflow's key.
    pub workflow: bool,
    /// Whether it takes no input: then a request must have no body; otherwise it is JSON.
    pub takes_nothing: bool,
    /// Whether its answers say status, headers and fingerprint themselves.
    pub envelope: bool,
}

impl Handler {
    /// A handler of a service.
    pub fn new(service: &str, name: &str) -> Self {
        let (service, name) = (service.to_owned(), name.to_owned());
        Handler { service, name, key: None, workflow: false, takes_nothing: false, envelope: false }
    }
}

/// Where the key of an object stands in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectKey {
    /// In the path: the segment with this number, counted from 0.
    Segment {
        /// Which one.
        number: usize,
        /// The name of the parameter that stands there.
        name: String,
    },
    /// In the JSON body.
    Body(Pointer),
}
