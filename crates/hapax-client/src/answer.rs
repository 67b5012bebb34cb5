//! The answer to a call.

use bytes::Bytes;
use hapax_core::Executed;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::client::Plain409;
use crate::decide;
use crate::error::{Error, Sent};

/// The answer to a call, read whole.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether it comes from elsewhere than the request was sent to: the server has redirected it.
    pub(crate) moved: bool,
    pub(crate) sent: Sent,
}

impl Answer {
    /// The error that it stands for; `None` if it is none.
    pub(crate) fn error(&self, plain: Plain409) -> Option<Error> {
        let error = decide::error_of(self.status, &self.headers, &self.body, plain, &self.sent)?;
        Some(error.of_call(self.sent.clone()))
    }

    /// The code of the problem that it is.
    pub(crate) fn code(&self) -> Option<String> {
        decide::said(&self.headers, &self.body).code
    }

    /// What it alone shows about the work. That there is nothing to be had where a redirection led does not say that the
    /// request before it was refused.
    pub(crate) fn shows(&self, plain: Plain409) -> Executed {
        match self.error(plain).map_or(decide::shows(self.status), |error| error.shows()) {
            Executed::No if self.moved => Executed::Unknown,
            shows => shows,
        }
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON. That it is something else does not undo what the answer says: the error's `executed()` is what this
    /// answer shows.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let message = format!("the answer is not what was expected: {error}");
            Error::unreadable(message, self, self.sent.showed)
        })
    }

    /// The key it was sent under.
    pub fn key(&self) -> Option<&str> {
        self.sent.key.as_deref()
    }

    /// How many attempts it took.
    pub fn attempts(&self) -> u32 {
        self.sent.attempts
    }

    /// Whether the server says that this is the answer to an earlier request.
    pub fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The server's receipt.
    pub fn operation_id(&self) -> Option<&str> {
        self.header("x-operation-id")
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
