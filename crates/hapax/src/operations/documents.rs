//! The registry's documents about operations: one for each name, and one for each method and path.
//!
//! The document of a first name says what the operation's claims are identified by, that of a later name which one the first is. None
//! of them is ever deleted: a first name is never given to another operation (K6).

use std::collections::HashMap;

use bytes::Bytes;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, Fingerprint, RecipeId, Registry, Source, Width};
use hapax_gateway::settings::Level;
use serde::{Deserialize, Serialize};

use super::IdentifiedBy;
use crate::config::{level_of, level_word};

/// The kind of the documents of names.
pub(super) const NAMES: &str = "operation";
/// The kind of the documents of methods and paths, each under a digest.
pub(super) const ENDPOINTS: &str = "endpoint";

/// The document of a name, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum KeptName {
    Later {
        first: String,
    },
    First {
        width: String,
        /// What was kept before levels were has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
        /// Where keys are sent by callers, nothing is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// The id in hexadecimal of the recipe whose digest is the key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        derived: Option<String>,
    },
}

/// The document of a method and path, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct KeptEndpoint {
    endpoint: String,
    /// The first name of its operation.
    operation: String,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// It is the first name of an operation.
    First { width: Width, level: Option<Level>, source: Source, derived: Option<RecipeId> },
    /// It is a later name of the operation that has this first one.
    Later(String),
}

/// A document that is to be written.
pub(super) struct Write {
    pub(super) id: DocumentId,
    pub(super) expect: u64,
    pub(super) body: Bytes,
    /// What it replaces.
    pub(super) before: Option<Bytes>,
}

/// Everything that the registry keeps about operations.
#[derive(Default)]
pub(super) struct Registered {
    names: HashMap<String, (Name, Document)>,
    /// By digest: the operation, and the document.
    endpoints: HashMap<String, (String, Document)>,
}

impl Registered {
    pub(super) async fn read<R: Registry>(registry: &R) -> Result<Self, Error> {
        let mut registered = Registered::default();
        for document in documents(registry, NAMES).await? {
            let name = name(&document)?;
            registered.names.insert(document.id.id().to_owned(), (name, document));
        }
        for document in documents(registry, ENDPOINTS).await? {
            let kept: KeptEndpoint = serde_json::from_slice(&document.body).map_err(|_| corrupt())?;
            registered.endpoints.insert(document.id.id().to_owned(), (kept.operation, document));
        }
        Ok(registered)
    }

    /// What a name stands for.
    pub(super) fn name(&self, name: &str) -> Option<&Name> {
        self.names.get(name).map(|(name, _)| name)
    }

    /// The first name of the operation that has this one.
    pub(super) fn first_of<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.name(name).map(|known| match known {
            Name::First { .. } => name,
            Name::Later(first) => first,
        })
    }

    /// All first names.
    pub(super) fn firsts(&self) -> impl Iterator<Item = &str> {
        self.names
            .iter()
            .filter(|(_, (name, _))| matches!(name, Name::First { .. }))
            .map(|(name, _)| name.as_str())
    }

    /// The first name of the operation that this method and path has.
    pub(super) fn operation_at(&self, endpoint: &str) -> Option<&str> {
        self.endpoints.get(&digest(endpoint)).map(|(operation, _)| operation.as_str())
    }

    /// Keeps what a name stands for.
    pub(super) fn keep_name(&self, name: &str, stands_for: Name) -> Result<Write, Error> {
        let kept = match stands_for {
            Name::Later(first) => KeptName::Later { first },
            Name::First { width, level, source, derived } => KeptName::First {
                width: width.as_str().to_owned(),
                level: level.map(|level| level_word(level).to_owned()),
                source: (source != Source::Header).then(|| source.as_str().to_owned()),
                derived: derived.map(|recipe| format!("{:016x}", recipe.0)),
            },
        };
        write(NAMES, name, self.names.get(name).map(|(_, document)| document), &kept)
    }

    /// Keeps the operation of a method and path.
    pub(super) fn keep_endpoint(&self, endpoint: &str, operation: &str) -> Result<Write, Error> {
        let (id, kept) = (
            digest(endpoint),
            KeptEndpoint { endpoint: endpoint.to_owned(), operation: operation.to_owned() },
        );
        write(ENDPOINTS, &id, self.endpoints.get(&id).map(|(_, document)| document), &kept)
    }
}

impl From<IdentifiedBy> for Name {
    fn from(IdentifiedBy { width, level, source, derived }: IdentifiedBy) -> Self {
        Name::First { width, level: Some(level), source, derived }
    }
}

/// The first name of the operation that has this one; `None` where the store does not know it.
pub(super) async fn first_of<R: Registry>(registry: &R, asked: &str) -> Result<Option<String>, Error> {
    let Some(document) = registry.get(&DocumentId::new(NAMES, asked)?).await? else { return Ok(None) };
    Ok(Some(match name(&document)? {
        Name::First { .. } => asked.to_owned(),
        Name::Later(first) => first,
    }))
}

/// Paths may be longer than the names of documents.
fn digest(endpoint: &str) -> String {
    Fingerprint::of_bytes(endpoint.as_bytes()).digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(kind: &str, id: &str, before: Option<&Document>, kept: &impl Serialize) -> Result<Write, Error> {
    let body = serde_json::to_vec(kept)
        .map_err(|error| Error::internal("a document of an operation has no JSON").with_detail(error))?;
    Ok(Write {
        id: DocumentId::new(kind, id)?,
        expect: before.map_or(0, |document| document.version),
        body: body.into(),
        before: before.map(|document| document.body.clone()),
    })
}

async fn documents<R: Registry>(registry: &R, kind: &str) -> Result<Vec<Document>, Error> {
    let mut all: Vec<Document> = Vec::new();
    loop {
        let after = all.last().map(|document| document.id.id());
        let page = registry.list_documents(kind, after, hapax_core::limits::MAX_PAGE).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

fn name(document: &Document) -> Result<Name, Error> {
    let kept: KeptName = serde_json::from_slice(&document.body).map_err(|_| corrupt())?;
    match kept {
        KeptName::Later { first } => Ok(Name::Later(first)),
        KeptName::First { width, level, source, derived } => {
            let widths = [Width::Subject, Width::Project, Width::Tenant];
            let width = widths.into_iter().find(|known| known.as_str() == width).ok_or_else(corrupt)?;
            let level = level.map(|word| level_of(&word).ok_or_else(corrupt)).transpose()?;
            let derived = derived.map(|hex| u64::from_str_radix(&hex, 16).map(RecipeId)).transpose();
            let known = |word: String| Source::ALL.into_iter().find(|known| known.as_str() == word);
            let source = match source {
                Some(word) => known(word).ok_or_else(corrupt)?,
                None => Source::Header,
            };
            Ok(Name::First { width, level, source, derived: derived.map_err(|_| corrupt())? })
        }
    }
}

fn corrupt() -> Error {
    Error::corrupt("what an operation is identified by cannot be read from the registry")
}
