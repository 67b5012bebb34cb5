//! Who a key belongs to: tenant, project and subject, and the namespaced text made of them (K4, K8).
//!
//! Everything here is checked once, when it is made, and cheap to clone afterwards. The text form reads back
//! in exactly one way, but it is never an identity: that is [`ClaimId`](crate::ClaimId). Where the parts come
//! from, a credential or a trusted peer, is decided by whoever authenticates.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::limits::{MAX_NAMESPACED_CHARS, MAX_SLUG_CHARS, MAX_SUBJECT_ID_CHARS};
use crate::{Error, Key, key};

#[cfg(test)]
pub(crate) mod tests;

/// What stands in the place of a part that the [`Width`] drops. No slug and no subject can look like it.
const ANY: &str = "_any";
/// What stands in the project's place on routes of level tenant.
const TENANT_LEVEL: &str = "_tenant";
/// What stands in the project's place on routes of level platform.
const PLATFORM_LEVEL: &str = "_platform";
/// How a namespaced key starts (K3, K4).
const NAMESPACE_PREFIX: &str = "t-";
/// Subjects that hapax itself gives: no credential may claim to be one of them (K4, A2).
const WEBHOOK_INGEST: &str = "service:webhook-ingest";
const SCHEDULER: &str = "service:scheduler";
const ANONYMOUS: &str = "client:anonymous";

/// The tenant: a slug, `^[a-z0-9][a-z0-9_-]{0,62}$`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// Checks a tenant's name.
    pub fn new(name: impl AsRef<str>) -> Result<Tenant, Error> {
        slug(name.as_ref(), "tenant").map(Tenant)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The project within a tenant: a slug, or the sentinel of a route that belongs to no project.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Project(Arc<str>);

impl Project {
    /// Checks a project's name. A sentinel is no name: it cannot be had from a credential.
    pub fn new(name: impl AsRef<str>) -> Result<Project, Error> {
        slug(name.as_ref(), "project").map(Project)
    }

    /// The sentinel `_tenant`, for routes of level tenant.
    pub fn tenant_level() -> Project {
        Project(TENANT_LEVEL.into())
    }

    /// The sentinel `_platform`, for routes of level platform.
    pub fn platform_level() -> Project {
        Project(PLATFORM_LEVEL.into())
    }

    /// The name, or the sentinel.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this stands for a level rather than a project.
    pub fn is_sentinel(&self) -> bool {
        self.0.starts_with('_')
    }

    /// Reads what [`Project::as_str`] gave, sentinels included. Only for text that hapax or a trusted peer
    /// wrote.
    fn from_rendered(text: &str) -> Result<Project, Error> {
        match text {
            TENANT_LEVEL | PLATFORM_LEVEL => Ok(Project(text.into())),
            _ => Project::new(text),
        }
    }
}

fn slug(text: &str, what: &str) -> Result<Arc<str>, Error> {
    let starts_well = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let goes_on_well = text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
    if starts_well && goes_on_well && text.len() <= MAX_SLUG_CHARS {
        return Ok(text.into());
    }
    Err(Error::invalid(format!(
        "the {what} is no slug: use 1 to {MAX_SLUG_CHARS} of a-z 0-9 _ -, starting with a letter or digit"
    ))
    .with_detail(format_args!("{text:?}")))
}

/// What kind of caller a [`Subject`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKind {
    /// A person.
    User,
    /// A program of the platform or of the tenant.
    Service,
    /// A member of the tenant acting outside any project.
    TenantMember,
    /// A registered API client.
    Client,
}

impl SubjectKind {
    /// All kinds.
    pub const ALL: [SubjectKind; 4] = [Self::User, Self::Service, Self::TenantMember, Self::Client];

    /// The word before the colon.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Service => "service",
            Self::TenantMember => "tenant_member",
            Self::Client => "client",
        }
    }

    fn from_word(word: &str) -> Result<SubjectKind, Error> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word).ok_or_else(|| {
            Error::invalid("the subject has no known type: use user:, service:, tenant_member: or client:")
        })
    }
}

/// The caller: a kind and an id of any bytes.
///
/// Kept as it is rendered, `user:ID` with every byte of the id outside `[A-Za-z0-9._~@-]` percent-encoded,
/// because that is what identities, lists and upstreams ask for; the id itself is decoded on demand.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    kind: SubjectKind,
    text: Arc<str>,
}

impl Subject {
    /// The subject that a credential states. Those that hapax itself gives are refused (K4).
    pub fn from_credential(kind: SubjectKind, id: impl AsRef<[u8]>) -> Result<Subject, Error> {
        let subject = Self::render(kind, id.as_ref())?;
        if subject.is_reserved() {
            return Err(Error::invalid(
                "this subject is reserved for hapax: give the credential another one",
            )
            .with_detail(&subject.text));
        }
        Ok(subject)
    }

    /// As [`Subject::from_credential`], from `kind:id` with the id as it is, not percent-encoded.
    ///
    /// This is how people write a subject in a configuration or on a command line.
    pub fn from_credential_text(text: &str) -> Result<Subject, Error> {
        let (kind, id) = text.split_once(':').ok_or_else(|| {
            Error::invalid(
                "the subject has no type: write user:ID, service:ID, tenant_member:ID or client:ID",
            )
        })?;
        Self::from_credential(SubjectKind::from_word(kind)?, id)
    }

