//! The bodies of a probe: the one that was given, another one that the API would take as well, and one that it refuses; and how a key
//! gets into a body.

use bytes::Bytes;
use hapax_core::json::Pointer;
use serde_json::Value;

/// What requests carry.
#[derive(Clone, Debug)]
pub struct Bodies {
    /// The one that was given.
    pub one: Bytes,
    /// Another request, as far as can be guessed one that the API takes too.
    pub other: Bytes,
    /// What no API should take.
    pub broken: Bytes,
    /// The media type, unless a header says otherwise.
    pub media_type: &'static str,
}

impl Bodies {
    /// Makes the others from one; `other` where it was given.
    pub fn of(one: Bytes, other: Option<Bytes>) -> Self {
        let json: Option<Value> = serde_json::from_slice(&one).ok();
        let media_type = if json.is_some() { "application/json" } else { "application/octet-stream" };
        let broken = match &json {
            Some(_) => Bytes::from_static(b"{\"hapax-probe\": "),
            None => Bytes::new(),
        };
        let other = other.unwrap_or_else(|| match json {
            Some(mut json) => {
                if !(change_number(&mut json) || change_text(&mut json)) {
                    add_member(&mut json);
                }
                Bytes::from(json.to_string())
            }
            None => [&one[..], b"1"].concat().into(),
        });
        Bodies { one, other, broken, media_type }
    }
}

/// A JSON object with these keys at a pointer: none, one, or the same member twice. `None` where the body has no such place.
pub fn with_keys(body: &Bytes, pointer: &Pointer, keys: &[String]) -> Option<Bytes> {
    let mut json: Value = serde_json::from_slice(body).ok()?;
    let (parent, last) = pointer.as_str().rsplit_once('/')?;
    let name = last.replace("~1", "/").replace("~0", "~");
    let Value::Object(members) = json.pointer_mut(parent)? else { return None };
    members.remove(&name);
    let Some((first, more)) = keys.split_first() else { return Some(json.to_string().into()) };
    members.insert(name.clone(), PLACEHOLDER.into());
    let name = Value::from(name);
    let again: String = more.iter().map(|key| format!(",{name}:{}", Value::from(key.as_str()))).collect();
    let value = format!("{}{again}", Value::from(first.as_str()));
    Some(json.to_string().replacen(&Value::from(PLACEHOLDER).to_string(), &value, 1).into())
}

/// Stands for the key while the body is written: no map of members can hold one twice.
const PLACEHOLDER: &str = "hapax-probe: the key stands here";

/// Adds one to the first number: an amount stays an amount.
fn change_number(json: &mut Value) -> bool {
    match json {
        Value::Number(number) => {
            *json = match (number.as_i64().and_then(|number| number.checked_add(1)), number.as_f64()) {
                (Some(next), _) => next.into(),
                (None, Some(float)) => (float / 2.0).into(),
                (None, None) => 1.into(),
            };
            true
        }
        Value::Array(items) => items.iter_mut().any(change_number),
        Value::Object(members) => members.values_mut().any(change_number),
        _ => false,
    }
}

/// Makes the first text longer.
fn change_text(json: &mut Value) -> bool {
    match json {
        Value::String(text) => {
            text.push('1');
            true
        }
        Value::Array(items) => items.iter_mut().any(change_text),
        Value::Object(members) => members.values_mut().any(change_text),
        _ => false,
    }
}

fn add_member(json: &mut Value) {
    match json {
        Value::Object(members) => drop(members.insert("hapax_probe".into(), 1.into())),
        Value::Array(items) => items.push(1.into()),
        other => *other = if *other == Value::Null { 1.into() } else { Value::Null },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gets_into_a_body_once_twice_or_not_at_all_m5() {
        let with = |body: &'static str, pointer: &str, keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            let body =
                with_keys(&Bytes::from_static(body.as_bytes()), &Pointer::new(pointer).unwrap(), &keys);
            body.map(|body| String::from_utf8(body.to_vec()).unwrap())
        };
        let one = with(r#"{"a": 1, "key": "old"}"#, "/key", &["k"]).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&one).unwrap(), serde_json::json!({"a": 1, "key": "k"}));
        assert_eq!(with(r#"{"key": "old"}"#, "/key", &[]).as_deref(), Some("{}"));
        assert_eq!(
            with(r#"{"m": {}}"#, "/m/a~1b", &["k", "j"]).as_deref(),
            Some(r#"{"m":{"a/b":"k","a/b":"j"}}"#)
        );
        assert_eq!(with("[]", "/key", &["k"]), None);
        assert_eq!(with("{", "/key", &["k"]), None);
    }

    #[test]
    fn another_body_is_of_the_same_kind_m5() {
        for (one, other) in [
            (r#"{"to": "a", "amount": 10}"#, r#"{"amount":11,"to":"a"}"#),
            (r#"{"to": "a"}"#, r#"{"to":"a1"}"#),
            ("{}", r#"{"hapax_probe":1}"#),
            ("true", "null"),
            ("null", "1"),
            ("18446744073709551615", "9.223372036854776e18"),
            ("a=b", "a=b1"),
            ("", "1"),
        ] {
            let bodies = Bodies::of(Bytes::from_static(one.as_bytes()), None);
            let same_members = serde_json::from_slice::<Value>(&bodies.other).ok();
            match serde_json::from_str::<Value>(other) {
                Ok(wanted) if same_members.is_some() => assert_eq!(same_members, Some(wanted), "{one}"),
                _ => assert_eq!(bodies.other, other.as_bytes(), "{one}"),
            }
        }
        assert_eq!(Bodies::of(Bytes::from_static(b"a"), Some(Bytes::from_static(b"b"))).other, "b");
    }
}
