//! One call: who executed it, what was accepted, and what its caller gets.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hapax_core::{AttemptId, Ledger, Recipe, Registry, Scope};
use hapax_exec::{Attach, Executor, How};
use hapax_tower::answer::IDEMPOTENCY_KEY;
use hapax_tower::{Body, Code, Event, KeyedRequest, Problem, PublicId, Room as _};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Method, Response, StatusCode};

use super::answer::{FromHandler, Outcome, from_handler, is_kept, may_be_absent, not_the_handlers};
use super::ask::{Asking, Patience};
use super::compare::{Asked, Compared, compare};
use super::{ClusterPool, Confirmed, Delegate, Delegation, sealed_target};
use crate::admit::Admitted;
use crate::auth::remembered::Digest;
use crate::clock;
use crate::limits;
use crate::outlet::headers::who_asks;
use crate::restate::nodes::{JSON, Question, Reply};
use crate::restate::{ATTEMPT, Answered, Away, FINGERPRINT, Sent, by_id, expires_at, is_invocation_id};
use crate::sealed::OperationSeal;
use crate::settings::{Classify, Cluster};
use crate::stack::{Answer, Plan, Shared};

/// What is known of one call while it is answered.
pub(super) struct Call<'a, L> {
    executor: &'a Executor<L>,
    delegation: &'a Delegation,
    seal: &'a OperationSeal,
    cluster: &'a Cluster,
    pool: &'a ClusterPool,
    delegate: &'a Delegate,
    request: Arc<KeyedRequest>,
    asked: Asked,
    /// What this request is known by in the journal, however often it is sent.
    attempt: String,
    slot: Digest,
    asking: Asking<'a>,
    /// Where the pages about problems are.
    docs: &'a str,
}

impl<'a, L: Ledger> Call<'a, L> {
    pub(super) fn new<R: Registry>(
        shared: &'a Shared<L, R>,
        plan: &'a Plan<R>,
        cluster: &'a Cluster,
        pool: &'a ClusterPool,
        delegate: &'a Delegate,
        request: Arc<KeyedRequest>,
    ) -> Result<Self, Problem> {
        let unsealed = || Problem::new(Code::Internal).owing_to("there is no secret for operation ids");
        let (rule, delegation) = (request.rule.clone(), &shared.delegation);
        let (address, circuits) = (&delegate.address, &delegation.circuits);
        let named = (address, address.call(&delegate.key));
        let asking = Asking::new(cluster, pool, circuits, named, rule.timeout, rule.max_kept_response);
        Ok(Call {
            executor: shared.protect.executor(),
            delegation,
            seal: plan.seal.as_deref().ok_or_else(unsealed)?,
            cluster,
            pool,
            delegate,
            asked: Asked::of(&request),
            attempt: format!("{:?}", AttemptId::random()),
            slot: slot(&delegate.route.upstream.name, delegate),
            asking,
            docs: &shared.docs,
            request,
        })
    }

    /// The id that the cluster gave the call, once it is known.
    pub(super) fn invocation(&self) -> Option<String> {
        self.asking.invocation().map(str::to_owned)
    }

    /// Answers the request.
    pub(super) async fn answer(&self, mut room: Admitted) -> Result<Answer, Problem> {
        let answered = self.find().await;
        if let Ok(answered) = &answered
            && let Body::Whole { bytes: Some(bytes) } = answered.response.body()
        {
            room.grow(bytes.len());
        }
        answered.map_err(|problem| match problem.operation_id() {
            None => problem.about(self.public_id()),
            Some(_) => problem,
        })
    }

    async fn find(&self) -> Result<Answer, Problem> {
        if let Some(known) = self.delegation.confirmed.get(&self.slot)
            && let Some(answer) = self.kept(&known).await?
        {
            return Ok(answer);
        }
        match (self.cluster.classify, &self.request.wait.fetches_at) {
            (Classify::Marker, None) => self.marker().await,
            _ => self.exact().await,
        }
    }

