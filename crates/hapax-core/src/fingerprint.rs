//! What was asked, as a digest (K7): a retry must ask the same, and anything else under the same key is a
//! mismatch.
//!
//! A [`Recipe`] says what counts as the same. Whatever it leaves out, it must never make two requests equal
//! that a server could read as different ones; so a body that is not exactly what its recipe expects is
//! hashed as the bytes it came in, under a tag of its own. Reading JSON strictly is left to
//! [`json`], comparing fingerprints to the claim rules, and telling a caller about a mismatch to
//! the edge, which gets the pointers from [`Leaves`].

mod coding;
mod definition;
mod form;
mod leaves;
mod multipart;
#[cfg(test)]
mod tests;
mod walk;

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use crate::Error;
use crate::json::{self, Pointer};
use crate::limits::MAX_RECIPE_ITEMS;

pub use coding::decoded;
pub use leaves::{Asked, Explanation, LazyLeaves, LeafKey, Leaves};

/// Keeps fingerprints apart from every other digest that hapax makes.
const FINGERPRINT_DOMAIN: &[u8] = b"hapax.fingerprint.v1";
/// To be raised with every change of what a recipe means, or old claims would be compared with new digests.
const RECIPE_DOMAIN: &[u8] = b"hapax.recipe.v1";

/// Names a [`Recipe`]: fingerprints can be compared only under the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecipeId(pub u64);

/// The digest of what was asked, and the recipe it was made by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// The recipe.
    pub recipe: RecipeId,
    /// The digest.
    pub digest: [u8; 32],
}

impl Fingerprint {
    /// The fingerprint of opaque bytes: the raw recipe over a request with an empty head.
    pub fn of_bytes(bytes: &[u8]) -> Fingerprint {
        Recipe::raw().fingerprint(&RequestParts { body: bytes, ..RequestParts::default() })
    }

    /// The fingerprint of work that is not compared: equal to itself, whatever was asked.
    pub fn none() -> Fingerprint {
        // Every call begins with it, and hashing a recipe's name takes longer than everything else about that.
        static NONE: LazyLock<RecipeId> = LazyLock::new(|| Recipe::none().id());
        Fingerprint { recipe: *NONE, digest: [0; 32] }
    }
}

/// The parts of a request that can take part in its fingerprint.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestParts<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The path, as matched and forwarded.
    pub path: &'a str,
    /// The query without its question mark; empty where there is none.
    pub query: &'a str,
    /// The value of `Content-Type`.
    pub content_type: Option<&'a str>,
    /// The value of `Content-Encoding`; of several lines, joined by commas.
    pub content_encoding: Option<&'a str>,
    /// How long the content of an encoded body may be to be read, in bytes.
    pub max_content: usize,
    /// The header fields, or at least those that the recipe names, in the order they came.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The whole body. Left empty where it is fed to a [`RawHasher`].
    pub body: &'a [u8],
}

impl<'a> RequestParts<'a> {
    /// The content of an encoded body; `None` where the bytes stand for themselves, or it cannot be read within the bound.
    fn content(&self) -> Option<Cow<'a, [u8]>> {
        let encoding = self.content_encoding.filter(|given| coding::is_gzip(given))?;
        decoded(Some(encoding), self.body, self.max_content)
    }
}

/// How a body is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyRecipe {
    /// Byte by byte.
    Raw,
    /// As JSON: member order and white space do not matter (RFC 8785).
    Json {
        /// Parts of the document that do not matter either.
        ignored: Vec<Pointer>,
    },
    /// As form fields: how their text is percent-encoded does not matter.
    Form,
    /// Not at all, and nothing else is compared either.
    None,
}

/// What counts as the same request (K7).
///
/// Method, path, query and the named headers are compared as they are. Of the body:
///
/// - A body with `Content-Encoding: gzip` is compared by its content, if that is within the bound.
/// - `multipart/*` is compared by parts under every recipe.
/// - `raw` compares bytes.
/// - `json` compares canonical forms if the body is JSON that keeps its meaning, whatever its content type.
/// - `form` compares fields if the content type is `application/x-www-form-urlencoded` or absent.
/// - Everything else is compared by bytes.
///
/// *By parts*: each part's headers and content, in order; the boundary does not matter, nor that of a part which is
/// multipart itself. A multipart body that is not written strictly as RFC 2046 has it is compared by bytes.
///
/// *JSON that keeps its meaning*: no duplicate names, no lone surrogates, at most
/// [`MAX_JSON_DEPTH`](crate::limits::MAX_JSON_DEPTH) levels, and no number that RFC 8785 would write as
/// another one. Any other body is compared by bytes, ignored parts and all.
///
/// *Fields*: names and values, decoded. The order of fields of one name always matters. The order of
/// different names matters only if one of them is not plain (letters, digits, `_`, `-`) or differs from
/// another only by case, because servers give such names meanings that depend on order. A body with a broken
/// escape or a `;` is compared by bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    body: BodyRecipe,
    /// Lower-case, sorted, each once.
    headers: Vec<String>,
    id: RecipeId,
}

