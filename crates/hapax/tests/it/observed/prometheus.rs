//! A real Prometheus reads a real process; each query of the dashboard finds something, and each alert is tried (O1, O4).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hapax_testkit::port::Port;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{ground, page, traffic};
use crate::rig::process::eventually;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn promtool(args: &[&str]) -> String {
    let output = Command::new("promtool")
        .args(args)
        .current_dir(deploy("prometheus"))
        .output()
        .expect("promtool is installed by `cargo xtask test`");
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {args:?}: {told}");
    told
}

/// Names of all alerts of a file that `promtool` understands.
fn alerts() -> Vec<String> {
    let text = std::fs::read_to_string(deploy("prometheus/rules.yaml")).unwrap();
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

#[test]
fn each_alert_fires_and_stays_quiet_as_promtool_shows_o4() {
    assert!(promtool(&["check", "rules", "rules.yaml"]).contains("SUCCESS"));
    promtool(&["test", "rules", "rules_test.yaml"]);
    let (alerts, tests) = (alerts(), std::fs::read_to_string(deploy("prometheus/rules_test.yaml")).unwrap());
    assert_eq!(alerts.len(), 7, "{alerts:?}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/observability.md");
    let page = std::fs::read_to_string(page).unwrap();
    for alert in alerts {
        assert!(tests.matches(&*alert).count() >= 1, "{alert} is tried");
        assert!(page.contains(&format!("### {alert}")), "the page says what to do about {alert}");
    }
}

/// A Prometheus that scrapes one process; killed when dropped.
struct Prometheus {
    process: Child,
    port: Port,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(target: &str) -> Prometheus {
        let (folder, port) = (tempfile::tempdir().unwrap(), Port::reserve().unwrap());
        let rules = std::fs::canonicalize(deploy("prometheus/rules.yaml")).unwrap();
        let file = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 1s }}\n\
             rule_files: [{}]\nscrape_configs:\n- job_name: hapax\n  static_configs: [{{ targets: [\"{target}\"] }}]\n",
            rules.display()
        );
        std::fs::write(&file, text).unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={}", port.address()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus is installed by `cargo xtask test`");
        Prometheus { process, port, _folder: folder }
    }

    /// What its API answers; nothing until it listens.
    async fn get(&self, target: &str) -> Option<Value> {
        let head = format!("GET {target} HTTP/1.0\r\nhost: prometheus\r\n\r\n");
        let mut stream = TcpStream::connect(self.port.address()).await.ok()?;
        stream.write_all(head.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        let body = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        serde_json::from_slice(&answer[body..]).ok()
    }

    async fn query(&self, query: &str) -> Option<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        self.get(&format!("/api/v1/query?query={encoded}")).await
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The queries of the dashboard, as Grafana would send them.
fn queries() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(deploy("grafana/hapax.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
            let query = query.replace("$tenant", "acme").replace("$project", ".*").replace("$endpoint", ".*");
            assert!(!query.contains('$'), "a variable that is not known: {query}");
            all.push((panel["title"].as_str().unwrap().to_owned(), query));
        }
    }
    all
}

/// The parts of a text that a query is made of: the longest pieces of these characters, with what stands behind each.
fn words(text: &str) -> Vec<(&str, &str)> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let word = &rest[start..];
        let end = word.find(|letter| !is_part(letter)).unwrap_or(word.len());
        found.push((&word[..end], &word[end..]));
        rest = &word[end..];
    }
    found
}

/// The labels that a query names: in its selectors, and in `by (…)`, `on (…)` and their kin.
fn labels_of(query: &str) -> Vec<&str> {
    let mut labels = Vec::new();
    for (word, behind) in words(query) {
        let behind = behind.trim_start();
        let listed = matches!(word, "by" | "on" | "without" | "ignoring" | "group_left");
        if listed && let Some(list) = behind.strip_prefix('(').and_then(|list| list.split(')').next()) {
            labels.extend(list.split(',').map(str::trim).filter(|label| !label.is_empty()));
        }
        if let Some(selector) = behind.strip_prefix('{').and_then(|selector| selector.split('}').next()) {
            let matchers = selector.split("\",").map(str::trim).filter(|matcher| !matcher.is_empty());
            labels.extend(matchers.map(|matcher| matcher.split(['=', '!']).next().unwrap().trim()));
        }
    }
    labels
}

