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
