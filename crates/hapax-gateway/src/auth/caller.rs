//! Who asks, and whose request it is: the principal of the credentials, or a trusted peer that names the scope in the key (K3).
//!
//! [`Authenticator`](super::Authenticator) looks at credentials; what a route makes of a caller is decided here.

use std::net::IpAddr;

use hapax_core::{Registry, Scope, Width};
use hapax_tower::{Code, Problem};
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use http::request;

use super::{AuthError, Authenticator, Principal, trusted};
use crate::settings::{Level, Route};

/// The challenge to clients that show credentials only where they are asked for.
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"hapax\", charset=\"UTF-8\"");

/// Who asks.
pub(crate) enum Caller {
    /// A caller with credentials.
    Known(Principal),
    /// A peer that speaks for others, with the scope in the key (K3).
    Edge {
        /// Whether it is believed how far they reach.
        says_level: bool,
    },
}

impl Caller {
    /// Who the caller of a route is, from the head alone. On a public one no credentials are looked at (A2).
    pub(crate) async fn of_route<R: Registry>(
        auth: &Authenticator<R>,
        route: &Route,
        head: &request::Parts,
        peer: IpAddr,
        trusted: bool,
    ) -> Result<Self, Problem> {
        match route.public {
            true => auth.anonymous().cloned().map(Caller::Known).map_err(|error| refused(&error, false)),
            false => Self::identify(auth, head, peer, trusted).await,
        }
    }

    /// Who the caller is, from the head alone.
    pub(crate) async fn identify<R: Registry>(
        auth: &Authenticator<R>,
        head: &request::Parts,
        peer: IpAddr,
        trusted: bool,
    ) -> Result<Self, Problem> {
        match auth.authenticate(head, peer).await {
            Ok(principal) => Ok(Caller::Known(principal)),
            Err(AuthError::Missing) if trusted => Ok(Caller::Edge { says_level: auth.believes_level() }),
            Err(error) => Err(refused(&error, auth.takes_basic())),
        }
    }

    /// Whose a key is in which a trusted peer names the scope (K3). It says no more there than it could say in headers (A6, K4), and
    /// nothing is shared wider than the route shares it (K8). A caller that shows credentials through that peer, or is named in
    /// headers beside the key, speaks for itself alone: of what the key drops, that says who asks.
    pub(crate) fn speaks_for(&self, told: Scope, width: Width, route: &Route) -> Result<Scope, Problem> {
        let widest = route.rule.as_ref().map_or(Width::Subject, |rule| rule.width);
        if width > widest {
            let detail = "the key stands for more callers than those who share an answer on this route";
            return Err(Problem::new(Code::Forbidden).detail(detail));
        }
        let asks = match self {
            Caller::Known(principal) => principal.scope(route.level),
            Caller::Edge { says_level } => trusted::scope_in_key(&told, route.level, *says_level),
        };
        let is_told = |scope: &Scope| scope.narrowed(width) == told.narrowed(width);
        asks.filter(is_told).ok_or_else(|| Problem::new(Code::Forbidden))
    }

    /// Whom the log and the counters name where a route is beyond this caller's reach; of a trusted peer nobody is known.
    pub(crate) fn own_scope(&self) -> Option<Scope> {
        match self {
            Caller::Known(principal) => Some(principal.own_scope()),
            Caller::Edge { .. } => None,
        }
    }

    /// The scope of this caller on a route of this level (A6).
    pub(crate) fn scope(&self, level: Level) -> Result<Scope, Problem> {
        match self {
            Caller::Known(principal) => principal.scope(level).ok_or_else(|| Problem::new(Code::Forbidden)),
            Caller::Edge { .. } => Err(Problem::from(&AuthError::Missing)),
        }
    }
}

/// The caller is told the same whatever is wrong. The line about the request tells the operator what it was.
///
/// Where keys are taken from Basic, that is a second challenge: many clients show nothing before they have seen one.
fn refused(error: &AuthError, takes_basic: bool) -> Problem {
    let problem = Problem::from(error).owing_to(error.detail().unwrap_or("no credentials").to_owned());
    match error {
        AuthError::Missing | AuthError::Invalid(_) if takes_basic => problem.header(WWW_AUTHENTICATE, BASIC),
        _ => problem,
    }
}