    /// What is kept of a call whose acceptance was confirmed before: one look, which executes nothing.
    async fn kept(&self, known: &Confirmed) -> Result<Option<Answer>, Problem> {
        let question = Question::posted("/restate/output", self.asking.call.clone());
        let Ok(reply) = self.asking.ask(&question, Patience::Prompt).await else { return Ok(None) };
        let is_outcome = matches!(Answered::of(&reply), Answered::Success | Answered::Failure);
        let is_the_same = is_outcome && reply.header("idempotency-expires") == Some(&*known.expires);
        if !is_the_same {
            // Expired, purged, or run again since.
            return Ok(None);
        }
        self.asking.note(&known.invocation);
        if self.compares() {
            self.check(Some(&known.fingerprint)).await?;
        }
        self.hand_out(reply, How::Replayed).map(Some)
    }

    /// Sent, and then waited for: the cluster says whether it had the key before.
    async fn exact(&self) -> Result<Answer, Problem> {
        let sent = self.ask(&self.outgoing("send"), Patience::Prompt).await?;
        let Some(first) = Sent::read(&sent) else { return Err(not_the_handlers(&sent, Answered::of(&sent))) };
        self.asking.note(&first.invocation_id);
        if first.is_first() {
            if let Some(prefix) = &self.request.wait.fetches_at {
                return self.accepted(prefix);
            }
            let reply = self.attached(&first.invocation_id, None).await?;
            return self.hand_out(reply, How::Executed);
        }
        let question = Question::posted("/restate/output", by_id(&first.invocation_id));
        let reply = self.ask(&question, Patience::Prompt).await?;
        match Answered::of(&reply) {
            // What was accepted is looked up after the outcome, so that both are of one run.
            Answered::Success | Answered::Failure => self.finish(reply, How::Replayed).await,
            Answered::UnderWay => self.join(&first.invocation_id).await,
            Answered::Absent => Err(self.gone()),
            answered => Err(not_the_handlers(&reply, answered)),
        }
    }

    /// Waits for a call that is under way: for one that asks the same, and as long as its rule and its caller want.
    async fn join(&self, id: &str) -> Result<Answer, Problem> {
        let (wait, attach) = (&self.request.wait, self.request.rule.attach);
        let bound = match attach {
            Attach::Reject => Duration::ZERO,
            Attach::Wait(bound) => wait.at_most.map_or(bound, |at_most| at_most.min(bound)),
        };
        // An envelope comes with the outcome: a caller who does not wait for that is compared with the journal.
        let waits = wait.fetches_at.is_none() && !bound.is_zero();
        let by_envelope = self.delegate.handler.envelope && waits && !self.is_resent();
        let is_ours = match by_envelope || !(self.compares() || self.is_resent()) {
            true => false,
            false => self.compare_with_journal().await?,
        };
        if let Some(prefix) = &wait.fetches_at {
            return self.accepted(prefix);
        }
        if bound.is_zero() && !is_ours {
            return Err(self.asking.unfinished().await);
        }
        let attached = self.attached(id, (!is_ours).then_some(bound)).await;
        if let (true, Err(problem)) = (by_envelope && self.compares(), &attached)
            && matches!(problem.code(), Code::InProgress | Code::OutcomeUnknown)
            && let Err(differs) = self.compare_with_journal().await
            && differs.code() == Code::KeyReused
        {
            return Err(differs);
        }
        let reply = attached?;
        match is_ours {
            true => self.hand_out(reply, How::Executed),
            false if by_envelope => self.finish(reply, How::Attached).await,
            false => self.hand_out(reply, How::Attached),
        }
    }

