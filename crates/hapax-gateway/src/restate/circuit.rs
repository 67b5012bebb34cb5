//! Nodes that are asked nothing for a while, because they have failed too often (D, bounds).
//!
//! What a node says about its own health is not believed: it says that it is well while it can do nothing. Only answers count.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::{Cluster, Node};

/// How each node has done.
#[derive(Default)]
pub(crate) struct Circuits(Mutex<HashMap<Node, Circuit>>);

#[derive(Clone, Copy, Default)]
struct Circuit {
    failures: u32,
    /// Until then it is asked nothing.
    closed_until: Option<Instant>,
}

/// What may be asked of a node now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Anything.
    Well,
    /// Whether it is back, by this request and no other for a while.
    Probe,
    /// Nothing, for so long.
    Suspended(Duration),
}

impl Circuits {
    /// What may be asked of a node.
    pub(crate) fn standing(&self, node: &Node, cluster: &Cluster, now: Instant) -> Standing {
        let mut circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(circuit) = circuits.get_mut(node) else { return Standing::Well };
        match circuit.closed_until {
            None => Standing::Well,
            Some(until) if now < until => Standing::Suspended(until - now),
            Some(_) => {
                circuit.closed_until = Some(now + cluster.suspend_for);
                Standing::Probe
            }
        }
    }

    /// The nodes that are asked nothing now.
    pub(crate) fn suspended(&self) -> Vec<String> {
        let circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let suspended = circuits.iter().filter(|(_, circuit)| circuit.closed_until.is_some());
        suspended.map(|(node, _)| node.to_string()).collect()
    }

    /// It has answered.
    pub(crate) fn answered(&self, node: &Node) {
        let mut circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        circuits.remove(node);
    }

    /// It has not.
    pub(crate) fn failed(&self, node: &Node, cluster: &Cluster, now: Instant) {
        let mut circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let circuit = circuits.entry(node.clone()).or_default();
        circuit.failures = circuit.failures.saturating_add(1);
        if circuit.failures >= cluster.suspend_after && circuit.closed_until.is_none() {
            circuit.closed_until = Some(now + cluster.suspend_for);
            tracing::warn!(target: "hapax::restate", %node, failures = circuit.failures, "node suspended");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_suspended_after_so_many_failures_and_one_request_looks_whether_it_is_back_d1() {
        let (circuits, node) = (Circuits::default(), Node::new("a", 1));
        let mut cluster = Cluster::new(vec![node.clone()], Vec::new());
        (cluster.suspend_after, cluster.suspend_for) = (2, Duration::from_secs(5));
        let standing = || circuits.standing(&node, &cluster, Instant::now());
        circuits.failed(&node, &cluster, Instant::now());
        assert_eq!(standing(), Standing::Well);
        circuits.answered(&node);
        circuits.failed(&node, &cluster, Instant::now());
        assert_eq!(standing(), Standing::Well, "an answer between them");
        circuits.failed(&node, &cluster, Instant::now());
        assert_eq!(standing(), Standing::Suspended(Duration::from_secs(5)));
        assert_eq!(circuits.suspended(), ["http://a:1"], "as the metrics tell (O1)");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(standing(), Standing::Probe);
        assert_eq!(standing(), Standing::Suspended(Duration::from_secs(5)), "one at a time");
        circuits.answered(&node);
        assert_eq!((standing(), circuits.suspended().len()), (Standing::Well, 0));
    }
}
