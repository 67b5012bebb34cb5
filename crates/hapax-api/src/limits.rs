//! The bounds that the models tell their callers; the server checks them.

/// The longest reason of a decision, in bytes.
pub const REASON_BYTES: usize = 1024;
/// The longest name of a person, of a token or of a key, in bytes.
pub const NAME_BYTES: usize = 128;
/// The largest page.
pub const PAGE_RECORDS: usize = hapax_core::limits::MAX_PAGE;

// The forms of texts, as the description tells them.

/// A tenant or a project (K4).
pub(crate) const SLUG: &str = "^[a-z0-9][a-z0-9_-]{0,62}$";
/// A subject, as people write it.
pub(crate) const SUBJECT: &str = "^(user|service|tenant_member|client):[\\s\\S]+$";
/// A subject, as hapax writes it (K4).
pub(crate) const WRITTEN_SUBJECT: &str =
    "^(user|service|tenant_member|client):([A-Za-z0-9._~@-]|%[0-9A-F]{2})+$";
/// A span of time.
pub(crate) const SPAN: &str = "^[0-9]+(ms|s|m|h|d)$";
/// A span of time, or for ever.
pub(crate) const RETENTION: &str = "^([0-9]+(ms|s|m|h|d)|forever)$";
/// A span of time, or a time in UTC.
pub(crate) const EXPIRES: &str =
    "^([0-9]+(ms|s|m|h|d)|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,6})?Z)$";
/// A text that is not blank.
pub(crate) const SAID: &str = "\\S";
/// A text without control characters.
pub(crate) const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";
