//! Whether the keys of a configuration open what its store keeps (B9): `hapax serve` does not start if they do not.

use std::path::Path;

use hapax_core::registry::Document;
use hapax_core::{Error, Registry as _};
use hapax_exec::Seal;
use hapax_postgres::Postgres;
use hapax_sqlite::Embedded;
use hapax_store::Lifecycle as _;
use tokio::time::timeout;

use super::Check;
use crate::config::Config;
use crate::{limits, node};

const WHAT: &str = "seal";

/// Checks the keys against the installation's secret, which is sealed with the first of them. What cannot be asked is no
/// reason to complain here: the store has its own checks.
pub(super) async fn check(config: &Config) -> Check {
    let seal = match config.seal.is_empty() {
        true => None,
        false => match Seal::new(config.seal.iter().map(|key| key.0).collect()) {
            Ok(seal) => Some(seal),
            Err(error) => return Check::fail(WHAT, format!("{error:#}"), "make another key"),
        },
    };
    let secret = timeout(limits::DOCTOR_WAIT, kept(&config.store.url)).await;
    if let Ok(Ok(Some(secret))) = secret
        && let Err(error) = node::opens(&secret, seal.as_ref())
    {
        let remedy = "set the key that it was sealed with in [seal]: `hapax serve` does not start without it";
        return Check::fail(WHAT, format!("{error:#}"), remedy);
    }
    match seal {
        Some(_) => Check::ok(WHAT, "outcomes are sealed"),
        None => {
            Check::warn(WHAT, "outcomes are kept unencrypted", "set a key in [seal], if they must not be")
        }
    }
}

async fn kept(url: &str) -> Result<Option<Document>, Error> {
    let id = node::secret_id()?;
    match url.split_once(':') {
        Some(("embedded", folder)) => Embedded::open_read_only(Path::new(folder))?.get(&id).await,
        Some(("postgres" | "postgresql", _)) => {
            let store = Postgres::open_read_only(url).await?;
            let found = store.get(&id).await;
            store.close().await?;
            found
        }
        _ => Ok(None),
    }
}
