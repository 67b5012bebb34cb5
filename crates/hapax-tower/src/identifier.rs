//! Identifiers: what a sender that does not speak `Idempotency-Key` calls its request, and where that stands (P1, W4).
//!
//! Deliveries of webhooks and routes of the policy `REQUIRED_B` are read here alike. A place that can be read in two ways has no
//! identifier: the request is refused, and never run unprotected. Whether the sender may be believed was found out before, and what is
//! claimed under an identifier is for the intake to say.

use std::borrow::Cow;

use hapax_core::json::{NotOneText, Pointer, text_at};
use hapax_core::{Grammar, Key};
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::limits;

/// Where the identifier of a request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentifierPlace {
    /// In a header.
    Header(String),
    /// In a JSON body, at this pointer.
    Json(Pointer),
    /// In a field of a form.
    Form(String),
}

/// Why no identifier was found. The text names no part of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untranslated(pub &'static str);

impl IdentifierPlace {
    /// Whether it is in the body, which must then be read to know it.
    pub fn is_in_body(&self) -> bool {
        !matches!(self, IdentifierPlace::Header(_))
    }

    /// The text there, whatever it is. The body is its content: what a `Content-Encoding` stood for is decoded.
    pub fn text<'r>(&self, headers: &'r HeaderMap, content: &'r [u8]) -> Result<Cow<'r, str>, Untranslated> {
        match self {
            IdentifierPlace::Header(name) => in_header(headers, name).map(Cow::Borrowed),
            IdentifierPlace::Json(pointer) => in_json(content, pointer).map(Cow::Owned),
            IdentifierPlace::Form(name) => in_form(headers, content, name),
        }
    }

    /// The identifier there as a key of its own: it is held to the grammar of keys, too, because it is one as it stands.
    pub fn key(&self, headers: &HeaderMap, content: &[u8]) -> Result<Key, Untranslated> {
        let text = self.text(headers, content)?;
        check(&text)?;
        Grammar::Plain.from_text(text.as_bytes()).map_err(|_| {
            Untranslated("the identifier consists of dots only, or starts with a reserved prefix")
        })
    }

    /// As callers are told of it.
    pub fn shown(&self) -> String {
        match self {
            IdentifierPlace::Header(name) => format!("the header {name}"),
            IdentifierPlace::Json(pointer) => format!("{pointer} of a JSON body"),
            IdentifierPlace::Form(name) => format!("the field {name} of a form"),
        }
    }
}

/// Checks that a text is an identifier: 1 to 200 of `A-Z a-z 0-9 . _ ~ -`.
pub fn check(text: &str) -> Result<(), Untranslated> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-');
    match !text.is_empty() && text.len() <= limits::IDENTIFIER && text.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(Untranslated("the identifier is not 1 to 200 of A–Z a–z 0–9 . _ ~ -")),
    }
}

/// The text of a header that stands there once.
pub fn in_header<'r>(headers: &'r HeaderMap, name: &str) -> Result<&'r str, Untranslated> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => line.to_str().map_err(|_| {
            Untranslated("the header that identifies a request has other characters than ASCII")
        }),
        (None, _) => Err(Untranslated("the header that identifies a request is missing")),
        (Some(_), Some(_)) => Err(Untranslated("the header that identifies a request has two lines")),
    }
}

/// The text at a pointer of a JSON body, every name on the way to which stands once.
pub fn in_json(content: &[u8], pointer: &Pointer) -> Result<String, Untranslated> {
    let text = text_at(content, pointer).map_err(|reason| match reason {
        NotOneText::Unreadable => Untranslated("the body is not JSON that can be read"),
        NotOneText::DuplicateName => Untranslated("a member on the way to the identifier stands twice"),
        NotOneText::NotText => Untranslated("the identifier is not a string"),
    })?;
    text.ok_or(Untranslated("the body has no identifier"))
}

