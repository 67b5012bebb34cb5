//! What an endpoint is: one method and path, who may use it, and the types of what it takes and answers.
//!
//! An [`Operation`] says so to the compiler, for the server and the client; an [`Endpoint`] is the same as a value, for the
//! document. A [`Table`] is all endpoints of one listener. How they are served and who a caller is belongs to the listener.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::text::OperationId;

/// The methods that endpoints have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Looks.
    Get,
    /// Changes something; it is the only one with a body, which is JSON.
    Post,
    /// Takes something back.
    Delete,
}

impl Method {
    /// As HTTP writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

/// What a caller must have to use an endpoint; each kind of caller has its own.
pub trait Need: Copy + Send + Sync + 'static {
    /// As the document writes it.
    fn scope(self) -> &'static str;

    /// The statuses with which a caller who does not have it is refused, and what they mean.
    fn refusals(self) -> &'static [Refusal];
}

/// One method and path with its types. It is served, called and described as this says.
pub trait Operation: Send + Sync + 'static {
    /// What callers of this kind may have.
    type Need: Need;
    /// What the query says.
    type Query: Serialize + DeserializeOwned + JsonSchema + Send;
    /// What the body says; [`Nothing`] unless the method is POST.
    type Body: Serialize + DeserializeOwned + JsonSchema + Send;
    /// What is answered.
    type Answer: Content + Send;

    /// The method.
    const METHOD: Method;
    /// The path, with at most one variable part in braces.
    const PATH: &'static str;
    /// Its name in the document.
    const ID: &'static str;
    /// What it is for, in a sentence.
    const SUMMARY: &'static str;
    /// What a caller must have; `None`: anybody may use it.
    const NEEDS: Option<Self::Need>;
    /// The statuses of the answer, and what they mean; the first is the usual one.
    const ANSWERS: (Status, &'static [Status]);
    /// How it refuses, besides what follows from its needs and its method.
    const REFUSALS: &'static [Refusal];

    /// What came of the request in a word, and the claim it is about where only the answer says so: for logs and counters.
    fn about(_: &Self::Answer) -> (&'static str, Option<&OperationId>) {
        ("done", None)
    }

    /// The status of this answer.
    fn status(_: &Self::Answer) -> u16 {
        Self::ANSWERS.0.0
    }
}

/// A status of an answer, and what it means.
pub type Status = (u16, &'static str);

/// A status with which an endpoint refuses.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// What it means.
    pub description: &'static str,
    /// What the body says.
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Refusal {
    /// One whose body is of this type.
    pub const fn with<T: JsonSchema>(status: u16, description: &'static str) -> Self {
        Refusal { status, description, schema: |generator| generator.subschema_for::<T>() }
    }
}

/// What an answer is made of. Whatever is a model is JSON.
pub trait Content: Sized {
    /// The value of `Content-Type`.
    const KIND: &'static str;

    /// The bytes of the answer.
    fn into_bytes(self) -> Result<Vec<u8>, serde_json::Error>;

    /// How the document describes it.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

impl<T: Serialize + JsonSchema> Content for T {
    const KIND: &'static str = "application/json";

    fn into_bytes(self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&self)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// No query and no body. Whatever is sent all the same is passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// A variable part of a path.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, as paths have it in braces.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Its form.
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Parameter {
    /// One of this type.
    pub const fn of<T: JsonSchema>(name: &'static str, description: &'static str) -> Self {
        Parameter { name, description, schema: |generator| generator.subschema_for::<T>() }
    }
}

/// An operation as a value.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<N> {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: &'static str,
    /// Its name in the document.
    pub id: &'static str,
    /// What it is for.
    pub summary: &'static str,
    /// What a caller must have.
    pub needs: Option<N>,
    /// The statuses of the answer.
    pub answers: (Status, &'static [Status]),
    /// How it refuses, besides what follows from its needs and its method.
    pub refusals: &'static [Refusal],
    /// The media type of the answer.
    pub kind: &'static str,
    pub(crate) query: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) body: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) answer: fn(&mut SchemaGenerator) -> Schema,
}

impl<N: Need> Endpoint<N> {
    /// This operation.
    pub const fn of<O: Operation<Need = N>>() -> Self {
        Endpoint {
            method: O::METHOD,
            path: O::PATH,
            id: O::ID,
            summary: O::SUMMARY,
            needs: O::NEEDS,
            answers: O::ANSWERS,
            refusals: O::REFUSALS,
            kind: <O::Answer as Content>::KIND,
            query: |generator| <O::Query as JsonSchema>::json_schema(generator),
            body: |generator| generator.subschema_for::<O::Body>(),
            answer: |generator| <O::Answer as Content>::schema(generator),
        }
    }
}

/// All endpoints of one listener, with what the document says about them together.
#[derive(Clone, Copy, Debug)]
pub struct Table<N: 'static> {
    /// The listener's name, which every answer has in `Hapax-Listener`.
    pub listener: &'static str,
    /// The title of the document.
    pub title: &'static str,
    /// What the API is for, in a sentence.
    pub summary: &'static str,
    /// What holds for all endpoints.
    pub description: &'static str,
    /// How any of the endpoints may refuse.
    pub refusals: &'static [Refusal],
    /// Where the listener is unless configured otherwise.
    pub server: &'static str,
    /// The longest body of a request in bytes, and how a longer one is refused.
    pub body: (usize, &'static str),
    /// What callers show, and what that may be.
    pub credential: (&'static str, &'static str),
    /// The variable parts of paths.
    pub parameters: &'static [Parameter],
    /// The endpoints.
    pub endpoints: &'static [Endpoint<N>],
}
