//! What a caller gets of a handler's answer: its status, its headers and its body, and nothing of the cluster (H8).

use std::sync::LazyLock;

use bytes::Bytes;
use hapax_exec::How;
use hapax_tower::answer::{EXPIRES, REPLAYED, is_hop_by_hop, is_ours};
use hapax_tower::problem::OPERATION_ID;
use hapax_tower::{Answered as Told, Body, Code, Event, Problem, PublicId};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use http::{Response, StatusCode};
use httpdate::HttpDate;
use serde_json::{Value, json};

use crate::restate::nodes::{JSON, Reply, ReplyBody};
use crate::restate::{Answered, ErrorBody, expires_at};
use crate::stack::Answer;
use crate::upstream::Incoming;

/// What a call has come to.
#[derive(Debug)]
pub(super) enum Outcome {
    /// What its handler answered.
    Answer(Response<Body<Incoming>>),
    /// It was ended before its handler answered, which is kept as any outcome is.
    Ended(Problem),
}

/// An outcome, as its callers get it.
#[derive(Debug)]
pub(super) struct FromHandler {
    pub(super) outcome: Outcome,
    /// What an envelope says that the handler was called with.
    pub(super) fingerprint: Option<String>,
}

/// Makes an answer of what a handler has returned or failed with.
pub(super) fn from_handler(reply: Reply, envelope: bool) -> Result<FromHandler, Problem> {
    match Answered::of(&reply) {
        Answered::Success if envelope => opened(&reply),
        Answered::Success => Ok(FromHandler { outcome: Outcome::Answer(plain(reply)), fingerprint: None }),
        Answered::Failure => Ok(FromHandler { outcome: failure(&reply), fingerprint: None }),
        other => Err(not_the_handlers(&reply, other)),
    }
}

/// What the ingress itself says never looks like the handler's answer.
pub(super) fn not_the_handlers(reply: &Reply, answered: Answered) -> Problem {
    let status = reply.status.as_u16();
    let cause = format!("the ingress answered {status}: {}", ErrorBody::read(reply).message);
    let problem = match (answered, status) {
        (_, 413) => return Problem::new(Code::BodyTooLarge).because(cause).with("executed", "no"),
        (Answered::Busy, _) => Problem::new(Code::AttemptFailed),
        (_, 404) => Problem::new(Code::UpstreamUnreachable).detail("what this route leads to is not there"),
        _ => Problem::new(Code::UpstreamUnreachable),
    };
    problem.because(cause).with("executed", "unknown")
}

fn plain(reply: Reply) -> Response<Body<Incoming>> {
    let mut headers = HeaderMap::new();
    if let Some(kind) = reply.headers.get(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, kind.clone());
    }
    let body = match reply.body {
        ReplyBody::Whole(body) => {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            Body::whole(body)
        }
        ReplyBody::Long(first, rest) => Body::Stream { first, rest },
    };
    let mut response = Response::new(body);
    *response.status_mut() = reply.status;
    *response.headers_mut() = headers;
    response
}

/// What a handler has failed with for good: its status and its message. A stack trace stays here, and so does who says it.
fn failure(reply: &Reply) -> Outcome {
    let ErrorBody { message } = ErrorBody::read(reply);
    let ended = match (reply.status, message.as_str()) {
        (StatusCode::CONFLICT, "killed") => Some(Code::OperationKilled),
        (StatusCode::CONFLICT, "cancelled") => Some(Code::OperationCancelled),
        _ => None,
    };
    if let Some(code) = ended {
        return Outcome::Ended(Problem::new(code).with("executed", "unknown"));
    }
    let body = json!({ "code": reply.status.as_u16(), "message": message }).to_string();
    Outcome::Answer(whole(reply.status, HeaderMap::new(), body.into()))
}

