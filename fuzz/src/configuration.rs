//! Configuration files: every mistake has its place, what is wrong and what to do; and none is a panic.

use crate::subject;

/// The text of a configuration file.
pub fn configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let env = |name: &str| (name == "SET").then(|| "of-the-environment".to_owned());
    match subject::configuration(text, &env) {
        Ok(config) => {
            assert_eq!(config.declared.len(), config.settings.routes.len());
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "what cannot be used says why");
            for mistake in &mistakes {
                assert!(!mistake.what.is_empty() && !mistake.remedy.is_empty(), "{mistake:?}");
            }
        }
    }
}
