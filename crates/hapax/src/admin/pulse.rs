//! How this process does: `GET /v1/pulse` and `GET /v1/traffic`, from what it remembers of its counters.

use std::collections::BTreeMap;
use std::time::Duration;

use hapax_api::{
    LedgerPulse, Millis, Pulse, Sample, SessionPulse, Share, SweepPulse, Traffic, TrafficRow, UpstreamPulse,
    operations as op,
};
use hapax_core::{Ledger as _, Timestamp};
use hapax_gateway::metrics::{LatencyCounts, UpstreamFailures};

use super::access::Operator;
use super::{AdminState, instances, view, watched};
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::node::{Group, Row};
use crate::when::{now, parse_span};

/// How much of the past is meant.
fn window(asked: Option<&str>) -> Result<Duration, Refusal> {
    let span = asked.map(parse_span).transpose()?.unwrap_or(limits::PULSE_WINDOW);
    match span.is_zero() || span > limits::PULSE_WINDOW_MOST {
        true => Err(Refusal::malformed("`window` is more than nothing and at most 24h")),
        false => Ok(span),
    }
}

pub(super) async fn get(state: AdminState, _: Operator, asked: Asked<op::Pulse>) -> Result<Pulse, Refusal> {
    let after = asked.query.after.as_deref().map(|mark| {
        let micros = mark.parse().map_err(|_| Refusal::malformed("`after` is the `cursor` of a pulse"))?;
        Ok::<_, Refusal>(Timestamp::from_micros(micros))
    });
    let (window, after) = (window(asked.query.window.as_deref())?, after.transpose()?);
    let samples = state.rings.samples(window, after);
    let draining = state.gateway.admission().is_draining();
    let ending = draining.then(|| "this instance is about to end".to_owned());
    let reasons: Vec<_> = ending.into_iter().chain(state.health.in_the_way()).collect();
    let seen = state.health.seen();
    let known = watched::look(&state).await;
    let mut attention = known.attention;
    attention.in_doubt = seen.counts.in_doubt;
    let counts = view::counts(&seen.counts);
    let cursor = samples.last().map(|sample| sample.at).or(after).unwrap_or_default();
    Ok(Pulse {
        cursor: cursor.as_micros().to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        console: state.about.console.clone(),
        since: view::time(state.about.started_at),
        ready: reasons.is_empty(),
        reasons,
        ledger: LedgerPulse {
            up: seen.away_since.is_none(),
            took_us: seen.took.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
            since: seen.away_since.map(view::time),
        },
        session: SessionPulse {
            left_ms: u64::try_from(state.store.session().left.as_millis()).unwrap_or(u64::MAX),
        },
        spool: instances::spool(&state),
        upstreams: failing(&state, now().before(window)),
        sweep: SweepPulse { lag_s: state.store.tally().sweep_lag().as_secs() },
        changed: changed(&state, &counts, &attention, &known.audit),
        counts,
        attention,
        samples: samples.iter().map(sample).collect(),
        // Last: whoever asked compares it with the moment in which this answer is on its way.
        time: view::time(now()),
    })
}

/// The services behind that have failed since then.
fn failing(state: &AdminState, since: Timestamp) -> Vec<UpstreamPulse> {
    let failures = state.gateway.metrics().upstream_failures().into_iter();
    let lately = failures.filter(|(_, failures)| failures.last_at >= since).take(limits::PULSE_UPSTREAMS);
    let told = |(name, failures): (String, UpstreamFailures)| UpstreamPulse {
        name,
        failures: failures.by_event.values().sum(),
        last_at: view::time(failures.last_at),
    };
    lately.map(told).collect()
}

/// A word for each topic that the console shows, which differs when its data may.
fn changed(
    state: &AdminState,
    counts: &hapax_api::Counts,
    attention: &hapax_api::AttentionCounts,
    audit: &str,
) -> BTreeMap<String, String> {
    let started = view::time(state.about.started_at);
    // Nothing that grows by itself: a word that changes while nothing happens has every list fetched again.
    let claims = format!("{counts:?} {audit} {}", state.rings.answered());
    let settings = format!("{started} {audit}");
    let audit = audit.to_owned();
    let words = [
        ("claims", claims.clone()),
        ("audit", audit),
        ("keys", settings.clone()),
        ("routes", settings.clone()),
        ("webhooks", claims.clone()),
        ("schedules", claims.clone()),
        ("retention", settings),
        ("executions", format!("{attention:?} {claims}")),
        ("attention", format!("{attention:?} {claims}")),
    ];
    words.into_iter().map(|(topic, word)| (topic.to_owned(), view::digest(word.as_bytes()))).collect()
}