    /// One round trip. An answer that was not kept is this call's own, unless another one of this edge was under way.
    async fn marker(&self) -> Result<Answer, Problem> {
        let flight = self.delegation.flights.enter(self.slot);
        let question = self.outgoing("call");
        let reply = self.asking.waited(self.asking.ask(&question, Patience::Long)).await?;
        if let Some(id) = reply.header("x-restate-id").filter(|id| is_invocation_id(id)) {
            self.asking.note(id);
        }
        let was_kept = is_kept(&reply);
        let is_alone = flight.is_first && !was_kept && !self.is_resent();
        if is_alone || !matches!(Answered::of(&reply), Answered::Success | Answered::Failure) {
            return self.hand_out(reply, How::Executed);
        }
        self.finish(reply, if was_kept { How::Replayed } else { How::Attached }).await
    }

    /// Whether this request may have arrived more than once.
    fn is_resent(&self) -> bool {
        self.asking.resent.load(Relaxed)
    }

    /// Compares what was accepted, remembers it, and hands the answer out.
    async fn finish(&self, reply: Reply, how: How) -> Result<Answer, Problem> {
        if !self.compares() && !self.is_resent() {
            return self.hand_out(reply, how);
        }
        let expires = reply.header("idempotency-expires").map(Arc::<str>::from);
        let found = from_handler(reply, self.delegate.handler.envelope);
        let said = found.as_ref().ok().and_then(|found| found.fingerprint.clone());
        if let (Some(said), false) = (&said, self.is_resent()) {
            self.check(Some(said)).await?;
            return found.map(|found| self.stamped(found, expires.as_deref(), how));
        }
        // Of a call that was killed, too: who asked for something else is told so.
        let accepted = self.journal().await?;
        if self.compares() {
            self.check(accepted.fingerprint.as_deref()).await?;
            if let (Some(expires), Some(fingerprint)) = (expires.clone(), accepted.fingerprint) {
                self.remember(expires, fingerprint);
            }
        }
        // Another round may have found what the first one began. Of those that were under way together the first one counts as the one
        // that ran it, whichever the cluster took.
        let is_ours = self.is_resent() && accepted.attempt.as_deref() == Some(&*self.attempt);
        let how = if is_ours { How::Executed } else { how };
        found.map(|found| self.stamped(found, expires.as_deref(), how))
    }

    /// Waits for the answer of a call that the cluster knows.
    async fn attached(&self, id: &str, bound: Option<Duration>) -> Result<Reply, Problem> {
        let question = Question::posted("/restate/attach", by_id(id));
        let waiting = self.asking.waited(self.asking.ask(&question, Patience::Long));
        let reply = match bound {
            None => waiting.await?,
            Some(bound) => match tokio::time::timeout(bound, waiting).await {
                Ok(reply) => reply?,
                Err(_) => return Err(self.asking.unfinished().await),
            },
        };
        match Answered::of(&reply) {
            Answered::UnderWay => Err(self.asking.unfinished().await),
            Answered::Absent => Err(self.gone()),
            // A handler may say the very words with which `attach` says that there is no such call.
            Answered::Failure if may_be_absent(&reply) => self.looked_up(id).await,
            _ => Ok(reply),
        }
    }

    async fn looked_up(&self, id: &str) -> Result<Reply, Problem> {
        let question = Question::posted("/restate/output", by_id(id));
        let reply = self.ask(&question, Patience::Prompt).await?;
        match Answered::of(&reply) {
            Answered::Success | Answered::Failure => Ok(reply),
            Answered::UnderWay => Err(self.asking.unfinished().await),
            _ => Err(self.gone()),
        }
    }

    /// It was there a moment ago: an operator has purged it, or its retention is over.
    fn gone(&self) -> Problem {
        Problem::new(Code::AttemptFailed)
            .with("executed", "unknown")
            .detail("the operation was removed while its outcome was waited for")
    }

    async fn ask(&self, question: &Question, patience: Patience) -> Result<Reply, Problem> {
        let asked = self.asking.ask(question, patience).await;
        asked.map_err(|unanswered| unanswered.problem(self.asking.timeout))
    }

