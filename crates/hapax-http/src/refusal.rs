//! What the engine refuses, and why: a value, which the program that uses the engine renders as it likes.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

/// Methods that a request may have, unless it asks for a tunnel or an echo.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its head is longer, or has more fields, than any may have.
    HeadTooLarge,
    /// Its head cannot be read in exactly one way.
    Malformed(Cow<'static, str>),
    /// Its head states the length of the body in a way that another reader may understand differently. Nothing more is read
    /// on this connection.
    Framing(&'static str),
    /// Two servers could split or decode its path differently.
    Path(&'static str),
    /// Its method is one that no request may have here.
    Method,
    /// The handler panicked.
    Panicked,
}

impl Refusal {
    /// The status that suits it.
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Refusal::Malformed(_) | Refusal::Framing(_) | Refusal::Path(_) => StatusCode::BAD_REQUEST,
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What is wrong with this request in particular, if there is more to say than which refusal it is.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Refusal::Malformed(why) => Some(why),
            Refusal::Framing(why) | Refusal::Path(why) => Some(why),
            Refusal::HeadTooLarge | Refusal::Method | Refusal::Panicked => None,
        }
    }

    /// The methods that may be used instead, where the method is what is refused.
    pub fn allow(&self) -> Option<HeaderValue> {
        (*self == Refusal::Method).then(|| HeaderValue::from_static(METHODS))
    }

    /// Whether nothing more may be read on the connection, although the head could be.
    pub fn closes(&self) -> bool {
        matches!(self, Refusal::Framing(_))
    }

    /// The refusal as plain text, for programs that have no form of their own.
    pub fn response(&self) -> Response<Bytes> {
        let text = self.detail().or(self.status().canonical_reason()).unwrap_or_default();
        let mut response = Response::new(Bytes::from(format!("{text}\n")));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Some(methods) = self.allow() {
            headers.insert(ALLOW, methods);
        }
        if self.closes() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_in_plain_text_says_what_is_wrong_and_what_follows() {
        let text = |refusal: Refusal| {
            let (head, body) = refusal.response().into_parts();
            let named = |name| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap(), named(ALLOW), named(CONNECTION))
        };
        assert_eq!(text(Refusal::Malformed("two Hosts".into())), (400, "two Hosts\n".into(), None, None));
        assert_eq!(text(Refusal::Path("a dot")), (400, "a dot\n".into(), None, None));
        let close = Some("close".to_owned());
        assert_eq!(text(Refusal::Framing("two lengths")), (400, "two lengths\n".into(), None, close));
        let allow = Some(METHODS.to_owned());
        assert_eq!(text(Refusal::Method), (405, "Method Not Allowed\n".into(), allow, None));
        assert_eq!(text(Refusal::HeadTooLarge).0, 431);
        assert_eq!(text(Refusal::Panicked), (500, "Internal Server Error\n".into(), None, None));
    }
}
