//! Where a request shows its credential: one place, and one credential.
//!
//! `Authorization: Bearer` always counts; `X-Api-Key` and Basic where the settings say so (A2). What the credential is worth is
//! decided by [`super::Authenticator`].

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};

use super::{AuthError, api_key, only};
use crate::limits;
use crate::settings::KeyPlaces;

/// The header in which many clients send their key.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The credential of a request. Of two, neither counts.
pub(super) fn shown(headers: &HeaderMap, places: KeyPlaces) -> Result<Cow<'_, str>, AuthError> {
    let line = only(headers, &AUTHORIZATION)?;
    if places.x_api_key
        && let Some(key) = only(headers, &X_API_KEY)?
    {
        return match line {
            Some(_) => Err(AuthError::invalid("there are credentials in Authorization and in X-Api-Key")),
            None => word(key.as_bytes()).map(Cow::Borrowed),
        };
    }
    let line = line.ok_or(AuthError::Missing)?;
    if places.basic
        && let Some(encoded) = behind(line.as_bytes(), b"basic")
    {
        return of_basic(encoded).map(Cow::Owned);
    }
    bearer(line).map(Cow::Borrowed)
}

/// Whether a credential stands in another header than `Authorization`.
pub(super) fn is_shown_elsewhere(headers: &HeaderMap, places: KeyPlaces) -> bool {
    places.x_api_key && headers.contains_key(X_API_KEY)
}

/// The bearer credential: `Bearer`, space, and what can be seen.
fn bearer(line: &str) -> Result<&str, AuthError> {
    let Some(credential) = behind(line.as_bytes(), b"bearer") else {
        return Err(AuthError::invalid("the authorization scheme is not Bearer"));
    };
    if line.contains('\t') {
        return Err(AuthError::invalid("only spaces may stand before the credential"));
    }
    word(credential)
}

/// A credential that is neither too long nor more than one word.
fn word(credential: &[u8]) -> Result<&str, AuthError> {
    if credential.len() > limits::CREDENTIAL {
        return Err(AuthError::invalid("the credential is too long"));
    }
    match std::str::from_utf8(credential) {
        Ok(word) if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(word),
        _ => Err(AuthError::invalid("the credential is not one word")),
    }
}

/// The key in user and password of Basic: the only one of them that is there, or the only one that is an API key.
fn of_basic(encoded: &[u8]) -> Result<String, AuthError> {
    if encoded.len() > limits::CREDENTIAL {
        return Err(AuthError::invalid("the credential is too long"));
    }
    let decoded = STANDARD.decode(encoded).ok().and_then(|decoded| String::from_utf8(decoded).ok());
    let (user, password) = decoded
        .as_deref()
        .and_then(|text| text.split_once(':'))
        .ok_or_else(|| AuthError::invalid("what is behind Basic is no user and password"))?;
    let key = match (user, password) {
        (user, "") => user,
        ("", password) => password,
        _ => match (api_key::is_like(user.as_bytes()), api_key::is_like(password.as_bytes())) {
            (true, false) => user,
            (false, true) => password,
            (true, true) => return Err(AuthError::invalid("user and password of Basic are two API keys")),
            (false, false) => {
                return Err(AuthError::invalid("neither user nor password of Basic is an API key"));
            }
        },
    };
    word(key.as_bytes()).map(str::to_owned)
}

/// What a line of `Authorization` shows behind this scheme, without the space around it, whatever space that is.
fn behind<'l>(line: &'l [u8], scheme: &[u8]) -> Option<&'l [u8]> {
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (own, credential) = line.split_at(end);
    own.eq_ignore_ascii_case(scheme).then(|| credential.trim_ascii())
}

/// Whether a field shows an API key, by the same reading that lets its caller in. Whoever has it can call the edge, so it is known to
/// hapax alone.
pub(crate) fn shows_api_key(name: &HeaderName, value: &[u8]) -> bool {
    if *name == X_API_KEY {
        return api_key::is_like(value.trim_ascii());
    }
    let in_basic = |encoded| of_basic(encoded).is_ok_and(|key| api_key::is_like(key.as_bytes()));
    behind(value, b"bearer").is_some_and(api_key::is_like) || behind(value, b"basic").is_some_and(in_basic)
}
