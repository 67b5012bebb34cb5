//! The counters as they are scraped and read, and the table against the page that shows it.

use hapax_core::{Policy, Project, Subject, SubjectKind, Tenant};

use super::*;
use crate::limits;

fn scope(tenant: &str) -> Scope {
    let subject = Subject::from_credential(SubjectKind::User, "ada").unwrap();
    Scope::new(Tenant::new(tenant).unwrap(), Project::new("shop").unwrap(), subject)
}

fn count(metrics: &Metrics, tenant: &str, endpoint: &Arc<str>) {
    let counters = metrics.counters(Some(&scope(tenant)), endpoint);
    counters.key_present(Sent::A);
    counters.hit(Hit::Completed);
    counters.hit(Hit::Attached);
    metrics.answered(&counters, "replayed", 200, Duration::from_millis(1));
}

#[test]
fn tenants_beyond_the_bound_are_counted_together_and_those_within_it_apart_o1() {
    let (metrics, charges, refunds) = (Metrics::default(), "/charges".into(), "/refunds".into());
    for tenant in 0..limits::LABELS + 2 {
        count(&metrics, &format!("t{tenant}"), &charges);
    }
    // Those who are known are known everywhere.
    for tenant in ["t0", "late", "t0"] {
        count(&metrics, tenant, &refunds);
    }
    let text = metrics.render();
    let labels = |tenant: &str, project: &str, endpoint: &str| {
        format!("tenant=\"{tenant}\",project=\"{project}\",endpoint=\"{endpoint}\"")
    };
    let counted = |name: &str, labels: &str, more: &str, number: u64| {
        let line = format!("{name}{{{labels}{more}}} {number}\n");
        assert!(text.contains(&line), "{line}");
    };
    let traffic = metrics.traffic();
    for (tenant, project, endpoint, number) in [
        ("t0", "shop", "/charges", 1),
        ("t999", "shop", "/charges", 1),
        ("_other", "_other", "/charges", 2),
        ("t0", "shop", "/refunds", 2),
        ("_other", "_other", "/refunds", 1),
    ] {
        let labels = labels(tenant, project, endpoint);
        counted("idempotency_key_present_total", &labels, ",case=\"A\"", number);
        counted("idempotency_cache_hit_total", &labels, ",restate_status=\"completed\"", number);
        counted("idempotency_cache_hit_total", &labels, ",restate_status=\"attached\"", number);
        counted("hapax_requests_total", &labels, ",event=\"replayed\",status=\"200\"", number);
        // The console has the same, under the same bound.
        let own = traffic
            .iter()
            .find(|own| (&*own.tenant, &*own.project, &*own.endpoint) == (tenant, project, endpoint));
        let own = own.unwrap();
        assert_eq!((own.present, own.completed, own.attached), (number, number, number));
        assert_eq!(own.answers, [AnswerCount { event: "replayed", status: Some(200), count: number }]);
    }
    assert!(!text.contains("t1000") && !text.contains("\"late\""), "a label beyond the bound");
    assert_eq!(traffic.len(), limits::LABELS + 3);
    let all = limits::LABELS as u64 + 2;
    counted("hapax_request_seconds_count", "endpoint=\"/charges\"", ",event=\"replayed\"", all);
    counted("hapax_request_seconds_bucket", "endpoint=\"/charges\"", ",event=\"replayed\",le=\"0.001\"", all);
    counted("hapax_request_seconds_bucket", "endpoint=\"/charges\"", ",event=\"replayed\",le=\"0.0005\"", 0);
    counted("hapax_request_seconds_bucket", "endpoint=\"/charges\"", ",event=\"replayed\",le=\"+Inf\"", all);
}

#[test]
fn a_scrape_of_as_many_as_are_told_apart_has_them_all_and_one_more_is_another_o1() {
    let metrics = Metrics::default();
    let endpoints: Vec<Arc<str>> = (0..50).map(|number| format!("/e{number}").into()).collect();
    for tenant in 0..limits::LABELS {
        let scope = scope(&format!("t{tenant}"));
        for endpoint in &endpoints {
            metrics.answered(&metrics.counters(Some(&scope), endpoint), "executed", 201, Duration::ZERO);
        }
    }
    metrics.answered(&metrics.counters(Some(&scope("t0")), &"/more".into()), "executed", 201, Duration::ZERO);
    let text = metrics.render();
    let lines = text.lines().filter(|line| line.starts_with("hapax_requests_total{"));
    assert_eq!(lines.count(), limits::GRAINS + 1);
    assert!(text.contains("{tenant=\"_other\",project=\"_other\",endpoint=\"/more\",event=\"executed\""));
}