/// The only value of a field of a form. A body that says that it is something else is none.
pub fn in_form<'r>(headers: &HeaderMap, content: &'r [u8], name: &str) -> Result<Cow<'r, str>, Untranslated> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let is_form = |value: &http::HeaderValue| {
        let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        essence.trim_matches([' ', '\t']).eq_ignore_ascii_case("application/x-www-form-urlencoded")
    };
    if !types.next().is_none_or(is_form) || types.next().is_some() {
        return Err(Untranslated("the body is not a form"));
    }
    let mut fields = form_urlencoded::parse(content).filter(|(known, _)| known == name);
    match (fields.next(), fields.next()) {
        (Some((_, value)), None) => Ok(value),
        (None, _) => Err(Untranslated("the form has no identifier")),
        (Some(_), Some(_)) => Err(Untranslated("the form has two identifiers")),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::HeaderName;

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn read(place: &IdentifierPlace, lines: &[(&'static str, &str)], body: &str) -> Option<String> {
        place.key(&headers(lines), body.as_bytes()).ok().map(|key| key.as_str().to_owned())
    }

    #[test]
    fn an_identifier_stands_once_in_its_place_and_is_plain_p1() {
        let header = IdentifierPlace::Header("x-id".into());
        assert_eq!(read(&header, &[("x-id", "a.b_c~D-9")], "").as_deref(), Some("a.b_c~D-9"));
        for lines in [
            &[][..],
            &[("x-id", "")],
            &[("x-id", "a"), ("x-id", "a")],
            &[("x-id", "a b")],
            &[("x-id", "a,b")],
            &[("x-id", "\"a\"")],
            &[("x-id", "a:b")],
            &[("x-id", "ä")],
            &[("x-id", "..")],
            &[("x-id", "t-acme")],
            &[("x_id", "a")],
        ] {
            assert_eq!(read(&header, lines, ""), None, "{lines:?}");
        }
        assert_eq!(read(&header, &[("x-id", &"a".repeat(200))], "").map(|text| text.len()), Some(200));
        assert_eq!(read(&header, &[("x-id", &"a".repeat(201))], ""), None);
    }

    #[test]
    fn an_identifier_of_a_json_body_is_one_text_p1() {
        let json = IdentifierPlace::Json(Pointer::new("/event/id").unwrap());
        assert_eq!(read(&json, &[], r#"{"event": {"id": "e1"}}"#).as_deref(), Some("e1"));
        let deep = format!("{{\"event\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
        for body in [
            "",
            "x",
            "{}",
            r#"{"event": {"id": ""}}"#,
            r#"{"event": {"id": 7}}"#,
            r#"{"event": {"id": null}}"#,
            r#"{"event": {"id": ["e1"]}}"#,
            r#"{"event": {"id": "e1", "id": "e1"}}"#,
            r#"{"event": {"id": "e1"}, "event": {"id": "e1"}}"#,
            r#"{"event": {"id": "e1"}} x"#,
            "event=e1",
            deep.as_str(),
        ] {
            assert_eq!(read(&json, &[], body), None, "{body:.60}");
        }
    }

    #[test]
    fn an_identifier_of_a_form_is_in_one_field_of_a_form_p1() {
        const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        let form = IdentifierPlace::Form("id".into());
        for body in ["id=e1", "a=%26id%3Dx&%69d=e%31", "id=e1&b"] {
            assert_eq!(read(&form, &[FORM], body).as_deref(), Some("e1"), "{body}");
            assert_eq!(read(&form, &[], body).as_deref(), Some("e1"), "{body}");
        }
        for body in
            ["", "id", "id=", "id=e1&id=e1", "id=e1&%69d=e2", "id=e1;id=e2", "id=e%", "id=%ff", "ID=e1"]
        {
            assert_eq!(read(&form, &[FORM], body), None, "{body}");
        }
        for other in ["application/json", "multipart/form-data; boundary=x", "text/plain", ""] {
            assert_eq!(read(&form, &[("content-type", other)], "id=e1"), None, "{other}");
        }
        assert_eq!(read(&form, &[FORM, FORM], "id=e1"), None, "two types are none");
    }
}
