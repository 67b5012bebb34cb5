//! Every scenario on the rules alone, and the language's own mistakes.

use hapax_testkit::scenario::rules::RulesDriver;
use hapax_testkit::scenario::{self, Failure, Scenario};

async fn play(scenario: &Scenario) -> Result<(), Failure> {
    scenario::run(scenario, &mut RulesDriver::new()).await
}

#[tokio::test]
async fn every_scenario_holds_for_the_rules() {
    let mut failures = Vec::new();
    for scenario in scenario::all().unwrap() {
        failures.extend(play(&scenario).await.err().map(|failure| failure.to_string()));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn most_scenarios_need_no_sessions_of_their_own() {
    let scenarios = scenario::all().unwrap();
    let without = scenarios.iter().filter(|scenario| !scenario.needs_sessions).count();
    assert!(scenarios.len() >= 25 && without * 10 >= scenarios.len() * 9, "{without} of {}", scenarios.len());
}

#[test]
fn every_scenario_says_which_rule_it_shows() {
    for scenario in scenario::all().unwrap() {
        let cites = scenario.title.ends_with(')') && scenario.title.contains(" (");
        assert!(cites, "{}: end the title with the rules in parentheses", scenario.file);
    }
}

#[tokio::test]
async fn a_wrong_answer_is_named_with_file_and_line() {
    let text = "# title\nalice: claim key=k -> granted\n\nbob: claim -> granted\n";
    let failure = play(&Scenario::parse("x.txt", text).unwrap()).await.unwrap_err();
    assert_eq!(failure.to_string(), "x.txt:4: expected `granted`, got `held`");
}

#[tokio::test]
async fn an_expected_answer_matches_whole_words_only() {
    let text = "# title\nalice: claim key=k\nalice: settle ok:done -> settled ok:d\n";
    let failure = play(&Scenario::parse("x.txt", text).unwrap()).await.unwrap_err();
    assert_eq!(failure.to_string(), "x.txt:3: expected `settled ok:d`, got `settled ok:done first`");
}

#[tokio::test]
async fn actors_cannot_do_what_they_have_forgotten() {
    for (text, message) in [
        ("alice: settle ok:x key=k -> settled", "alice remembers no lease on k"),
        ("alice: resend key=k -> granted", "alice remembers no claim on k"),
        ("alice: reopen seen=looked key=k -> done", "alice has not looked at k"),
        ("alice: claim key=k\ncrash everyone\nalice: peek -> held", "alice has crashed: restart it first"),
        (
            "alice: claim key=k\nlapse everyone\nalice: claim -> held",
            "alice's session has lapsed: revive or restart it before it claims",
        ),
        ("restart alice\nalice: peek key=k -> absent", "alice is alive: let it lapse or crash first"),
    ] {
        let scenario = Scenario::parse("x.txt", &format!("# title\n{text}\n")).unwrap();
        assert_eq!(play(&scenario).await.unwrap_err().message, message, "{text}");
    }
}

#[test]
fn mistakes_are_named_with_file_and_line() {
    for (line, message) in [
        ("alice claim", "`alice claim` is no event"),
        ("alice: fly key=k", "`fly` is nothing an actor does"),
        ("alice: claim", "no key was named before"),
        ("alice: claim key=k speed=9", "`speed=` has no place here"),
        ("alice: claim key=k key=l", "`key=l`: give `key=` one value, once"),
        ("alice: claim key=k rerun=often", "`rerun=often`: safe, ask or unsafe"),
        ("alice: claim key=k quiet=long", "`long` is no duration"),
        ("alice: settle done key=k", "`done` is no outcome"),
        ("alice: doubt lapsed key=k", "`doubt lapsed`: failed, stated or paused"),
        ("alice: claim key=k ->", "an answer is missing after `->`"),
        ("time 5m", "write `time +5m`"),
        ("time +5m -> granted", "nothing answers this event"),
        ("lapse alice", "lapse or crash of one actor: say `needs: sessions`"),
        ("needs: luck", "a scenario can need `sessions`, not `luck`"),
    ] {
        let failure = Scenario::parse("x.txt", &format!("# title\n{line}\n")).unwrap_err();
        assert!(failure.to_string().starts_with(&format!("x.txt:2: {message}")), "{line}: {failure}");
    }
    let untitled = Scenario::parse("x.txt", "alice: claim key=k -> granted\n").unwrap_err();
    assert!(untitled.message.contains("first comment"), "{untitled}");
    let idle = Scenario::parse("x.txt", "# title\nalice: claim key=k\n").unwrap_err();
    assert!(idle.message.contains("nothing is shown"), "{idle}");
}