#[test]
fn what_no_caller_was_found_for_takes_no_tenants_place_o1() {
    let (metrics, endpoint) = (Metrics::default(), "_none".into());
    metrics.counters(None, &endpoint).key_invalid(Reason::Charset);
    let line = "idempotency_key_invalid_total{tenant=\"_none\",project=\"_none\",endpoint=\"_none\",reason=\"charset\"} 1\n";
    assert!(metrics.render().contains(line), "{}", metrics.render());
    assert_eq!(metrics.grains.projects(), 0);
}

#[test]
fn answers_beyond_the_bound_of_an_endpoint_are_counted_together_o1() {
    let (metrics, endpoint) = (Metrics::default(), "/charges".into());
    let counters = metrics.counters(Some(&scope("acme")), &endpoint);
    for status in [200, 200, 201].into_iter().chain(300..300 + limits::ANSWERS as u16).chain([300]) {
        metrics.answered(&counters, "executed", status, Duration::ZERO);
    }
    metrics.answered(&counters, "replayed", 299, Duration::ZERO);
    let text = metrics.render();
    for (event, status, number) in [
        ("executed", "200", 2),
        ("executed", "201", 1),
        ("executed", "300", 2),
        ("executed", "_other", 2),
        ("replayed", "_other", 1),
    ] {
        let labels = format!(
            "tenant=\"acme\",project=\"shop\",endpoint=\"/charges\",event=\"{event}\",status=\"{status}\""
        );
        let line = format!("hapax_requests_total{{{labels}}} {number}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[test]
fn one_endpoint_may_have_routes_of_several_policies_o1() {
    let (metrics, endpoint) = (Metrics::default(), "/charges".into());
    let counters = metrics.counters(Some(&scope("acme")), &endpoint);
    counters.key_present(Sent::A);
    counters.key_present(Sent::B);
    counters.key_missing(Policy::Accepted);
    counters.key_missing(Policy::RequiredA);
    let text = metrics.render();
    for more in [
        "present_total{W,case=\"A\"} 1",
        "present_total{W,case=\"B\"} 1",
        "missing_total{W,class=\"ACCEPTED\"} 1",
        "missing_total{W,class=\"REQUIRED_A\"} 1",
    ] {
        let more = more.replace('W', "tenant=\"acme\",project=\"shop\",endpoint=\"/charges\"");
        assert!(text.contains(&format!("idempotency_key_{more}\n")), "{more} in {text}");
    }
}

/// What is scraped has every family of the table and no other one, each with its type, its sentence and its labels.
#[test]
fn a_scrape_is_the_table_o1() {
    let metrics = Metrics::default();
    let counters = metrics.counters(Some(&scope("acme")), &"/charges".into());
    counters.translation_failed(None);
    metrics.delivery_refused(&"github".into(), "signature-invalid");
    let text = metrics.render();
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with("# HELP ")).collect();
    assert_eq!(headings.len(), FAMILIES.len(), "{text}");
    for family in FAMILIES {
        let name = family.name.trim_end_matches("_total");
        assert!(text.contains(&format!("# HELP {name} {}\n", family.help)), "{name}");
        assert!(text.contains(&format!("# TYPE {name} {}\n", family.kind.as_str())), "{name}");
        assert_eq!(family.kind == Kind::Counter, family.name.ends_with("_total"), "{name}");
    }
    assert!(text.ends_with("# EOF\n"));
}

/// `docs/reference/metrics.md` shows the table, row by row.
#[test]
fn the_reference_page_is_the_table_o1() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let shown: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let row = |family: &Family| {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        format!("| `{}` | {} | {labels} | {} |", family.name, family.kind.as_str(), family.help)
    };
    let rows: Vec<_> = FAMILIES.iter().map(row).collect();
    assert_eq!(shown, rows, "docs/reference/metrics.md must have these rows:\n{}", rows.join("\n"));
}
