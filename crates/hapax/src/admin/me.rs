//! Who asks, and what answers: `GET /v1/me`, and what a process knows of itself.

use std::net::SocketAddr;

use hapax_api::{Link, Me, Server, StoreBrief, StoreKind, operations as op};
use hapax_core::Timestamp;

use super::access::Operator;
use super::{AdminState, Console, Setup, view};
use crate::Store;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::now;

/// What a process knows of itself.
pub(crate) struct About {
    pub(crate) instance: String,
    pub(crate) label: Option<String>,
    pub(crate) links: Vec<(String, String)>,
    pub(crate) started_at: Timestamp,
    pub(crate) store: StoreKind,
    /// The digest of the console's files; `None` where it is switched off.
    pub(crate) console: Option<String>,
}

impl About {
    pub(crate) fn new(setup: Setup, at: SocketAddr, store: &Store) -> Self {
        let Setup { name, label, links, console, .. } = setup;
        let store = match store {
            Store::Memory(_) => StoreKind::Memory,
            Store::Embedded(_) => StoreKind::Embedded,
            Store::Postgres(_) => StoreKind::Postgres,
        };
        let console = (console != Console::Off).then(|| console.build().to_owned());
        let instance = name.or_else(host_name).unwrap_or_else(|| at.to_string());
        About { instance, label, links, started_at: now(), store, console }
    }
}

/// What this machine is called, as far as it says so.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty() && name.len() <= crate::limits::NAME_LENGTH).then(|| name.to_owned())
}

pub(super) async fn get(state: AdminState, operator: Operator, _: Asked<op::Me>) -> Result<Me, Refusal> {
    let about = &state.about;
    let link = |(name, url): &(String, String)| Link { name: name.clone(), url: url.clone() };
    Ok(Me {
        name: operator.name,
        role: operator.role,
        time: view::time(now()),
        server: Server {
            version: env!("CARGO_PKG_VERSION").into(),
            instance: about.instance.clone(),
            label: about.label.clone(),
            started_at: view::time(about.started_at),
            store: StoreBrief { kind: about.store },
            sealed: state.answers.seal().is_some(),
            console: about.console.clone(),
        },
        links: about.links.iter().map(link).collect(),
    })
}
