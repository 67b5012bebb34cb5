//! The operations of the admin listener: every path, with who may use it (M1, M4).
//!
//! A path is served because it is in this table and for no other reason.

use crate::actions::{
    AcknowledgeAlert as Acknowledging, Alerts, AlertsQuery, Approval, Approvals, ApprovalsQuery,
    ConfirmAction as Confirming, Lanes as LanePage, LanesQuery, Receipts, ReceiptsHead as Head,
    ReceiptsQuery, ReceiptsVerified, ReleaseAction as Releasing, VerifyReceiptsQuery,
};
use crate::attention::{Attention as AttentionList, AttentionItem, Remark};
use crate::audit::{Audit as AuditPage, AuditQuery};
use crate::claims::{
    Claim, ClaimQuery, Claims, ClaimsQuery, Counts, CountsQuery, Found, LookupQuery,
    Related as RelatedClaims, Shelves as ShelfList, ShelvesQuery, Timeline as TimelineOf,
};
use crate::decisions::{Decide, Decided, EraseSubject as Erasing, ErasedSubject, Resolve};
use crate::delegated::{
    DecideDelegated, Delegated as DelegatedPage, DelegatedCall, DelegatedDecided, DelegatedQuery,
    DelegatedScope,
};
use crate::endpoint::{Endpoint, Method, Need, Nothing, Operation, Parameter, Refusal, Status, Table};
use crate::executions::{
    DecideStep as Deciding, Execution, ExecutionArchived, ExecutionEvents, ExecutionEventsQuery,
    ExecutionQuery, ExecutionScope, Executions as ExecutionPage, ExecutionsQuery, OrderExecution,
    ResumeExecution as Resuming, Verified, VerifyQuery, WaitingSteps,
};
use crate::keys::{KeyMade, Keys, KeysQuery, NewKey, Revoked};
use crate::me::Me as Whoami;
use crate::node::{
    Health as Alive, Markdown, OpenMetrics, Readiness as Ready, Routes as RouteList,
    Upstreams as UpstreamList, Written,
};
use crate::problem::{Conflict, Problem};
use crate::pulse::{Pulse as PulseOf, PulseQuery, Traffic as TrafficOf, TrafficQuery};
use crate::retention::{
    RetentionClass, RetentionClasses, SetRetention as Setting, UnsetRetention as Unsetting,
};
use crate::schedules::{
    DecideSchedule, RunSchedule as Running, Schedule, ScheduleRun, Schedules as ScheduleList,
};
use crate::text::{
    AlertId, AttentionId, ClassName, ExecutionId, InvocationId, KeyId, OperationId, ProblemCode, ScheduleId,
    TenantName, WebhookId,
};
use crate::webhooks::{
    Deliveries, DeliveriesQuery, DeliveriesReopened, NewWebhook, ReopenDeliveries as Reopening,
    RevokeWebhook as Revoking, RotateWebhook as Rotating, Webhook, WebhookMade, WebhookRotated, WebhookShown,
    Webhooks as WebhookList, WebhooksQuery,
};
use crate::words::Role;

const READ: Option<Role> = Some(Role::Read);
const OPERATE: Option<Role> = Some(Role::Operate);

const UNKNOWN: Refusal = problem(401, "No token, or none that this server knows.");
pub(crate) const ELSEWHERE: Refusal =
    problem(403, "A page of another site asks, as the browser says (`Sec-Fetch-Site`).");
pub(crate) const MISDIRECTED: Refusal = problem(421, "The listener does not answer to this host.");
const GUESSED: Refusal =
    problem(429, "Too many wrong tokens came from this address: come back as `Retry-After` says.");
pub(crate) const BAD_QUERY: Refusal = problem(400, "The query cannot be understood.");
pub(crate) const BAD_BODY: Refusal = problem(400, "The body cannot be understood.");
const NO_CLAIM: Refusal = problem(404, "There is no such claim.");
const NO_CLASS: Refusal = problem(404, "There is no such class.");
const NO_WEBHOOKS: Refusal = problem(404, "This server takes no webhooks.");
const NO_WEBHOOK: Refusal = problem(404, "There is no such webhook, or this server takes none.");
const NO_SCHEDULE: Refusal = problem(404, "There is no such schedule.");
const NO_CALL: Refusal =
    problem(404, "There is no such call in this scope, or no cluster that keeps claims.");