fn sample(sample: &crate::node::Sample) -> Sample {
    let of = |group| sample.counted.of(group);
    let mut latency = BTreeMap::new();
    for (event, counts) in [("executed", &sample.counted.executed), ("replayed", &sample.counted.replayed)] {
        if let (Some(half), Some(most)) = (quantile(counts, 0.5), quantile(counts, 0.99)) {
            latency.insert(event.to_owned(), [half, most]);
        }
    }
    Sample {
        at: view::time(sample.at),
        step_s: sample.step.as_secs(),
        executed: of(Group::Executed),
        replayed: of(Group::Replayed),
        attached: of(Group::Attached),
        passed: of(Group::Passed),
        released: of(Group::Released),
        mismatch: of(Group::Mismatch),
        in_doubt: of(Group::InDoubt),
        refused: of(Group::Refused),
        invalid: of(Group::Invalid),
        unavailable: of(Group::Unavailable),
        other: of(Group::Other),
        latency,
    }
}

fn quantile(counts: &LatencyCounts, share: f64) -> Option<Millis> {
    counts.quantile(share).map(|bound| Millis(u64::try_from(bound.as_micros()).unwrap_or(u64::MAX)))
}

pub(super) async fn traffic(
    state: AdminState,
    _: Operator,
    asked: Asked<op::Traffic>,
) -> Result<Traffic, Refusal> {
    let (window, until) = (window(asked.query.window.as_deref())?, now());
    let limit = asked.query.limit.unwrap_or(limits::PAGE);
    if !(1..=hapax_api::limits::PAGE_TRAFFIC).contains(&limit) {
        return Err(Refusal::malformed("a page of traffic has 1 to 200 rows"));
    }
    let since = until.before(window).max(state.about.started_at);
    let metrics = state.gateway.metrics();
    let mut took: BTreeMap<String, LatencyCounts> = BTreeMap::new();
    for (endpoint, _, latency) in metrics.latencies() {
        let all = took.entry(endpoint.to_string()).or_default();
        *all = all.plus(&latency);
    }
    let counted = state.rings.traffic(metrics, since).into_iter().filter(|(_, row, _)| row.requests > 0);
    let mut rows: Vec<TrafficRow> = counted
        .map(|((tenant, project, endpoint), row, spark)| {
            let latency = took.get(&*endpoint);
            let of = |share| latency.and_then(|latency| quantile(latency, share));
            told([tenant.into(), project.into(), endpoint.to_string()], &row, spark, (of(0.5), of(0.99)))
        })
        .collect();
    rows.sort_by_key(sort_of(asked.query.sort.as_deref())?);
    rows.reverse();
    let more = rows.len().saturating_sub(limit) as u64;
    rows.truncate(limit);
    let instance = state.about.instance.clone();
    Ok(Traffic { since: view::time(since), until: view::time(until), instance, rows, more })
}

fn told(
    [tenant, project, endpoint]: [String; 3],
    row: &Row,
    spark: Vec<u64>,
    (p50_ms, p99_ms): (Option<Millis>, Option<Millis>),
) -> TrafficRow {
    let earlier = row.replayed + row.attached;
    TrafficRow {
        tenant,
        project,
        endpoint,
        requests: row.requests,
        keyed: row.keyed,
        executed: row.executed,
        replayed: row.replayed,
        attached: row.attached,
        terminal_error: row.terminal_error,
        mismatch: row.mismatch,
        invalid: row.invalid,
        missing: row.missing,
        in_doubt: row.in_doubt,
        hit_rate: Share::of(earlier, earlier + row.executed),
        p50_ms,
        p99_ms,
        spark,
    }
}

/// By which member rows are sorted.
fn sort_of(name: Option<&str>) -> Result<fn(&TrafficRow) -> u64, Refusal> {
    Ok(match name.unwrap_or("requests") {
        "requests" => |row| row.requests,
        "executed" => |row| row.executed,
        "replayed" => |row| row.replayed,
        "mismatch" => |row| row.mismatch,
        "invalid" => |row| row.invalid,
        "in_doubt" => |row| row.in_doubt,
        "hit_rate" => |row| row.hit_rate.map_or(0, |share| u64::from(share.0)),
        "p50_ms" => |row| row.p50_ms.unwrap_or_default().0,
        "p99_ms" => |row| row.p99_ms.unwrap_or_default().0,
        _ => {
            return Err(Refusal::malformed(
                "`sort` is requests, executed, replayed, mismatch, invalid, in_doubt, hit_rate, p50_ms or p99_ms",
            ));
        }
    })
}
