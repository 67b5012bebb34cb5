//! Whether arguments fit the schema of their tool, as far as that can be said in time linear in both.
//!
//! The schema is the server's, who may mean ill: references, patterns and combinations (`$ref`, `pattern`, `anyOf`, …) are left to the
//! server itself, whose refusal releases the key as well. What is refused here is wrong under every reading.

use serde_json::{Map, Value};

/// The first thing that does not fit, as its place and the rule. The argument itself is not told: the text goes into a receipt.
pub(super) fn misfit(schema: &Map<String, Value>, args: &Value) -> Option<String> {
    let mut place = String::from("args");
    object(schema, args, &mut place)
}

fn object(schema: &Map<String, Value>, value: &Value, place: &mut String) -> Option<String> {
    let wrong = |place: &str, rule: &str| Some(format!("{place}: {rule}"));
    if let Some(types) = types(schema)
        && !types.iter().any(|name| is(name, value))
    {
        return wrong(place, &format!("of type {}", types.join(" or ")));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.iter().any(|one| same(one, value))
    {
        return wrong(place, "one of the values that the tool lists");
    }
    if let Some(constant) = schema.get("const")
        && !same(constant, value)
    {
        return wrong(place, "the one value that the tool takes");
    }
    match value {
        Value::Object(members) => members_of(schema, members, place),
        Value::Array(items) => {
            let Some(Value::Object(each)) = schema.get("items") else { return None };
            // With these, `items` may be about the rest only.
            if schema.contains_key("prefixItems") {
                return None;
            }
            items.iter().enumerate().find_map(|(n, item)| within(place, &n.to_string(), each, item))
        }
        Value::String(text) => {
            let chars = || text.chars().count() as u64;
            let least = schema.get("minLength").and_then(Value::as_u64);
            let most = schema.get("maxLength").and_then(Value::as_u64);
            if least.is_some_and(|least| chars() < least) || most.is_some_and(|most| chars() > most) {
                return wrong(place, "of a length that the tool takes");
            }
            None
        }
        Value::Number(number) => {
            let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
            let number = number.as_f64()?;
            let below = limit("minimum").is_some_and(|least| number < least);
            let above = limit("maximum").is_some_and(|most| number > most);
            (below || above).then(|| format!("{place}: within the limits of the tool"))
        }
        Value::Null | Value::Bool(_) => None,
    }
}

fn members_of(
    schema: &Map<String, Value>,
    members: &Map<String, Value>,
    place: &mut String,
) -> Option<String> {
    if let Some(Value::Array(required)) = schema.get("required") {
        let missing = required.iter().filter_map(Value::as_str).find(|name| !members.contains_key(*name));
        if let Some(name) = missing {
            return Some(format!("{place}.{name}: missing"));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    // Other members may be allowed elsewhere in the schema.
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
        && !schema.contains_key("patternProperties");
    for (name, member) in members {
        match properties.and_then(|properties| properties.get(name)) {
            Some(Value::Object(schema)) => {
                if let Some(misfit) = within(place, name, schema, member) {
                    return Some(misfit);
                }
            }
            None if closed => return Some(format!("{place}.{name}: not known to the tool")),
            _ => {}
        }
    }
    None
}

fn within(place: &mut String, name: &str, schema: &Map<String, Value>, value: &Value) -> Option<String> {
    let length = place.len();
    place.push('.');
    place.push_str(name);
    let misfit = object(schema, value, place);
    place.truncate(length);
    misfit
}

fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        // A type that this code does not know is not for it to judge.
        _ => true,
    }
}

/// Equal, with numbers by their value.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq() || (one == 0.0 && other == 0.0),
        _ => one == other || matches!((one, other), (Value::Array(_), _) | (Value::Object(_), _)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(schema: &Value, args: &Value) -> Option<String> {
        misfit(schema.as_object().unwrap(), args)
    }

    #[test]
    fn arguments_are_checked_and_what_is_told_has_none_of_them() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "minLength": 2 },
                "count": { "type": ["integer", "null"], "minimum": 1 },
                "mode": { "enum": ["soft", "hard"] },
                "edits": { "type": "array", "items": { "type": "object", "required": ["oldText"] } },
                "odd": { "anyOf": [{ "type": "string" }], "$ref": "#/$defs/none" }
            },
            "required": ["path"],
            "additionalProperties": false
        });
        for args in [
            json!({ "path": "/a" }),
            json!({ "path": "/a", "count": null, "mode": "soft", "odd": 7 }),
            json!({ "path": "/a", "count": 2.0, "edits": [{ "oldText": "x", "other": 1 }] }),
        ] {
            assert_eq!(told(&schema, &args), None, "{args}");
        }
        for (args, place) in [
            (json!({}), "args.path: missing"),
            (json!({ "path": 7 }), "args.path: of type string"),
            (json!({ "path": "s" }), "args.path: of a length"),
            (json!({ "path": "/a", "count": 1.5 }), "args.count: of type integer or null"),
            (json!({ "path": "/a", "count": 0 }), "args.count: within"),
            (json!({ "path": "/a", "mode": "secret" }), "args.mode: one of"),
            (json!({ "path": "/a", "edits": [{ "oldText": "x" }, {}] }), "args.edits.1.oldText: missing"),
            (json!({ "path": "/a", "secret": "secret" }), "args.secret: not known"),
        ] {
            let error = told(&schema, &args).unwrap_or_default();
            assert!(error.starts_with(place) && !error.contains(": secret"), "{args}: {error}");
        }
    }

    #[test]
    fn a_schema_that_is_none_refuses_nothing() {
        for schema in [
            json!({}),
            json!({ "type": 7, "properties": [], "required": "path", "enum": {} }),
            json!({ "type": "no such type", "items": true, "additionalProperties": {} }),
            json!({ "properties": { "a": true, "b": false } }),
        ] {
            assert_eq!(told(&schema, &json!({ "a": [1, { "b": null }] })), None, "{schema}");
        }
    }
}
