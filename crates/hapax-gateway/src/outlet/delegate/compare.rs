//! What was asked, in one line that the cluster keeps in the journal: the fingerprint and its recipe, and where it was sent (D4).

use hapax_core::{Fingerprint, Ledger, RecipeId};
use hapax_exec::{Executor, Rehash as _};
use hapax_tower::{KeyedRequest, Problem};
use sha2::{Digest as _, Sha256};

/// The line about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    recipe: RecipeId,
    digest: String,
    target: String,
}

/// How two requests compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    Same,
    Differs,
    /// The one that was accepted was hashed by a recipe that nobody knows any more, or was not sent by an edge.
    Unclear,
}

impl Asked {
    pub(super) fn of(request: &KeyedRequest) -> Self {
        let message = &request.message;
        let query = message.uri.query().unwrap_or_default();
        Asked {
            recipe: request.fingerprint.recipe,
            digest: hex(&request.fingerprint.digest),
            target: target(message.method.as_str(), message.uri.path(), query),
        }
    }

    /// As it stands in the header.
    pub(super) fn text(&self) -> String {
        format!("{:016x}.{}.{}", self.recipe.0, self.digest, self.target)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (recipe, digest, target) = (parts.next()?, parts.next()?, parts.next()?);
        let recipe = RecipeId(u64::from_str_radix(recipe, 16).ok()?);
        let is_whole = parts.next().is_none() && digest.len() == 64 && target.len() == TARGET_DIGITS;
        is_whole.then(|| Asked { recipe, digest: digest.into(), target: target.into() })
    }

    /// Whether it was sent with this method, path and query (H7).
    pub(super) fn is_to(&self, method: &str, path: &str, query: &str) -> bool {
        self.target == target(method, path, query)
    }
}

/// Compares a request with what was accepted under its key.
pub(super) async fn compare<L: Ledger>(
    executor: &Executor<L>,
    request: &KeyedRequest,
    accepted: Option<&str>,
) -> Result<Compared, Problem> {
    let Some(accepted) = accepted.and_then(Asked::read) else { return Ok(Compared::Unclear) };
    let is_same = |fingerprint: &Fingerprint| match hex(&fingerprint.digest) == accepted.digest {
        true => Compared::Same,
        false => Compared::Differs,
    };
    if accepted.recipe == request.fingerprint.recipe {
        return Ok(is_same(&request.fingerprint));
    }
    let recipe = executor.recipe(accepted.recipe).await;
    let recipe = recipe.map_err(|error| Problem::from(&hapax_exec::Error::from(error)))?;
    Ok(recipe.map_or(Compared::Unclear, |recipe| is_same(&request.rehash(&recipe))))
}

const TARGET_DIGITS: usize = 32;

fn target(method: &str, path: &str, query: &str) -> String {
    let mut hasher = Sha256::new();
    for part in [method, path, query] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize()[..TARGET_DIGITS / 2])
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_and_says_where_it_was_sent_d4_h7() {
        let asked = Asked {
            recipe: RecipeId(0xAB),
            digest: "0f".repeat(32),
            target: target("POST", "/orders/1", "a=b"),
        };
        assert_eq!(Asked::read(&asked.text()), Some(asked.clone()));
        assert!(asked.is_to("POST", "/orders/1", "a=b"));
        for (method, path, query) in [
            ("POST", "/orders/2", "a=b"),
            ("PUT", "/orders/1", "a=b"),
            ("POST", "/orders/1", ""),
            ("POST", "/orders/1a", "=b"),
        ] {
            assert!(!asked.is_to(method, path, query), "{method} {path} {query}");
        }
        for text in ["", "x", "00.11.22", &format!("{}.x", asked.text())] {
            assert_eq!(Asked::read(text), None, "{text}");
        }
    }
}