/// The expressions of the rules, each on one line.
fn rules() -> Vec<String> {
    let text = std::fs::read_to_string(deploy("prometheus/rules.yaml")).unwrap();
    let mut rules: Vec<String> = Vec::new();
    let mut within = false;
    for line in text.lines().map(str::trim) {
        if let Some(rule) = line.strip_prefix("expr:") {
            rules.push(rule.trim_start_matches([' ', '|']).to_owned());
            within = true;
        } else if line.starts_with("- ")
            || line.starts_with('#')
            || ["for:", "labels:"].iter().any(|end| line.starts_with(end))
        {
            within = false;
        } else if within {
            let rule = rules.last_mut().unwrap();
            rule.push(' ');
            rule.push_str(line);
        }
    }
    rules
}

/// A family that is called otherwise by now would leave a panel empty and an alert silent for ever.
#[test]
fn the_dashboard_and_the_alerts_name_families_and_labels_that_there_are_o1_o4() {
    let page = page();
    let (rules, queries) = (rules(), queries());
    assert_eq!(rules.len(), 8, "{rules:?}");
    let queries = queries.into_iter().map(|(_, query)| query);
    for query in rules.into_iter().chain(queries) {
        let is_name = |word: &str| {
            ["idempotency_", "handler_", "transport_", "hapax_"].iter().any(|start| word.starts_with(start))
        };
        let named: Vec<&str> =
            words(&query).into_iter().map(|(word, _)| word).filter(|word| is_name(word)).collect();
        let mut labels = vec!["le", "job", "instance"];
        for name in &named {
            let family =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            let known = page.get(family).unwrap_or_else(|| panic!("no family is called {name}: {query}"));
            labels.extend(known.iter().map(String::as_str));
        }
        assert!(!named.is_empty(), "{query}");
        for label in labels_of(&query) {
            assert!(labels.contains(&label), "none of these families has {label}: {query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_prometheus_scrapes_and_each_query_of_the_dashboard_finds_something_o4() {
    let ground = ground().await;
    let edge = ground.serve().await;
    traffic(&edge, "one").await;
    let prometheus = Prometheus::start(&edge.admin.to_string());
    eventually("it scrapes", async || {
        let up = prometheus.query("up == 1").await;
        up.is_some_and(|up| up["data"]["result"].as_array().is_some_and(|found| !found.is_empty()))
    })
    .await;
    traffic(&edge, "two").await;
    let queries = queries();
    assert!(queries.len() > 25, "{}", queries.len());
    for (panel, query) in queries {
        // What the traffic makes has no need of a zero that would hide that nothing was found.
        let query = match query.contains("hapax_requests_total") {
            true => query.replace(" or vector(0)", ""),
            false => query,
        };
        eventually(&format!("{panel}: {query}"), async || {
            let Some(answer) = prometheus.query(&query).await else { return false };
            assert_eq!(answer["status"], "success", "{panel}: {query}: {answer}");
            if panel == "Hit ratio" {
                for found in answer["data"]["result"].as_array().unwrap() {
                    let ratio: f64 = found["value"][1].as_str().unwrap().parse().unwrap();
                    assert!(ratio.is_nan() || ratio <= 1.0, "{query}: {answer}");
                }
            }
            answer["data"]["result"].as_array().is_some_and(|found| !found.is_empty())
        })
        .await;
    }
    // The types are those of the table: Prometheus has read them.
    let metadata = prometheus.get("/api/v1/targets/metadata?metric=idempotency_cache_hit").await.unwrap();
    assert_eq!(metadata["data"][0]["type"], "counter", "{metadata}");
    let rules = prometheus.get("/api/v1/rules").await.unwrap();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap().clone();
    assert!(rules.len() == 8 && rules.iter().all(|rule| rule["lastError"].is_null()), "{rules:?}");
}