impl Recipe {
    /// Compares everything byte by byte.
    pub fn raw() -> Recipe {
        Self::assemble(BodyRecipe::Raw, Vec::new())
    }

    /// Compares bodies as JSON.
    pub fn json() -> Recipe {
        Self::assemble(BodyRecipe::Json { ignored: Vec::new() }, Vec::new())
    }

    /// Compares bodies as JSON, leaving out what these pointers name.
    pub fn json_ignoring(pointers: impl IntoIterator<Item = Pointer>) -> Result<Recipe, Error> {
        let ignored = sorted_and_bounded(pointers.into_iter().collect(), "ignored pointers")?;
        Ok(Self::assemble(BodyRecipe::Json { ignored }, Vec::new()))
    }

    /// Compares bodies as form fields.
    pub fn form() -> Recipe {
        Self::assemble(BodyRecipe::Form, Vec::new())
    }

    /// Compares nothing: every request under the same key is the same request.
    pub fn none() -> Recipe {
        Self::assemble(BodyRecipe::None, Vec::new())
    }

    /// Compares these headers as well.
    pub fn with_headers<N: AsRef<str>>(self, names: impl IntoIterator<Item = N>) -> Result<Recipe, Error> {
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_ascii_lowercase()).collect();
        if let Some(name) = names.iter().find(|name| !is_header_name(name)) {
            return Err(Error::invalid("not a header name").with_detail(format_args!("{name:?}")));
        }
        if self.body == BodyRecipe::None && !names.is_empty() {
            return Err(Error::invalid(
                "a recipe that compares nothing cannot compare headers: use another recipe",
            ));
        }
        Ok(Self::assemble(self.body, sorted_and_bounded(names, "named headers")?))
    }

    /// How the body is compared.
    pub fn body(&self) -> &BodyRecipe {
        &self.body
    }

    /// The named headers, lower-case and sorted.
    pub fn headers(&self) -> &[String] {
        &self.headers
    }

    /// The ignored parts of a JSON body; empty for every other recipe.
    pub fn ignored(&self) -> &[Pointer] {
        match &self.body {
            BodyRecipe::Json { ignored } => ignored,
            _ => &[],
        }
    }

    /// The name of this recipe: the same for the same recipe, in every process and release.
    pub fn id(&self) -> RecipeId {
        self.id
    }

    /// The fingerprint of a whole request.
    pub fn fingerprint(&self, request: &RequestParts<'_>) -> Fingerprint {
        if self.body == BodyRecipe::None {
            return Fingerprint::none();
        }
        let mut hasher = RawHasher::of_head(self, request);
        hasher.kind = self.hash_body(request, &mut hasher.body);
        hasher.finish()
    }

    /// Hashes the body in the most telling form that the recipe and the body allow.
    fn hash_body(&self, request: &RequestParts<'_>, hasher: &mut Sha256) -> BodyKind {
        let content = request.content();
        let request = &RequestParts { body: content.as_deref().unwrap_or(request.body), ..*request };
        if let Some(parts) = multipart::parts(request.content_type, request.body) {
            multipart::hash(&parts, hasher);
            return BodyKind::Multipart;
        }
        match &self.body {
            BodyRecipe::Json { ignored } => {
                if let Some(canonical) = canonical_without(request.body, ignored) {
                    hasher.update(canonical);
                    return BodyKind::Json;
                }
            }
            BodyRecipe::Form => {
                if let Some(fields) = form::fields(request.content_type, request.body) {
                    form::hash(&fields, hasher);
                    return BodyKind::Form;
                }
            }
            BodyRecipe::Raw | BodyRecipe::None => {}
        }
        hasher.update(request.body);
        BodyKind::Bytes
    }

    fn assemble(body: BodyRecipe, headers: Vec<String>) -> Recipe {
        let id = recipe_id(&body, &headers);
        Recipe { body, headers, id }
    }
}

fn canonical_without(body: &[u8], ignored: &[Pointer]) -> Option<Vec<u8>> {
    let mut document = json::read_lossless(body).ok()?;
    ignored.iter().for_each(|pointer| pointer.remove_from(&mut document));
    json::canonical_value(&document).ok()
}

