//! The gate: what rules see, how they fail, and what is refused before they are compiled.

use hapax_core::lane::RecentTool;
use hapax_core::{Project, Tenant, Timestamp};
use serde_json::json;
use serde_json::value::RawValue;

use super::*;

fn action(tool: &str, args: &serde_json::Value) -> PlannedAction {
    PlannedAction {
        connector: "magento".into(),
        tool: tool.into(),
        args: RawValue::from_string(args.to_string()).unwrap(),
        entity_key: "order:1".into(),
        idempotency_key: Some("k".into()),
    }
}

fn origin() -> Origin {
    Origin { tenant: Tenant::new("acme").unwrap(), project: Project::new("prod").unwrap(), traceparent: None }
}

fn rule(name: &str, when: &str, decision: Decision) -> Rule {
    Rule::compile(name, when, decision).unwrap_or_else(|mistake| panic!("{when}: {mistake}"))
}

async fn judged(when: &str, args: serde_json::Value) -> Judged {
    judged_lately(when, args, Lately::default()).await
}

async fn judged_lately(when: &str, args: serde_json::Value, lately: Lately) -> Judged {
    let gate = Gate::new(Decision::Allow).rules(vec![rule("it", when, Decision::Alert)]);
    gate.judge(&origin(), &action("orders.hold", &args), &Tool::default(), lately).await
}

#[tokio::test]
async fn the_first_rule_that_matches_decides_and_else_the_default_x6() {
    let gate = Gate::new(Decision::Alert).rules(vec![
        rule("large refunds are blocked", "tool == \"orders.refund\" && args.amount > 1000", Decision::Block),
        rule("refunds are fine", "tool.startsWith('orders.')", Decision::Allow),
        rule("never asked", "args.nothing", Decision::Block),
    ]);
    let judge = async |tool: &str, args: serde_json::Value| {
        gate.judge(&origin(), &action(tool, &args), &Tool::default(), Lately::default()).await
    };
    let told = judge("orders.refund", json!({"amount": 1000.5})).await;
    assert_eq!(
        (told.decision, told.rule.as_deref(), told.failed),
        (Decision::Block, Some("large refunds are blocked"), None)
    );
    assert_eq!(judge("orders.refund", json!({"amount": 1000})).await.decision, Decision::Allow);
    let failed = judge("mail.send", json!({})).await;
    assert_eq!((failed.decision, failed.rule.as_deref()), (Decision::Block, Some("never asked")));
    assert!(
        Gate::new(Decision::Alert)
            .judge(&origin(), &action("x", &json!({})), &Tool::default(), Lately::default())
            .await
            .decision
            == Decision::Alert
    );
}

#[tokio::test]
async fn a_rule_sees_all_of_an_action_x6() {
    let args = json!({"items": [{"n": 1}, {"n": 2}], "note": "é", "big": u64::MAX, "none": null, "on": true});
    for when in [
        "tenant == 'acme' && project == 'prod' && connector == 'magento' && entity_key.startsWith('order:')",
        "args.items.exists(item, item.n == 2) && args.items.size() == 2",
        "args.big > 5 && args.none == null && args.on && size(args.note) == 1",
        "!hints.read_only && hints.destructive && !hints.idempotent",
        "has(args.note) && !has(args.other)",
        "args.note.matches('^.$')",
        "recent(tool, '1h') == 0",
        "args.items.all(item, args.items.exists(other, other.n >= item.n))",
    ] {
        assert_eq!(judged(when, args.clone()).await.decision, Decision::Alert, "{when}");
    }
}

#[tokio::test]
async fn a_rule_that_cannot_be_answered_blocks_and_says_why_x6() {
    for (when, args, why) in [
        ("args.amount > 1000", json!({}), "amount"),
        ("args.amount > 1000", json!({"amount": "1e9"}), "_>_"),
        ("double(args.amount) > 1000.0", json!({"amount": "NaN"}), "_>_"),
        ("args.amount", json!({"amount": 1}), "neither true nor false"),
        ("recent(tool, args.span) > 0", json!({"span": "1w"}), "a span of recent"),
        ("args.items.all(item, item.n > 1)", json!({"items": [{}]}), "n"),
    ] {
        let told = judged(when, args).await;
        assert_eq!(told.decision, Decision::Block, "{when}");
        assert!(told.failed.as_deref().unwrap().contains(why), "{when}: {told:?}");
    }
}

#[tokio::test]
async fn recent_counts_what_began_in_the_lane_and_fails_where_that_is_not_kept_x6() {
    let second = |second: i64| Timestamp::from_micros(second * 1_000_000);
    let lately = |forgotten: i64, times: &[i64]| Lately {
        recent: Recent::new(
            vec![RecentTool {
                name: "orders.hold".into(),
                times: times.iter().copied().map(second).collect(),
                forgotten: if forgotten == 0 { Timestamp::ZERO } else { second(forgotten) },
            }],
            Timestamp::ZERO,
        ),
        now: second(10_000),
    };
    let more = "recent(tool, \"1h\") >= 2";
    assert_eq!(judged_lately(more, json!({}), lately(0, &[9_000, 9_999])).await.decision, Decision::Alert);
    assert_eq!(judged_lately(more, json!({}), lately(0, &[1_000, 9_999])).await.decision, Decision::Allow);
    let absolute = ".recent(tool, \"1h\") >= 2";
    let told = judged_lately(absolute, json!({}), lately(0, &[9_000, 9_999])).await;
    assert_eq!(told.decision, Decision::Alert, "the outermost scope's is the same function");
    let told = judged_lately(more, json!({}), lately(9_000, &[9_999])).await;
    assert_eq!(told.decision, Decision::Block);
    assert!(told.failed.unwrap().contains("does not reach back"));
}

