//! Leases that are not a process's own: rows of `hapax.sessions` with a term, which any instance renews (M1).
//!
//! A claim under one of them is decided in the slow way: all claims of a batch are asked for by the process's own session.

use std::time::Duration;

use hapax_core::{
    AttemptId, Claim, ClaimRequest, Command, Epoch, Error, Identity, Lease, Leases, Scope, SessionId, Sign,
    Timestamp, Verdict,
};

use super::Postgres;
use hapax_store::parts::leased::too_many;
use tokio_postgres::Row;

use super::change::{Order, verdict};
use super::desk::Resend;
use super::failure::Failure;
use super::link::Link;
use super::row::{Uuid, get, micros};
use super::session::Standing;

/// It has followed all invalidations there will ever be: it has no table. A scope begins with its tenant; of leases that are opened at
/// once, as many as there are connections may be too many.
const OPEN: &str = "\
    INSERT INTO hapax.sessions (token, opened_at, last, until, acked, table_until, term, scope) \
    SELECT $1, t.now, t.now, hapax.later(t.now, $3), 9223372036854775807, 0, $3, $4 \
    FROM (SELECT coalesce($2::bigint, hapax.clock()) AS now) t \
    WHERE $6::bigint > (SELECT count(*) FROM hapax.sessions s \
        WHERE s.term IS NOT NULL AND s.until > t.now AND split_part(s.scope, ':', 1) = $5) \
    RETURNING id, until";

const RENEW: &str = "\
    UPDATE hapax.sessions s SET last = t.now, until = hapax.later(t.now, s.term) \
    FROM (SELECT coalesce($2::bigint, hapax.clock()) AS now) t \
    WHERE s.id = $1 AND s.term IS NOT NULL AND s.until > t.now AND s.scope = coalesce($3, s.scope) \
    RETURNING s.id, s.until";

const END: &str = "\
    UPDATE hapax.sessions s SET last = t.now, until = t.now \
    FROM (SELECT coalesce($2::bigint, hapax.clock()) AS now) t \
    WHERE s.id = $1 AND s.term IS NOT NULL AND s.until > t.now AND s.scope = $3";

const STANDING: &str =
    "SELECT last, until FROM hapax.sessions WHERE id = $1 AND term IS NOT NULL AND scope = $2";

impl Leases for Postgres {
    async fn open_lease(&self, scope: &Scope, term: Duration) -> Result<Lease, Error> {
        Lease::check_term(term)?;
        let (shared, tenant, scope) = (self.shared.clone(), scope.tenant().clone(), scope.to_string());
        let most = i64::try_from(shared.options.leases_of_tenant).unwrap_or(i64::MAX);
        // One that is opened twice because an answer was lost lapses by itself.
        let open = async move |link: &mut Link| {
            let token = Uuid::from(AttemptId::random());
            let now = shared.session.given_time();
            let (term, tenant) = (micros(term), tenant.as_str());
            let row = link.query_opt(OPEN, &[&token, &now, &term, &scope, &tenant, &most]).await?;
            row.as_ref().map_or_else(|| Err(too_many().into()), read)
        };
        self.shared.ask(Resend::Always, open).await
    }

    async fn renew_lease(&self, scope: &Scope, lease: SessionId) -> Result<Lease, Error> {
        self.renewed(Some(scope.to_string()), lease).await?.ok_or_else(Lease::over)
    }

    async fn end_lease(&self, scope: &Scope, lease: SessionId) -> Result<(), Error> {
        let (shared, scope) = (self.shared.clone(), scope.to_string());
        let end = async move |link: &mut Link| {
            link.query(END, &[&lease.0.cast_signed(), &shared.session.given_time(), &scope]).await?;
            Ok::<(), Failure>(())
        };
        self.shared.ask(Resend::Always, end).await
    }

    async fn claim_under(&self, lease: SessionId, request: ClaimRequest) -> Result<Verdict, Error> {
        let order = Order {
            id: request.identity.claim_id(),
            command: Command::Claim(request.ask(lease)),
            identity: Some(request.identity),
            events: Vec::new(),
            lease: Some(lease),
        };
        verdict(self.shared.order(Resend::Always, order).await?)
    }
}

impl Postgres {
    /// Renews a lease, of this scope where one is named; `None` where it is over, or a process's own session.
    async fn renewed(&self, scope: Option<String>, lease: SessionId) -> Result<Option<Lease>, Error> {
        let shared = self.shared.clone();
        let renew = async move |link: &mut Link| {
            let now = shared.session.given_time();
            let row = link.query_opt(RENEW, &[&lease.0.cast_signed(), &now, &scope]).await?;
            row.as_ref().map(read).transpose()
        };
        self.shared.ask(Resend::Always, renew).await
    }

    /// Renews the lease that a claim hangs on, if it is one, for the holder of this epoch. Whether it was renewed.
    pub(super) async fn renew_lease_of(&self, claim: Option<&Claim>, epoch: Epoch) -> Result<bool, Error> {
        let own = self.shared.session.known().id;
        match claim {
            Some(held) if held.epoch == epoch && held.session != own => {
                Ok(self.renewed(None, held.session).await?.is_some())
            }
            _ => Ok(false),
        }
    }
}

/// Refuses a lease that is over, or not of the scope that this claim is asked for in.
pub(super) async fn check(
    link: &mut Link,
    lease: SessionId,
    identity: Option<&Identity>,
    now: Timestamp,
    standing: &Standing,
) -> Result<(), Failure> {
    let scope = identity.map(|identity| identity.scope().to_string());
    let Some(row) = link.query_opt(STANDING, &[&lease.0.cast_signed(), &scope]).await? else {
        return Err(Lease::over().into());
    };
    let time = |column| get(&row, column).map(Timestamp::from_micros);
    let sign = standing.judge(now, Sign { last: time(0)?, until: time(1)? });
    if now < sign.until { Ok(()) } else { Err(Lease::over().into()) }
}

/// Reads a row `id, until`.
fn read(row: &Row) -> Result<Lease, Failure> {
    let id: i64 = get(row, 0)?;
    Ok(Lease { id: SessionId(id.cast_unsigned()), until: Timestamp::from_micros(get(row, 1)?) })
}
