//! Lanes, checked exhaustively; and the checker, checked with planted flaws.

use std::collections::BTreeSet;
use std::time::Instant;

use hapax_testkit::model_lane::{Config, Flaw, Rule, Sighting, check, find};

#[test]
fn lanes_keep_their_rules_and_everything_happens() {
    let mut seen = BTreeSet::new();
    for config in Config::ALL {
        let start = Instant::now();
        let checked = check(config);
        let took = start.elapsed().as_secs_f32();
        println!("{}: {} states ({took:.1} s)", config.name, checked.states);
        assert!(checked.broken.is_empty(), "{}: {:?}", config.name, checked.broken);
        seen.extend(checked.seen);
    }
    let missing: Vec<_> = Sighting::ALL.iter().filter(|sighting| !seen.contains(sighting)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

/// What every planted flaw breaks, and where.
const FLAWS: &[(Flaw, Config, Rule)] = &[
    (Flaw::NeverBegins, Config::TWO, Rule::OneAtATime),
    (Flaw::NeverBegins, Config::TWO, Rule::AllCounted),
    (Flaw::BeginsBeforeItRenews, Config::SAFE, Rule::OneAtATime),
    (Flaw::TheDeadCloseNothing, Config::TWO, Rule::OneAtATime),
    (Flaw::TheDeadCloseNothing, Config::TWO, Rule::DoubtCloses),
    (Flaw::LeavesAsIfConfirmed, Config::TWO, Rule::DoubtCloses),
    (Flaw::OpensByMessage, Config::TWO, Rule::NotShutForEver),
    (Flaw::LooksBeforeTheLane, Config::RETRY, Rule::OneAtATime),
    (Flaw::OnlyHeldCloses, Config::TWO, Rule::DoubtCloses),
    (Flaw::BeginTakesAPlace, Config::TWO, Rule::OneAtATime),
];

#[test]
fn every_planted_flaw_of_a_lane_is_found() {
    for (flaw, config, rule) in FLAWS {
        let found = find(config.with(*flaw), *rule);
        println!("{flaw:?} in {}: {} states", config.name, found.states);
        assert!(found.breaks(*rule), "{flaw:?} does not break {rule:?} in {}", config.name);
    }
}

#[test]
fn every_rule_of_a_lane_can_be_broken() {
    // What a claim alone guarantees is broken in the model of claims.
    for rule in Rule::ALL.iter().filter(|rule| **rule != Rule::OneEffect) {
        assert!(FLAWS.iter().any(|(_, _, broken)| broken == rule), "no flaw breaks: {rule:?}");
    }
}
