//! Who may use the admin listener: bearer tokens with a role each (M1).
//!
//! Only digests of the tokens are held. A token is compared with every known one in constant time, so that neither a
//! prefix nor the number of a token can be found out by measuring.

use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use hapax_api::Role;
use hapax_core::Error;
use hapax_tower::{Code, Problem};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};

use crate::limits;
use crate::listen::refusal::Refusal;

/// The tokens of one admin listener. Without any, only the paths that need none can be used. Clones stay the same tokens, also
/// when they are replaced.
#[derive(Clone, Default)]
pub struct AdminTokens(Arc<RwLock<Arc<[Token]>>>);

#[derive(Clone)]
struct Token {
    operator: Operator,
    digest: [u8; 32],
}

/// Whose token it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operator {
    /// The token's name, which the audit shows.
    pub(super) name: String,
    pub(super) role: Role,
}

impl Operator {
    /// Refuses an operator who has less than this role.
    pub(super) fn needs(&self, role: Role) -> Result<(), Refusal> {
        if self.role >= role {
            return Ok(());
        }
        let detail = format!("the token {:?} has the role {}; this needs {role}", self.name, self.role);
        Err(Problem::new(Code::Forbidden).detail(detail).into())
    }
}

impl AdminTokens {
    /// Adds a token. Its name goes into the audit; the token itself is forgotten.
    pub fn with(self, name: &str, role: Role, token: &str) -> Result<Self, Error> {
        if name.is_empty() || name.chars().count() > limits::NAME_LENGTH || name.chars().any(char::is_control)
        {
            return Err(Error::invalid("an admin token has a name of 1 to 128 printable characters"));
        }
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid(
                "an admin token consists of visible ASCII characters, without spaces",
            )
            .with_detail(format_args!("the token {name:?}")));
        }
        let known = self.known();
        if known.len() >= limits::ADMIN_TOKENS {
            return Err(Error::invalid("there are more admin tokens than one listener takes"));
        }
        let new = Token { operator: Operator { name: name.into(), role }, digest: sha256(token.as_bytes()) };
        if known.iter().any(|known| known.digest == new.digest) {
            return Err(Error::invalid("two admin tokens are the same: give each its own")
                .with_detail(format_args!("the token {name:?}")));
        }
        Ok(AdminTokens(Arc::new(RwLock::new(known.iter().cloned().chain([new]).collect()))))
    }

    /// From now on these tokens count, and no others.
    pub fn replace(&self, by: &AdminTokens) {
        let new = by.known();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    fn known(&self) -> Arc<[Token]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whose token this is. Looks at all of them, also after one was found.
    pub(super) fn operator(&self, presented: &[u8]) -> Option<Operator> {
        let presented = sha256(presented);
        let same = |token: &Token| verify_slices_are_equal(&token.digest, &presented).is_ok();
        let known = self.known();
        let found =
            known.iter().fold(None, |found, token| if same(token) { Some(&token.operator) } else { found });
        found.cloned()
    }

    /// Whether there is any.
    pub(crate) fn is_empty(&self) -> bool {
        self.known().is_empty()
    }
}

impl std::fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.known().iter().map(|token| &token.operator)).finish()
    }
}

/// The token of `Authorization: Bearer TOKEN`, where there is exactly one such line.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let (scheme, token) = line.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Where no token is configured, none can be right, and whoever runs the server must hear that.
pub(super) fn unauthenticated(tokenless: bool) -> Refusal {
    let challenge = HeaderValue::from_static("Bearer realm=\"hapax admin\"");
    let detail = match tokenless {
        true => {
            "no admin token is configured: add [admin] with token_env or token_file to its configuration, and start the \
             server again"
        }
        false => "send Authorization: Bearer TOKEN with an admin token of this server",
    };
    Problem::new(Code::Unauthenticated).detail(detail).header(WWW_AUTHENTICATE, challenge).into()
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, bytes).as_ref());
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_tokens_are_refused_when_they_are_made() {
        let none = AdminTokens::default;
        for token in ["", "a b", "tab\t", "gr\u{fc}n"] {
            assert!(none().with("ops", Role::Read, token).is_err(), "{token:?}");
        }
        assert!(none().with("", Role::Read, "t").is_err());
        let one = none().with("ops", Role::Read, "same").unwrap();
        assert!(one.clone().with("dev", Role::Operate, "same").is_err());
        let shown = format!("{:?}", one.with("dev", Role::Operate, "other-secret").unwrap());
        assert!(shown.contains("dev") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn replaced_tokens_count_everywhere_and_the_former_ones_nowhere() {
        let tokens = AdminTokens::default().with("ops", Role::Read, "old").unwrap();
        let elsewhere = tokens.clone();
        tokens.replace(&AdminTokens::default().with("ops", Role::Operate, "new").unwrap());
        assert_eq!(elsewhere.operator(b"old"), None);
        assert_eq!(elsewhere.operator(b"new"), Some(Operator { name: "ops".into(), role: Role::Operate }));
        tokens.replace(&AdminTokens::default());
        assert_eq!(elsewhere.operator(b"new"), None);
    }

    #[test]
    fn only_one_authorization_line_of_the_bearer_scheme_counts() {
        let read = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(AUTHORIZATION, HeaderValue::from_str(line).unwrap());
            }
            bearer(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(read(&["Bearer abc"]), Some(b"abc".to_vec()));
        assert_eq!(read(&["bearer  abc"]), Some(b"abc".to_vec()));
        for lines in [&[][..], &["Basic abc"], &["Bearer"], &["Bearer a", "Bearer a"]] {
            assert_eq!(read(lines), None, "{lines:?}");
        }
    }
}
