//! What was measured: printed as it comes, and left in `target/bench/NAME.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use crate::Failure;

/// The results of one benchmark.
pub(crate) struct Report {
    name: &'static str,
    ratios: BTreeMap<String, f64>,
    figures: BTreeMap<String, f64>,
}

impl Report {
    pub(crate) fn new(name: &'static str) -> Self {
        Report { name, ratios: BTreeMap::new(), figures: BTreeMap::new() }
    }

    /// A figure of this machine on this day.
    pub(crate) fn figure(&mut self, name: &str, value: f64, unit: &str) {
        println!("  {name:<58} {:>14} {unit}", rounded(value));
        let name = if unit.is_empty() { name.to_owned() } else { format!("{name} [{unit}]") };
        self.figures.insert(name, value);
    }

    /// A ratio to something else in the same run, beside what the contract asks for.
    pub(crate) fn ratio(&mut self, name: &str, value: f64, wanted: f64) {
        let mark = if value >= wanted { "" } else { "   <-- below" };
        println!("  {name:<58} {value:>14.2} ×    (wanted: {wanted} ×){mark}");
        self.ratios.insert(name.to_owned(), value);
    }

    /// A ratio that should not be greater.
    pub(crate) fn ratio_at_most(&mut self, name: &str, value: f64, wanted: f64) {
        let mark = if value <= wanted { "" } else { "   <-- above" };
        println!("  {name:<58} {value:>14.3} ×    (wanted: at most {wanted} ×){mark}");
        self.ratios.insert(name.to_owned(), value);
    }

    /// A count that should not be greater.
    pub(crate) fn at_most(&mut self, name: &str, value: f64, wanted: f64) {
        let mark = if value <= wanted { "" } else { "   <-- above" };
        println!("  {name:<58} {value:>14.1}      (wanted: at most {wanted}){mark}");
        self.figures.insert(name.to_owned(), value);
    }

    pub(crate) fn heading(&self, text: &str) {
        println!("\n{text}");
    }

    /// Writes the file.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        let folder = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
            .join("bench");
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{}.json", self.name));
        let content = json!({"ratios": self.ratios, "figures": self.figures});
        std::fs::write(&path, serde_json::to_string_pretty(&content)? + "\n")?;
        println!("\nwritten to {}; repeat with: cargo xtask bench {}", path.display(), self.name);
        Ok(())
    }
}

fn rounded(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
