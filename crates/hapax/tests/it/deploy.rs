//! The files in `deploy/`, held against the program and against each other as far as that goes without an engine for containers and
//! without a cluster.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::claims_cli::told;
use crate::rig::hapax;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A file with the lines that only the application API needs: they begin with `#` and no space, and what hangs on one of them is
/// indented behind its `#`.
fn with_api(file: &str) -> String {
    let mut within = false;
    let taken_in = |line: &str| {
        let rest = line.trim_start();
        let begins = rest.len() > 1 && rest.starts_with('#') && !rest.starts_with("# ");
        within = begins || within && rest.starts_with("#  ");
        let indent = &line[..line.len() - rest.len()];
        format!("{indent}{}\n", rest.strip_prefix('#').filter(|_| within).unwrap_or(rest))
    };
    text(file).lines().map(taken_in).collect()
}

fn documents(file: &str) -> Vec<Value> {
    parsed(file, &text(file))
}

fn parsed(file: &str, all: &str) -> Vec<Value> {
    all.split("\n---\n")
        .map(|one| serde_saphyr::from_str(one).unwrap_or_else(|error| panic!("{file}: {error}")))
        .collect()
}

fn document(file: &str) -> Value {
    let [one] = documents(file).try_into().unwrap();
    one
}

fn configuration(file: &str) -> toml::Table {
    text(file).parse().unwrap()
}

fn port(address: &toml::Value) -> u64 {
    address["listen"].as_str().unwrap().rsplit_once(':').unwrap().1.parse().unwrap()
}

fn seconds(text: &str) -> u64 {
    text.strip_suffix('s').unwrap().parse().unwrap()
}

#[tokio::test]
async fn each_configuration_in_deploy_is_accepted() {
    for file in ["docker/hapax.toml", "kubernetes/hapax.toml"] {
        let path = deploy(file).display().to_string();
        let checked = told(hapax(&["config", "check", "--no-secrets", &path])).await;
        assert!(
            checked.code == 0 && checked.out.contains("1 keyed"),
            "{file}: {}{}",
            checked.out,
            checked.err
        );
    }
}

#[test]
fn systemd_finds_nothing_in_the_unit_and_rates_it_well() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("hapax.service");
    // Where the binary is on this machine: systemd looks whether it can be started.
    let written = text("systemd/hapax.service").replace("/usr/bin/hapax", env!("CARGO_BIN_EXE_hapax"));
    std::fs::write(&unit, written).unwrap();
    let verify = Command::new("systemd-analyze").arg("verify").arg(&unit).output().unwrap();
    let said = String::from_utf8_lossy(&verify.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("hapax")).collect();
    assert!(verify.status.success() && ours.is_empty(), "{said}");
    // In tenths.
    let rated = Command::new("systemd-analyze")
        .args(["security", "--no-pager", "--offline=true", "--threshold=20"])
        .arg(&unit)
        .output()
        .unwrap();
    assert!(rated.status.success(), "{}", String::from_utf8_lossy(&rated.stdout));
}

#[test]
fn the_unit_waits_for_the_drain_and_lets_hapax_write_where_the_page_says() {
    let unit = text("systemd/hapax.service");
    let setting =
        |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap();
    assert!(setting("TimeoutStopSec").parse::<u64>().unwrap() > 30, "the default of `drain_timeout`");
    assert_eq!(setting("StateDirectory"), "hapax");
    let page = std::fs::read_to_string(deploy("../docs/operating/deploy.md")).unwrap();
    assert!(page.contains("embedded:/var/lib/hapax/data") && page.contains("/var/lib/hapax/spool"));
}

