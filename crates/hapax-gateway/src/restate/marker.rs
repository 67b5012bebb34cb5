//! Whether a server marks the answers that it kept, which nothing documents and telling replays apart rests on (D3).

use super::admin::{Admin, Away};
use super::nodes::{Nodes, Question, exchange};
use super::wire::{Answered, by_id};
use crate::limits;
use crate::settings::Upstream;

/// Whether answers that were kept say until when; `None` where the cluster has none to look at, or the upstream is no cluster. Nothing is
/// executed for it.
pub async fn marks_kept_answers(upstream: &Upstream) -> Result<Option<bool>, Away> {
    let Some(cluster) = &upstream.cluster else { return Ok(None) };
    let unusable = |error: hapax_core::Error| Away(format!("{error:#}"));
    let admin = Admin::new(&upstream.name, cluster).map_err(unusable)?;
    let Some(id) = admin.any_kept().await? else { return Ok(None) };
    let nodes = Nodes::new(&upstream.name, cluster, &cluster.ingress).map_err(unusable)?;
    let question = Question::posted("/restate/output", by_id(&id));
    let mut cause = String::from("there is no ingress");
    for node in nodes.in_turn() {
        let asked = exchange(node, &question, limits::PASSED_ANSWER);
        match tokio::time::timeout(limits::PROMPT, asked).await {
            Ok(Ok(reply)) => match Answered::of(&reply) {
                Answered::Success | Answered::Failure => {
                    return Ok(Some(reply.headers.contains_key("idempotency-expires")));
                }
                // It went in the meantime.
                Answered::Absent => return Ok(None),
                _ => cause = format!("{} answered {}", node.0, reply.status.as_u16()),
            },
            Ok(Err(failed)) => cause = format!("{}: {failed}", node.0),
            Err(_) => cause = format!("{}: no answer within {:?}", node.0, limits::PROMPT),
        }
    }
    Err(Away(cause))
}
