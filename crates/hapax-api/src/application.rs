//! The operations of the application listener: every path, for callers with credentials of a project (M1).
//!
//! Nobody here is an operator. What a caller begins hangs on a lease of its own.

mod claims;
mod executions;
mod leases;
mod plans;

pub use claims::{
    AskClaim as AskedClaim, ClaimReleased, ClaimRenewed, ClaimSeen, ClaimSettled, ClaimVerdict,
    FindClaimQuery, KeptOutcome, ReleaseClaim as ReleasedClaim, RenewClaim as RenewedClaim,
    SettleClaim as SettledClaim,
};
pub use executions::{
    AppendEvent as EventToAppend, Appended, BeginStep as StepToBegin, ChainChecked,
    CompleteExecution as ExecutionToComplete, EventsQuery, ExecutionRead, ExecutionState,
    FinishStep as StepFinished, NewExecution, OwnExecutions, OwnExecutionsQuery, OwnWaiting, PlanCall,
    ReadEvent, RecordPlan as PlanToRecord, RecordedPlan, RecordedStep, RunningExecution, StepOutcome,
    StepState, StopExecution as ExecutionToStop, TakeExecution as ExecutionToTake, WaitingCall,
    WriteCheckpoint as CheckpointToWrite,
};
pub use leases::{Lease, LeaseEnded, OpenLease as LeaseToOpen};
pub use plans::{Action, ActionResult, Plan, PlanResults};

use crate::endpoint::{Endpoint, Method, Need, Nothing, Operation, Parameter, Refusal, Status, Table};
use crate::node::{Health as Alive, Markdown, Written};
use crate::operations::{BAD_BODY, BAD_QUERY, MISDIRECTED, operations, problem};
use crate::text::{ExecutionId, LeaseId, OperationId, ProblemCode};

/// What callers of the application listener must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Credentials that reach a project, as at the edge.
    Project,
}

const CALLER: Option<Credentials> = Some(Credentials::Project);

impl Need for Credentials {
    fn scope(self) -> &'static str {
        "project"
    }

    fn refusals(self) -> &'static [Refusal] {
        const {
            &[
                problem(401, "No credentials, or none that are valid."),
                problem(
                    403,
                    "The credentials reach no project; or a page of another site asks, as the browser says (`Sec-Fetch-Site`).",
                ),
                problem(
                    429,
                    "A limit of the tenant is reached (`too-many`), or the service that knows the credentials lets no more requests through; try later.",
                ),
                problem(502, "The service that knows the credentials gives no answer; try again."),
            ]
        }
    }
}

const NO_CLAIM: Refusal = problem(404, "There is no such claim for this caller.");
const NO_EXECUTION: Refusal = problem(404, "There is no such execution in the caller's tenant and project.");
const STANDS: Refusal =
    problem(409, "It does not fit how the execution, the claim or the lease stands; `code` says what it is.");
const STORE: Refusal =
    problem(503, "The store cannot be asked, or an outcome waits to be recorded; try again.");

