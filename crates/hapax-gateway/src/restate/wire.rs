//! How handlers and calls are addressed at an ingress, and what its answers say.
//!
//! Keys stand in headers and JSON documents only: in a path they would not be decoded.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::nodes::Reply;

/// A handler, of an object with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) service: String,
    pub(crate) key: Option<String>,
    pub(crate) handler: String,
}

impl Address {
    /// The path to call it at, or to send to; no query, which could postpone it.
    pub(crate) fn path(&self, verb: &str) -> String {
        let mut path = format!("/restate/{verb}/{}/", self.service);
        if let Some(key) = &self.key {
            push_encoded(&mut path, key);
            path.push('/');
        }
        path.push_str(&self.handler);
        path
    }

    /// The call under a key, for `lookup`, `output` and `attach`.
    pub(crate) fn call(&self, key: &str) -> Bytes {
        let mut call = json!({
            "target": "idempotentInvocation",
            "service": self.service,
            "handler": self.handler,
            "idempotencyKey": key,
        });
        if let Some(key) = &self.key {
            call["key"] = key.as_str().into();
        }
        call.to_string().into()
    }
}

/// A call by its id, for `output` and `attach`.
pub(crate) fn by_id(invocation: &str) -> Bytes {
    json!({ "target": "invocation", "invocationId": invocation }).to_string().into()
}

fn push_encoded(path: &mut String, text: &str) {
    use std::fmt::Write as _;
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => path.push(char::from(byte)),
            // A dot too: a segment of dots would lead elsewhere.
            _ => _ = write!(path, "%{byte:02X}"),
        }
    }
}

/// What `send` says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sent {
    pub(crate) invocation_id: String,
    status: String,
}

impl Sent {
    /// Reads the answer of `send`.
    pub(crate) fn read(reply: &Reply) -> Option<Self> {
        let sent: Sent = serde_json::from_slice(reply.whole()?).ok()?;
        (reply.status == StatusCode::ACCEPTED && is_invocation_id(&sent.invocation_id)).then_some(sent)
    }

    /// Whether this request is the one that was accepted; otherwise there was one before.
    pub(crate) fn is_first(&self) -> bool {
        self.status == "Accepted"
    }
}

/// An error, as ingress and handlers say it. What else stands in it is nobody's business: a stack trace, and who says it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ErrorBody {
    #[serde(default)]
    pub(crate) message: String,
}

impl ErrorBody {
    pub(crate) fn read(reply: &Reply) -> Self {
        reply.whole().and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default()
    }
}

/// Whether the ingress itself says that it has no such service or handler, so that nothing was done.
pub(crate) fn knows_no_handler(reply: &Reply) -> bool {
    reply.status == StatusCode::NOT_FOUND && reply.header(ERROR_SOURCE) == Some("ingress")
}

/// Who says an error.
const ERROR_SOURCE: &str = "x-restate-error-source";

/// What an answer of an ingress is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// What the handler returned.
    Success,
    /// What the handler failed with for good.
    Failure,
    /// The call is under way.
    UnderWay,
    /// There is no such call.
    Absent,
    /// The ingress has too much to do.
    Busy,
    /// The ingress refuses, or is broken.
    Refused,
}

impl Answered {
    pub(crate) fn of(reply: &Reply) -> Self {
        // Since the server says it (1.7.4); what has no such line is of the ingress, or of something in front of it.
        let is_handlers = reply.header(ERROR_SOURCE) == Some("invocation");
        match reply.status.as_u16() {
            // What has no id is of no call: a page of something in front of the cluster.
            200..300 if reply.headers.contains_key("x-restate-id") => Answered::Success,
            470 => Answered::UnderWay,
            400.. if is_handlers => Answered::Failure,
            404 if ErrorBody::read(reply).message == "invocation not found" => Answered::Absent,
            429 | 503 => Answered::Busy,
            _ => Answered::Refused,
        }
    }
}

/// Whether a text is an id of an invocation, which may stand in a query and a path.
pub fn is_invocation_id(text: &str) -> bool {
    let id = text.strip_prefix("inv_").unwrap_or_default();
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A span as a server writes it (`1d 12h`); nothing else is read.
pub fn span(text: &str) -> Option<Duration> {
    let mut whole = Duration::ZERO;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest.get(..digits)?.parse().ok()?;
        let unit = &rest[digits..];
        let end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        let one = match &unit[..end] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3_600),
            "d" => Duration::from_secs(86_400),
            "w" => Duration::from_secs(7 * 86_400),
            _ => return None,
        };
        whole = whole.checked_add(one.checked_mul(number)?)?;
        rest = unit[end..].trim_start_matches([' ', ',']);
    }
    (!text.trim().is_empty()).then_some(whole)
}

/// The time in `2026-11-19T19:29:22.546+00:00`, to the second; the server writes no other zone.
pub(crate) fn expires_at(text: &str) -> Option<SystemTime> {
    let (date, rest) = text.split_once('T')?;
    let time = rest.get(..8)?;
    let zone = rest[8..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    if !matches!(zone, "Z" | "+00:00") {
        return None;
    }
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970 in the calendar whose years begin in March.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + day_of_era - 719_468;
    let seconds = u64::try_from(days * 86_400 + hour * 3_600 + minute * 60 + second).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_retention_is_read_and_nothing_else_is() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-19T19:29:22.546+00:00", 1_795_116_562),
            ("2000-02-29T23:59:59+00:00", 951_868_799),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(expires_at(text), Some(time), "{text}");
        }
        for text in
            ["", "soon", "2026-11-19", "2026-11-19T19:29:22+01:00", "2026-13-19T19:29:22Z", "2026-11-19T19:2"]
        {
            assert_eq!(expires_at(text), None, "{text}");
        }
    }

    #[test]
    fn a_span_is_read_as_servers_write_it() {
        let seconds = |text: &str| span(text).map(|span| span.as_secs());
        for (text, read) in
            [("1d", 86_400), ("5s", 5), ("1d 12h", 129_600), ("1h30m", 5_400), ("2w", 1_209_600), ("0s", 0)]
        {
            assert_eq!(seconds(text), Some(read), "{text}");
        }
        for text in ["", "1", "d", "1y", "1 d", "-1s", "1d?"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_of_an_object_is_one_segment_whatever_is_in_it_d1() {
        let address =
            |key: &str| Address { service: "Account".into(), key: Some(key.into()), handler: "add".into() };
        assert_eq!(
            address("a/b?delay=1s&é").path("call"),
            "/restate/call/Account/a%2Fb%3Fdelay%3D1s%26%C3%A9/add"
        );
        assert_eq!(address("..").path("send"), "/restate/send/Account/%2E%2E/add");
        let call: serde_json::Value =
            serde_json::from_slice(&address("a/b").call("t-a:b:user:c:\"k")).unwrap();
        assert_eq!((&call["key"], &call["idempotencyKey"]), (&json!("a/b"), &json!("t-a:b:user:c:\"k")));
    }

    #[test]
    fn only_an_id_of_an_invocation_goes_into_a_query() {
        assert!(is_invocation_id("inv_19WxlJSKNByp16K1tj7svVSGN7ElVXhYzX"));
        for text in ["", "inv_", "inv_a'", "inv_a b", "x", "inv_é"] {
            assert!(!is_invocation_id(text), "{text}");
        }
    }
}
