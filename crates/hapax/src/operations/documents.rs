//! The registry's documents about operations: one for each name, and one for each method and path.
//!
//! The document of a first name says what the operation's claims are identified by, that of a later name which one the first is. None
//! of them is ever deleted: a first name is never given to another operation (K6).

use std::collections::HashMap;

use bytes::Bytes;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, Fingerprint, Project, RecipeId, Registry, Source, Tenant, Width};
use hapax_gateway::settings::{Fixed, Level};
use serde::{Deserialize, Serialize};

use super::IdentifiedBy;
use crate::config::{Pattern, level_of, level_word};

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
        /// What was kept before this was does not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        public: Option<bool>,
        /// The tenant of callers whose credentials say none, while there was one; the same of the project.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tenant: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<String>,
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
    First {
        width: Width,
        level: Option<Level>,
        source: Source,
        derived: Option<RecipeId>,
        public: Option<bool>,
        assumed: Fixed,
    },
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
    /// Those that take more than one path, with their methods and operations.
    wide: Vec<(String, Pattern, String)>,
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
            if let Some((method, shape)) =
                kept.endpoint.split_once(' ').filter(|(_, shape)| shape.contains('{'))
                && let Some(pattern) = pattern_of(shape)
            {
                registered.wide.push((method.to_owned(), pattern, kept.operation.clone()));
            }
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

    /// The first names of the operations that may have had all requests of this method and path, because their endpoint is wider.
    pub(super) fn operations_around(&self, method: &str, path: &Pattern) -> Vec<&str> {
        let meets = |other: &str| other == method || other == "*" || method == "*";
        let around = self.wide.iter().filter(|(other, wide, _)| meets(other) && wide.takes_all_of(path));
        let mut operations: Vec<&str> = around.map(|(.., operation)| operation.as_str()).collect();
        operations.sort_unstable();
        operations.dedup();
        operations
    }

    /// Keeps what a name stands for.
    pub(super) fn keep_name(&self, name: &str, stands_for: Name) -> Result<Write, Error> {
        let kept = match stands_for {
            Name::Later(first) => KeptName::Later { first },
            Name::First { width, level, source, derived, public, assumed } => KeptName::First {
                width: width.as_str().to_owned(),
                level: level.map(|level| level_word(level).to_owned()),
                source: (source != Source::Header).then(|| source.as_str().to_owned()),
                derived: derived.map(|recipe| format!("{:016x}", recipe.0)),
                public,
                tenant: assumed.tenant.map(|tenant| tenant.as_str().to_owned()),
                project: assumed.project.map(|project| project.as_str().to_owned()),
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
    fn from(IdentifiedBy { width, level, source, derived, public, assumed }: IdentifiedBy) -> Self {
        Name::First { width, level: Some(level), source, derived, public: Some(public), assumed }
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

/// What [`Pattern::shape`] was made of, but for the names of its parameters.
fn pattern_of(shape: &str) -> Option<Pattern> {
    let (mut named, shape) = (String::with_capacity(2 * shape.len()), shape.replace("{*}", "{*rest}"));
    for (number, part) in shape.split("{}").enumerate() {
        if number > 0 {
            named.push_str(&format!("{{p{number}}}"));
        }
        named.push_str(part);
    }
    Pattern::of_route(&named).ok()
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
        KeptName::First { width, level, source, derived, public, tenant, project } => {
            let widths = [Width::Subject, Width::Project, Width::Tenant];
            let width = widths.into_iter().find(|known| known.as_str() == width).ok_or_else(corrupt)?;
            let level = level.map(|word| level_of(&word).ok_or_else(corrupt)).transpose()?;
            let derived = derived.map(|hex| u64::from_str_radix(&hex, 16).map(RecipeId)).transpose();
            let known = |word: String| Source::ALL.into_iter().find(|known| known.as_str() == word);
            let source = match source {
                Some(word) => known(word).ok_or_else(corrupt)?,
                None => Source::Header,
            };
            let assumed = Fixed {
                tenant: tenant.map(Tenant::new).transpose().map_err(|_| corrupt())?,
                project: project.map(Project::new).transpose().map_err(|_| corrupt())?,
            };
            let derived = derived.map_err(|_| corrupt())?;
            Ok(Name::First { width, level, source, derived, public, assumed })
        }
    }
}

fn corrupt() -> Error {
    Error::corrupt("what an operation is identified by cannot be read from the registry")
}