fn sorted_and_bounded<T: Ord>(mut items: Vec<T>, what: &str) -> Result<Vec<T>, Error> {
    items.sort();
    items.dedup();
    if items.len() > MAX_RECIPE_ITEMS {
        return Err(Error::invalid(format!(
            "a fingerprint recipe can have at most {MAX_RECIPE_ITEMS} {what}"
        )));
    }
    Ok(items)
}

/// RFC 9110 §5.6.2.
fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn recipe_id(body: &BodyRecipe, headers: &[String]) -> RecipeId {
    let ignored: &[Pointer] = match body {
        BodyRecipe::Json { ignored } => ignored,
        _ => &[],
    };
    let mut hasher = Sha256::new_with_prefix(RECIPE_DOMAIN);
    update_prefixed(&mut hasher, definition::word(body).as_bytes());
    update_count(&mut hasher, ignored.len());
    ignored.iter().for_each(|pointer| update_prefixed(&mut hasher, pointer.as_str().as_bytes()));
    update_count(&mut hasher, headers.len());
    headers.iter().for_each(|name| update_prefixed(&mut hasher, name.as_bytes()));
    let digest: [u8; 32] = hasher.finalize().into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    RecipeId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

/// In which form a body was hashed. Part of the digest, so that two forms never meet in one fingerprint.
#[derive(Clone, Copy)]
enum BodyKind {
    Bytes = 0,
    Json = 1,
    Form = 2,
    Multipart = 3,
}

/// A raw fingerprint in the making, for bodies that are hashed while they are read.
///
/// The body has a hasher of its own whose digest goes into the request's, so its length need not be known
/// beforehand and the result is that of [`Recipe::fingerprint`].
#[derive(Clone)]
pub struct RawHasher {
    recipe: RecipeId,
    head: Sha256,
    body: Sha256,
    kind: BodyKind,
}

impl RawHasher {
    /// Starts from the head of a request; its `body` is not looked at.
    ///
    /// `None` if this request can be fingerprinted only as a whole: the recipe is not raw, or the body is
    /// multipart or encoded.
    pub fn start(recipe: &Recipe, head: &RequestParts<'_>) -> Option<RawHasher> {
        let is_whole =
            multipart::is_multipart(head.content_type) || head.content_encoding.is_some_and(coding::is_gzip);
        let streams = recipe.body == BodyRecipe::Raw && !is_whole;
        streams.then(|| Self::of_head(recipe, head))
    }

    /// Adds the next bytes of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        self.body.update(bytes);
    }

    /// The fingerprint of the request whose body has now been read.
    pub fn finish(self) -> Fingerprint {
        let mut hasher = self.head;
        hasher.update([self.kind as u8]);
        hasher.update(self.body.finalize());
        Fingerprint { recipe: self.recipe, digest: hasher.finalize().into() }
    }

    fn of_head(recipe: &Recipe, request: &RequestParts<'_>) -> RawHasher {
        let mut head = Sha256::new_with_prefix(FINGERPRINT_DOMAIN);
        update_prefixed(&mut head, request.method.as_bytes());
        update_prefixed(&mut head, request.path.as_bytes());
        update_prefixed(&mut head, request.query.as_bytes());
        update_count(&mut head, recipe.headers.len());
        for name in &recipe.headers {
            update_header(&mut head, name, request.headers);
        }
        RawHasher { recipe: recipe.id, head, body: Sha256::new(), kind: BodyKind::Bytes }
    }
}

impl fmt::Debug for RawHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawHasher").field("recipe", &self.recipe).finish_non_exhaustive()
    }
}

/// All values of one header, counted, so that an absent field differs from an empty one.
fn update_header(hasher: &mut Sha256, name: &str, headers: &[(&str, &[u8])]) {
    let values = || headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    update_prefixed(hasher, name.as_bytes());
    update_count(hasher, values().count());
    values().for_each(|(_, value)| update_prefixed(hasher, value));
}

fn update_prefixed(hasher: &mut Sha256, bytes: &[u8]) {
    update_count(hasher, bytes.len());
    hasher.update(bytes);
}

fn update_count(hasher: &mut Sha256, count: usize) {
    hasher.update((count as u64).to_be_bytes());
}

/// The media type of a `Content-Type` value, without its parameters.
fn essence(content_type: &str) -> &str {
    let essence = content_type.split_once(';').map_or(content_type, |(essence, _)| essence);
    essence.trim_matches([' ', '\t'])
}

impl fmt::Debug for RecipeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecipeId({:016x})", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({:016x}:", self.recipe.0)?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