const NO_EXECUTION: Refusal = problem(404, "There is no such execution in this tenant and project.");
const NOT_ABOUT_IT: Refusal =
    problem(409, "Not carried out: `execution-changed` or `execution-not-applicable`; `detail` says why.");
const NO_RECEIPTS: Refusal = problem(404, "There are no receipts of this tenant.");
const NO_ACTION: Refusal = problem(404, "There is no such action.");
const NO_ALERT: Refusal = problem(404, "There is no such alert, or somebody has acknowledged it.");
const ONLY_OPERATE: Refusal = problem(403, "What is kept is told to the role operate only.");
const CLUSTER: Refusal = problem(503, "The cluster or the store cannot be asked; try again.");
const NOT_NOW: Refusal = problem(409, "Not carried out: the call has not come to its end.");
const STORE: Refusal = problem(503, "The store cannot be asked; try again.");
const CONFLICT: Refusal = Refusal::with::<Conflict>(
    409,
    "Not carried out: `claim-changed`, `claim-not-applicable` or `claim-may-still-run`. The claim as it is now comes with it.",
);

pub(crate) const fn problem(status: u16, description: &'static str) -> Refusal {
    Refusal::with::<Problem>(status, description)
}

impl Need for Role {
    fn scope(self) -> &'static str {
        self.as_str()
    }

    fn refusals(self) -> &'static [Refusal] {
        match self {
            Role::Read => const { &[UNKNOWN, ELSEWHERE, GUESSED] },
            Role::Operate => {
                const {
                    &[
                        UNKNOWN,
                        problem(403, "The token has the role read, or a page of another site asks."),
                        GUESSED,
                    ]
                }
            }
        }
    }
}