#[test]
fn the_pods_agree_with_their_configuration() {
    let config = configuration("kubernetes/hapax.toml");
    let set = document("kubernetes/statefulset.yaml");
    let pod = &set["spec"]["template"]["spec"];
    let [container] = &pod["containers"].as_array().unwrap()[..] else { panic!("{pod}") };
    assert_eq!(container["args"], json!(["serve", "--config", "/etc/hapax/hapax.toml"]));
    let ports = json!([
        { "name": "edge", "containerPort": port(&config["edge"]) },
        { "name": "admin", "containerPort": port(&config["admin"]) },
    ]);
    assert_eq!(container["ports"], ports);
    for (probe, path) in
        [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
    {
        assert_eq!(container[probe]["httpGet"], json!({ "path": path, "port": "admin" }), "{probe}");
    }
    let drain = seconds(config["edge"]["drain_timeout"].as_str().unwrap());
    let pause = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap();
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() >= pause + drain + 10);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    // What it writes is on the pod's own volume.
    let mounts = container["volumeMounts"].as_array().unwrap();
    let state = mounts.iter().find(|mount| mount["name"] == "state").unwrap();
    let spool = config["store"]["spool"].as_str().unwrap();
    assert!(spool.starts_with(state["mountPath"].as_str().unwrap()), "{spool}");
    assert_eq!(set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"], "state");
    // Variables are those of the Secret that the comment and the page make.
    assert_eq!(container["envFrom"][0]["secretRef"]["name"], "hapax");
    let variable = config["admin"]["token_env"].as_str().unwrap();
    for file in ["kubernetes/kustomization.yaml", "../docs/operating/deploy.md"] {
        let text = text(file);
        assert!(text.contains(&format!("--from-literal={variable}=")), "{file}");
        assert!(text.contains("--from-literal=HAPAX_STORE="), "{file}");
    }
}

#[test]
fn services_budget_and_policy_are_about_the_pods() {
    let kustomization = document("kubernetes/kustomization.yaml");
    let listed: Vec<&str> =
        kustomization["resources"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    assert_eq!(kustomization["configMapGenerator"][0], json!({ "name": "hapax", "files": ["hapax.toml"] }));
    let all: Vec<Value> = listed.iter().flat_map(|file| documents(&format!("kubernetes/{file}"))).collect();
    let set = document("kubernetes/statefulset.yaml");
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    let mut services = Vec::new();
    for one in &all {
        match one["kind"].as_str().unwrap() {
            "Service" => {
                assert_eq!(&one["spec"]["selector"], labels, "{one}");
                services.push(one["metadata"]["name"].as_str().unwrap());
            }
            "PodDisruptionBudget" => assert_eq!(&one["spec"]["selector"]["matchLabels"], labels),
            "NetworkPolicy" => assert_eq!(&one["spec"]["podSelector"]["matchLabels"], labels),
            "StatefulSet" => assert_eq!(&one["spec"]["selector"]["matchLabels"], labels),
            kind => panic!("{kind}"),
        }
    }
    assert!(services.contains(&set["spec"]["serviceName"].as_str().unwrap()), "{services:?}");
    // The name by which Prometheus asks is one that the admin listener answers to.
    let config = configuration("kubernetes/hapax.toml");
    for host in config["admin"]["hosts"].as_array().unwrap() {
        assert!(services.contains(&host.as_str().unwrap()), "{host}");
    }
}

#[tokio::test]
async fn the_lines_for_the_application_api_agree_once_they_are_taken_in() {
    for file in ["docker/hapax.toml", "kubernetes/hapax.toml"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hapax.toml");
        std::fs::write(&path, with_api(file)).unwrap();
        let checked = told(hapax(&["config", "check", "--no-secrets", &path.display().to_string()])).await;
        assert_eq!(checked.code, 0, "{file}: {}{}", checked.out, checked.err);
        let config: toml::Table = with_api(file).parse().unwrap();
        assert_eq!(port(&config["api"]), 8082, "{file}");
        assert!(!configuration(file).contains_key("api"), "{file}");
    }
    let all = |file: &str| parsed(file, &with_api(file));
    let ports = &all("kubernetes/statefulset.yaml")[0]["spec"]["template"]["spec"]["containers"][0]["ports"];
    assert_eq!(ports[2], json!({ "name": "api", "containerPort": 8082 }));
    let services = all("kubernetes/services.yaml");
    let service = services.iter().find(|one| one["metadata"]["name"] == "hapax-api").unwrap();
    assert_eq!(service["spec"]["ports"], json!([{ "name": "api", "port": 8082, "targetPort": "api" }]));
    assert_eq!(service["spec"]["selector"], services[0]["spec"]["selector"]);
    let policy = &all("kubernetes/networkpolicy.yaml")[0]["spec"]["ingress"];
    assert_eq!(policy[2]["ports"], json!([{ "port": "api" }]), "{policy}");
    let compose = &all("docker/compose.yaml")[0]["services"]["hapax"]["ports"];
    assert_eq!(compose[2], "127.0.0.1:8082:8082");
}

#[test]
fn compose_agrees_with_its_configuration_and_with_the_image() {
    let config = configuration("docker/hapax.toml");
    let compose = document("docker/compose.yaml");
    let service = &compose["services"]["hapax"];
    let image = text("docker/Dockerfile");
    assert_eq!(service["build"]["dockerfile"], "deploy/docker/Dockerfile");
    assert!(deploy("docker").join(service["build"]["context"].as_str().unwrap()).join("Cargo.lock").exists());
    let (edge, admin) = (port(&config["edge"]), port(&config["admin"]));
    assert_eq!(
        service["ports"],
        json!([format!("127.0.0.1:{edge}:{edge}"), format!("127.0.0.1:{admin}:{admin}")])
    );
    assert!(image.contains(&format!("EXPOSE {edge} {admin}\n")));
    let grace = seconds(service["stop_grace_period"].as_str().unwrap());
    assert!(grace > seconds(config["edge"]["drain_timeout"].as_str().unwrap()));
    assert_eq!(service["read_only"], true);
    let spool = config["store"]["spool"].as_str().unwrap();
    assert!(spool.starts_with("/var/lib/hapax/") && image.contains("VOLUME /var/lib/hapax\n"), "{spool}");
    let variable = config["admin"]["token_env"].as_str().unwrap();
    for name in [variable, "HAPAX_STORE"] {
        assert!(service["environment"][name].is_string(), "{name}");
    }
    // The toolchain is the repository's.
    let toolchain = std::fs::read_to_string(deploy("../rust-toolchain.toml")).unwrap();
    let toolchain: toml::Table = toolchain.parse().unwrap();
    let channel = toolchain["toolchain"]["channel"].as_str().unwrap();
    assert!(image.contains(&format!("FROM rust:{}-", channel.strip_suffix(".0").unwrap())), "{channel}");
}
