//! Lanes: a row with its queue (X3). The writer decides; readers look.

use std::collections::HashMap;

use hapax_core::lane::{self, Lane, LaneId, LaneView, Standing};
use hapax_core::{ClaimId, Page, SessionId};
use hapax_store::parts::{lane_bytes, lane_mark};
use rusqlite::{Connection, Row, params};

use super::fault::Fault;
use super::reader::Reader;
use super::sum::Sum;

/// Reads a lane.
pub(super) fn read(conn: &Connection, id: &LaneId) -> Result<Option<Lane>, Fault> {
    let sql = "SELECT tenant, project, entity, lane, crc FROM lanes \
               WHERE tenant = ?1 AND project = ?2 AND entity = ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([id.tenant.as_str(), id.project.as_str(), &id.entity])?;
    rows.next()?.map(read_row).transpose()
}

/// Every row, for [`read_row`].
pub(super) const SELECT: &str = "SELECT tenant, project, entity, lane, crc FROM lanes";

/// Reads a row `tenant, project, entity, lane, crc`.
pub(super) fn read_row(row: &Row<'_>) -> Result<Lane, Fault> {
    let names: [String; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
    let lane: Vec<u8> = row.get(3)?;
    sum([&names[0], &names[1], &names[2]], &lane).check(row.get(4)?, || format!("lane {:?}", names[2]))?;
    Ok(lane_bytes::decode(&lane)?)
}

/// A page of lanes, in the order of their names.
pub(super) fn page(conn: &Connection, after: Option<&LaneId>, limit: usize) -> Result<Page<LaneId>, Fault> {
    let sql = "SELECT tenant, project, entity FROM lanes WHERE (tenant, project, entity) > (?1, ?2, ?3) \
               ORDER BY tenant, project, entity LIMIT ?4";
    let names =
        after.map_or(["", "", ""], |lane| [lane.tenant.as_str(), lane.project.as_str(), &lane.entity]);
    let mut statement = conn.prepare_cached(sql)?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![names[0], names[1], names[2], most])?;
    let mut lanes = Vec::new();
    while let Some(row) = rows.next()? {
        let names: [String; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
        lanes.push(lane_mark::named(&names[0], &names[1], &names[2])?);
    }
    let next = lanes.last().filter(|_| lanes.len() == limit).map(lane_mark::mark);
    Ok(Page::new(lanes, next))
}

/// Writes a lane. One of which nothing is left has no row.
pub(super) fn write(conn: &Connection, id: &LaneId, lane: &Lane) -> Result<(), Fault> {
    let names = [id.tenant.as_str(), id.project.as_str(), &id.entity];
    if *lane == Lane::default() {
        let sql = "DELETE FROM lanes WHERE tenant = ?1 AND project = ?2 AND entity = ?3";
        conn.prepare_cached(sql)?.execute(names)?;
        return Ok(());
    }
    let sql = "INSERT OR REPLACE INTO lanes (tenant, project, entity, lane, crc) VALUES (?1, ?2, ?3, ?4, ?5)";
    let bytes = lane_bytes::encode(lane);
    let crc = sum(names, &bytes).value();
    conn.prepare_cached(sql)?.execute(params![names[0], names[1], names[2], bytes, crc])?;
    Ok(())
}

fn sum(names: [&str; 3], lane: &[u8]) -> Sum {
    names.iter().fold(Sum::of("lanes"), |sum, name| sum.bytes(name.as_bytes())).bytes(lane)
}

/// A lane as it stands now. What a claim was a moment ago may be seen with what the lane is now: who acts on it asks the writer.
pub(super) fn look(reader: &Reader, id: &LaneId) -> Result<LaneView, Fault> {
    let (lane, time) = (read(&reader.conn, id)?.unwrap_or_default(), reader.clock.now());
    let mut living = HashMap::new();
    for ticket in &lane.tickets {
        living.insert(ticket.session, time < reader.sign(ticket.session)?.until);
    }
    let lives = |session: SessionId| living.get(&session).copied().unwrap_or(false);
    let asked = lane::asked_about(&lane, None, &lane::Moment { time, lives, standing: () });
    let mut standing = HashMap::new();
    for claim in asked {
        let is = match reader.load(&claim)? {
            Some(stored) => Standing::of(Some(&stored.claim), &reader.now(&stored.claim, time)?),
            None => Standing::Over,
        };
        standing.insert(claim, is);
    }
    let standing = |claim: &ClaimId| standing.get(claim).copied().unwrap_or(Standing::InDoubt);
    Ok(lane::view(&lane, &lane::Moment { time, lives, standing }))
}