fn whole(status: StatusCode, mut headers: HeaderMap, body: Bytes) -> Response<Body<Incoming>> {
    headers.entry(CONTENT_TYPE).or_insert(JSON);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The envelope of a handler that says more than a body.
fn opened(reply: &Reply) -> Result<FromHandler, Problem> {
    let unreadable = |why: &str| {
        Problem::new(Code::UpstreamUnreachable)
            .not_retryable()
            .with("executed", "yes")
            .detail("the work was done, and its answer cannot be read")
            .because(format!("the handler's answer is no envelope: {why}"))
    };
    let Some(body) = reply.whole() else { return Err(unreadable("it is longer than `max_kept_response`")) };
    let envelope: Value = serde_json::from_slice(body).map_err(|_| unreadable("it is not JSON"))?;
    let status = envelope["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|status| (200..600).contains(status));
    let Some(status) = status.and_then(|status| StatusCode::from_u16(status).ok()) else {
        return Err(unreadable("its `status` is not a number from 200 to 599"));
    };
    let headers = match &envelope["headers"] {
        Value::Null => HeaderMap::new(),
        Value::Object(fields) => {
            fields_of(fields).ok_or_else(|| unreadable("its `headers` are not names with texts"))?
        }
        _ => return Err(unreadable("its `headers` are no object")),
    };
    let fingerprint = envelope["fp"].as_str().map(str::to_owned);
    let is_empty = status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let is_text =
        headers.get(CONTENT_TYPE).is_some_and(|kind| !kind.as_bytes().starts_with(b"application/json"));
    let response = match &envelope["body"] {
        Value::Null => {
            let mut response = Response::new(Body::whole(Bytes::new()));
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            if !is_empty {
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(0));
            }
            response
        }
        _ if is_empty => return Err(unreadable("an answer of its `status` has no body")),
        // What is no JSON is a text.
        Value::String(text) if is_text => whole(status, headers, text.clone().into()),
        value => whole(status, headers, value.to_string().into()),
    };
    Ok(FromHandler { outcome: Outcome::Answer(response), fingerprint })
}

/// The headers of an envelope, without what concerns a connection and what only hapax may say.
fn fields_of(fields: &serde_json::Map<String, Value>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let texts = match value {
            Value::String(text) => std::slice::from_ref(text).to_vec(),
            Value::Array(texts) => {
                texts.iter().map(|text| text.as_str().map(str::to_owned)).collect::<Option<_>>()?
            }
            _ => return None,
        };
        for text in texts {
            let value = HeaderValue::from_str(&text).ok()?;
            if !(is_hop_by_hop(&name) || is_ours(&name) || UNKEPT.contains(&name)) {
                headers.append(&name, value);
            }
        }
    }
    Some(headers)
}

/// Fields that are written anew, or were for the first caller alone (H3).
static UNKEPT: LazyLock<[HeaderName; 2]> = LazyLock::new(|| [CONTENT_LENGTH, SET_COOKIE]);

/// Whether an answer was kept when it was asked for, and so is an earlier request's. Nothing documents it: a test pins it, and so does
/// a look at the start.
pub(super) fn is_kept(reply: &Reply) -> bool {
    reply.headers.contains_key("idempotency-expires")
}

/// Whether a failure may be how `attach` says that there is no such call.
pub(super) fn may_be_absent(reply: &Reply) -> bool {
    reply.status == StatusCode::NOT_FOUND && !is_kept(reply) && ErrorBody::read(reply).message == "not found"
}

