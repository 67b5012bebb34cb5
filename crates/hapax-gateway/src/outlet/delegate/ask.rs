//! Finding a node that answers: each in turn, with the same key, until the caller's time is over.
//!
//! Only where a node has too much to do, or gives no whole answer, is another one asked: the cluster keeps the key, so that a request
//! that arrives twice runs once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hapax_core::Backoff;
use hapax_http::upstream::Reached;
use hapax_tower::{Code, Problem};
use tokio::time::Instant;

use super::ClusterPool;
use crate::clock;
use crate::limits;
use crate::restate::circuit::{Circuits, Standing};
use crate::restate::nodes::{Nodes, Question, Reply, exchange};
use crate::restate::{Address, Admin, Answered};
use crate::settings::{Cluster, Node};

/// Whom to ask, and for how long.
pub(super) struct Asking<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) nodes: &'a Nodes,
    /// Where it is asked how the call stands.
    pub(super) admin: &'a Admin,
    pub(super) circuits: &'a Circuits,
    /// A handler whose cluster can be asked about a key that nobody has used.
    pub(super) address: &'a Address,
    /// Which call, as `lookup`, `output` and `attach` name it.
    pub(super) call: Bytes,
    pub(super) until: Instant,
    /// How long an answer may take, as callers are told.
    pub(super) timeout: Duration,
    /// How much of an answer is read.
    pub(super) most: usize,
    /// Whether a request may have arrived before the one that was answered.
    pub(super) resent: AtomicBool,
    /// The node that a request waits for.
    pub(super) waits_for: Mutex<Option<Node>>,
    /// What the cluster calls the call, once it is known.
    pub(super) invocation: OnceLock<String>,
    /// Whether the cluster has said that it knows the call.
    pub(super) is_alive: AtomicBool,
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// The cluster answers by itself.
    Prompt,
    /// A handler works on it.
    Long,
}

/// No node has given an answer that can be used.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The caller's time is over.
    TooLate,
    /// All nodes are suspended; one of them for no longer than this.
    Suspended(Duration),
    /// All that were asked have too much to do.
    Busy(String),
    /// None was reached, or none gave a whole answer.
    Silent(String, Reached),
}

