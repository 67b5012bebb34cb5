//! `[admin]` as it takes effect.

use super::{SET, Section, Shown};
use crate::config::Admin;

pub(super) fn shown(admin: &Admin) -> Section {
    let mut section = Section::default();
    section
        .text("listen", admin.listen.to_string())
        .texts("hosts", &admin.hosts)
        .flag("console", admin.console);
    section.maybe(admin.name.as_ref(), |section, name| _ = section.text("name", name));
    section.maybe(admin.label.as_ref(), |section, label| _ = section.text("label", label));
    section.maybe(admin.tls.as_ref(), |section, tls| {
        let mut table = Section::default();
        table.text("cert", tls.cert.display().to_string()).text("key", tls.key.display().to_string());
        section.table("tls", table);
    });
    if admin.tokens.iter().any(|token| token.short && token.token.is_some()) {
        section.text("token", SET);
    }
    let tokens = admin.tokens.iter().filter(|token| !token.short).map(|token| {
        let mut table = Section::default();
        table.text("name", &token.name).text("role", token.role.as_str()).text("env", SET);
        table.0
    });
    let links = admin.links.iter().map(|(name, url)| {
        let mut table = Section::default();
        table.text("name", name).text("url", url);
        table.0
    });
    for (name, tables) in [("tokens", tokens.collect::<Vec<_>>()), ("links", links.collect())] {
        if !tables.is_empty() {
            section.put(name, Shown::Tables(tables));
        }
    }
    section
}
