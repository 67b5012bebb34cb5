//! A recipe as text and back, for the registry that keeps each of them by its id (K6).
//!
//! `{"body": "json", "headers": ["x-kind"], "ignored": ["/sent_at"]}`. What it says is checked as if a configuration said it.

use serde_json::{Value, json};

use super::{BodyRecipe, Recipe};
use crate::Error;
use crate::json::Pointer;

impl Recipe {
    /// What it is made of, as JSON. The id is the digest of the same things.
    pub fn definition(&self) -> String {
        let ignored: Vec<&str> = self.ignored().iter().map(Pointer::as_str).collect();
        json!({"body": word(self.body()), "headers": self.headers(), "ignored": ignored}).to_string()
    }

    /// Reads what [`Recipe::definition`] wrote.
    pub fn from_definition(text: &[u8]) -> Result<Recipe, Error> {
        let corrupt = || Error::corrupt("a kept fingerprint recipe cannot be read");
        let value: Value = serde_json::from_slice(text).map_err(|_| corrupt())?;
        let texts = |name: &str| -> Option<Vec<String>> {
            value.get(name)?.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let (headers, ignored) = texts("headers").zip(texts("ignored")).ok_or_else(corrupt)?;
        let pointers = ignored.into_iter().map(Pointer::new).collect::<Result<Vec<_>, _>>();
        let recipe = match value.get("body").and_then(Value::as_str) {
            Some("json") => Recipe::json_ignoring(pointers.map_err(|_| corrupt())?),
            Some("raw") => Ok(Recipe::raw()),
            Some("form") => Ok(Recipe::form()),
            Some("none") => Ok(Recipe::none()),
            _ => Err(corrupt()),
        };
        recipe.and_then(|recipe| recipe.with_headers(headers)).map_err(|_| corrupt())
    }
}

/// A body recipe's name, in definitions and in ids.
pub(super) fn word(body: &BodyRecipe) -> &'static str {
    match body {
        BodyRecipe::Raw => "raw",
        BodyRecipe::Json { .. } => "json",
        BodyRecipe::Form => "form",
        BodyRecipe::None => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_reads_back_from_its_definition_under_the_same_id_k6() {
        let pointer = |text: &str| Pointer::new(text).unwrap();
        let ignoring = Recipe::json_ignoring([pointer("/sent_at"), pointer("/a~1b/0")]).unwrap();
        let recipes = [
            Recipe::raw(),
            Recipe::json(),
            Recipe::none(),
            Recipe::form().with_headers(["X-Kind"]).unwrap(),
            ignoring.with_headers(["x-b", "x-a"]).unwrap(),
        ];
        for recipe in recipes {
            let again = Recipe::from_definition(recipe.definition().as_bytes()).unwrap();
            assert_eq!((again.id(), &again), (recipe.id(), &recipe), "{}", recipe.definition());
        }
    }

    #[test]
    fn what_defines_no_recipe_is_refused() {
        let wrong = [
            "",
            "{}",
            r#"{"body": "yaml", "headers": [], "ignored": []}"#,
            r#"{"body": "json", "headers": [], "ignored": ["no pointer"]}"#,
            r#"{"body": "none", "headers": ["x-kind"], "ignored": []}"#,
            r#"{"body": "raw", "headers": [7], "ignored": []}"#,
        ];
        for text in wrong {
            assert_eq!(
                Recipe::from_definition(text.as_bytes()).unwrap_err().kind(),
                crate::Kind::Corrupt,
                "{text}"
            );
        }
    }
}
