//! The suite that every store must pass, also one of your own (B2).
//!
//! Implement [`Harness`] for your store and write `hapax_store::conformance_tests!(name, YourHarness::new());` into a test:
//! it becomes one test for each check. Time is frozen and moved by the harness, sessions are renewed by hand, so what a
//! store answers can be compared with [`hapax_core::step`] to the microsecond. At the heart is [`differential`]: random
//! commands from concurrent clients, state and verdict equal to `step` after each (L1).

pub mod busy;
pub mod differential;
pub mod inspecting;
pub mod journals;
pub mod keeping;
pub mod lanes;
pub mod linearizable;
pub mod random;
pub mod sessions;
pub mod tampering;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::claim::Terms;
use hapax_core::{
    ClaimRequest, Clock, Fingerprint, Grant, Identity, Inspect, Journal, Key, Lanes, Leases, Ledger,
    Operation, Outcome, Registry, Retention, Scope, Source, Verdict, Width,
};

use crate::{Lifecycle, Options};

/// Everything a store can do.
pub trait AllPorts: Leases + Lanes + Journal + Registry + Inspect + Lifecycle {}

impl<S: Leases + Lanes + Journal + Registry + Inspect + Lifecycle> AllPorts for S {}

/// How the suite gets at a store, with a clock that stands still until it is moved.
pub trait Harness: Send + Sync + 'static {
    /// The store under test.
    type Store: AllPorts;

    /// Options with the harness's clock, no heartbeat of its own and no sweeper of its own.
    fn options(&self) -> Options;

    /// Opens a new, empty store.
    fn fresh(&self, options: Options) -> impl Future<Output = Self::Store> + Send;

    /// Another process on the data of the latest [`Harness::fresh`]; `None` where a store admits only one.
    fn join(&self, options: Options) -> impl Future<Output = Option<Self::Store>> + Send;

    /// Moves the clock.
    fn advance(&self, by: Duration);

    /// The clock.
    fn now(&self) -> hapax_core::Timestamp;
}

/// What [`Harness::options`] can be on this clock.
pub fn frozen(clock: impl Clock) -> Options {
    // A short validity, because nobody's heartbeat acknowledges anything: whoever purges waits for it to run out.
    let table_validity = Duration::from_millis(50);
    let clock = Some(Arc::new(clock) as _);
    Options { heartbeat: false, sweeper: false, table_validity, clock, ..Options::default() }
}

/// An identity in the suite's own scope.
pub fn identity(operation: &str, key: &str) -> Identity {
    let operation = Operation::new(operation).expect("the suite names operations well");
    let key = Key::new(key).expect("the suite names keys well");
    Identity::new(Source::Header, Scope::local(), Width::Subject, operation, key)
}

/// A request for a grant.
pub fn request(key: &str, body: &str, terms: Terms) -> ClaimRequest {
    let fingerprint = Fingerprint::of_bytes(body.as_bytes());
    ClaimRequest { terms, ..ClaimRequest::new(identity("conformance.op", key), fingerprint) }
}

