//! Lanes: a row with its queue, locked while `lane::step` decides (X3).

use std::collections::HashSet;

use hapax_core::lane::{self, Lane, LaneAnswer, LaneCommand, LaneId, Ticket};
use hapax_core::{AttemptId, ClaimId, Error, SessionId, Sign, Timestamp};
use tokio_postgres::Row;

use super::failure::Failure;
use super::link::Link;
use super::row::{Uuid, get, unreadable};
use super::session::Standing;

/// Carries out one command.
pub(super) async fn carry_out(
    link: &mut Link,
    id: &LaneId,
    command: &LaneCommand,
    standing: &Standing,
) -> Result<LaneAnswer, Failure> {
    let (tenant, project, entity) = (id.tenant.as_str(), id.project.as_str(), id.entity.as_bytes());
    link.begin(
        "INSERT INTO hapax.lanes (tenant, project, entity) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        &[&tenant, &project, &entity],
    )
    .await?;
    // Gone if whoever was the last to leave took the row away just now.
    let row = link.query_opt(LOCK, &[&tenant, &project, &entity]).await?.ok_or(Failure::Busy)?;
    let before = read(&row)?;
    let living = living(link, &before, command, standing).await?;
    let (after, answer) = lane::step(&before, command, |session| living.contains(&session));
    if after.tickets.is_empty() && after.closed_by.is_none() {
        link.query(
            "DELETE FROM hapax.lanes WHERE tenant = $1 AND project = $2 AND entity = $3",
            &[&tenant, &project, &entity],
        )
        .await?;
    } else if after != before {
        let tickets: Vec<Uuid> = after.tickets.iter().map(|ticket| ticket.id.into()).collect();
        let sessions: Vec<i64> = after.tickets.iter().map(|ticket| ticket.session.0.cast_signed()).collect();
        let closed_by = after.closed_by.as_ref().map(|claim| &claim.as_bytes()[..]);
        link.query(WRITE, &[&tenant, &project, &entity, &tickets, &sessions, &closed_by]).await?;
    }
    link.commit().await?;
    Ok(answer)
}

const LOCK: &str = "\
    SELECT tickets, sessions, closed_by FROM hapax.lanes WHERE tenant = $1 AND project = $2 AND entity = $3 FOR UPDATE";

const WRITE: &str = "\
    UPDATE hapax.lanes SET tickets = $4, sessions = $5, closed_by = $6 \
    WHERE tenant = $1 AND project = $2 AND entity = $3";

fn read(row: &Row) -> Result<Lane, Error> {
    let (tickets, sessions): (Vec<Uuid>, Vec<i64>) = (get(row, 0)?, get(row, 1)?);
    if tickets.len() != sessions.len() {
        return Err(unreadable("tickets"));
    }
    let tickets = tickets.into_iter().zip(sessions).map(|(id, session)| Ticket {
        id: AttemptId::from_bytes(id.0),
        session: SessionId(session.cast_unsigned()),
    });
    let closed_by: Option<&[u8]> = get(row, 2)?;
    let closed_by = closed_by.map(|digest| digest.try_into().map(ClaimId::from_bytes)).transpose();
    Ok(Lane { tickets: tickets.collect(), closed_by: closed_by.map_err(|_| unreadable("closed_by"))? })
}

/// Which of the sessions in a lane, and of the one that enters, have their term running.
async fn living(
    link: &mut Link,
    lane: &Lane,
    command: &LaneCommand,
    standing: &Standing,
) -> Result<HashSet<SessionId>, Failure> {
    let mut sessions: Vec<i64> = lane.tickets.iter().map(|ticket| ticket.session.0.cast_signed()).collect();
    if let LaneCommand::Enter(ticket) = command {
        sessions.push(ticket.session.0.cast_signed());
    }
    let sql =
        "SELECT id, last, until, coalesce($2::bigint, hapax.clock()) FROM hapax.sessions WHERE id = ANY($1)";
    let rows = link.query(sql, &[&sessions, &standing.given_time()]).await?;
    let mut living = HashSet::new();
    for row in &rows {
        let time = |column| Ok::<_, Error>(Timestamp::from_micros(get(row, column)?));
        let now = time(3)?;
        if standing.judge(now, Sign { last: time(1)?, until: time(2)? }).until > now {
            living.insert(SessionId(get::<i64>(row, 0)?.cast_unsigned()));
        }
    }
    Ok(living)
}
