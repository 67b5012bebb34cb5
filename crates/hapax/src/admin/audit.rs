//! What operators did: `GET /v1/audit`, newest first (M4).

use hapax_core::Inspect as _;
use serde::Deserialize;
use serde_json::json;

use super::claims::page_size;
use super::endpoints::{Asked, Ran, ok};
use super::{AdminState, view};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Pages {
    limit: Option<usize>,
    after: Option<String>,
}

pub(super) fn get(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move {
        let pages: Pages = asked.query()?;
        let page = state.store.audit(pages.after.as_deref(), page_size(pages.limit)?).await?;
        let events: Vec<_> = page.items.iter().map(view::event).collect();
        ok(&json!({"events": events, "next": page.next}))
    })
}
