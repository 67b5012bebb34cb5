//! The registry: small documents that every process of an installation shares, changed by compare-and-set.
//!
//! API keys, webhooks, the last tick of a schedule, the first name of each operation and every fingerprint recipe that was ever used
//! (K6) live here.

use bytes::Bytes;

use crate::error::{Error, Kind};
use crate::fingerprint::{Recipe, RecipeId};
use crate::limits;
use crate::port::Registry;
use crate::time::Timestamp;

/// The name of a document: a kind, such as `api-key`, and an id within it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId {
    kind: String,
    id: String,
}

impl DocumentId {
    /// Checks a name: both parts have 1 to 512 bytes and no control characters.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Result<Self, Error> {
        let (kind, id) = (kind.into(), id.into());
        for part in [&kind, &id] {
            if part.is_empty() || part.len() > limits::MAX_NAME_BYTES || part.chars().any(char::is_control) {
                return Err(Error::invalid("a document's kind and id have 1 to 512 printable bytes each"));
            }
        }
        Ok(DocumentId { kind, id })
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The id within the kind.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A document as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its name.
    pub id: DocumentId,
    /// How often it was written; a write names the version it replaces.
    pub version: u64,
    /// Its bytes; what they mean is the owner's affair.
    pub body: Bytes,
    /// When it was written last.
    pub updated_at: Timestamp,
}

/// The kind of the documents that keep fingerprint recipes, each under its id in hexadecimal.
pub const RECIPE_KIND: &str = "recipe";

/// Keeps a recipe under its id (K6): so a process whose configuration does not have it can compare with what was hashed by it. It is
/// written once and never changed, because its id is the digest of what it says.
pub async fn keep_recipe<R: Registry>(registry: &R, recipe: &Recipe) -> Result<(), Error> {
    let id = recipe_document(recipe.id())?;
    if registry.get(&id).await?.is_some() {
        return Ok(());
    }
    match registry.put(&id, 0, recipe.definition().into()).await {
        // Another process has just kept it.
        Err(error) if error.kind() == Kind::Conflict => Ok(()),
        kept => kept.map(drop),
    }
}

/// The recipe with this id; `None` where no process has kept it. Not for the path of a request, before a mismatch shows that the
/// recipe is another one.
pub async fn recipe_of<R: Registry>(registry: &R, id: RecipeId) -> Result<Option<Recipe>, Error> {
    let Some(document) = registry.get(&recipe_document(id)?).await? else { return Ok(None) };
    match Recipe::from_definition(&document.body)? {
        recipe if recipe.id() == id => Ok(Some(recipe)),
        _ => Err(Error::corrupt("a fingerprint recipe is kept under the id of another one")),
    }
}

fn recipe_document(id: RecipeId) -> Result<DocumentId, Error> {
    DocumentId::new(RECIPE_KIND, format!("{:016x}", id.0))
}
