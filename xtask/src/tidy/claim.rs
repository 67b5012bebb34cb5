//! `once` is the only driver of the claim protocol (E1, invariant 10): nothing else calls `Ledger::claim`
//! or `Leases::claim_under`.
//!
//! The source is read as tokens, not as text: comments, strings and line breaks do not matter, and calls inside of
//! macros are seen. Types are not known here, so every method named `claim` counts, but for one whose argument is
//! a string: that is the claim of a token (`jwt.claim("sub")`), never a claim on the ledger.

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use super::tree::Tree;

/// Who may call it. `hapax-exec` drives the protocol; the others implement it or attack it.
const MAY_CLAIM: &[&str] =
    &["crates/hapax-exec/src/", "crates/hapax-store/", "crates/hapax-testkit/", "torture/", "bench/"];

/// No shipped source but `hapax-exec` calls `claim` on a ledger.
pub(crate) fn only_once_claims(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| !may_claim(path)) {
        match text.parse::<TokenStream>() {
            Ok(tokens) => {
                let mut lines = Vec::new();
                find(tokens, &|tokens| is_call(tokens) || is_path_to_it(tokens), &mut lines);
                found.extend(lines.iter().map(|line| {
                    format!("{path}:{line}: only `hapax_exec::once` calls `Ledger::claim`: call `once` (E1)")
                }));
            }
            Err(error) => found.push(format!("{path}: cannot be read as Rust: {error}")),
        }
    }
    found
}

fn may_claim(path: &str) -> bool {
    let is_test = path.split('/').any(|dir| dir == "tests") || path.ends_with("/tests.rs");
    is_test || MAY_CLAIM.iter().any(|allowed| path.starts_with(allowed))
}

/// Adds the lines of what is looked for in these tokens, but for what is not shipped.
pub(super) fn find(tokens: TokenStream, is_meant: &dyn Fn(&[TokenTree]) -> bool, lines: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if opens_test_item(&tokens[at..]) {
            at += 2;
            at += tokens[at..].iter().position(ends_item).map_or(0, |end| end + 1);
            continue;
        }
        if is_meant(&tokens[at..]) {
            lines.push(tokens[at].span().start().line);
        }
        if let TokenTree::Group(group) = &tokens[at] {
            find(group.stream(), is_meant, lines);
        }
        at += 1;
    }
}

/// `.claim(…)`, `.claim::<…>(…)` or `.claim_under(…)`, unless it starts with a string.
fn is_call(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(dot), name, rest @ ..] = tokens else { return false };
    if dot.as_char() != '.' || dot.spacing() != Spacing::Alone || !is_claim(name) {
        return false;
    }
    match rest {
        [TokenTree::Group(arguments), ..] => is_parenthesis(arguments) && !starts_with_string(arguments),
        [first, ..] => is_punct(first, ':'),
        [] => false,
    }
}

/// `Ledger::claim`, `<S as Ledger>::claim` or the same of `Leases`, called or handed on.
fn is_path_to_it(tokens: &[TokenTree]) -> bool {
    let [ledger, rest @ ..] = tokens else { return false };
    let rest = match rest {
        [close, rest @ ..] if is_punct(close, '>') => rest,
        rest => rest,
    };
    let [one, two, name, ..] = rest else { return false };
    let is_port = is_word(ledger, "Ledger") || is_word(ledger, "Leases");
    is_port && is_punct(one, ':') && is_punct(two, ':') && is_claim(name)
}

fn is_claim(name: &TokenTree) -> bool {
    is_word(name, "claim") || is_word(name, "claim_under")
}

/// `#[cfg(test)]`: what follows is not shipped.
fn opens_test_item(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(attribute), ..] = tokens else { return false };
    is_punct(hash, '#') && attribute.stream().to_string().replace(' ', "") == "cfg(test)"
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';'),
    }
}

fn is_parenthesis(group: &Group) -> bool {
    group.delimiter() == Delimiter::Parenthesis
}

fn starts_with_string(arguments: &Group) -> bool {
    let first = arguments.stream().into_iter().next();
    matches!(first, Some(TokenTree::Literal(literal)) if literal.to_string().ends_with('"'))
}

pub(super) fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

pub(super) fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: &str = "crates/hapax-gateway/src/stack.rs";

    fn found(path: &str, text: &str) -> Vec<String> {
        only_once_claims(&Tree::of(&[(path, text)]))
    }

    #[test]
    fn a_planted_call_is_found_however_it_is_written() {
        for call in [
            "ledger.claim(request).await",
            "ledger.claim_under(lease, request).await",
            "Leases::claim_under(&store, lease, request)",
            "self.store\n        .claim(request)",
            "store.claim::<Memory>(request)",
            "Ledger::claim(&store, request)",
            "<S as Ledger>::claim(&store, request)",
            "requests.map(Ledger::claim)",
            "tokio::select! { verdict = ledger.claim(request) => verdict }",
            "f(|| { ledger.claim(request) })",
        ] {
            let text = format!("//! A file.\nfn f() {{ {call} }}\n");
            assert_eq!(found(GATEWAY, &text).len(), 1, "{call}");
        }
        let lines = found(GATEWAY, "//! A file.\nfn f() {\n    ledger.claim(request);\n}\n");
        assert!(lines[0].starts_with("crates/hapax-gateway/src/stack.rs:3: "), "{lines:?}");
    }

    #[test]
    fn what_only_looks_like_a_call_is_not() {
        for fine in [
            "// ledger.claim(request)",
            "/// Calls `ledger.claim(request)`.\nstruct A;",
            "const A: &str = \"ledger.claim(request)\";",
            "fn f() { jwt.claim(\"sub\") }",
            "fn f() { answer.claim }",
            "fn f() { ledger.claimed(request); claim(request); ledger.reclaim(request) }",
            "trait Ledger { fn claim(&self, request: Request); }",
            "#[cfg(test)]\nmod tests { fn f() { ledger.claim(request) } }",
            "#[cfg(test)]\nuse x;\nfn f() {}",
        ] {
            assert_eq!(found(GATEWAY, fine), [""; 0], "{fine}");
        }
    }

    #[test]
    fn code_after_a_test_module_is_looked_at_again() {
        let text = "#[cfg(test)]\nmod tests { fn g() {} }\nfn f() { ledger.claim(request) }\n";
        assert_eq!(found(GATEWAY, text).len(), 1);
    }

    #[test]
    fn the_driver_the_stores_and_tests_may_claim() {
        for path in [
            "crates/hapax-exec/src/once.rs",
            "crates/hapax-store/src/conformance.rs",
            "crates/hapax-core/tests/it/main.rs",
            "torture/src/main.rs",
        ] {
            assert_eq!(found(path, "fn f() { ledger.claim(request) }"), [""; 0], "{path}");
        }
        for path in ["crates/hapax-exec/build.rs", "crates/hapax-core/src/lib.rs", "examples/a.rs"] {
            assert_eq!(found(path, "fn f() { ledger.claim(request) }").len(), 1, "{path}");
        }
    }

    #[test]
    fn a_file_that_is_no_rust_is_found() {
        assert_eq!(found(GATEWAY, "fn f( {").len(), 1);
    }
}
