//! The reference page and the reader know the same fields.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::fields;

/// Sections are headings (``## `[edge]` ``), fields the first column of their tables.
fn fields_of_the_page() -> BTreeSet<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let mut section = String::new();
    let mut known = BTreeSet::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        if line.starts_with("## ") {
            let name = line.split('`').nth(1).unwrap_or_default();
            section = name.trim_matches(['[', ']']).to_owned();
        } else if let Some(rest) = line.strip_prefix("| `") {
            let field = rest.split('`').next().unwrap();
            assert!(known.insert((section.clone(), field.to_owned())), "{section}.{field} is there twice");
            let cells = line.split(" | ").count();
            assert!(cells == 4, "{section}.{field} has {cells} cells, not name, type, default and meaning");
        }
    }
    known
}

#[test]
fn the_reference_page_has_every_field_and_no_other() {
    let page = fields_of_the_page();
    let reader: BTreeSet<_> = fields::ALL
        .iter()
        .flat_map(|section| section.names.iter().map(|name| (section.section.to_owned(), (*name).to_owned())))
        // Of the top of the file, all others are sections.
        .filter(|(section, name)| !section.is_empty() || name == "retired")
        .collect();
    assert_eq!(
        page.difference(&reader).collect::<Vec<_>>(),
        Vec::<&(String, String)>::new(),
        "unknown to the reader"
    );
    assert_eq!(
        reader.difference(&page).collect::<Vec<_>>(),
        Vec::<&(String, String)>::new(),
        "missing on the page"
    );
}
