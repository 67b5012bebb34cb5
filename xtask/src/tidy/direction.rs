//! The direction of dependencies between our own crates, read from the manifests.
//!
//! ARCHITECTURE.md says who may use whom. What it does not allow, Cargo would: this check is the fence.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::tree::Tree;

/// Who may use whom: "may use" is transitive, so only the next step down is written here.
const MAY_USE: &[(&str, &[&str])] = &[
    ("hapax-libfuzzer", &["hapax-fuzz"]),
    ("hapax-fuzz", &["hapax"]),
    (
        "hapax",
        &[
            "hapax-gateway",
            "hapax-agent",
            "hapax-sqlite",
            "hapax-postgres",
            "hapax-api",
            "hapax-client",
            "hapax-probe",
        ],
    ),
    ("hapax-gateway", &["hapax-tower", "hapax-http"]),
    ("hapax-tower", &["hapax-exec"]),
    ("hapax-agent", &["hapax-exec"]),
    ("hapax-exec", &["hapax-core"]),
    ("hapax-sqlite", &["hapax-store"]),
    ("hapax-postgres", &["hapax-store"]),
    ("hapax-store", &["hapax-core"]),
    ("hapax-api", &["hapax-core"]),
    ("hapax-client", &["hapax-core"]),
    ("hapax-probe", &["hapax-core"]),
    ("hapax-testkit", &["hapax-core"]),
    ("hapax-core", &[]),
    ("hapax-http", &[]),
    // Handlers for a Restate server: it uses nothing of ours.
    ("hapax-example-restate", &[]),
];
/// Who else may be used by tests.
const TESTS_MAY_USE: &[(&str, &str)] = &[
    ("hapax-exec", "hapax-store"),
    ("hapax-exec", "hapax-sqlite"),
    ("hapax-exec", "hapax-postgres"),
    ("hapax-agent", "hapax-store"),
    ("hapax-agent", "hapax-sqlite"),
    // For its store by URL.
    ("hapax-agent", "hapax"),
    ("hapax-tower", "hapax-store"),
    ("hapax-tower", "hapax-sqlite"),
    ("hapax-gateway", "hapax-store"),
    ("hapax-gateway", "hapax-sqlite"),
];
/// Every crate's tests may use this one.
const TEST_SUPPORT: &str = "hapax-testkit";
/// Programs of the project itself: they may use everything, nothing may use them.
const PROGRAMS: &[&str] = &["hapax-bench", "hapax-torture", "xtask"];

/// One dependency of one of our packages on another.
#[derive(Debug)]
struct Edge {
    from: String,
    to: String,
    tests_only: bool,
    manifest: String,
}

/// Every dependency between our packages is one that the architecture allows.
pub(crate) fn follows_architecture(tree: &Tree) -> Vec<String> {
    let (manifests, mut found) = read_manifests(tree);
    for (name, (path, _)) in &manifests {
        if !name.is_empty()
            && !PROGRAMS.contains(&name.as_str())
            && !MAY_USE.iter().any(|(known, _)| known == name)
        {
            found.push(format!(
                "{path}: `{name}` has no place in the architecture yet: add it to MAY_USE of xtask"
            ));
        }
    }
    found.extend(edges(&manifests).iter().filter_map(objection));
    found
}

/// Manifests of packages by package name, with their path; and those that cannot be read.
fn read_manifests(tree: &Tree) -> (BTreeMap<String, (String, Table)>, Vec<String>) {
    let mut manifests = BTreeMap::new();
    let mut unreadable = Vec::new();
    for (path, text) in tree.texts() {
        if path != "Cargo.toml" && !path.ends_with("/Cargo.toml") {
            continue;
        }
        match text.parse::<Table>() {
            Ok(table) => {
                let name =
                    table.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
                // The root has no package: it is kept under no name, for the dependencies it shares.
                manifests.insert(name.unwrap_or_default().to_owned(), (path.to_owned(), table));
            }
            Err(error) => unreadable.push(format!("{path}: {}", error.message())),
        }
    }
    (manifests, unreadable)
}

