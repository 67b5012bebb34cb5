//! Connectors are called by the executor of actions alone, behind lane, gate and ledger: nothing else of the crate that has them names
//! what calls them (X7). Outside of that crate it cannot be named.

use proc_macro2::{TokenStream, TokenTree};

use super::claim::{find, is_punct, is_word};
use super::tree::Tree;

const CRATE: &str = "crates/hapax-agent/src/";

/// Where connectors are made, and where they are called.
const MAY_CONNECT: &[&str] = &["actions/connect.rs", "actions/connect/", "actions/executor.rs"];

/// No other source of the crate names the trait of connectors, or calls something that is called as its method is.
pub(crate) fn only_the_executor_invokes(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.rust() {
        let Some(inside) = path.strip_prefix(CRATE) else { continue };
        if MAY_CONNECT.iter().any(|allowed| inside.starts_with(allowed)) {
            continue;
        }
        // A file that is no Rust is told of by the check for claims.
        let Ok(tokens) = text.parse::<TokenStream>() else { continue };
        let mut lines = Vec::new();
        find(tokens, &|tokens| is_invoke(tokens) || is_trait(tokens), &mut lines);
        found.extend(lines.iter().map(|line| {
            format!("{path}:{line}: only the executor of actions calls connectors: plan an action (X7)")
        }));
    }
    found
}

/// `.invoke(…)`, or the method handed on.
fn is_invoke(tokens: &[TokenTree]) -> bool {
    let [first, name, ..] = tokens else { return false };
    (is_punct(first, '.') || is_punct(first, ':')) && is_word(name, "invoke")
}

/// The name of the trait; `Connectors` is another one.
fn is_trait(tokens: &[TokenTree]) -> bool {
    tokens.first().is_some_and(|token| is_word(token, "Connect"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        only_the_executor_invokes(&Tree::of(&[(path, text)]))
    }

    #[test]
    fn a_planted_way_around_the_gate_is_found_x7() {
        for call in [
            "fn f() { system.invoke(call).await }",
            "fn f(system: &dyn Connect) {}",
            "use super::connect::Connect;",
            "fn f() { calls.map(T::invoke) }",
            "fn f() { tokio::select! { end = system.invoke(call) => end } }",
        ] {
            for path in ["actions/check.rs", "actions/gate.rs", "durable/run.rs", "lib.rs"] {
                assert_eq!(found(&format!("{CRATE}{path}"), call).len(), 1, "{path}: {call}");
            }
        }
    }

    #[test]
    fn the_executor_connectors_and_tests_may() {
        let call = "fn f(system: &dyn Connect) { system.invoke(call) }";
        for path in ["actions/executor.rs", "actions/connect.rs", "actions/connect/mcp/web.rs"] {
            assert_eq!(found(&format!("{CRATE}{path}"), call), [""; 0], "{path}");
        }
        for fine in [
            "#[cfg(test)]\nmod tests { fn f() { system.invoke(call) } }",
            "// system.invoke(call)",
            "struct Connectors;",
        ] {
            assert_eq!(found(&format!("{CRATE}actions/check.rs"), fine), [""; 0], "{fine}");
        }
        assert_eq!(found("crates/hapax/src/actions.rs", call), [""; 0], "it cannot be named there");
    }
}
