//! The nodes of a cluster, as one thread reaches them, and one exchange with one of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use hapax_http::upstream::{Failed, Incoming, Outgoing, Pool};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::BodyExt as _;

use crate::engine;
use crate::settings::{Cluster, Node};

/// The nodes of one kind, in order.
#[derive(Debug)]
pub(crate) struct Nodes {
    nodes: Vec<(Node, Pool)>,
    next: AtomicUsize,
}

/// What is asked of a node, whichever it is.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Question {
    /// A JSON document that is posted.
    pub(crate) fn posted(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, JSON);
        Question { method: Method::POST, path: path.into(), headers, body: body.into() }
    }
}

/// The type of what is posted.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The answer of a node.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ReplyBody,
}

/// The body of an answer: whole, or longer than was to be read.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    Whole(Bytes),
    Long(VecDeque<Bytes>, Incoming),
}

impl Reply {
    /// The body; none where it is longer than was to be read.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match &self.body {
            ReplyBody::Whole(body) => Some(body),
            ReplyBody::Long(..) => None,
        }
    }

    /// The text of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Nodes {
    pub(crate) fn new(upstream: &str, cluster: &Cluster, nodes: &[Node]) -> Result<Self, hapax_core::Error> {
        let pool = |node: &Node| Ok((node.clone(), Pool::new(cluster.service(upstream, node))?));
        let nodes = nodes.iter().map(pool).collect::<Result<Vec<_>, _>>().map_err(engine::error)?;
        Ok(Nodes { nodes, next: AtomicUsize::new(0) })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// All of them, beginning with another one each time.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = &(Node, Pool)> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        (0..self.nodes.len()).map(move |number| &self.nodes[(first + number) % self.nodes.len()])
    }
}

/// Asks one node, and reads its answer up to `most` bytes.
pub(crate) async fn exchange(
    (node, pool): &(Node, Pool),
    question: &Question,
    most: usize,
) -> Result<Reply, Failed> {
    let path = PathAndQuery::try_from(format!("{}{}", node.base, question.path));
    let mut request = Request::new(Outgoing::from(question.body.clone()));
    *request.method_mut() = question.method.clone();
    *request.uri_mut() = path.map_or_else(|_| Uri::from_static("/"), Uri::from);
    *request.headers_mut() = question.headers.clone();
    let (head, mut body) = pool.send(request).await?.into_parts();
    let (mut chunks, mut length) = (VecDeque::new(), 0);
    while let Some(frame) = body.frame().await {
        // An answer that was cut is none.
        let Ok(chunk) = frame?.into_data() else { continue };
        length += chunk.len();
        chunks.push_back(chunk);
        if length > most {
            let body = ReplyBody::Long(chunks, body);
            return Ok(Reply { status: head.status, headers: head.headers, body });
        }
    }
    let whole = match chunks.len() {
        0 | 1 => chunks.pop_front().unwrap_or_default(),
        _ => {
            let mut whole = BytesMut::with_capacity(length);
            chunks.iter().for_each(|chunk| whole.extend_from_slice(chunk));
            whole.freeze()
        }
    };
    Ok(Reply { status: head.status, headers: head.headers, body: ReplyBody::Whole(whole) })
}
