//! The protocol, checked exhaustively; and the checker, checked with planted flaws and missing actions.

use std::collections::BTreeSet;
use std::time::Instant;

use hapax_testkit::model::{Config, Flaw, Rule, Sighting, Switch, Switches, check, find};

/// Set it to check the larger configurations as well.
const DEEP: &str = "HAPAX_DEEP";

#[test]
fn the_protocol_keeps_its_rules_and_everything_happens() {
    let mut seen = BTreeSet::new();
    for config in Config::ALL {
        let start = Instant::now();
        let checked = check(config);
        println!("{checked} ({:.1} s)", start.elapsed().as_secs_f32());
        assert!(checked.broken.is_empty(), "{checked}");
        seen.extend(checked.seen);
    }
    let missing: Vec<_> = Sighting::ALL.iter().filter(|sighting| !seen.contains(sighting)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

#[test]
fn the_protocol_keeps_its_rules_in_depth() {
    if std::env::var_os(DEEP).is_none() {
        println!("set {DEEP}=1 to check the larger configurations");
        return;
    }
    for config in Config::DEEP {
        let start = Instant::now();
        let checked = check(config);
        println!("{checked} ({:.1} s)", start.elapsed().as_secs_f32());
        assert!(checked.broken.is_empty(), "{checked}");
    }
}

/// What every planted flaw breaks, and where.
const FLAWS: &[(Flaw, Config, Rule)] = &[
    (Flaw::ReleaseOnAnyError, Config::UNSAFE, Rule::OneEffect),
    (Flaw::BurnAfterSuccess, Config::UNSAFE, Rule::OneEffect),
    (Flaw::TakeoverWhenUnsafe, Config::UNSAFE, Rule::OneEffect),
    (Flaw::GuessUnknownCommit, Config::UNSAFE, Rule::OneEffect),
    (Flaw::FenceByTime, Config::UNSAFE, Rule::TrueOutcomeIsKept),
    (Flaw::FenceByTime, Config::SAFE, Rule::OneOutcome),
    (Flaw::AnswerOwnResult, Config::SAFE, Rule::OneOutcome),
    (Flaw::AnswerBeforeStore, Config::UNSAFE, Rule::AcknowledgedIsRecorded),
    (Flaw::AnswerPlaceholder, Config::UNSAFE, Rule::NothingInvented),
    (Flaw::ReuseEpoch, Config::SAFE, Rule::OneHolder),
    (Flaw::ReuseEpoch, Config::SAFE, Rule::EpochsIncrease),
    (Flaw::BeginOnRevivedSession, Config::OPERATORS, Rule::ReleasedIsOver),
    (Flaw::ReopenKeepsEpoch, Config::OPERATORS, Rule::SetAsideStays),
    (Flaw::EraseKeepsEpoch, Config::TABLE, Rule::OneOperatorWins),
    (Flaw::TableWithoutValidity, Config::TABLE, Rule::ReturnedIsSeen),
    (Flaw::BeginAfterRenewal, Config::OPERATORS, Rule::ReleasedIsOver),
    (Flaw::BeginAfterRenewal, Config::UNSAFE, Rule::BegunUnderLease),
    (Flaw::RenewAfterLoss, Config::OPERATORS, Rule::ReleasedIsOver),
    (Flaw::UnknownSettleIsNo, Config::UNSAFE, Rule::NoMeansNone),
    (Flaw::ForgetEarlierAttempt, Config::SAFE, Rule::NoMeansNone),
    (Flaw::UnheardIsGivenBack, Config::UNSAFE, Rule::NoMeansNone),
    (Flaw::AnswerForTheKey, Config::ASK, Rule::YesMeansOne),
];

#[test]
fn every_planted_flaw_is_found() {
    for (flaw, config, rule) in FLAWS {
        let found = find(config.with(*flaw), *rule);
        println!("{flaw:?} in {found}");
        assert!(found.breaks(*rule), "{flaw:?} does not break: {rule}");
    }
}

#[test]
fn every_rule_can_be_broken_and_every_flaw_is_looked_for() {
    for rule in Rule::ALL {
        assert!(FLAWS.iter().any(|(_, _, broken)| broken == rule), "no flaw breaks: {rule}");
    }
    for flaw in Flaw::ALL {
        assert!(FLAWS.iter().any(|(planted, _, _)| planted == flaw), "{flaw:?} is not looked for");
    }
}

/// Where every action is missed, in a configuration that is small but has it.
fn missed_in(switch: Switch) -> Config {
    let small = |config: Config| Config { callers: 1, losses: config.losses.min(1), ..config };
    match switch {
        Switch::Crash | Switch::Stop | Switch::NotRun => Config::EMBEDDED,
        Switch::Loss | Switch::Unheard | Switch::Attach | Switch::Refused => small(Config::UNSAFE),
        // A call that is dropped leaves the same doubt.
        Switch::Unknown => small(Config::UNSAFE).without(Switch::Stop),
        Switch::Lapse | Switch::Revive | Switch::Sweep => small(Config::GUARD),
        Switch::AskYes | Switch::AskNo | Switch::AskUnknown => small(Config::ASK),
        Switch::Release | Switch::Force | Switch::Settle => {
            Config { processes: 2, losses: 0, ..Config::OPERATORS_REMOTE }
        }
        Switch::Time | Switch::Table | Switch::Reopen | Switch::Purge | Switch::Erase => Config::TABLE,
    }
}

#[test]
fn every_action_is_needed_for_something_that_is_seen() {
    let all = Switches::ALL.on();
    assert_eq!(all.len(), 22, "a new switch must be looked for here: {all:?}");
    for switch in all {
        let config = missed_in(switch);
        assert!(config.switches.on().contains(&switch), "{switch:?} is not on in {}", config.name);
        let (with, without) = (check(config), check(config.without(switch)));
        let missing: Vec<_> = with.seen.difference(&without.seen).collect();
        println!("without {switch:?}, {} has {} states and misses {missing:?}", config.name, without.states);
        assert!(!missing.is_empty(), "nothing is missed without {switch:?}");
        assert!(without.broken.is_empty(), "{without}");
    }
}