fn edges(manifests: &BTreeMap<String, (String, Table)>) -> Vec<Edge> {
    let shared =
        manifests.get("").and_then(|(_, root)| root.get("workspace")?.get("dependencies")?.as_table());
    let mut edges = Vec::new();
    for (from, (path, manifest)) in manifests {
        let per_target = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
        let sections = per_target.filter_map(Value::as_table).chain([manifest]);
        for section in sections {
            for (key, tests_only) in
                [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
            {
                let dependencies = section.get(key).and_then(Value::as_table);
                for (name, value) in dependencies.into_iter().flatten() {
                    let to = package_name(name, value, shared);
                    if manifests.contains_key(&to) {
                        edges.push(Edge { from: from.clone(), to, tests_only, manifest: path.clone() });
                    }
                }
            }
        }
    }
    edges
}

/// The package behind a dependency: it may be renamed, here or in the root.
fn package_name(name: &str, value: &Value, shared: Option<&Table>) -> String {
    let inherited = value.get("workspace").and_then(Value::as_bool) == Some(true);
    let spec = if inherited { shared.and_then(|shared| shared.get(name)) } else { Some(value) };
    spec.and_then(|spec| spec.get("package")).and_then(Value::as_str).unwrap_or(name).to_owned()
}

fn objection(edge: &Edge) -> Option<String> {
    let Edge { from, to, tests_only, manifest } = edge;
    if PROGRAMS.contains(&to.as_str()) {
        return Some(format!(
            "{manifest}: nothing may depend on `{to}`, it is a program of the project itself"
        ));
    }
    // A crate's tests may name the crate itself, to turn a feature of it on.
    let for_tests = *tests_only
        && (to == from || to == TEST_SUPPORT || TESTS_MAY_USE.contains(&(from.as_str(), to.as_str())));
    if PROGRAMS.contains(&from.as_str()) || for_tests || may_use(from).contains(to.as_str()) {
        return None;
    }
    let kind = if *tests_only { "dev-dependency" } else { "dependency" };
    Some(format!(
        "{manifest}: the {kind} of `{from}` on `{to}` goes against the direction in ARCHITECTURE.md"
    ))
}

/// All that a package may use, directly and through others.
fn may_use(from: &str) -> BTreeSet<&str> {
    let mut all = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        let next = MAY_USE.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, next)| next);
        open.extend(next.iter().filter(|name| all.insert(**name)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.dependencies]\nhapax-core = { path = \"c\" }\nledger = { path = \"s\", package = \"hapax-store\" }\n";

    /// The objections to one package with these lines in its manifest, in a workspace with all the others.
    fn objections(package: &str, lines: &str) -> Vec<String> {
        let names = MAY_USE.iter().map(|(name, _)| *name).chain(PROGRAMS.iter().copied());
        let mut files = vec![("Cargo.toml".to_owned(), ROOT.to_owned())];
        for name in names.filter(|name| *name != package).chain([package]) {
            let lines = if name == package { lines } else { "" };
            files.push((
                format!("crates/{name}/Cargo.toml"),
                format!("[package]\nname = \"{name}\"\n{lines}"),
            ));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        follows_architecture(&Tree::of(&files))
    }

    #[test]
    fn what_the_architecture_allows_passes() {
        for (package, lines) in [
            ("hapax", "[dependencies]\nhapax-core.workspace = true\nhapax-exec = { path = \"x\" }"),
            ("hapax-gateway", "[dependencies]\nhapax-core.workspace = true"),
            ("hapax-exec", "[dev-dependencies]\nledger.workspace = true\nhapax-testkit = { path = \"t\" }"),
            ("hapax-core", "[dev-dependencies]\nhapax-testkit = { path = \"t\" }"),
            ("hapax-store", "[dev-dependencies]\nledger = { path = \".\", package = \"hapax-store\" }"),
            ("hapax-bench", "[dependencies]\nledger.workspace = true\nserde = \"1\""),
        ] {
            assert_eq!(objections(package, lines), [""; 0], "{package}");
        }
    }

    #[test]
    fn what_it_does_not_allow_is_found_in_every_section_and_under_every_name() {
        for (package, lines) in [
            ("hapax-core", "[dependencies]\nhapax-exec = { path = \"x\" }"),
            ("hapax-core", "[build-dependencies]\nhapax-client = { path = \"x\" }"),
            ("hapax-exec", "[dependencies]\nledger.workspace = true"),
            ("hapax-exec", "[dependencies]\nhapax-testkit = { path = \"t\" }"),
            ("hapax-client", "[dev-dependencies]\nhapax-gateway = { path = \"x\" }"),
            ("hapax-api", "[dependencies]\nhapax-tower = { path = \"x\" }"),
            (
                "hapax-tower",
                "[target.'cfg(unix)'.dependencies]\nwhatever = { path = \"x\", package = \"hapax-store\" }",
            ),
            ("hapax-exec", "[dev-dependencies]\nhapax-torture = { path = \"x\" }"),
            ("xtask", "[dependencies]\nhapax-bench = { path = \"x\" }"),
        ] {
            let found = objections(package, lines);
            assert_eq!(found.len(), 1, "{package}: {lines}: {found:?}");
            assert!(found[0].starts_with(&format!("crates/{package}/Cargo.toml: ")), "{found:?}");
        }
    }

    #[test]
    fn a_new_package_must_be_given_its_place() {
        let found = objections("hapax-utils", "");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`hapax-utils` has no place"), "{found:?}");
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_found() {
        assert_eq!(follows_architecture(&Tree::of(&[("a/Cargo.toml", "[package")])).len(), 1);
    }
}