impl<'a> Asking<'a> {
    /// About one call of a handler, until its caller's time is over.
    pub(super) fn new(
        cluster: &'a Cluster,
        pool: &'a ClusterPool,
        circuits: &'a Circuits,
        (address, call): (&'a Address, Bytes),
        timeout: Duration,
        most: usize,
    ) -> Self {
        Asking {
            cluster,
            nodes: &pool.ingress,
            admin: &pool.admin,
            circuits,
            address,
            call,
            until: clock::now() + timeout,
            timeout,
            most,
            resent: AtomicBool::new(false),
            waits_for: Mutex::default(),
            invocation: OnceLock::new(),
            is_alive: AtomicBool::new(false),
        }
    }

    /// Asks one node after the other.
    pub(super) async fn ask(&self, question: &Question, patience: Patience) -> Result<Reply, Unanswered> {
        let attempts =
            usize::try_from(self.cluster.max_attempts).unwrap_or(1).max(self.cluster.ingress.len());
        let (mut made, mut backoff) = (0, Backoff::default());
        let mut failed = Unanswered::Silent("there is no ingress".into(), Reached::No);
        loop {
            let mut suspended = None;
            for node in self.nodes.in_turn() {
                if made >= attempts {
                    return Err(failed);
                }
                let now = clock::now();
                if now >= self.until {
                    return Err(Unanswered::TooLate);
                }
                match self.circuits.standing(&node.0, self.cluster, now) {
                    Standing::Well => {}
                    Standing::Probe if self.is_back(node).await => {}
                    Standing::Probe => {
                        suspended = Some(self.cluster.suspend_for);
                        continue;
                    }
                    Standing::Suspended(left) => {
                        suspended = Some(suspended.map_or(left, |other: Duration| other.min(left)));
                        continue;
                    }
                }
                made += 1;
                match self.one(node, question, patience).await {
                    Ok(reply) => return Ok(reply),
                    Err(Unanswered::TooLate) => return Err(Unanswered::TooLate),
                    Err(other) => failed = other,
                }
            }
            if made == 0 {
                return Err(Unanswered::Suspended(suspended.unwrap_or(self.cluster.suspend_for)));
            }
            if made >= attempts || suspended.is_some() {
                return Err(failed);
            }
            let pause = backoff.pause((self.cluster.backoff, limits::LONGEST_BACKOFF));
            tokio::time::sleep_until((clock::now() + pause).min(self.until)).await;
        }
    }

    async fn one(
        &self,
        node: &(Node, hapax_http::upstream::Pool),
        question: &Question,
        patience: Patience,
    ) -> Result<Reply, Unanswered> {
        let until = match patience {
            Patience::Prompt => self.until.min(clock::now() + limits::PROMPT),
            Patience::Long => self.until,
        };
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = Some(node.0.clone());
        match tokio::time::timeout_at(until, exchange(node, question, self.most)).await {
            Ok(Ok(reply)) => match Answered::of(&reply) {
                Answered::Busy => {
                    if reply.status.as_u16() == 503 {
                        self.resent.store(true, Relaxed);
                        self.circuits.failed(&node.0, self.cluster, clock::now());
                    }
                    Err(Unanswered::Busy(format!("{} answered {}", node.0, reply.status.as_u16())))
                }
                _ => {
                    self.circuits.answered(&node.0);
                    Ok(reply)
                }
            },
            Ok(Err(failed)) => {
                if failed.reached == Reached::Perhaps {
                    self.resent.store(true, Relaxed);
                }
                self.circuits.failed(&node.0, self.cluster, clock::now());
                Err(Unanswered::Silent(format!("{}: {failed}", node.0), failed.reached))
            }
            Err(_) => {
                self.resent.store(true, Relaxed);
                if patience == Patience::Long {
                    // A handler may take longer than its caller waits: whether the node is to blame is for the caller to say.
                    return Err(Unanswered::TooLate);
                }
                self.circuits.failed(&node.0, self.cluster, clock::now());
                if until >= self.until {
                    return Err(Unanswered::TooLate);
                }
                let cause = format!("{}: no answer within {:?}", node.0, limits::PROMPT);
                Err(Unanswered::Silent(cause, Reached::Perhaps))
            }
        }
    }

    /// The node that is waited for has not said anything, and nothing is known of the call.
    pub(super) fn blame(&self) {
        let node = self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(node) = node {
            self.circuits.failed(&node, self.cluster, clock::now());
        }
    }

    /// Whether a suspended node answers again: about a key that nobody has used, which it has to look for.
    async fn is_back(&self, node: &(Node, hapax_http::upstream::Pool)) -> bool {
        let unused = format!("hapax-probe-{:?}", hapax_core::AttemptId::random());
        let question = Question::posted("/restate/output", self.address.call(&unused));
        let until = self.until.min(clock::now() + limits::PROBE);
        let asked = tokio::time::timeout_at(until, exchange(node, &question, limits::PROBE_ANSWER)).await;
        let is_back = matches!(&asked, Ok(Ok(reply)) if Answered::of(reply) == Answered::Absent);
        match is_back {
            true => self.circuits.answered(&node.0),
            false => self.circuits.failed(&node.0, self.cluster, clock::now()),
        }
        is_back
    }
}

impl Unanswered {
    /// What a caller is told. Sent again under its key, the request runs no second time, whatever became of this one.
    pub(super) fn problem(self, timeout: Duration) -> Problem {
        let problem = match self {
            Unanswered::TooLate => Problem::new(Code::UpstreamTimeout)
                .retry_after(limits::DELEGATED_RETRY)
                .because(format!("no answer within {timeout:?}")),
            Unanswered::Suspended(left) => {
                Problem::new(Code::UpstreamSuspended).retry_after(left).because("every ingress is suspended")
            }
            Unanswered::Busy(cause) => Problem::new(Code::AttemptFailed)
                .detail("the service has too much to do at the moment")
                .because(cause),
            Unanswered::Silent(cause, _) => Problem::new(Code::UpstreamUnreachable).because(cause),
        };
        problem.with("executed", "unknown")
    }
}
