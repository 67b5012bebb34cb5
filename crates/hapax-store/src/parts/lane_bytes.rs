//! A lane as one record of bytes, the same in every store that has rows.

use hapax_core::lane::{Lane, Recent, RecentTool, Ticket};
use hapax_core::{AttemptId, ClaimId, Error, SessionId, Timestamp};

/// The form of the record.
const FORM: u8 = 1;

/// Writes a lane.
pub fn encode(lane: &Lane) -> Vec<u8> {
    let mut bytes = vec![FORM];
    put_claim(&mut bytes, lane.closed_by.as_ref());
    put_length(&mut bytes, lane.tickets.len());
    for ticket in &lane.tickets {
        bytes.extend(ticket.id.as_bytes());
        bytes.extend(ticket.session.0.to_be_bytes());
        put_claim(&mut bytes, ticket.claim.as_ref());
        bytes.extend(ticket.until.as_micros().to_be_bytes());
        bytes.push(ticket.begun.into());
    }
    bytes.extend(lane.recent.forgotten().as_micros().to_be_bytes());
    put_length(&mut bytes, lane.recent.tools().len());
    for tool in lane.recent.tools() {
        put_length(&mut bytes, tool.name.len());
        bytes.extend(tool.name.as_bytes());
        bytes.extend(tool.forgotten.as_micros().to_be_bytes());
        put_length(&mut bytes, tool.times.len());
        tool.times.iter().for_each(|time| bytes.extend(time.as_micros().to_be_bytes()));
    }
    bytes
}

/// Reads a lane back.
pub fn decode(bytes: &[u8]) -> Result<Lane, Error> {
    let mut rest = Rest(bytes);
    let lane = (rest.take()? == [FORM]).then(|| rest.lane()).flatten();
    lane.filter(|_| rest.0.is_empty()).ok_or_else(unreadable)
}

fn unreadable() -> Error {
    Error::corrupt("a lane's record cannot be read")
}

fn put_claim(bytes: &mut Vec<u8>, claim: Option<&ClaimId>) {
    bytes.push(claim.is_some().into());
    claim.into_iter().for_each(|claim| bytes.extend(claim.as_bytes()));
}

/// Every length has a bound that is far below this.
fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn some<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn take(&mut self) -> Result<[u8; 1], Error> {
        self.some().ok_or_else(unreadable)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.some::<1>()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn time(&mut self) -> Option<Timestamp> {
        self.some().map(|bytes| Timestamp::from_micros(i64::from_be_bytes(bytes)))
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_be_bytes(self.some()?)).ok()
    }

    /// As many as it says; a length that the record has no room for ends the reading, not the memory.
    fn many<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.length()?).map(|_| one(self)).collect()
    }

    fn claim(&mut self) -> Option<Option<ClaimId>> {
        match self.flag()? {
            true => self.some().map(|bytes| Some(ClaimId::from_bytes(bytes))),
            false => Some(None),
        }
    }

    fn ticket(&mut self) -> Option<Ticket> {
        Some(Ticket {
            id: AttemptId::from_bytes(self.some()?),
            session: SessionId(u64::from_be_bytes(self.some()?)),
            claim: self.claim()?,
            until: self.time()?,
            begun: self.flag()?,
        })
    }

    fn tool(&mut self) -> Option<RecentTool> {
        let name = self.many(|rest| rest.some::<1>().map(|[byte]| byte))?;
        let (name, forgotten) = (String::from_utf8(name).ok()?, self.time()?);
        Some(RecentTool { name, forgotten, times: self.many(Self::time)? })
    }

    fn lane(&mut self) -> Option<Lane> {
        let (closed_by, tickets) = (self.claim()?, self.many(Self::ticket)?);
        let forgotten = self.time()?;
        Some(Lane { tickets, closed_by, recent: Recent::new(self.many(Self::tool)?, forgotten) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Lane {
        let time = Timestamp::from_micros;
        let ticket = |id: u8, claim, begun| Ticket {
            id: AttemptId::from_bytes([id; 16]),
            session: SessionId(u64::from(id) << 40),
            claim,
            until: time(i64::from(id) * 1_000_000_007),
            begun,
        };
        let claim = Some(ClaimId::from_bytes([9; 32]));
        let tool = |name: &str, times: &[i64]| RecentTool {
            name: name.into(),
            times: times.iter().copied().map(time).collect(),
            forgotten: time(5),
        };
        Lane {
            tickets: vec![ticket(1, None, false), ticket(2, claim, true)],
            closed_by: claim,
            recent: Recent::new(vec![tool("größe", &[6, 7, i64::MAX]), tool("x", &[])], time(4)),
        }
    }

    #[test]
    fn a_lane_is_read_back_as_it_was_written() {
        for lane in [Lane::default(), lane()] {
            assert_eq!(decode(&encode(&lane)).unwrap(), lane);
        }
    }

    #[test]
    fn a_record_that_was_cut_or_has_more_is_refused() {
        let bytes = encode(&lane());
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(decode(&[2]).is_err(), "another form");
    }
}