    /// Whether requests of this route are told apart by what they ask.
    fn compares(&self) -> bool {
        self.request.fingerprint.recipe != Recipe::none().id()
    }

    /// What the cluster accepted.
    async fn journal(&self) -> Result<crate::restate::Accepted, Problem> {
        let away = |Away(cause): Away| {
            Problem::new(Code::LedgerUnavailable)
                .with("executed", "unknown")
                .detail("what was asked before cannot be compared at the moment")
                .because(cause)
        };
        let (id, within) = (self.asking.invocation().unwrap_or_default(), self.asking.within());
        if let Some(accepted) = self.pool.admin.accepted(id, within).await.map_err(away)? {
            return Ok(accepted);
        }
        match self.pool.admin.status(id, within).await.map_err(away)? {
            Some(status) if status == "completed" => Err(Problem::new(Code::OutcomeNotKept)
                .with("executed", "unknown")
                .detail("the outcome is kept, and what was asked is not: they cannot be compared")
                .because(
                    "the journal is gone: set `idempotency_retention` and `journal_retention` together",
                )),
            // Not written yet, or gone just now.
            _ => Err(Problem::new(Code::InProgress).with("executed", "unknown")),
        }
    }

    /// Compares with the journal; whether the cluster accepted this very request.
    async fn compare_with_journal(&self) -> Result<bool, Problem> {
        let accepted = self.journal().await?;
        if self.compares() {
            self.check(accepted.fingerprint.as_deref()).await?;
        }
        Ok(accepted.attempt.as_deref() == Some(&*self.attempt))
    }

    /// Refuses a request that is another one than was accepted under its key.
    async fn check(&self, accepted: Option<&str>) -> Result<(), Problem> {
        let executed = match compare(self.executor, &self.request, accepted).await? {
            Compared::Same => return Ok(()),
            Compared::Differs => "no",
            Compared::Unclear => "unknown",
        };
        let problem = Problem::mismatch(self.request.rule.mismatch_status, None, None);
        Err(problem.with("executed", executed).about(self.public_id()))
    }

    fn remember(&self, expires: Arc<str>, fingerprint: String) {
        let left = expires_at(&expires).and_then(|until| until.duration_since(clock::time_of_day()).ok());
        let (Some(left), Some(id)) = (left, self.asking.invocation()) else { return };
        let confirmed = &self.delegation.confirmed;
        let value = Confirmed { invocation: id.into(), expires, fingerprint: fingerprint.into() };
        confirmed.insert(self.slot, value, left.min(limits::CONFIRMED_REMEMBERED), confirmed.before());
    }

