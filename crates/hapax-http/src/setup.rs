//! Why a listener, a pool or a certificate cannot be set up. The operator reads it: nothing was served yet.

use std::borrow::Cow;
use std::fmt;

/// What kind of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupFault {
    /// A setting, or a file that it names, cannot be used as it is.
    Invalid,
    /// The machine does not have it to give now, such as an address that another process uses.
    Unavailable,
    /// A fault of the engine itself.
    Internal,
}

/// Something cannot be set up.
#[derive(Clone, Debug)]
pub struct SetupError {
    fault: SetupFault,
    message: Cow<'static, str>,
    detail: Option<String>,
}

impl SetupError {
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        SetupError { fault: SetupFault::Invalid, message: message.into(), detail: None }
    }

    pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        SetupError { fault: SetupFault::Unavailable, message: message.into(), detail: None }
    }

    pub(crate) fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        SetupError { fault: SetupFault::Internal, message: message.into(), detail: None }
    }

    pub(crate) fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// What kind of fault it is.
    pub fn fault(&self) -> SetupFault {
        self.fault
    }

    /// What cannot be set up.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the machine or a library said about it.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SetupError {}