/// Declares operations, and the table that has all of them; for callers of another kind with their need first.
macro_rules! operations {
    (for $need:ty; $($name:ident $method:ident $path:literal $id:literal {
        $summary:literal, needs: $needs:expr, query: $query:ty, body: $body:ty, answer: $answer:ty,
        answers: $usual:expr $(, or $other:expr, when $status:expr)?, refuses: $refusals:expr,
    })+) => {
        $(
            #[doc = $summary]
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl Operation for $name {
                type Need = $need;
                type Query = $query;
                type Body = $body;
                type Answer = $answer;
                const METHOD: Method = Method::$method;
                const PATH: &'static str = $path;
                const ID: &'static str = $id;
                const SUMMARY: &'static str = $summary;
                const NEEDS: Option<$need> = $needs;
                const ANSWERS: (Status, &'static [Status]) = ($usual, &[$($other)?]);
                const REFUSALS: &'static [Refusal] = &$refusals;

                $(fn status(answer: &$answer) -> u16 {
                    let unusual: fn(&$answer) -> bool = $status;
                    if unusual(answer) { $other.0 } else { Self::ANSWERS.0.0 }
                })?
            }
        )+

        const ENDPOINTS: &[Endpoint<$need>] = &[$(Endpoint::of::<$name>(),)+];
    };
    ($($operation:tt)+) => { operations! { for Role; $($operation)+ } };
}
pub(crate) use operations;

operations! {
    Health Get "/healthz" "health" {
        "The process lives.", needs: None, query: Nothing, body: Nothing, answer: Alive,
        answers: (200, "It does."), refuses: [],
    }
    Readiness Get "/readyz" "readiness" {
        "The process can serve.", needs: None, query: Nothing, body: Nothing, answer: Ready,
        answers: (200, "It can."), or (503, "It cannot; the reasons say why."), when |ready| !ready.ready, refuses: [],
    }
    Metrics Get "/metrics" "metrics" {
        "Metrics in the OpenMetrics text format.", needs: None, query: Nothing, body: Nothing, answer: OpenMetrics,
        answers: (200, "The metrics."), refuses: [ELSEWHERE],
    }
    ProblemPage Get "/.well-known/hapax/errors/{code}" "problemPage" {
        "What a problem means and what to do about it: where `type` leads.",
        needs: None, query: Nothing, body: Nothing, answer: Markdown,
        answers: (200, "The page."), refuses: [problem(404, "There is no such code.")],
    }
    Openapi Get "/openapi.json" "openapi" {
        "This document.", needs: READ, query: Nothing, body: Nothing, answer: Written,
        answers: (200, "This document."), refuses: [],
    }
    Me Get "/v1/me" "me" {
        "Who asks, and what answers.", needs: READ, query: Nothing, body: Nothing, answer: Whoami,
        answers: (200, "The token's name and role, and the server."), refuses: [],
    }
    ListClaims Get "/v1/claims" "listClaims" {
        "List claims: shelf by shelf with the oldest first, or the newest of all first.", needs: READ, query: ClaimsQuery, body: Nothing, answer: Claims,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    Pulse Get "/v1/pulse" "pulse" {
        "How this process does, what it has counted lately, and what waits for a person.",
        needs: READ, query: PulseQuery, body: Nothing, answer: PulseOf,
        answers: (200, "The pulse."), refuses: [BAD_QUERY],
    }
    Traffic Get "/v1/traffic" "traffic" {
        "What this process has answered, by tenant, project and endpoint.",
        needs: READ, query: TrafficQuery, body: Nothing, answer: TrafficOf,
        answers: (200, "The rows."), refuses: [BAD_QUERY],
    }
    ListShelves Get "/v1/shelves" "listShelves" {
        "List what there are claims on, by tenant, project and operation, with their counts.",
        needs: READ, query: ShelvesQuery, body: Nothing, answer: ShelfList,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    LookupClaims Get "/v1/claims/lookup" "lookupClaims" {
        "Find the claims of one caller's key, without reading any others.",
        needs: READ, query: LookupQuery, body: Nothing, answer: Found,
        answers: (200, "Those that are there."), refuses: [BAD_QUERY, STORE],
    }
    ClaimTimeline Get "/v1/claims/{operation_id}/timeline" "claimTimeline" {
        "What happened to a claim, as far as it is known.", needs: READ, query: Nothing, body: Nothing, answer: TimelineOf,
        answers: (200, "The events."), refuses: [problem(400, "That is no operation id."), NO_CLAIM, STORE],
    }
    RelateClaim Get "/v1/claims/{operation_id}/related" "relatedClaims" {
        "Claims that may be of the same deed: the same key elsewhere, and the same request under another key.",
        needs: READ, query: Nothing, body: Nothing, answer: RelatedClaims,
        answers: (200, "The claims."), refuses: [problem(400, "That is no operation id."), NO_CLAIM, STORE],
    }
    NoteClaim Post "/v1/claims/{operation_id}/note" "noteClaim" {
        "Write down what was found out about a claim, which stays as it is.",
        needs: OPERATE, query: Nothing, body: Remark, answer: Claim,
        answers: (200, "Written; the claim as it is."), refuses: [BAD_BODY, NO_CLAIM, STORE],
    }
    ListAttention Get "/v1/attention" "listAttention" {
        "What waits for a person.", needs: READ, query: Nothing, body: Nothing, answer: AttentionList,
        answers: (200, "The items."), refuses: [STORE],
    }
    AcknowledgeAttention Post "/v1/attention/{attention_id}/acknowledge" "acknowledgeAttention" {
        "Say that somebody has seen an item. It stays until its cause has gone, and is not counted any more; an alert goes at once.",
        needs: OPERATE, query: Nothing, body: Remark, answer: AttentionItem,
        answers: (200, "Done; the item as it is now."),
        refuses: [BAD_BODY, problem(404, "Nothing of this id waits for a person."), STORE],
    }
    Upstreams Get "/v1/upstreams" "upstreams" {
        "The services behind.", needs: READ, query: Nothing, body: Nothing, answer: UpstreamList,
        answers: (200, "All of them."), refuses: [],
    }
    CountClaims Get "/v1/claims/count" "countClaims" {
        "Count claims by state.", needs: READ, query: CountsQuery, body: Nothing, answer: Counts,
        answers: (200, "The counts."), refuses: [BAD_QUERY, STORE],
    }
    ShowClaim Get "/v1/claims/{operation_id}" "showClaim" {
        "Show one claim.", needs: READ, query: ClaimQuery, body: Nothing, answer: Claim,
        answers: (200, "The claim."),
        refuses: [
            problem(400, "That is no operation id."),
            problem(403, "The kept answer is told to the role operate only."),
            NO_CLAIM,
            STORE,
        ],
    }
    ResolveClaim Post "/v1/claims/{operation_id}/resolve" "resolveClaim" {
        "End a doubt: release the claim, or settle it with an answer.",
        needs: OPERATE, query: Nothing, body: Resolve, answer: Decided,
        answers: (200, "Done; the claim as it is now."), refuses: [BAD_BODY, NO_CLAIM, CONFLICT, STORE],
    }
    ReopenClaim Post "/v1/claims/{operation_id}/reopen" "reopenClaim" {
        "Set a settled claim's answer aside, so that the next request with its key runs.",
        needs: OPERATE, query: Nothing, body: Decide, answer: Decided,
        answers: (200, "Done; the claim as it is now."), refuses: [BAD_BODY, NO_CLAIM, CONFLICT, STORE],
    }
    PurgeClaim Post "/v1/claims/{operation_id}/purge" "purgeClaim" {
        "Forget a settled claim, its fingerprint included.",
        needs: OPERATE, query: Nothing, body: Decide, answer: Decided,
        answers: (200, "Done; the claim as it is now."), refuses: [BAD_BODY, NO_CLAIM, CONFLICT, STORE],
    }
    EraseClaim Post "/v1/claims/{operation_id}/erase" "eraseClaim" {
        "Destroy a claim's answer, also one that a reopen set aside; the key stays used up, or free.",
        needs: OPERATE, query: Nothing, body: Decide, answer: Decided,
        answers: (200, "Done; the claim as it is now."), refuses: [BAD_BODY, NO_CLAIM, CONFLICT, STORE],
    }
    EraseSubject Post "/v1/claims/erase" "eraseSubject" {
        "Destroy the answers that are kept for one subject, also those that were set aside, a page at a time; used keys stay used up.",
        needs: OPERATE, query: Nothing, body: Erasing, answer: ErasedSubject,
        answers: (200, "Done for this page; go on with `next` until it is null."), refuses: [BAD_BODY, STORE],
    }
    ListDelegated Get "/v1/delegated" "listDelegated" {
        "List calls of one tenant whose claims a cluster keeps.",
        needs: READ, query: DelegatedQuery, body: Nothing, answer: DelegatedPage,
        answers: (200, "One page."), refuses: [BAD_QUERY, NO_CALL, CLUSTER],
    }
    ShowDelegated Get "/v1/delegated/{invocation_id}" "showDelegated" {
        "Show one call whose claim a cluster keeps, if it is in the scope that is named.",
        needs: READ, query: DelegatedScope, body: Nothing, answer: DelegatedCall,
        answers: (200, "The call."), refuses: [BAD_QUERY, NO_CALL, CLUSTER],
    }
    PurgeDelegated Post "/v1/delegated/{invocation_id}/purge" "purgeDelegated" {
        "Forget a call that has come to its end, so that its key is free.",
        needs: OPERATE, query: Nothing, body: DecideDelegated, answer: DelegatedDecided,
        answers: (200, "Done; the call as it was."), refuses: [BAD_BODY, NO_CALL, NOT_NOW, CLUSTER],
    }
    KillDelegated Post "/v1/delegated/{invocation_id}/kill" "killDelegated" {
        "End a call where it is, and forget it, so that its key is free. Nothing is undone.",
        needs: OPERATE, query: Nothing, body: DecideDelegated, answer: DelegatedDecided,
        answers: (200, "Done; the call as it was."), refuses: [BAD_BODY, NO_CALL, NOT_NOW, CLUSTER],
    }
    ListExecutions Get "/v1/executions" "listExecutions" {
        "List durable executions.", needs: READ, query: ExecutionsQuery, body: Nothing, answer: ExecutionPage,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    ShowExecution Get "/v1/executions/{execution_id}" "showExecution" {
        "Show one execution.", needs: READ, query: ExecutionQuery, body: Nothing, answer: Execution,
        answers: (200, "The execution."), refuses: [BAD_QUERY, ONLY_OPERATE, NO_EXECUTION, NOT_ABOUT_IT, STORE],
    }
    ListExecutionEvents Get "/v1/executions/{execution_id}/events" "listExecutionEvents" {
        "List the events of an execution, in their order.",
        needs: READ, query: ExecutionEventsQuery, body: Nothing, answer: ExecutionEvents,
        answers: (200, "One page."), refuses: [BAD_QUERY, ONLY_OPERATE, NO_EXECUTION, NOT_ABOUT_IT, STORE],
    }
    VerifyExecution Get "/v1/executions/{execution_id}/verify" "verifyExecution" {
        "Check the chain of an execution's events, a page at a time.",
        needs: READ, query: VerifyQuery, body: Nothing, answer: Verified,
        answers: (200, "What was found; go on with `next` until it is null."), refuses: [BAD_QUERY, NO_EXECUTION, STORE],
    }
    ListWaiting Get "/v1/executions/{execution_id}/waiting" "listWaiting" {
        "List the steps of an execution that wait for a person.",
        needs: READ, query: ExecutionScope, body: Nothing, answer: WaitingSteps,
        answers: (200, "All of them."), refuses: [BAD_QUERY, NO_EXECUTION, NOT_ABOUT_IT, STORE],
    }
    DecideStep Post "/v1/executions/{execution_id}/decide" "decideStep" {
        "Decide about a step that waits: it happened, it may run again, or it failed. A decision counts once.",
        needs: OPERATE, query: Nothing, body: Deciding, answer: Execution,
        answers: (200, "Done; the execution as it is now. It waits until it is resumed."),
        refuses: [BAD_BODY, NO_EXECUTION, NOT_ABOUT_IT, STORE],
    }
    PauseExecution Post "/v1/executions/{execution_id}/pause" "pauseExecution" {
        "Fence the runner of an execution off, and let it wait until it is resumed. What was begun may still come to its end.",
        needs: OPERATE, query: Nothing, body: OrderExecution, answer: Execution,
        answers: (200, "The execution as it is now."), refuses: [BAD_BODY, NO_EXECUTION, NOT_ABOUT_IT, STORE],
    }
    ResumeExecution Post "/v1/executions/{execution_id}/resume" "resumeExecution" {
        "Give an execution to whichever process looks for those whose runner has gone. The server itself runs none.",
        needs: OPERATE, query: Nothing, body: Resuming, answer: Execution,
        answers: (200, "The execution as it is now: RECOVERING, without a runner."),
        refuses: [BAD_BODY, NO_EXECUTION, NOT_ABOUT_IT, STORE],
    }
    CancelExecution Post "/v1/executions/{execution_id}/cancel" "cancelExecution" {
        "End an execution: it has failed. What was begun may still come to its end, and nothing is undone.",
        needs: OPERATE, query: Nothing, body: OrderExecution, answer: Execution,
        answers: (200, "The execution as it is now."), refuses: [BAD_BODY, NO_EXECUTION, NOT_ABOUT_IT, STORE],
    }
    ArchiveExecution Post "/v1/executions/{execution_id}/archive" "archiveExecution" {
        "Let go of the claims of an execution that has ended; its journal stays, and its id stays used up.",
        needs: OPERATE, query: Nothing, body: OrderExecution, answer: ExecutionArchived,
        answers: (200, "Done."), refuses: [BAD_BODY, NO_EXECUTION, NOT_ABOUT_IT, STORE],
    }
    ListReceipts Get "/v1/receipts" "listReceipts" {
        "List what became of a tenant's actions, newest first.",
        needs: READ, query: ReceiptsQuery, body: Nothing, answer: Receipts,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    ReceiptsHead Get "/v1/receipts/{tenant}/head" "receiptsHead" {
        "The end of the chain of a tenant's receipts.", needs: READ, query: Nothing, body: Nothing, answer: Head,
        answers: (200, "The end."), refuses: [problem(400, "That is no tenant."), NO_RECEIPTS, STORE],
    }
    VerifyReceipts Get "/v1/receipts/{tenant}/verify" "verifyReceipts" {
        "Check the chain of a tenant's receipts, a page at a time.",
        needs: READ, query: VerifyReceiptsQuery, body: Nothing, answer: ReceiptsVerified,
        answers: (200, "What was found; go on with `next` until it is null."), refuses: [BAD_QUERY, NO_RECEIPTS, STORE],
    }
    ListLanes Get "/v1/lanes" "listLanes" {
        "List lanes: whose turn it is, how many wait, and what closed them.",
        needs: READ, query: LanesQuery, body: Nothing, answer: LanePage,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    ListApprovals Get "/v1/approvals" "listApprovals" {
        "List actions of which it is not known whether they happened.",
        needs: READ, query: ApprovalsQuery, body: Nothing, answer: Approvals,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    ShowApproval Get "/v1/approvals/{operation_id}" "showApproval" {
        "Show one action of which it is not known whether it happened.",
        needs: READ, query: Nothing, body: Nothing, answer: Approval,
        answers: (200, "The action."), refuses: [problem(400, "That is no operation id."), NO_ACTION, STORE],
    }
    ConfirmAction Post "/v1/approvals/{operation_id}/confirm" "confirmAction" {
        "Say that an action happened: its key is used up, and its lane opens. Counts once.",
        needs: OPERATE, query: Nothing, body: Confirming, answer: Decided,
        answers: (200, "Done; the claim as it is now."), refuses: [BAD_BODY, NO_ACTION, CONFLICT, STORE],
    }
    ReleaseAction Post "/v1/approvals/{operation_id}/release" "releaseAction" {
        "Let an action be proposed again: its key is free, and its lane opens. Counts once.",
        needs: OPERATE, query: Nothing, body: Releasing, answer: Decided,
        answers: (200, "Done; the claim as it is now."), refuses: [BAD_BODY, NO_ACTION, CONFLICT, STORE],
    }
    ListAlerts Get "/v1/alerts" "listAlerts" {
        "List actions that were let through and are raised for people.",
        needs: READ, query: AlertsQuery, body: Nothing, answer: Alerts,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    AcknowledgeAlert Post "/v1/alerts/{alert_id}/acknowledge" "acknowledgeAlert" {
        "Say that an alert was seen: it is not listed any more, and the audit keeps who has seen it.",
        needs: OPERATE, query: Nothing, body: Acknowledging, answer: crate::actions::Alert,
        answers: (200, "The alert as it was."), refuses: [BAD_BODY, NO_ALERT, STORE],
    }
    ListKeys Get "/v1/keys" "listKeys" {
        "List API keys.", needs: READ, query: KeysQuery, body: Nothing, answer: Keys,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    CreateKey Post "/v1/keys" "createKey" {
        "Make an API key. It is told once.", needs: OPERATE, query: Nothing, body: NewKey, answer: KeyMade,
        answers: (201, "The key."), refuses: [BAD_BODY, STORE],
    }
    RevokeKey Delete "/v1/keys/{key_id}" "revokeKey" {
        "Revoke an API key.", needs: OPERATE, query: Nothing, body: Nothing, answer: Revoked,
        answers: (200, "Revoked."),
        refuses: [problem(400, "That is no id of a key."), problem(404, "There is no such key."), STORE],
    }
    ListWebhooks Get "/v1/webhooks" "listWebhooks" {
        "List webhooks; their secrets are not told.",
        needs: READ, query: WebhooksQuery, body: Nothing, answer: WebhookList,
        answers: (200, "One page."), refuses: [BAD_QUERY, NO_WEBHOOKS, STORE],
    }
    CreateWebhook Post "/v1/webhooks" "createWebhook" {
        "Make a webhook. A secret that is made for it is told once.",
        needs: OPERATE, query: Nothing, body: NewWebhook, answer: WebhookMade,
        answers: (201, "The webhook."), refuses: [BAD_BODY, NO_WEBHOOKS, STORE],
    }
    ShowWebhook Get "/v1/webhooks/{webhook_id}" "showWebhook" {
        "Show one webhook, with what became of its deliveries.",
        needs: READ, query: Nothing, body: Nothing, answer: WebhookShown,
        answers: (200, "The webhook."), refuses: [NO_WEBHOOK, STORE],
    }
    ListDeliveries Get "/v1/webhooks/{webhook_id}/deliveries" "listDeliveries" {
        "List the deliveries of a webhook that were claimed, newest first.",
        needs: READ, query: DeliveriesQuery, body: Nothing, answer: Deliveries,
        answers: (200, "One page."), refuses: [BAD_QUERY, NO_WEBHOOK, STORE],
    }
    ReopenDeliveries Post "/v1/webhooks/{webhook_id}/reopen" "reopenDeliveries" {
        "Set kept refusals aside, so that the sender's next tries run; a page at a time. hapax does not send them again by itself.",
        needs: OPERATE, query: Nothing, body: Reopening, answer: DeliveriesReopened,
        answers: (200, "Done for this page; go on with `next` until it is null."), refuses: [BAD_BODY, NO_WEBHOOK, STORE],
    }
    RotateWebhook Post "/v1/webhooks/{webhook_id}/rotate" "rotateWebhook" {
        "Give a webhook another secret; former ones count beside it unless they are dropped.",
        needs: OPERATE, query: Nothing, body: Rotating, answer: WebhookRotated,
        answers: (200, "Done."), refuses: [BAD_BODY, NO_WEBHOOK, STORE],
    }
    RevokeWebhook Delete "/v1/webhooks/{webhook_id}" "revokeWebhook" {
        "Revoke a webhook: its path is a 404 at once here, and within seconds in every other process.",
        needs: OPERATE, query: Revoking, body: Nothing, answer: Webhook,
        answers: (200, "Revoked."), refuses: [BAD_QUERY, NO_WEBHOOK, STORE],
    }
    ListSchedules Get "/v1/schedules" "listSchedules" {
        "List schedules, with their next, open and missed ticks.",
        needs: READ, query: Nothing, body: Nothing, answer: ScheduleList,
        answers: (200, "All of them."), refuses: [STORE],
    }
    ShowSchedule Get "/v1/schedules/{schedule_id}" "showSchedule" {
        "Show one schedule.", needs: READ, query: Nothing, body: Nothing, answer: Schedule,
        answers: (200, "The schedule."), refuses: [NO_SCHEDULE, STORE],
    }
    PauseSchedule Post "/v1/schedules/{schedule_id}/pause" "pauseSchedule" {
        "Dispatch no ticks of a schedule, in all servers on the store, until it is resumed.",
        needs: OPERATE, query: Nothing, body: DecideSchedule, answer: Schedule,
        answers: (200, "The schedule as it is now."), refuses: [BAD_BODY, NO_SCHEDULE, STORE],
    }
    ResumeSchedule Post "/v1/schedules/{schedule_id}/resume" "resumeSchedule" {
        "Dispatch ticks of a schedule again, from now on.",
        needs: OPERATE, query: Nothing, body: DecideSchedule, answer: Schedule,
        answers: (200, "The schedule as it is now."), refuses: [BAD_BODY, NO_SCHEDULE, STORE],
    }
    RunSchedule Post "/v1/schedules/{schedule_id}/run" "runSchedule" {
        "Run a schedule once now, also while it is paused. The same run asked for again is one run.",
        needs: OPERATE, query: Nothing, body: Running, answer: ScheduleRun,
        answers: (200, "It is sent within seconds."), refuses: [BAD_BODY, NO_SCHEDULE, STORE],
    }
    ListRetention Get "/v1/retention" "listRetention" {
        "List the classes of retention, with what is configured and what was set.",
        needs: READ, query: Nothing, body: Nothing, answer: RetentionClasses,
        answers: (200, "All of them."), refuses: [STORE],
    }
    SetRetention Post "/v1/retention/{class}" "setRetention" {
        "Keep outcomes of a class for so long from now on, in all servers on the store, until it is taken back.",
        needs: OPERATE, query: Nothing, body: Setting, answer: RetentionClass,
        answers: (200, "The class as it is now."), refuses: [BAD_BODY, NO_CLASS, STORE],
    }
    UnsetRetention Delete "/v1/retention/{class}" "unsetRetention" {
        "Keep outcomes of a class as configured again.",
        needs: OPERATE, query: Unsetting, body: Nothing, answer: RetentionClass,
        answers: (200, "The class as it is now."), refuses: [BAD_QUERY, NO_CLASS, STORE],
    }
    Audit Get "/v1/audit" "audit" {
        "What operators did, newest first.", needs: READ, query: AuditQuery, body: Nothing, answer: AuditPage,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    Routes Get "/v1/routes" "routes" {
        "The routes of the edge and their policies.", needs: READ, query: Nothing, body: Nothing, answer: RouteList,
        answers: (200, "The routes."), refuses: [],
    }
}

/// All of them.
pub(crate) const TABLE: Table<Role> = Table {
    listener: "admin",
    title: "hapax admin API",
    summary: "What operators ask and decide.",
    description: "Served on the admin listener only. Every error is `application/problem+json`. Every answer has \
                  `Cache-Control: no-store` and `Hapax-Listener: admin`. Beside the API the listener serves the pages of the console \
                  at `/` and below `/ui/`.",
    refusals: &[MISDIRECTED],
    server: "http://127.0.0.1:8081",
    body: (crate::limits::ADMIN_BODY_BYTES, "The body has more than 2 MiB."),
    credential: ("token", "An admin token. Its role is `read` or `operate`; operate includes read."),
    parameters: &[
        Parameter::of::<ProblemCode>("code", "The `code` of a problem."),
        Parameter::of::<OperationId>(
            "operation_id",
            "The public id of the operation, `op_` and 32 hexadecimal digits.",
        ),
        Parameter::of::<InvocationId>(
            "invocation_id",
            "The id of the call: the cluster's own, or the one that its callers know.",
        ),
        Parameter::of::<ExecutionId>(
            "execution_id",
            "The id of the execution, which counts within a tenant and project.",
        ),
        Parameter::of::<AttentionId>("attention_id", "The id of the item."),
        Parameter::of::<TenantName>("tenant", "The tenant."),
        Parameter::of::<AlertId>("alert_id", "The id of the alert, as the list has it."),
        Parameter::of::<KeyId>("key_id", "The id of the key."),
        Parameter::of::<WebhookId>("webhook_id", "The id of the webhook, `wh_` and 32 hexadecimal digits."),
        Parameter::of::<ScheduleId>("schedule_id", "The id of the schedule, as `[[schedules]]` has it."),
        Parameter::of::<ClassName>(
            "class",
            "The name of the class, as `[retention]` in the configuration has it.",
        ),
    ],
    endpoints: ENDPOINTS,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_token_only_health_readiness_metrics_and_pages_are_served_m1() {
        let open: Vec<_> =
            ENDPOINTS.iter().filter(|endpoint| endpoint.needs.is_none()).map(|open| open.path).collect();
        assert_eq!(open, ["/healthz", "/readyz", "/metrics", "/.well-known/hapax/errors/{code}"]);
    }

    #[test]
    fn whatever_changes_something_needs_the_role_operate_m1() {
        for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.method != Method::Get) {
            assert_eq!(endpoint.needs, Some(Role::Operate), "{}", endpoint.path);
        }
    }

    #[test]
    fn a_process_that_cannot_serve_says_so_in_the_status_m1() {
        let readiness = |ready| Ready { ready, reasons: Vec::new() };
        assert_eq!(Readiness::status(&readiness(true)), 200);
        assert_eq!(Readiness::status(&readiness(false)), 503);
    }
}
