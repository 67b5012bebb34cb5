//! Canonical JSON: what has a canonical form keeps its meaning in it, and the form of that form is itself.

use hapax_core::json::canonical_value;
use serde_json::Value;

use crate::subject::canonical as canonicalize;

/// JSON text, or anything else.
pub fn canonical_json(input: &[u8]) {
    let Ok(canonical) = canonicalize(input) else { return };
    assert_eq!(canonicalize(&canonical).as_ref(), Ok(&canonical), "a canonical form is its own");
    let (Ok(before), Ok(after)) =
        (serde_json::from_slice::<Value>(input), serde_json::from_slice::<Value>(&canonical))
    else {
        panic!("what has a canonical form is JSON, and so is the form")
    };
    assert!(same(&before, &after), "{before}\n{after}");
    assert_eq!(canonical_value(&after).as_ref(), Ok(&canonical), "of the text and of the value");
}

/// Whether two values mean the same to a reader that holds numbers in doubles.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let in_other = |(name, one)| other.get(name).is_some_and(|other| same(one, other));
            one.len() == other.len() && one.iter().all(in_other)
        }
        (one, other) => one == other,
    }
}
