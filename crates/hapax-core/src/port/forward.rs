//! Handing the calls of a port on: for what stands in front of a store, or of one of several.

/// Writes those methods of a port which only hand the call on, in an `impl` of it: so their signatures are written
/// once for all who stand in front of a store.
///
/// How a call is handed on says a macro `by!(self, to => call)`, in which `to` is what it is handed to.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use hapax_core::registry::{Document, DocumentId};
/// use hapax_core::{Error, Registry, forward};
///
/// #[derive(Clone)]
/// struct Counted<R>(R, Arc<AtomicUsize>);
///
/// macro_rules! behind {
///     ($self:ident, $to:ident => $call:expr) => {{
///         let $to = &$self.0;
///         $call
///     }};
/// }
///
/// impl<R: Registry> Registry for Counted<R> {
///     forward!(behind => put, delete, list_documents);
///
///     async fn get(&self, id: &DocumentId) -> Result<Option<Document>, Error> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.get(id).await
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward {
    ($by:ident => $($method:ident),+ $(,)?) => {
        $($crate::forward!(@ $method $by);)+
    };
    // Writes one method; the ports are its table.
    (@@ $by:ident async $method:ident($($name:ident: $type:ty),*) -> $answer:ty) => {
        async fn $method(&self $(, $name: $type)*) -> Result<$answer, $crate::Error> {
            $by!(self, to => to.$method($($name),*).await)
        }
    };
    (@@ $by:ident $method:ident($($name:ident: $type:ty),*) -> $answer:ty) => {
        fn $method(&self $(, $name: $type)*) -> $answer {
            $by!(self, to => to.$method($($name),*))
        }
    };

    // Ledger
    (@ claim $by:ident) => {
        $crate::forward!(@@ $by async claim(request: $crate::ClaimRequest) -> $crate::Verdict);
    };
    (@ report $by:ident) => {
        $crate::forward!(@@ $by async report(
            claim: $crate::ClaimId, epoch: $crate::Epoch, report: $crate::Report,
            events: Vec<$crate::journal::Append>
        ) -> $crate::Ending);
    };
    (@ set $by:ident) => {
        $crate::forward!(@@ $by async set(
            request: $crate::ClaimRequest, outcome: $crate::Outcome, retention: $crate::Retention
        ) -> $crate::SetAnswer);
    };
    (@ peek $by:ident) => {
        $crate::forward!(@@ $by async peek(claim: $crate::ClaimId) -> Option<$crate::View>);
    };
    (@ asked $by:ident) => {
        $crate::forward!(@@ $by async asked(claim: $crate::ClaimId) -> Option<$crate::Leaves>);
    };
    (@ locate $by:ident) => {
        $crate::forward!(@@ $by async locate(
            operation: $crate::OperationId, caller: &$crate::Scope
        ) -> Option<$crate::Identity>);
    };
    (@ watch $by:ident) => {
        $crate::forward!(@@ $by watch(claim: $crate::ClaimId) -> Self::Watch);
    };
    (@ session $by:ident) => {
        $crate::forward!(@@ $by session() -> $crate::Session);
    };

    // Leases
    (@ open_lease $by:ident) => {
        $crate::forward!(@@ $by async open_lease(
            scope: &$crate::Scope, term: ::std::time::Duration
        ) -> $crate::Lease);
    };
    (@ renew_lease $by:ident) => {
        $crate::forward!(@@ $by async renew_lease(
            scope: &$crate::Scope, lease: $crate::SessionId
        ) -> $crate::Lease);
    };
    (@ end_lease $by:ident) => {
        $crate::forward!(@@ $by async end_lease(scope: &$crate::Scope, lease: $crate::SessionId) -> ());
    };
    (@ claim_under $by:ident) => {
        $crate::forward!(@@ $by async claim_under(
            lease: $crate::SessionId, request: $crate::ClaimRequest
        ) -> $crate::Verdict);
    };

    // Lanes
    (@ enter $by:ident) => {
        $crate::forward!(@@ $by async enter(
            lane: &$crate::lane::LaneId, ticket: $crate::AttemptId, claim: Option<$crate::ClaimId>
        ) -> $crate::lane::LaneAnswer);
    };
    (@ begin $by:ident) => {
        $crate::forward!(@@ $by async begin(
            lane: &$crate::lane::LaneId, ticket: $crate::AttemptId, tool: &str,
            max_run: ::std::time::Duration
        ) -> $crate::lane::LaneAnswer);
    };
    (@ leave $by:ident) => {
        $crate::forward!(@@ $by async leave(
            lane: &$crate::lane::LaneId, ticket: $crate::AttemptId, confirmed: bool
        ) -> ());
    };
    (@ look $by:ident) => {
        $crate::forward!(@@ $by async look(lane: &$crate::lane::LaneId) -> $crate::lane::LaneView);
    };
    (@ watch_lane $by:ident) => {
        $crate::forward!(@@ $by watch_lane(lane: &$crate::lane::LaneId) -> Self::LaneWatch);
    };

    // Journal
    (@ append $by:ident) => {
        $crate::forward!(@@ $by async append(write: $crate::journal::Append) -> $crate::journal::Head);
    };
    (@ head $by:ident) => {
        $crate::forward!(@@ $by async head(
            stream: &$crate::journal::Stream
        ) -> Option<$crate::journal::Head>);
    };
    (@ read $by:ident) => {
        $crate::forward!(@@ $by async read(
            stream: &$crate::journal::Stream, from: u64, limit: usize
        ) -> Vec<$crate::journal::Event>);
    };
    (@ checkpoint $by:ident) => {
        $crate::forward!(@@ $by async checkpoint(
            stream: &$crate::journal::Stream
        ) -> Option<$crate::journal::Checkpoint>);
    };
    (@ list_streams $by:ident) => {
        $crate::forward!(@@ $by async list_streams(
            filter: &$crate::journal::StreamFilter, after: Option<&str>, limit: usize
        ) -> $crate::Page<$crate::journal::Listed>);
    };

    // Registry
    (@ get $by:ident) => {
        $crate::forward!(@@ $by async get(
            id: &$crate::registry::DocumentId
        ) -> Option<$crate::registry::Document>);
    };
    (@ put $by:ident) => {
        $crate::forward!(@@ $by async put(
            id: &$crate::registry::DocumentId, expect: u64, body: $crate::port::Bytes
        ) -> u64);
    };
    (@ delete $by:ident) => {
        $crate::forward!(@@ $by async delete(id: &$crate::registry::DocumentId, expect: u64) -> ());
    };
    (@ list_documents $by:ident) => {
        $crate::forward!(@@ $by async list_documents(
            kind: &str, after: Option<&str>, limit: usize
        ) -> Vec<$crate::registry::Document>);
    };

    // Inspect
    (@ record $by:ident) => {
        $crate::forward!(@@ $by async record(claim: $crate::ClaimId) -> Option<$crate::Record>);
    };
    (@ find $by:ident) => {
        $crate::forward!(@@ $by async find(operation: $crate::OperationId) -> Option<$crate::Record>);
    };
    (@ list $by:ident) => {
        $crate::forward!(@@ $by async list(
            filter: &$crate::Filter, after: Option<&str>, limit: usize
        ) -> $crate::Page<$crate::Record>);
    };
    (@ count $by:ident) => {
        $crate::forward!(@@ $by async count(filter: &$crate::Filter) -> $crate::Counts);
    };
    (@ shelves $by:ident) => {
        $crate::forward!(@@ $by async shelves(
            filter: &$crate::Filter, after: Option<&str>, limit: usize
        ) -> $crate::Page<$crate::Shelf>);
    };
    (@ decide_with $by:ident) => {
        $crate::forward!(@@ $by async decide_with(
            claim: $crate::ClaimId, decision: $crate::Decision, events: Vec<$crate::journal::Append>
        ) -> $crate::Operated);
    };
    (@ decide_setting $by:ident) => {
        $crate::forward!(@@ $by async decide_setting(
            id: &$crate::registry::DocumentId, expect: u64, body: Option<$crate::port::Bytes>,
            setting: $crate::claim::audit::Setting
        ) -> ());
    };
    (@ lanes $by:ident) => {
        $crate::forward!(@@ $by async lanes(
            after: Option<&str>, limit: usize
        ) -> $crate::Page<$crate::lane::LaneId>);
    };
    (@ note $by:ident) => {
        $crate::forward!(@@ $by async note(note: $crate::claim::audit::Note) -> ());
    };
    (@ sweep $by:ident) => {
        $crate::forward!(@@ $by async sweep(limit: usize) -> $crate::SweepReport);
    };
    (@ has_set_aside $by:ident) => {
        $crate::forward!(@@ $by async has_set_aside(operation: $crate::OperationId) -> bool);
    };
    (@ erase_events $by:ident) => {
        $crate::forward!(@@ $by async erase_events(
            stream: &$crate::journal::Stream, subject: &str, from: u64, limit: usize
        ) -> $crate::journal::Erasure);
    };
    (@ audit $by:ident) => {
        $crate::forward!(@@ $by async audit(
            after: Option<&str>, limit: usize
        ) -> $crate::Page<$crate::claim::audit::AuditEvent>);
    };
}