operations! { for Credentials;
    Health Get "/healthz" "health" {
        "The process lives.", needs: None, query: Nothing, body: Nothing, answer: Alive,
        answers: (200, "It does."), refuses: [],
    }
    ProblemPage Get "/.well-known/hapax/errors/{code}" "problemPage" {
        "What a problem means and what to do about it: where `type` leads.",
        needs: None, query: Nothing, body: Nothing, answer: Markdown,
        answers: (200, "The page."), refuses: [problem(404, "There is no such code.")],
    }
    Openapi Get "/openapi.json" "openapi" {
        "This document.", needs: None, query: Nothing, body: Nothing, answer: Written,
        answers: (200, "This document."), refuses: [],
    }
    OpenLease Post "/v1/leases" "openLease" {
        "Open a lease, which grants and the right to run an execution hang on.",
        needs: CALLER, query: Nothing, body: LeaseToOpen, answer: Lease,
        answers: (201, "The lease."), refuses: [BAD_BODY, STORE],
    }
    RenewLease Post "/v1/leases/{lease}/renew" "renewLease" {
        "Renew a lease for its term, at any instance.",
        needs: CALLER, query: Nothing, body: Nothing, answer: Lease,
        answers: (200, "The lease as it is now."), refuses: [BAD_BODY, STANDS, STORE],
    }
    EndLease Delete "/v1/leases/{lease}" "endLease" {
        "End a lease: what it holds has lapsed at once. To end one that is over changes nothing.",
        needs: CALLER, query: Nothing, body: Nothing, answer: LeaseEnded,
        answers: (200, "It is over."), refuses: [problem(400, "That is no id of a lease."), STORE],
    }
    AskClaim Post "/v1/claims" "askClaim" {
        "Ask whether to do work. A grant hangs on the lease, and is recorded before it is told.",
        needs: CALLER, query: Nothing, body: AskedClaim, answer: ClaimVerdict,
        answers: (200, "The verdict."), about: ClaimVerdict::about, refuses: [BAD_BODY, STANDS, STORE],
    }
    FindClaim Get "/v1/claims" "findClaim" {
        "Look at a claim by its operation and key.",
        needs: CALLER, query: FindClaimQuery, body: Nothing, answer: ClaimSeen,
        answers: (200, "The claim."), refuses: [BAD_QUERY, NO_CLAIM, STORE],
    }
    ShowClaim Get "/v1/claims/{operation_id}" "showClaim" {
        "Look at a claim.",
        needs: CALLER, query: Nothing, body: Nothing, answer: ClaimSeen,
        answers: (200, "The claim."), refuses: [BAD_QUERY, NO_CLAIM, STORE],
    }
    RenewClaim Post "/v1/claims/{operation_id}/renew" "renewClaim" {
        "Renew the lease of a grant, if the claim still has its epoch.",
        needs: CALLER, query: Nothing, body: RenewedClaim, answer: ClaimRenewed,
        answers: (200, "Renewed."), refuses: [BAD_BODY, NO_CLAIM, STANDS, STORE],
    }
    SettleClaim Post "/v1/claims/{operation_id}/settle" "settleClaim" {
        "Tell how work came to its end. It counts with the present epoch, also late and at another instance.",
        needs: CALLER, query: Nothing, body: SettledClaim, answer: ClaimSettled,
        answers: (200, "What is kept."), refuses: [BAD_BODY, NO_CLAIM, STANDS, STORE],
    }
    ReleaseClaim Post "/v1/claims/{operation_id}/release" "releaseClaim" {
        "Give a grant back: the work did not run, or failed and may have run.",
        needs: CALLER, query: Nothing, body: ReleasedClaim, answer: ClaimReleased,
        answers: (200, "What the claim is now."), refuses: [BAD_BODY, NO_CLAIM, STANDS, STORE],
    }
    RunPlan Post "/v1/plans" "runPlan" {
        "Do what an agent plans, one action after the other, each key at most once. It goes on when the caller has gone; sent again, what was done is DEDUP.",
        needs: CALLER, query: Nothing, body: Plan, answer: PlanResults,
        answers: (200, "A result for each action, in the same order."), refuses: [BAD_BODY, STORE],
    }
    CreateExecution Post "/v1/executions" "createExecution" {
        "Make an execution, with the right to run it.",
        needs: CALLER, query: Nothing, body: NewExecution, answer: RunningExecution,
        answers: (201, "The execution."), refuses: [BAD_BODY, STANDS, STORE],
    }
    ListExecutions Get "/v1/executions" "listExecutions" {
        "List the executions of the caller's project.",
        needs: CALLER, query: OwnExecutionsQuery, body: Nothing, answer: OwnExecutions,
        answers: (200, "One page."), refuses: [BAD_QUERY, STORE],
    }
    ReadExecution Get "/v1/executions/{execution_id}" "readExecution" {
        "Read an execution with its latest checkpoint and a page of its events.",
        needs: CALLER, query: EventsQuery, body: Nothing, answer: ExecutionRead,
        answers: (200, "The execution."), refuses: [BAD_QUERY, NO_EXECUTION, STANDS, STORE],
    }
    ExecutionStatus Get "/v1/executions/{execution_id}/status" "executionStatus" {
        "How an execution stands.",
        needs: CALLER, query: Nothing, body: Nothing, answer: ExecutionState,
        answers: (200, "How it stands."), refuses: [BAD_QUERY, NO_EXECUTION, STANDS, STORE],
    }
    VerifyExecution Get "/v1/executions/{execution_id}/verify" "verifyExecution" {
        "Check the chain of an execution's events, a page at a time.",
        needs: CALLER, query: EventsQuery, body: Nothing, answer: ChainChecked,
        answers: (200, "What was found; go on with `next` until it is null."), refuses: [BAD_QUERY, NO_EXECUTION, STANDS, STORE],
    }
    ListWaiting Get "/v1/executions/{execution_id}/waiting" "listWaiting" {
        "List the steps of an execution that wait for a person. Operators decide about them.",
        needs: CALLER, query: Nothing, body: Nothing, answer: OwnWaiting,
        answers: (200, "All of them."), refuses: [NO_EXECUTION, STANDS, STORE],
    }
    AppendEvent Post "/v1/executions/{execution_id}/events" "appendEvent" {
        "Append an event of the caller's own type.",
        needs: CALLER, query: Nothing, body: EventToAppend, answer: Appended,
        answers: (200, "It is appended."), refuses: [BAD_BODY, NO_EXECUTION, STANDS, STORE],
    }
    RecordPlan Post "/v1/executions/{execution_id}/plan" "recordPlan" {
        "Record what the present iteration is going to do, before anything of it is done. A plan that is recorded stays, and is answered.",
        needs: CALLER, query: Nothing, body: PlanToRecord, answer: RecordedPlan,
        answers: (200, "The recorded plan."), refuses: [BAD_BODY, NO_EXECUTION, STANDS, STORE],
    }
    BeginStep Post "/v1/executions/{execution_id}/begin" "beginStep" {
        "Begin a step of the recorded plan: its intent is written, and its claim asked for.",
        needs: CALLER, query: Nothing, body: StepToBegin, answer: StepState,
        answers: (200, "How far the step is."), refuses: [BAD_BODY, NO_EXECUTION, STANDS, STORE],
    }
    FinishStep Post "/v1/executions/{execution_id}/finish" "finishStep" {
        "Tell how a step ended. It counts with the epoch of its grant, also late and at another instance.",
        needs: CALLER, query: Nothing, body: StepFinished, answer: StepState,
        answers: (200, "How far the step is."), refuses: [BAD_BODY, NO_EXECUTION, STANDS, STORE],
    }
    WriteCheckpoint Post "/v1/executions/{execution_id}/checkpoint" "writeCheckpoint" {
        "Complete the present iteration: its checkpoint is what the next one starts from.",
        needs: CALLER, query: Nothing, body: CheckpointToWrite, answer: Appended,
        answers: (200, "It is written."), refuses: [BAD_BODY, NO_EXECUTION, STANDS, STORE],
    }
    PauseExecution Post "/v1/executions/{execution_id}/pause" "pauseExecution" {
        "Let an execution wait until it is resumed.",
        needs: CALLER, query: Nothing, body: ExecutionToStop, answer: Appended,
        answers: (200, "It waits."), refuses: [BAD_BODY, NO_EXECUTION, STANDS, STORE],
    }
    CompleteExecution Post "/v1/executions/{execution_id}/complete" "completeExecution" {
        "An execution has come to its end.",
        needs: CALLER, query: Nothing, body: ExecutionToComplete, answer: Appended,
        answers: (200, "It is complete."), refuses: [BAD_BODY, NO_EXECUTION, STANDS, STORE],
    }
    FailExecution Post "/v1/executions/{execution_id}/fail" "failExecution" {
        "An execution has failed, or is cancelled.",
        needs: CALLER, query: Nothing, body: ExecutionToStop, answer: Appended,
        answers: (200, "It has failed."), refuses: [BAD_BODY, NO_EXECUTION, STANDS, STORE],
    }
    ResumeExecution Post "/v1/executions/{execution_id}/resume" "resumeExecution" {
        "Go on with an execution that is paused, or whose runner's lease has lapsed. Its chain is checked first.",
        needs: CALLER, query: Nothing, body: ExecutionToTake, answer: RunningExecution,
        answers: (200, "The execution, where its last whole iteration left it."), refuses: [BAD_BODY, NO_EXECUTION, STANDS, STORE],
    }
}