/// Claims and must be granted.
pub async fn granted<L: Ledger>(ledger: &L, request: &ClaimRequest) -> Grant {
    match ledger.claim(request.clone()).await.expect("the ledger answers") {
        Verdict::Granted(grant) => grant,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// An outcome.
pub fn ok(text: &str) -> Outcome {
    Outcome::Succeeded(text.to_owned().into())
}

/// A day.
pub const DAY: Retention = Retention::For(Duration::from_secs(86_400));

/// Writes one test for each check of the suite. For a store that several processes share, add
/// [`conformance_tests_of_sharing!`](crate::conformance_tests_of_sharing).
#[macro_export]
macro_rules! conformance_tests {
    ($name:ident, $harness:expr) => {
        $crate::conformance_tests!(@each $name, $harness;
            differential::every_answer_and_state_is_what_the_rules_say,
            linearizable::concurrent_commands_on_one_claim_have_an_order,
            linearizable::of_two_hundred_claims_one_is_granted,
            keeping::an_outcome_comes_back_byte_for_byte,
            keeping::what_was_asked_is_read_back_with_its_claim,
            keeping::an_outcome_is_set_only_where_nothing_is,
            keeping::an_outcome_tells_whether_an_attempt_before_it_may_have_run,
            keeping::an_expired_outcome_is_absent_before_it_is_swept,
            keeping::what_was_purged_reopened_or_erased_is_never_replayed,
            keeping::of_two_operators_who_saw_the_same_one_wins,
            keeping::what_was_set_aside_goes_when_its_claim_is_erased_or_purged,
            keeping::what_was_set_aside_goes_when_its_claim_expires,
            keeping::an_outcome_that_came_too_late_goes_with_its_claim,
            keeping::journal_events_commit_with_the_report_or_not_at_all,
            keeping::journal_events_commit_with_the_decision_or_not_at_all,
            keeping::a_doubt_keeps_its_cause,
            keeping::a_journal_is_chained_and_written_by_compare_and_set,
            keeping::documents_change_by_compare_and_set,
            journals::an_append_sent_again_writes_nothing_and_answers_its_own_head,
            journals::only_the_runner_writes_until_its_lease_has_lapsed,
            journals::a_result_needs_a_stream_that_is_open,
            journals::streams_are_listed_by_prefix_and_status_in_pages,
            journals::a_checkpoint_is_kept_until_another_one_comes,
            journals::a_read_is_bounded_in_bytes,
            journals::a_subjects_payloads_are_erased_and_the_chain_still_verifies,
            journals::a_stream_keeps_the_chain_that_it_was_made_with,
            journals::a_report_has_its_events_or_says_that_it_has_not,
            sessions::a_claim_lapses_with_its_session,
            sessions::a_renewed_session_takes_its_claims_along,
            sessions::a_lease_lapses_unless_it_is_renewed_and_its_claims_with_it,
            sessions::a_lease_that_is_over_is_neither_renewed_nor_claimed_under,
            sessions::a_lease_is_absent_to_every_scope_but_its_own,
            sessions::a_tenant_opens_so_many_leases_at_once_and_those_that_are_over_have_no_place,
            sessions::an_attempt_that_asks_again_under_its_lease_gets_the_grant_that_stands,
            sessions::a_renewal_of_a_claim_renews_the_lease_that_it_hangs_on,
            sessions::a_settle_wakes_whoever_watches,
            sessions::a_sweep_wakes_whoever_watches,
            sessions::a_claim_whose_time_to_run_is_over_is_swept_although_its_session_lives,
            lanes::lanes_are_served_in_order_and_skip_the_dead,
            lanes::lanes_are_listed_in_pages,
            lanes::a_lane_is_closed_while_the_claim_that_closed_it_is_held_or_in_doubt,
            lanes::a_leave_whose_claim_is_over_leaves_the_lane_open,
            lanes::a_lapsed_run_closes_its_lane_until_it_is_resolved,
            lanes::a_lane_tells_which_actions_began_lately,
            lanes::a_lane_refuses_names_that_are_none,
            lanes::a_leave_wakes_a_watch_of_the_lane,
            lanes::every_answer_and_state_of_a_lane_is_what_the_rules_say,
            inspecting::claims_are_listed_in_pages_and_counted,
            inspecting::the_newest_claims_of_an_operation_are_listed_first,
            inspecting::a_listing_looks_at_every_part_of_its_filter,
            inspecting::a_purged_key_that_is_used_again_is_listed_once,
            inspecting::a_claim_is_found_by_its_public_id,
            inspecting::a_record_names_who_asked_first,
            inspecting::a_public_id_leads_only_its_own_caller_to_a_claim,
            inspecting::decisions_are_audited_and_so_is_a_settle_that_contradicts_one,
            inspecting::what_operators_set_is_written_with_its_audit_event_or_not_at_all,
            inspecting::a_note_is_written_down_and_changes_nothing,
            inspecting::shelves_are_listed_by_name_with_what_is_on_them,
            inspecting::sweeping_is_bounded_and_says_whether_more_is_due,
            inspecting::what_is_kept_for_long_does_not_keep_the_sweeper_from_what_is_due,
        );
    };
    (@each $name:ident, $harness:expr; $($module:ident::$check:ident,)*) => {
        mod $name {
            #[allow(unused_imports, reason = "a harness may name nothing of its module")]
            use super::*;
            $(
                #[test]
                fn $check() {
                    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
                    let runtime = runtime.expect("a runtime starts");
                    runtime.block_on($crate::conformance::$module::$check(&$harness));
                }
            )*
        }
    };
}

/// Writes one test for each check that needs several processes on one store.
#[macro_export]
macro_rules! conformance_tests_of_sharing {
    ($name:ident, $harness:expr) => {
        $crate::conformance_tests!(@each $name, $harness;
            sessions::a_lease_is_renewed_and_its_claims_are_settled_at_another_instance,
            sessions::a_settle_elsewhere_wakes_by_notification_alone,
            sessions::a_settle_elsewhere_wakes_by_polling_alone,
            lanes::a_leave_elsewhere_wakes_a_watch_by_notification_alone,
            lanes::a_leave_elsewhere_wakes_a_watch_by_polling_alone,
        );
    };
}
