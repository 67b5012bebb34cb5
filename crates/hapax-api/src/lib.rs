//! The HTTP APIs of hapax, for operators and for applications, as types: models, endpoints and the OpenAPI document that is made from both.
//!
//! An [`Operation`] is one method and path with the types of its query, body and answer. The server mounts operations, the
//! command line calls them and the document describes them, so that none of the three can say something else than the others.
//! No HTTP library is used here: serving and calling belong to `hapax`. What the models mean is decided in `hapax-core`.

#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, reason = "models never ask the time: a time is a field")
)]

mod actions;
pub mod application;
mod attention;
mod audit;
mod claims;
mod decisions;
mod delegated;
mod document;
mod endpoint;
mod executions;
mod keys;
pub mod limits;
mod me;
mod node;
pub mod operations;
mod problem;
mod pulse;
mod raw;
mod retention;
mod schedules;
mod text;
mod webhooks;
mod words;

pub use actions::{
    AcknowledgeAlert, Alert, Alerts, AlertsQuery, Approval, Approvals, ApprovalsQuery, ConfirmAction, Lane,
    LaneClaim, LaneTicket, LaneTool, Lanes, LanesQuery, Receipt, Receipts, ReceiptsHead, ReceiptsQuery,
    ReceiptsVerified, ReleaseAction, VerifyReceiptsQuery,
};
pub use attention::{Acknowledged, Attention, AttentionItem, Remark};
pub use audit::{Audit, AuditQuery, Event};
pub use claims::{
    Claim, ClaimHolder, ClaimQuery, ClaimState, Claims, ClaimsQuery, Counts, CountsQuery, Damaged, Doubt,
    Fingerprint, Found, HeaderValues, Headers, LookupQuery, Outcome, Related, Shelf, Shelves, ShelvesQuery,
    Timeline, TimelineEvent,
};
pub use decisions::{Decide, Decided, EraseSubject, ErasedSubject, Resolve, Settle};
pub use delegated::{
    DecideDelegated, Delegated, DelegatedCall, DelegatedDecided, DelegatedQuery, DelegatedRetention,
    DelegatedScope,
};
pub use document::document;
pub use endpoint::{Content, Endpoint, Method, Need, Nothing, Operation, Parameter, Refusal, Status, Table};
pub use executions::{
    AllWaiting, AllWaitingQuery, BrokenChain, DecideStep, Execution, ExecutionArchived, ExecutionEvent,
    ExecutionEvents, ExecutionEventsQuery, ExecutionQuery, ExecutionScope, Executions, ExecutionsQuery,
    ExportQuery, Exported, ImportQuery, Json, OrderExecution, ResumeExecution, Verified, VerifyQuery,
    WaitingOf, WaitingStep, WaitingSteps,
};
pub use keys::{Key, KeyMade, Keys, KeysQuery, NewKey, Revoked};
pub use me::{Link, Me, Server, StoreBrief};
pub use node::{
    ConfigShown, Health, Instance, Instances, Markdown, OpenMetrics, Readiness, Route, RouteRetention,
    Routes, StoreState, UpstreamShown, Upstreams, Written,
};
pub use problem::{Conflict, Problem};
pub use pulse::{
    AttentionCounts, LedgerPulse, Millis, Pulse, PulseQuery, Sample, SessionPulse, Share, SpoolPulse,
    SweepPulse, Traffic, TrafficQuery, TrafficRow, UpstreamPulse,
};
pub use raw::{JsonLines, Raw};
pub use retention::{RetentionClass, RetentionClasses, RetentionSet, SetRetention, UnsetRetention};
pub use schedules::{
    DecideSchedule, MissedTicks, OpenTick, RunSchedule, Schedule, ScheduleHere, ScheduleOverlap,
    SchedulePaused, ScheduleRun, ScheduleState, Schedules,
};
pub use text::{
    AlertId, AttentionId, ClassName, Epoch, ExecutionId, InvocationId, KeyId, LeaseId, OperationId,
    ProblemCode, RunnerId, ScheduleId, TenantName, Time, WebhookId,
};
pub use webhooks::{
    Algorithm, Dedupe, Deliveries, DeliveriesQuery, DeliveriesReopened, Delivery, DeliveryRefused,
    NewWebhook, On4xx, RefusedFor, ReopenDeliveries, RevokeWebhook, RotateWebhook, SecretsFrom, Webhook,
    WebhookMade, WebhookRotated, WebhookShown, Webhooks, WebhooksQuery,
};
pub use words::{
    ActionDecision, AttentionKind, CallStatus, ClaimOrder, ConflictCode, Disposition, Done, DoubtReason,
    Executed, ExecutionConflict, ExecutionStatus, HealthStatus, Level, MayHaveRun, OutcomeKind, Ran,
    Repeatable, Rerun, Role, SettledBy, Sharing, Source, Standing, State, StepDecision, StoreKind,
    TimelineSource, WaitsFor,
};

/// The endpoints of the admin listener.
pub static ADMIN: Table<Role> = operations::TABLE;

/// The OpenAPI document of the admin listener as it is kept in the tree and served; a test compares it with [`document`].
pub const ADMIN_DOCUMENT: &str = include_str!("../openapi.json");

/// The endpoints of the application listener.
pub static APPLICATION: Table<application::Credentials> = application::TABLE;

/// The OpenAPI document of the application listener, as [`ADMIN_DOCUMENT`] is the admin listener's.
pub const APPLICATION_DOCUMENT: &str = include_str!("../application.json");
