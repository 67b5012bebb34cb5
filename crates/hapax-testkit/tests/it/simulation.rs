//! Many random runs of the protocol; and runs with planted flaws, which must not pass.

use hapax_testkit::model::{Flaw, Rule};
use hapax_testkit::simulation::{Counts, SEED, SEEDS, run};

/// How many seeds are run unless the environment says otherwise.
const DEFAULT_SEEDS: u64 = 20_000;

/// How many seeds a planted flaw may take: some need a lapse, a takeover and a refusal to meet.
const FLAWED_SEEDS: u64 = 40_000;

fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// The seeds to run: one that is named, or many.
fn seeds() -> std::ops::Range<u64> {
    match number_in(SEED) {
        Some(seed) => seed..seed + 1,
        None => 0..number_in(SEEDS).unwrap_or(DEFAULT_SEEDS),
    }
}

#[test]
fn random_runs_keep_the_rules() {
    let mut counts = Counts::new();
    for seed in seeds() {
        match run(seed, None) {
            Ok(seen) => seen.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{counts:#?}");
    if number_in(SEED).is_none() {
        for what in EXPECTED {
            assert!(counts.contains_key(what), "no run saw: {what}");
        }
    }
}

/// What some run must see, or the runs are too tame.
const EXPECTED: &[&str] = &[
    "abandoned",
    "already settled",
    "asked: no",
    "asked: unknown",
    "asked: yes",
    "attached",
    "contradicted an operator",
    "crash",
    "dropped",
    "effect again",
    "erase",
    "gave up before it began",
    "granted after expiry",
    "granted after release",
    "granted again",
    "held",
    "held for quiet",
    "in doubt",
    "lost lease",
    "may still run",
    "must ask",
    "purge",
    "refused by the work",
    "renewed first",
    "reopen",
    "replay",
    "resolve-release",
    "resolve-settle",
    "sent again",
    "settled out of doubt",
    "settled out of released",
    "spent",
    "stale decision",
    "suspended",
    "swept",
    "takeover",
    "told no",
    "told unknown",
    "told yes",
];

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        assert_eq!(run(seed, None).unwrap(), run(seed, None).unwrap());
    }
}

#[test]
fn planted_flaws_are_found_and_repeat_by_their_seed() {
    for (flaw, rule) in [
        (Flaw::ReleaseOnAnyError, Rule::OneEffect),
        (Flaw::TakeoverWhenUnsafe, Rule::OneEffect),
        (Flaw::AnswerOwnResult, Rule::OneOutcome),
        (Flaw::AnswerBeforeStore, Rule::AcknowledgedIsRecorded),
        (Flaw::AnswerPlaceholder, Rule::YesMeansOne),
        (Flaw::BeginOnRevivedSession, Rule::BegunUnderLease),
        (Flaw::BeginAfterRenewal, Rule::BegunUnderLease),
        (Flaw::RenewAfterLoss, Rule::BegunUnderLease),
        (Flaw::UnknownSettleIsNo, Rule::NoMeansNone),
        (Flaw::ForgetEarlierAttempt, Rule::NoMeansNone),
        (Flaw::UnheardIsGivenBack, Rule::NoMeansNone),
    ] {
        let breaks = |seed: &u64| run(*seed, Some(flaw)).is_err_and(|failure| failure.violation.rule == rule);
        let seed = (0..FLAWED_SEEDS).find(breaks).unwrap_or_else(|| panic!("{flaw:?} was not found"));
        println!("{flaw:?} was found by seed {seed}");
        let failure = run(seed, Some(flaw)).unwrap_err();
        assert!(failure.to_string().contains(&format!("{SEED}={seed} cargo test")), "{failure}");
    }
}