impl FromHandler {
    /// The answer with its receipt (H3, H8).
    pub(super) fn stamped(self, expires: Option<&str>, how: How, id: Option<PublicId>, docs: &str) -> Answer {
        let (mut response, event) = match self.outcome {
            Outcome::Answer(response) => (response, Event::Outcome(how)),
            Outcome::Ended(problem) => {
                // Whoever asked first meets a problem; to all others it is what was kept.
                let event = match how {
                    How::Executed => Event::Problem(problem.code()),
                    _ => Event::Outcome(how),
                };
                (problem.about(id.clone()).response(docs).map(Body::whole), event)
            }
        };
        let headers = response.headers_mut();
        if how != How::Executed {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        if let Some(Ok(id)) = id.as_ref().map(|id| HeaderValue::from_str(&id.to_string())) {
            headers.insert(OPERATION_ID, id);
        }
        let until = expires.and_then(expires_at).map(|until| HttpDate::from(until).to_string());
        if let Some(Ok(until)) = until.map(HeaderValue::try_from) {
            headers.insert(EXPIRES, until);
        }
        Told { response, event, operation_id: id, cause: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, source: Option<&str>, body: &str) -> Reply {
        let mut headers = HeaderMap::new();
        if let Some(source) = source {
            headers.insert("x-restate-error-source", HeaderValue::from_str(source).unwrap());
        }
        headers.insert("vary", HeaderValue::from_static("origin"));
        headers.insert("x-restate-id", HeaderValue::from_static("inv_1"));
        let body = ReplyBody::Whole(Bytes::copy_from_slice(body.as_bytes()));
        Reply { status: StatusCode::from_u16(status).unwrap(), headers, body }
    }

    fn answer(found: FromHandler) -> Response<Body<Incoming>> {
        match found.outcome {
            Outcome::Answer(response) => response,
            Outcome::Ended(problem) => panic!("it was ended: {problem:?}"),
        }
    }

    fn text(response: Response<Body<Incoming>>) -> (u16, Vec<String>, String) {
        let (head, body) = response.into_parts();
        let Body::Whole { bytes } = body else { panic!("it is whole") };
        let names = head.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        let bytes = bytes.unwrap_or_default();
        (head.status.as_u16(), names.collect(), String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn a_failure_keeps_status_and_message_and_nothing_else_h8() {
        let body = r#"{"code":402,"message":"no funds","source":"invocation","stacktrace":"at main"}"#;
        let told = text(answer(from_handler(reply(402, Some("invocation"), body), false).unwrap()));
        let kept = r#"{"code":402,"message":"no funds"}"#;
        let headers =
            vec!["content-type: application/json".into(), format!("content-length: {}", kept.len())];
        assert_eq!(told, (402, headers, kept.into()));
    }

    #[test]
    fn what_the_ingress_says_is_never_the_handlers_and_who_was_killed_is_told_h2() {
        for (status, source, body, code) in [
            (404, Some("ingress"), r#"{"message":"service 'x' not found"}"#, Code::UpstreamUnreachable),
            (404, None, "nginx", Code::UpstreamUnreachable),
            (500, Some("ingress"), "{}", Code::UpstreamUnreachable),
            (400, Some("ingress"), "{}", Code::UpstreamUnreachable),
            (413, None, "length limit exceeded", Code::BodyTooLarge),
            (503, None, "", Code::AttemptFailed),
            (302, None, "", Code::UpstreamUnreachable),
        ] {
            let problem = from_handler(reply(status, source, body), false).unwrap_err();
            assert_eq!(problem.code(), code, "{status} {body}");
        }
        // A page of something in front of the cluster: it is of no call.
        let mut page = reply(200, None, "<h1>We are back soon</h1>");
        page.headers.remove("x-restate-id");
        assert_eq!(from_handler(page, false).unwrap_err().code(), Code::UpstreamUnreachable);
        for (body, code, how, is_replay) in [
            (r#"{"message":"killed"}"#, Code::OperationKilled, How::Executed, false),
            (r#"{"message":"killed"}"#, Code::OperationKilled, How::Replayed, true),
            (r#"{"message":"cancelled"}"#, Code::OperationCancelled, How::Attached, true),
        ] {
            let found = from_handler(reply(409, Some("invocation"), body), false).unwrap();
            let told = found.stamped(None, how, None, "/");
            assert_eq!(told.response.status(), 409);
            assert_eq!(told.response.headers().contains_key(REPLAYED), is_replay, "{body}");
            let event = if is_replay { Event::Outcome(how) } else { Event::Problem(code) };
            assert_eq!(told.event, event, "{body}");
        }
        let own = from_handler(reply(409, Some("invocation"), r#"{"message":"taken"}"#), false).unwrap();
        assert_eq!(answer(own).status(), 409, "the handler's own conflict");
    }

    #[test]
    fn an_envelope_says_status_headers_and_body_and_what_only_hapax_may_say_is_left_out_d1() {
        let body = r#"{"fp":"f","status":201,"headers":{"location":"/a","set-cookie":"s","x-operation-id":"op","via":["a","b"],
                       "connection":"close","content-length":"9"},"body":{"b":1,"a":[2]}}"#;
        let found = from_handler(reply(200, None, body), true).unwrap();
        assert_eq!(found.fingerprint.as_deref(), Some("f"));
        let (status, mut headers, body) = text(answer(found));
        headers.sort();
        let expected =
            ["content-length: 15", "content-type: application/json", "location: /a", "via: a", "via: b"];
        assert_eq!((status, body.as_str()), (201, r#"{"a":[2],"b":1}"#));
        assert_eq!(headers, expected);
        let plain = r#"{"status":200,"headers":{"content-type":"text/plain"},"body":"hello"}"#;
        assert_eq!(text(answer(from_handler(reply(200, None, plain), true).unwrap())).2, "hello");
        let empty = from_handler(reply(200, None, r#"{"status":204}"#), true).unwrap();
        assert_eq!(text(answer(empty)), (204, vec![], String::new()));
        for broken in [
            "1",
            "{}",
            "no",
            r#"{"status":99}"#,
            r#"{"status":"200"}"#,
            r#"{"status":200,"headers":[]}"#,
            r#"{"status":200,"headers":{"a":1}}"#,
            r#"{"status":200,"headers":{"a b":"c"}}"#,
            r#"{"status":204,"body":1}"#,
        ] {
            let problem = from_handler(reply(200, None, broken), true).unwrap_err();
            assert_eq!(problem.code(), Code::UpstreamUnreachable, "{broken}");
        }
    }
}
