//! The services behind, as the edge sees them: the engine's connections of one thread to a service, and what only the edge
//! knows of that service. What is spoken on a connection is `hapax-http`'s affair.

use std::ops::Deref;
use std::sync::Arc;

use hapax_core::Error;
use hapax_http::upstream;

pub(crate) use hapax_http::upstream::{Connected, Failed, FailedKind, Incoming, Outgoing, Reached};

use crate::engine;
use crate::settings::Upstream;

/// The connections of one thread to one service, and the settings of that service.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<Behind>);

#[derive(Debug)]
struct Behind {
    settings: Arc<Upstream>,
    pool: upstream::Pool,
}

impl Pool {
    /// A pool without connections.
    pub(crate) fn new(settings: Arc<Upstream>) -> Result<Self, Error> {
        let pool = upstream::Pool::new(settings.service()).map_err(engine::error)?;
        Ok(Pool(Arc::new(Behind { settings, pool })))
    }

    /// What the edge knows of the service.
    pub(crate) fn settings(&self) -> &Arc<Upstream> {
        &self.0.settings
    }
}

impl Deref for Pool {
    type Target = upstream::Pool;

    fn deref(&self) -> &upstream::Pool {
        &self.0.pool
    }
}
