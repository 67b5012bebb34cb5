//! OpenAPI, both ways (P4): routes are read from a document that says what each operation demands of a key, and written
//! into one that tells callers.
//!
//! In a document, every field of `[[routes]]` but the names of method, path, operation and upstream is an extension of the
//! operation: `policy` is `x-idempotency-policy`, `give_up` is `x-idempotency-give-up`. `operationId` is the operation.

pub(crate) mod order;
pub(crate) mod read;
mod responses;
#[cfg(test)]
mod tests;
pub mod write;
mod yaml;

use std::path::PathBuf;

use crate::config::route_fields;

/// What the extensions of an operation begin with.
const EXTENSION: &str = "x-idempotency-";
/// Marks what hapax has written, so that it can be written anew.
const OURS: &str = "x-hapax";
/// The methods that a path item can have.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// A JSON pointer's token.
fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A document that a configuration reads routes from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// What stands before its paths; empty for nothing.
    pub prefix: String,
}

/// What an extension cannot say: the document says it elsewhere, or callers who read the document are not to know it (H8).
const NAMED_ELSEWHERE: [&str; 5] = ["method", "path", "operation", "upstream", "restate"];

/// The field of a route that an extension says; `None` for other names.
fn field_of(extension: &str) -> Option<&'static str> {
    field_named(&extension.strip_prefix(EXTENSION)?.replace('-', "_"))
}

/// The field of this name, if an extension can say it.
fn field_named(name: &str) -> Option<&'static str> {
    route_fields().find(|field| *field == name && !NAMED_ELSEWHERE.contains(field))
}

/// The extension that says a field of a route.
fn extension_of(field: &str) -> String {
    format!("{EXTENSION}{}", field.replace('_', "-"))
}