    /// The receiver of webhooks.
    pub fn webhook_ingest() -> Subject {
        Subject { kind: SubjectKind::Service, text: WEBHOOK_INGEST.into() }
    }

    /// The dispatcher of schedules.
    pub fn scheduler() -> Subject {
        Subject { kind: SubjectKind::Service, text: SCHEDULER.into() }
    }

    /// Every caller of a public route (A2).
    pub fn anonymous() -> Subject {
        Subject { kind: SubjectKind::Client, text: ANONYMOUS.into() }
    }

    /// Whether this is every caller of a public route. What it kept is explained to nobody: the next one may be another.
    pub fn is_anonymous(&self) -> bool {
        *self.text == *ANONYMOUS
    }

    /// Reads back what [`Subject::as_str`] gave. Only for text that hapax or a trusted peer wrote.
    ///
    /// Strict: a text that rendering would not have produced is refused, so no two texts mean one subject.
    pub fn parse(text: &str) -> Result<Subject, Error> {
        let subject = text.split_once(':').and_then(|(kind, id)| {
            let kind = SubjectKind::from_word(kind).ok()?;
            Self::render(kind, &percent_decoded(id)).ok()
        });
        subject.filter(|subject| *subject.text == *text).ok_or_else(|| {
            Error::invalid("this is not a subject as hapax writes it").with_detail(format_args!("{text:?}"))
        })
    }

    /// What kind of caller it is.
    pub fn kind(&self) -> SubjectKind {
        self.kind
    }

    /// The id, decoded.
    pub fn id(&self) -> Cow<'_, [u8]> {
        percent_decoded(&self.text[self.kind.as_str().len() + 1..])
    }

    /// The rendered form, `kind:id` with the id percent-encoded.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether hapax itself gives this subject, and no credential can.
    pub fn is_reserved(&self) -> bool {
        matches!(&*self.text, WEBHOOK_INGEST | SCHEDULER | ANONYMOUS)
    }

    fn render(kind: SubjectKind, id: &[u8]) -> Result<Subject, Error> {
        if id.is_empty() {
            return Err(Error::invalid("the subject's id is empty"));
        }
        let mut text = String::with_capacity(kind.as_str().len() + 1 + id.len());
        text.push_str(kind.as_str());
        text.push(':');
        let id_starts = text.len();
        let id = &id[..id.len().min(MAX_SUBJECT_ID_CHARS + 1)];
        push_percent_encoded(&mut text, id, |byte| key::is_plain(byte) || byte == b'@');
        if text.len() - id_starts > MAX_SUBJECT_ID_CHARS {
            return Err(Error::invalid(format!(
                "the subject's id is too long: at most {MAX_SUBJECT_ID_CHARS} characters once percent-encoded"
            )));
        }
        Ok(Subject { kind, text: text.into() })
    }
}

/// Appends bytes, percent-encoded but for those that are `plain`.
fn push_percent_encoded(text: &mut String, bytes: &[u8], plain: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        if plain(*byte) {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Decodes what can be decoded. [`Subject::parse`] and [`parse_namespaced`] find out what could not by rendering the result
/// again.
fn percent_decoded(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    if !bytes.contains(&b'%') {
        return Cow::Borrowed(bytes);
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = if first == b'%' { tail.split_at_checked(2).and_then(hex_pair) } else { None };
        let (byte, after) = escaped.unwrap_or((first, tail));
        decoded.push(byte);
        rest = after;
    }
    Cow::Owned(decoded)
}

fn hex_pair<'a>((digits, rest): (&[u8], &'a [u8])) -> Option<(u8, &'a [u8])> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let byte = value(digits[0])? << 4 | value(digits[1])?;
    Some((u8::try_from(byte).ok()?, rest))
}

/// How much of a [`Scope`] takes part in the identity of its claims (K8); wider is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// Each subject has keys of its own.
    #[default]
    Subject,
    /// All subjects of a project share their keys.
    Project,
    /// All projects of a tenant share their keys.
    Tenant,
}

impl Width {
    /// The word used in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Project => "project",
            Self::Tenant => "tenant",
        }
    }
}

/// Who may see an outcome: tenant, project and subject.
///
/// Project and subject are known for every scope made by [`Scope::new`]. They are unknown only in a scope
/// that was read from a namespaced key of a wider [`Width`], where the peer has dropped them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    tenant: Tenant,
    project: Option<Project>,
    subject: Option<Subject>,
}

impl Scope {
    /// The scope of an authenticated caller.
    pub fn new(tenant: Tenant, project: Project, subject: Subject) -> Scope {
        Scope { tenant, project: Some(project), subject: Some(subject) }
    }

    /// The scope of a program that has no tenants: `local`, `local`, `service:local` (E2).
    pub fn local() -> Scope {
        Scope {
            tenant: Tenant("local".into()),
            project: Some(Project("local".into())),
            subject: Some(Subject { kind: SubjectKind::Service, text: "service:local".into() }),
        }
    }

