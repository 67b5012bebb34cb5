//! The newest claims of several shelves, as one list (L17).
//!
//! Claims lie shelf by shelf, each shelf in the order of opening. The newest of all are a merge of the shelves' ends: one look at the end
//! of each, and more only of those whose claims are listed. A page goes on after a time and an id, so that it needs no place on each shelf.

use std::collections::VecDeque;

use hapax_api::ClaimsQuery;
use hapax_core::{
    Damaged, Error, Filter, Inspect, ListOrder, OperationId, Page, Record, Shelf, StateName, Timestamp,
};

use crate::limits;

/// Why the newest of all shelves are not listed: merging them would look at each.
const TOO_MANY: &str = "there are too many shelves to list the newest claims of all: name a tenant";

/// Whether a listing was refused because it has too many shelves.
pub(super) fn has_too_many(error: &Error) -> bool {
    error.message() == TOO_MANY
}

/// The end of a shelf, as far as it was read.
struct End {
    filter: Filter,
    read: VecDeque<Record>,
    /// Where to go on; `None` where all of it was read.
    next: Option<String>,
}

/// What a listing has come to.
struct Listing {
    looked_at: usize,
    damaged: Vec<Damaged>,
}

/// After which claim a page starts: the time of its opening, and its id.
type Mark = (Timestamp, OperationId);

fn read_mark(mark: &str) -> Result<Mark, Error> {
    let parts = mark.strip_prefix('n').and_then(|mark| mark.split_once('.'));
    let read = parts.and_then(|(at, id)| Some((Timestamp::from_micros(at.parse().ok()?), id.parse().ok()?)));
    read.ok_or_else(|| Error::invalid("that is no page mark of this listing"))
}

fn write_mark(record: &Record) -> String {
    format!("n{}.{}", record.claim.opened_at.as_micros(), record.claim.operation_id)
}

fn order(record: &Record) -> Mark {
    (record.claim.opened_at, record.claim.operation_id)
}

/// One page of the newest claims that the filter means and that fit.
pub(super) async fn list(
    store: &impl Inspect,
    query: &ClaimsQuery,
    filter: &Filter,
    limit: usize,
    fits: impl Fn(&Record) -> bool,
    until: Option<Timestamp>,
) -> Result<Page<Record>, Error> {
    let after = query.after.as_deref().map(read_mark).transpose()?;
    let mut listing = Listing { looked_at: 0, damaged: Vec::new() };
    let mut ends = ends(store, filter, after).await?;
    // Little of each where there are many.
    let chunk = (limits::NEWEST_SCAN / ends.len().max(1)).clamp(1, limit);
    for end in &mut ends {
        more(store, end, chunk, &mut listing).await?;
    }
    let (mut items, mut last) = (Vec::new(), None);
    while items.len() < limit {
        let first =
            ends.iter_mut().filter(|end| !end.read.is_empty()).max_by_key(|end| end.read.front().map(order));
        let Some(end) = first else { break };
        let Some(record) = end.read.pop_front() else { break };
        if until.is_some_and(|until| record.claim.opened_at < until) {
            return Ok(Page {
                looked_at: listing.looked_at,
                damaged: listing.damaged,
                ..Page::new(items, None)
            });
        }
        if after.is_none_or(|after| order(&record) < after) {
            last = Some(write_mark(&record));
            if fits(&record) {
                items.push(record);
            }
        }
        if end.read.is_empty() && end.next.is_some() {
            if listing.looked_at >= limits::NEWEST_SCAN {
                break;
            }
            more(store, end, limit, &mut listing).await?;
        }
    }
    let left = ends.iter().any(|end| !end.read.is_empty() || end.next.is_some());
    Ok(Page {
        looked_at: listing.looked_at,
        damaged: listing.damaged,
        ..Page::new(items, last.filter(|_| left))
    })
}

/// The shelves that have such claims, each with nothing read.
async fn ends(store: &impl Inspect, filter: &Filter, after: Option<Mark>) -> Result<Vec<End>, Error> {
    let Filter { tenant, project, operation, .. } = filter.clone();
    let names = Filter { tenant, project, operation, ..Filter::default() };
    let shelves = store.shelves(&names, None, limits::NEWEST_SHELVES).await?;
    if shelves.next.is_some() {
        return Err(Error::invalid(TOO_MANY));
    }
    // A page's first claim may share its time with the last one of the page before.
    let later = after.map(|(at, _)| Timestamp::from_micros(at.as_micros().saturating_add(1)));
    let before = [later, filter.opened_before].into_iter().flatten().min();
    let has = |shelf: &Shelf| match filter.state {
        Some(StateName::Settled) => shelf.counts.settled > 0,
        // What is held may have lapsed since it was counted.
        Some(_) => shelf.counts.in_doubt + shelf.counts.released + shelf.counts.held > 0,
        None => true,
    };
    let end = |shelf: Shelf| End {
        filter: Filter {
            tenant: Some(shelf.tenant),
            project: Some(shelf.project),
            operation: Some(shelf.operation),
            order: ListOrder::Newest,
            opened_before: before,
            ..filter.clone()
        },
        read: VecDeque::new(),
        next: None,
    };
    Ok(shelves.items.into_iter().filter(has).map(end).collect())
}

/// Reads on until there is something, the shelf's end has come, or enough was looked at.
async fn more(store: &impl Inspect, end: &mut End, limit: usize, listing: &mut Listing) -> Result<(), Error> {
    loop {
        let page = store.list(&end.filter, end.next.as_deref(), limit).await?;
        listing.looked_at += page.looked_at.max(1);
        listing.damaged.extend(page.damaged);
        end.read.extend(page.items);
        end.next = page.next;
        if !end.read.is_empty() || end.next.is_none() || listing.looked_at >= limits::NEWEST_SCAN {
            return Ok(());
        }
    }
}
