//! Lanes: a row with its queue (X3). It is read, `lane::step` decides, and what was decided is written if the row is still what was
//! read; otherwise it is read again. The claims that a lane asks about are read in between.

use std::collections::{HashMap, HashSet};

use hapax_core::lane::{self, Lane, LaneAnswer, LaneCommand, LaneId, LaneView, Moment, Standing, Ticket};
use hapax_core::{AttemptId, ClaimId, Error, Page, SessionId, Sign, Timestamp};
use hapax_store::parts::{lane_bytes, lane_mark};

use super::failure::Failure;
use super::link::Link;
use super::read;
use super::row::get;
use super::shared::Shared;
use crate::limits;

/// A command to a lane. The time and the session that a ticket begins with are known when it is carried out.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Enter(AttemptId, Option<ClaimId>),
    Command(LaneCommand),
}

/// A lane as it was read.
struct Found {
    time: Timestamp,
    /// None where there is no row.
    version: Option<i64>,
    lane: Lane,
    living: HashSet<SessionId>,
    standing: HashMap<ClaimId, Standing>,
}

/// Carries out one command. Carried out again it finds what it did before.
pub(super) async fn carry_out(
    shared: &Shared,
    link: &mut Link,
    id: &LaneId,
    told: &Told,
) -> Result<LaneAnswer, Failure> {
    let own = match told {
        Told::Enter(..) => shared.standing().await?,
        Told::Command(_) => shared.session.known().id,
    };
    for _ in 0..limits::LANE_TRIES {
        let mut found = read_lane(shared, link, id, Some(own)).await?;
        let command = match told {
            Told::Enter(ticket, claim) => {
                LaneCommand::Enter(Ticket::new(*ticket, own, *claim, found.time, shared.options.term))
            }
            Told::Command(command) => command.clone(),
        };
        found.look_at_claims(shared, link, Some(&command)).await?;
        let (after, answer) = lane::step(&found.lane, &command, &found.moment());
        if after == found.lane {
            return Ok(answer);
        }
        if write(link, id, &after, found.version).await? {
            let elsewhere = after.tickets.iter().any(|ticket| ticket.session != own);
            shared.watchers.lane_changed(&id.digest(), elsewhere);
            return Ok(answer);
        }
    }
    Err(Failure::Busy)
}

/// A lane as it stands now.
pub(super) async fn look(shared: &Shared, link: &mut Link, id: &LaneId) -> Result<LaneView, Failure> {
    let mut found = read_lane(shared, link, id, None).await?;
    found.look_at_claims(shared, link, None).await?;
    Ok(lane::view(&found.lane, &found.moment()))
}

impl Found {
    /// Reads the claims that the lane asks about: after it, so that what they are is not older than what it is.
    async fn look_at_claims(
        &mut self,
        shared: &Shared,
        link: &mut Link,
        command: Option<&LaneCommand>,
    ) -> Result<(), Failure> {
        let lives = |session: SessionId| self.living.contains(&session);
        let moment = Moment { time: self.time, lives, standing: () };
        let claims = lane::asked_about(&self.lane, command, &moment);
        if !claims.is_empty() {
            self.standing = read::standing(shared, link, &claims).await?;
        }
        Ok(())
    }

    fn moment(&self) -> Moment<impl Fn(SessionId) -> bool, impl Fn(&ClaimId) -> Standing> {
        Moment {
            time: self.time,
            lives: |session| self.living.contains(&session),
            standing: |claim: &ClaimId| self.standing.get(claim).copied().unwrap_or(Standing::Over),
        }
    }
}

async fn read_lane(
    shared: &Shared,
    link: &mut Link,
    id: &LaneId,
    own: Option<SessionId>,
) -> Result<Found, Failure> {
    let (digest, own) = (id.digest(), own.map(|own| own.0.cast_signed()));
    let rows = link.query(READ, &[&shared.session.given_time(), &&digest.as_bytes()[..], &own]).await?;
    let (mut living, mut found) = (HashSet::new(), None);
    for row in &rows {
        let time = |column| Ok::<_, Error>(Timestamp::from_micros(get(row, column)?));
        let now = time(0)?;
        if found.is_none() {
            let bytes: Option<&[u8]> = get(row, 2)?;
            let lane = bytes.map(lane_bytes::decode).transpose()?.unwrap_or_default();
            found = Some((now, get(row, 1)?, lane));
        }
        let Some(session) = get::<Option<i64>>(row, 3)? else { continue };
        if shared.session.judge(now, Sign { last: time(4)?, until: time(5)? }).until > now {
            living.insert(SessionId(session.cast_unsigned()));
        }
    }
    let (time, version, lane) = found.ok_or_else(super::confused)?;
    Ok(Found { time, version, lane, living, standing: HashMap::new() })
}

