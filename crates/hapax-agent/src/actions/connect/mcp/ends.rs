//! What the end of a call says about the work: done, certainly not done, or unknown (L7).

use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ServerResult};
use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::value::RawValue;

use super::super::Invoked;
use super::web::WebError;
use crate::limits;

type Answer = Result<ServerResult, ServiceError>;

/// Errors that are told before a tool is called. Any other one may come from its midst.
const REFUSALS: [ErrorCode; 6] = [
    ErrorCode::INVALID_REQUEST,
    ErrorCode::METHOD_NOT_FOUND,
    ErrorCode::INVALID_PARAMS,
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
    ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
    ErrorCode::HEADER_MISMATCH,
];

/// How a call ended.
pub(super) fn ended(answer: Answer) -> Invoked {
    match answer {
        Ok(ServerResult::CallToolResult(result)) if result.is_error == Some(true) => {
            Invoked::NotRun(format!("the tool failed: {}", excerpt(&texts(&result))))
        }
        Ok(ServerResult::CallToolResult(result)) => done(&result),
        Ok(ServerResult::InputRequiredResult(_)) => {
            Invoked::Unknown("the tool asks for input, which an action cannot give".into())
        }
        Ok(_) => Invoked::Unknown("the server's answer is none to a call of a tool".into()),
        Err(ServiceError::McpError(error)) => {
            let told = format!("the server answered {}: {}", error.code.0, excerpt(&error.message));
            if REFUSALS.contains(&error.code) { Invoked::NotRun(told) } else { Invoked::Unknown(told) }
        }
        Err(ServiceError::TransportSend(error)) => {
            match error.error.downcast_ref::<StreamableHttpError<WebError>>() {
                Some(StreamableHttpError::Client(WebError::NotReached(told) | WebError::Refused(told))) => {
                    Invoked::NotRun(told.clone())
                }
                Some(StreamableHttpError::SessionExpired) => {
                    Invoked::NotRun("the server has forgotten the session".into())
                }
                Some(StreamableHttpError::Client(WebError::Lost(told))) => Invoked::Unknown(told.clone()),
                _ => Invoked::Unknown(format!("the server is gone: {error}")),
            }
        }
        Err(ServiceError::TransportClosed) => {
            Invoked::Unknown("the server went away before it answered".into())
        }
        Err(error) => Invoked::Unknown(error.to_string()),
    }
}

/// Whether the next call needs another connection.
pub(super) fn is_lost(answer: &Answer) -> bool {
    matches!(answer, Err(ServiceError::TransportSend(_) | ServiceError::TransportClosed))
}

fn done(result: &CallToolResult) -> Invoked {
    match serde_json::to_string(result).and_then(RawValue::from_string) {
        Ok(result) => Invoked::Done(result),
        Err(error) => Invoked::Unknown(format!("the server's answer cannot be kept: {error}")),
    }
}

fn texts(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

pub(super) fn excerpt(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(limits::EXCERPT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use rmcp::ErrorData;
    use serde_json::json;

    use super::*;

    fn told(result: &serde_json::Value) -> &'static str {
        let result: ServerResult = serde_json::from_value(result.clone()).unwrap();
        word(&ended(Ok(result)))
    }

    fn word(invoked: &Invoked) -> &'static str {
        match invoked {
            Invoked::Done(_) => "done",
            Invoked::NotRun(_) => "not run",
            Invoked::Unknown(_) => "unknown",
        }
    }

    #[test]
    fn a_result_settles_unless_it_is_an_error_or_none_of_a_tool() {
        let text = json!([{ "type": "text", "text": "committed" }]);
        for (result, end) in [
            (json!({ "content": text }), "done"),
            (json!({ "content": text, "isError": false }), "done"),
            (json!({ "content": [], "structuredContent": { "n": 1 } }), "done"),
            (json!({ "content": text, "isError": true }), "not run"),
            (json!({ "resultType": "input_required", "inputRequests": {} }), "unknown"),
            (json!({}), "unknown"),
            (json!({ "garbage": [1, 2, 3] }), "unknown"),
        ] {
            assert_eq!(told(&result), end, "{result}");
        }
    }

    #[test]
    fn only_errors_that_are_told_before_a_tool_is_called_release() {
        for (code, end) in [
            (-32600, "not run"),
            (-32601, "not run"),
            (-32602, "not run"),
            (-32603, "unknown"),
            (-32000, "unknown"),
            (-32002, "unknown"),
            (-1, "unknown"),
        ] {
            let error = ErrorData::new(ErrorCode(code), "x", None);
            assert_eq!(word(&ended(Err(ServiceError::McpError(error)))), end, "{code}");
        }
        assert_eq!(word(&ended(Err(ServiceError::TransportClosed))), "unknown");
    }
}
