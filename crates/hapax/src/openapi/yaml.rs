//! YAML as the JSON that it stands for: OpenAPI is JSON, whatever it is written in (P4).

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Number, Value as Json};

use crate::limits;

/// The name under which a mapping takes in the members of others. YAML 1.2 has dropped it, its writers have not.
const MERGE: &str = "<<";

/// Reads a text that holds one document; the error says what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Json, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| format!("is no YAML: {error}"))?;
    match &documents[..] {
        [document] => value(document, 0),
        _ => Err("does not hold exactly one YAML document".into()),
    }
}

fn value(yaml: &Yaml<'_>, depth: usize) -> Result<Json, String> {
    if depth > limits::YAML_DEPTH {
        return Err("is nested too deeply".into());
    }
    Ok(match yaml {
        Yaml::Value(Scalar::Null) => Json::Null,
        Yaml::Value(Scalar::Boolean(flag)) => Json::Bool(*flag),
        Yaml::Value(Scalar::Integer(number)) => Json::Number((*number).into()),
        Yaml::Value(Scalar::FloatingPoint(number)) => {
            Number::from_f64(number.0).map_or(Json::Null, Json::Number)
        }
        Yaml::Value(Scalar::String(text)) => Json::String(text.to_string()),
        Yaml::Sequence(items) => {
            Json::Array(items.iter().map(|item| value(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Yaml::Mapping(entries) => {
            let member = |(key, member): (&Yaml<'_>, &Yaml<'_>)| Ok((name(key)?, value(member, depth + 1)?));
            Json::Object(object(entries.iter().map(member).collect::<Result<_, String>>()?)?)
        }
        Yaml::Tagged(_, inner) => value(inner, depth + 1)?,
        Yaml::Representation(text, ..) => Json::String(text.to_string()),
        Yaml::Alias(_) | Yaml::BadValue => return Err("holds an alias that leads nowhere".into()),
    })
}

/// Brings the members together; those that `<<` merges come after those that stand there.
fn object(members: Vec<(String, Json)>) -> Result<Map<String, Json>, String> {
    let mut object = Map::new();
    let mut merged = Vec::new();
    for (name, value) in members {
        if name == MERGE {
            merged = if let Json::Array(several) = value { several } else { vec![value] };
        } else if object.contains_key(&name) {
            return Err(format!("has a member `{name}` twice"));
        } else {
            object.insert(name, value);
        }
    }
    for other in merged {
        let Json::Object(other) = other else {
            return Err("is no OpenAPI document: `<<` merges something that is no mapping".into());
        };
        for (name, value) in other {
            object.entry(name).or_insert(value);
        }
    }
    Ok(object)
}

/// Status codes are written without quotes, and are names all the same.
fn name(name: &Yaml<'_>) -> Result<String, String> {
    match name {
        Yaml::Value(Scalar::String(text)) => Ok(text.to_string()),
        Yaml::Value(Scalar::Integer(number)) => Ok(number.to_string()),
        Yaml::Value(Scalar::Boolean(flag)) => Ok(flag.to_string()),
        _ => Err("has a member whose name is no text".into()),
    }
}