/// All of them.
pub(crate) const TABLE: Table<Credentials> = Table {
    listener: "application",
    title: "hapax application API",
    summary: "Work that happens once, and executions that survive their process, for programs in any language.",
    description: "Served on the application listener only, to callers who authenticate as at the edge; everything is that of their \
                  tenant and project. Every error is `application/problem+json`. Every answer has `Cache-Control: no-store` and \
                  `Hapax-Listener: application`.",
    refusals: &[MISDIRECTED],
    server: "http://127.0.0.1:8082",
    body: (crate::limits::APPLICATION_BODY_BYTES, "The body has more than 4.5 MiB."),
    credential: (
        "credentials",
        "A token or an API key, as the edge takes it. A trusted peer names its caller in headers instead.",
    ),
    parameters: &[
        Parameter::of::<ProblemCode>("code", "The `code` of a problem."),
        Parameter::of::<LeaseId>("lease", "The id of the lease."),
        Parameter::of::<OperationId>(
            "operation_id",
            "The public id of the operation, `op_` and 32 hexadecimal digits.",
        ),
        Parameter::of::<ExecutionId>(
            "execution_id",
            "The id of the execution, which counts within the caller's tenant and project.",
        ),
    ],
    endpoints: ENDPOINTS,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_credentials_only_what_tells_of_no_caller_is_served_m1() {
        let open: Vec<_> =
            ENDPOINTS.iter().filter(|endpoint| endpoint.needs.is_none()).map(|open| open.path).collect();
        assert_eq!(open, ["/healthz", "/.well-known/hapax/errors/{code}", "/openapi.json"]);
    }

    #[test]
    fn no_operators_verb_is_among_them_m1() {
        for verb in ["resolve", "purge", "reopen", "erase", "archive", "decide", "cancel"] {
            assert!(ENDPOINTS.iter().all(|endpoint| !endpoint.path.contains(verb)), "{verb}");
        }
    }
}