    /// The tenant.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The project, unless a peer dropped it.
    pub fn project(&self) -> Option<&Project> {
        self.project.as_ref()
    }

    /// The subject, unless a peer dropped it.
    pub fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }

    /// The narrowest width this scope can have: wider than subject where a peer dropped parts.
    pub fn least_width(&self) -> Width {
        match (&self.project, &self.subject) {
            (None, _) => Width::Tenant,
            (Some(_), None) => Width::Project,
            (Some(_), Some(_)) => Width::Subject,
        }
    }

    /// The parts as they take part in identities and in the namespaced key: `_any` where the width drops one.
    pub fn narrowed(&self, width: Width) -> ScopeParts<'_> {
        let project = self.project.as_ref().filter(|_| width < Width::Tenant);
        let subject = self.subject.as_ref().filter(|_| width < Width::Project);
        ScopeParts {
            tenant: self.tenant.as_str(),
            project: project.map_or(ANY, Project::as_str),
            subject: subject.map_or(ANY, Subject::as_str),
        }
    }

    /// Reads back three rendered parts, any of the last two of which may be `_any`.
    pub fn from_rendered(tenant: &str, project: &str, subject: &str) -> Result<Scope, Error> {
        let known = |text: &str| text != ANY;
        if !known(project) && known(subject) {
            return Err(Error::invalid("a subject is named without its project"));
        }
        Ok(Scope {
            tenant: Tenant::new(tenant)?,
            project: known(project).then(|| Project::from_rendered(project)).transpose()?,
            subject: known(subject).then(|| Subject::parse(subject)).transpose()?,
        })
    }
}

/// The rendered parts of a [`Scope`] at some [`Width`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScopeParts<'a> {
    tenant: &'a str,
    project: &'a str,
    subject: &'a str,
}

impl<'a> ScopeParts<'a> {
    /// The tenant.
    pub fn tenant(&self) -> &'a str {
        self.tenant
    }

    /// The project, a sentinel, or `_any`.
    pub fn project(&self) -> &'a str {
        self.project
    }

    /// The subject as `kind:id`, or `_any`.
    pub fn subject(&self) -> &'a str {
        self.subject
    }
}

/// The namespaced key, `t-{tenant}:{project}:{subject}:{key}`, of at most 640 characters (K4). What is outside the plain grammar
/// of keys is percent-encoded, so the text can stand in a header.
///
/// Keys that came with a request always fit.
pub fn namespaced(parts: &ScopeParts<'_>, key: &Key) -> Result<String, Error> {
    let key = encoded_key(key);
    let text = [NAMESPACE_PREFIX, parts.tenant, ":", parts.project, ":", parts.subject, ":", &key].concat();
    if text.len() > MAX_NAMESPACED_CHARS {
        return Err(Error::invalid(format!(
            "the key is too long for its namespace: together at most {MAX_NAMESPACED_CHARS} characters"
        )));
    }
    Ok(text)
}

fn encoded_key(key: &Key) -> Cow<'_, str> {
    let key = key.as_str();
    if key.bytes().all(key::is_plain) {
        return Cow::Borrowed(key);
    }
    let mut text = String::with_capacity(key.len() * 3);
    push_percent_encoded(&mut text, key.as_bytes(), key::is_plain);
    Cow::Owned(text)
}

/// Reads back what [`namespaced`] gave. Only for text from a peer that may speak for others (K3).
///
/// No part holds a colon but the subject, whose kind and id have one between them. Strict: a key that rendering would have
/// encoded otherwise is refused.
pub fn parse_namespaced(text: &str) -> Result<(Scope, Width, Key), Error> {
    let parsed = || {
        if text.len() > MAX_NAMESPACED_CHARS {
            return None;
        }
        let (tenant, rest) = text.strip_prefix(NAMESPACE_PREFIX)?.split_once(':')?;
        let (project, rest) = rest.split_once(':')?;
        let (subject, encoded) = split_subject(rest)?;
        let scope = Scope::from_rendered(tenant, project, subject).ok()?;
        let decoded = String::from_utf8(percent_decoded(encoded).into_owned()).ok()?;
        let key = Key::new(decoded).ok().filter(|key| encoded_key(key) == encoded)?;
        Some((scope, key))
    };
    let (scope, key) = parsed().ok_or_else(|| {
        Error::invalid("this is not a namespaced key: t-{tenant}:{project}:{subject}:{key}")
            .with_detail(format_args!("{text:?}"))
    })?;
    let width = scope.least_width();
    Ok((scope, width, key))
}

/// Splits `kind:id:key`, or `_any:key`, behind the subject.
fn split_subject(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once(':')?;
    if first == ANY {
        return Some((first, rest));
    }
    let (id, key) = rest.split_once(':')?;
    Some((&text[..first.len() + 1 + id.len()], key))
}

macro_rules! shown_as_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.as_str())
            }
        }
    )*};
}

shown_as_text!(Tenant, Project, Subject);

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.narrowed(Width::Subject);
        write!(f, "{}:{}:{}", parts.tenant, parts.project, parts.subject)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({self})")
    }
}
