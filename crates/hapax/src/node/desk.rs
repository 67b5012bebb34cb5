//! API keys as operators handle them, on the registry that the edge reads.

use std::sync::Arc;

use hapax_core::{Kind, Page};
use hapax_gateway::auth::api_key::{self, NewApiKey};
use hapax_gateway::settings::Level;
use hapax_store::Store;

use crate::admin::{KeyDesk, KeyInfo, KeyLevel, KeyMade, NewKey, Reply};
use crate::when;

/// The keys in a store's registry.
pub(crate) struct RegistryDesk {
    store: Store,
}

impl RegistryDesk {
    pub(crate) fn new(store: Store) -> Self {
        RegistryDesk { store }
    }

    /// As the command line opens it.
    pub(crate) fn open(store: Store) -> Arc<dyn KeyDesk> {
        Arc::new(Self::new(store))
    }
}

impl KeyDesk for RegistryDesk {
    fn create(&self, new: NewKey) -> Reply<'_, KeyMade> {
        Box::pin(async move {
            let level = match new.level {
                KeyLevel::Project => Level::Project,
                KeyLevel::Tenant => Level::Tenant,
                KeyLevel::Platform => Level::Platform,
            };
            let NewKey { tenant, project, subject, label, expires, .. } = new;
            let label = label.unwrap_or_default();
            let new = NewApiKey { tenant, project, subject, level, expires_at: expires, label };
            let created = api_key::create(&self.store, new, when::now()).await?;
            Ok(KeyMade { id: created.id, key: created.key })
        })
    }

    fn list(&self, after: Option<String>, limit: usize) -> Reply<'_, Page<KeyInfo>> {
        Box::pin(async move {
            let Page { items, next, .. } = api_key::list(&self.store, after.as_deref(), limit).await?;
            let items = items.into_iter().filter(|key| key.revoked_at.is_none()).map(|key| KeyInfo {
                id: key.id,
                created: key.created_at,
                key: NewKey {
                    tenant: key.tenant,
                    project: key.project,
                    subject: key.subject,
                    level: match key.level {
                        Level::Project => KeyLevel::Project,
                        Level::Tenant => KeyLevel::Tenant,
                        Level::Platform => KeyLevel::Platform,
                    },
                    label: Some(key.label).filter(|label| !label.is_empty()),
                    expires: key.expires_at,
                },
            });
            Ok(Page::new(items.collect(), next))
        })
    }

    fn revoke(&self, id: String) -> Reply<'_, bool> {
        Box::pin(async move {
            match api_key::revoke(&self.store, &id, when::now()).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == Kind::Invalid => Ok(false),
                Err(error) => Err(error),
            }
        })
    }
}