    /// The request as the handler gets it: the headers of a list, and no query, with which a call could be postponed.
    fn outgoing(&self, verb: &str) -> Question {
        let mut headers = HeaderMap::new();
        // First, so that they stand at the beginning of the journal's first entry.
        for (name, text) in [(FINGERPRINT, self.asked.text()), (ATTEMPT, self.attempt.clone())] {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(name, value);
            }
        }
        if let Ok(key) = HeaderValue::from_str(&self.delegate.key) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let scope = self.request.identity.scope();
        headers.extend(forwarded(self.cluster, &self.request.message.headers, scope));
        if !self.delegate.handler.takes_nothing {
            headers.insert(CONTENT_TYPE, JSON);
        }
        let body = self.request.message.body.clone();
        Question { method: Method::POST, path: self.delegate.address.path(verb), headers, body }
    }

    fn hand_out(&self, reply: Reply, how: How) -> Result<Answer, Problem> {
        let expires = reply.header("idempotency-expires").map(str::to_owned);
        let found = from_handler(reply, self.delegate.handler.envelope)?;
        Ok(self.stamped(found, expires.as_deref(), how))
    }

    fn stamped(&self, found: FromHandler, expires: Option<&str>, how: How) -> Answer {
        found.stamped(expires, how, self.public_id(), self.docs)
    }

    fn public_id(&self) -> Option<PublicId> {
        let identity = &self.request.identity;
        let scope = identity.scope().narrowed(identity.width());
        let target = sealed_target(&self.delegate.handler, identity.operation().as_str());
        self.seal.seal(&scope, target, self.asking.invocation()?).map(PublicId::from)
    }

    /// The call goes on, and its outcome will be found there (H6).
    fn accepted(&self, prefix: &str) -> Result<Answer, Problem> {
        let id = self.public_id();
        let id = id.ok_or_else(|| Problem::new(Code::Internal).owing_to("a call that goes on has no id"))?;
        let place = format!("{prefix}/{id}");
        let body = serde_json::json!({ "operation_id": id.to_string(), "status": place }).to_string();
        let mut response = Response::new(Body::whole(body.into()));
        *response.status_mut() = StatusCode::ACCEPTED;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert("preference-applied", HeaderValue::from_static("respond-async"));
        headers.insert(RETRY_AFTER, HeaderValue::from(limits::DELEGATED_RETRY.as_secs()));
        if let Ok(place) = HeaderValue::try_from(place) {
            headers.insert(LOCATION, place);
        }
        let found = FromHandler { outcome: Outcome::Answer(response), fingerprint: None };
        let mut answer = found.stamped(None, How::Executed, Some(id), self.docs);
        answer.event = Event::Async;
        Ok(answer)
    }
}

/// The headers that handlers get to see: of the caller, and, where they are named, those that say who the caller is.
pub(super) fn forwarded(cluster: &Cluster, from: &HeaderMap, scope: &Scope) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in cluster.headers.iter().filter(|name| **name != ACCEPT) {
        from.get_all(name).iter().for_each(|value| _ = headers.append(name, value.clone()));
    }
    // What a caller says of itself does not count (A5).
    for (name, value) in who_asks(scope) {
        headers.remove(&name);
        if cluster.headers.contains(&name) {
            headers.extend([(name, value)]);
        }
    }
    headers
}

/// Which call of a cluster it is: the handler and the key.
fn slot(upstream: &str, delegate: &Delegate) -> Digest {
    let address = &delegate.address;
    let object = address.key.as_deref().map_or(String::new(), |key| format!("/{key}"));
    Digest::of_parts(&[
        upstream.as_bytes(),
        address.service.as_bytes(),
        object.as_bytes(),
        address.handler.as_bytes(),
        delegate.key.as_bytes(),
    ])
}

#[cfg(test)]
mod tests {
    use hapax_core::{Project, Subject, SubjectKind, Tenant};
    use http::HeaderName;

    use super::*;

    #[test]
    fn who_asks_is_said_by_hapax_and_only_where_it_is_named_a5() {
        let subject = Subject::from_credential(SubjectKind::User, "alice").unwrap();
        let scope = Scope::new(Tenant::new("acme").unwrap(), Project::new("web").unwrap(), subject);
        let mut from = HeaderMap::new();
        for name in ["x-tenant-id", "x-project-id", "x-subject", "x-shown", "x-hidden"] {
            from.append(name, HeaderValue::from_static("forged"));
            from.append(name, HeaderValue::from_static("again"));
        }
        let told = |names: &[&'static str]| {
            let mut cluster = Cluster::new(Vec::new(), Vec::new());
            cluster.headers = names.iter().map(|name| HeaderName::from_static(name)).collect();
            let headers = forwarded(&cluster, &from, &scope);
            let mut told: Vec<_> =
                headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
            told.sort();
            told
        };
        assert_eq!(told(&["x-shown"]), ["x-shown: again", "x-shown: forged"]);
        assert_eq!(told(&["x-subject", "x-tenant-id"]), ["x-subject: user:alice", "x-tenant-id: acme"]);
        assert_eq!(told(&["x-project-id"]), ["x-project-id: web"]);
    }
}
