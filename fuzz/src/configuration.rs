//! Configuration files: every mistake has its place, what is wrong and what to do; and none is a panic.

use std::path::Path;

/// The text of a configuration file.
pub fn configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let env = |name: &str| (name == "SET").then(|| "of-the-environment".to_owned());
    // Files that the text names are looked for where there are none.
    match hapax::config::read(
        text,
        Path::new("/nonexistent/hapax.toml"),
        &env,
        hapax::config::Secrets::Needed,
    ) {
        Ok(config) => {
            assert_eq!(config.declared.len(), config.settings.routes.len());
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "what cannot be used says why");
            for mistake in mistakes.iter() {
                assert!(!mistake.what.is_empty() && !mistake.remedy.is_empty(), "{mistake:?}");
            }
        }
    }
}