/// Writes a lane unless somebody else has written it since it was read. One of which nothing is left has no row.
async fn write(link: &mut Link, id: &LaneId, lane: &Lane, version: Option<i64>) -> Result<bool, Failure> {
    let digest = id.digest();
    let digest = &digest.as_bytes()[..];
    let (tenant, project, entity) = (id.tenant.as_str(), id.project.as_str(), id.entity.as_bytes());
    let bytes = lane_bytes::encode(lane);
    let mut sessions: Vec<i64> = lane.tickets.iter().map(|ticket| ticket.session.0.cast_signed()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let rows = match version {
        Some(version) if *lane == Lane::default() => link.query(DELETE, &[&digest, &version]).await?,
        Some(version) => link.query(UPDATE, &[&digest, &version, &bytes, &sessions]).await?,
        None => link.query(INSERT, &[&digest, &tenant, &project, &entity, &bytes, &sessions]).await?,
    };
    Ok(!rows.is_empty())
}

/// A page of lanes, in the order of their digests.
pub(super) async fn page(
    link: &mut Link,
    after: Option<&LaneId>,
    limit: usize,
) -> Result<Page<LaneId>, Failure> {
    let after = after.map(LaneId::digest);
    let after = after.as_ref().map(|digest| &digest.as_bytes()[..]);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = link.query(PAGE, &[&after, &most]).await?;
    let mut lanes = Vec::with_capacity(rows.len());
    for row in &rows {
        let entity = String::from_utf8_lossy(get::<&[u8]>(row, 2)?).into_owned();
        lanes.push(lane_mark::named(get(row, 0)?, get(row, 1)?, &entity)?);
    }
    let next = lanes.last().filter(|_| lanes.len() == limit).map(lane_mark::mark);
    Ok(Page::new(lanes, next))
}

/// The versions of watched lanes.
pub(super) async fn versions(link: &mut Link, lanes: &[ClaimId]) -> Result<HashMap<ClaimId, i64>, Failure> {
    let rows = link.query(VERSIONS, &[&read::digests(lanes)]).await?;
    let mut versions = HashMap::new();
    for row in &rows {
        if let Ok(digest) = get::<&[u8]>(row, 0)?.try_into() {
            versions.insert(ClaimId::from_bytes(digest), get(row, 1)?);
        }
    }
    Ok(versions)
}

const READ: &str = "\
    SELECT t.now, l.version, l.lane, s.id, s.last, s.until \
    FROM (SELECT coalesce($1::bigint, hapax.clock()) AS now) t \
    LEFT JOIN hapax.lanes l ON l.digest = $2 \
    LEFT JOIN hapax.sessions s ON s.id = ANY(coalesce(l.sessions, '{}') || $3::bigint)";

/// A version is never used twice: a row that was deleted and made again is not taken for what it was.
const UPDATE: &str = "\
    UPDATE hapax.lanes SET version = nextval('hapax.lane_versions'), lane = $3, sessions = $4 \
    WHERE digest = $1 AND version = $2 RETURNING 1";

const INSERT: &str = "\
    INSERT INTO hapax.lanes (digest, tenant, project, entity, lane, sessions, version) \
    VALUES ($1, $2, $3, $4, $5, $6, nextval('hapax.lane_versions')) ON CONFLICT DO NOTHING RETURNING 1";

const DELETE: &str = "DELETE FROM hapax.lanes WHERE digest = $1 AND version = $2 RETURNING 1";

const PAGE: &str = "\
    SELECT tenant, project, entity FROM hapax.lanes WHERE digest > coalesce($1, ''::bytea) ORDER BY digest LIMIT $2";

const VERSIONS: &str = "SELECT digest, version FROM hapax.lanes WHERE digest = ANY($1)";