#[tokio::test]
async fn rules_that_walk_too_far_are_ended_and_the_one_that_did_is_named_x6() {
    let many: Vec<u32> = (0..30_000).collect();
    for when in [
        "args.l.exists(x, args.l.exists(y, x + y < 0))",
        "args.l.all(x, args.l.all(y, x + y >= 0))",
        "args.l.map(x, args.l.map(y, x + y)).size() > 0",
        "args.l.filter(x, args.l.filter(y, x > y).size() < 0).size() > 0",
        "args.l.exists_one(x, args.l.exists_one(y, x + y < 0))",
        "args.l.map(x, args.l.exists(y, y < 0), x).size() > 0",
    ] {
        let first = rule("first", "tool == 'never'", Decision::Allow);
        let gate = Gate::new(Decision::Allow).rules(vec![first, rule("second", when, Decision::Alert)]);
        let action = action("orders.hold", &json!({ "l": many }));
        let told = gate.judge(&origin(), &action, &Tool::default(), Lately::default()).await;
        assert_eq!((told.decision, told.rule.as_deref()), (Decision::Block, Some("second")), "{when}");
        let why = told.failed.unwrap();
        assert!(why.starts_with("rules visit at most 1000000 elements"), "{when}: {why}");
    }
    // One walk over as many is fine, and each of them counts what it should.
    for when in [
        "args.l.filter(x, x % 2 == 0).map(x, x * 2).size() == 15000",
        "args.l.exists_one(x, x == 29999) && !args.l.exists_one(x, x < 2)",
        "args.l.map(x, x < 10, x + 1) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
        "args.l.all(x, x >= 0) && args.l.exists(x, x == 29999)",
    ] {
        assert_eq!(judged(when, json!({ "l": many })).await.decision, Decision::Alert, "{when}");
    }
}

#[test]
fn what_is_wrong_with_a_rule_is_told_with_its_place() {
    let mistake = |when: &str| {
        let mistake = Rule::compile("it", when, Decision::Allow).expect_err(when);
        (mistake.line, mistake.column, mistake.what)
    };
    for (when, line, column, what) in [
        ("1 +", 1, 4, "Syntax error"),
        ("tool ==\n  'a' 'b'", 2, 7, "Syntax error"),
        ("tool == 'a' && amount > 1", 1, 16, "no variable is called \"amount\""),
        ("recent(tool) > 1", 1, 7, "recent takes a tool and a span"),
        ("recent(tool, '1w') > 1", 1, 14, "a span of recent"),
        ("recent(tool, '60d') > 1", 1, 14, "a span of recent"),
        (".recent(tool, '1w') > 1", 1, 15, "a span of recent"),
        ("tool.recent(tool, '1h') >= 2", 1, 12, "recent has nothing in front of it"),
        ("args.recent('send', '1h') > 1", 1, 12, "recent has nothing in front of it"),
        ("args.a.recent() > 1", 1, 14, "recent has nothing in front of it"),
        ("nope(tool)", 1, 5, "no function is called \"nope\""),
        ("tool == 'a' && siez(tool) > 1", 1, 20, "no function is called \"siez\""),
        ("tool.startWith('a')", 1, 15, "no function is called \"startWith\""),
        ("args.l.exists(x)", 1, 14, "no function is called \"exists\""),
        ("'yes'", 1, 1, "true or false"),
        ("tool", 1, 1, "true or false"),
        ("[true]", 1, 1, "true or false"),
    ] {
        let told = mistake(when);
        assert_eq!((told.0, told.1), (line, column), "{when}: {told:?}");
        assert!(told.2.contains(what), "{when}: {told:?}");
    }
    let three = "args.l.all(x, args.l.all(y, args.l.all(z, z == x)))";
    assert!(mistake(three).2.contains("at most 2 deep"));
    assert!(mistake(&format!("tool == '{}'", "x".repeat(4096))).2.contains("at most 4 KiB"));
    let plus = format!("1{} > 0", " + 1".repeat(40));
    assert!(mistake(&plus).2.contains("at most 32 deep"), "{:?}", mistake(&plus));
}

#[test]
fn a_rule_that_nests_ten_thousand_deep_is_refused_where_it_goes_too_deep() {
    for (open, close) in [("(", ")"), ("[", "]"), ("!", ""), ("-", ""), ("{1:", "}")] {
        for many in [10_000, 1_500] {
            let text = format!("{}true{}", open.repeat(many), close.repeat(many));
            let text = if text.len() > limits::MAX_RULE_BYTES && many == 1_500 {
                text[..4_000].to_owned()
            } else {
                text
            };
            match Rule::compile("it", &text, Decision::Allow) {
                Err(mistake) => assert!(mistake.line == 1, "{open}: {mistake:?}"),
                // Signs that cancel each other out are not nested.
                Ok(_) => assert!(matches!(open, "!" | "-"), "{open}"),
            }
        }
    }
    assert!(
        Rule::compile("it", &format!("{}true{}", "(".repeat(31), ")".repeat(31)), Decision::Allow).is_ok()
    );
}

#[tokio::test]
async fn a_rule_as_deep_as_it_may_be_is_answered_on_the_stack_of_a_worker() {
    let plus = format!("1{} > 0", " + 1".repeat(29));
    assert_eq!(judged(&plus, json!({})).await.decision, Decision::Alert);
}

#[test]
fn a_span_is_a_number_with_its_unit() {
    assert_eq!(span("90s"), Some(Duration::from_secs(90)));
    assert_eq!(span("2d"), Some(Duration::from_secs(172_800)));
    for text in ["", "1", "h", "0h", "1w", "-1h", "1.5h", "99999999999999999999h", "9999999999999999999d"] {
        assert_eq!(span(text), None, "{text}");
    }
}
