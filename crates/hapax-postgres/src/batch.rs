//! The fast path: claims and settles that wait together share one statement and one commit (B3).
//!
//! Two batches are in flight at a time, each on its own thread and connection. While they are under way, the next one
//! gathers. A batch of one takes a statement made for one. Only two transitions
//! happen here, absent → held and held → settled; everything else that `step` wants is handed to
//! [`change`](super::change).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax_core::claim::Report;
use hapax_core::{
    Ask, ClaimId, ClaimRequest, Command, Ending, Epoch, Error, Identity, Kind, Outcome, Retention, SessionId,
    Verdict,
};
use hapax_store::parts::clock;
use hapax_store::table::Mark;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::answer;
use super::change::Order;
use super::failure::Failure;
use super::link::{Line, Link};
use super::queue::{Turn, Weigh};
use super::row::{Letter, OutcomeColumns, Uuid, keep, micros, pack_fingerprint, pack_terms, packed};
use super::shared::Shared;
use super::shelf::ShelfName;

/// A command that can share a statement with others.
pub(super) enum Item {
    Claim(Box<Claiming>),
    Settle(Box<Settling>),
}

/// Somebody asks for a grant.
pub(super) struct Claiming {
    pub(super) id: ClaimId,
    pub(super) ask: Ask,
    pub(super) identity: Identity,
    pub(super) shelf: ShelfName,
    pub(super) mark: Mark,
    pub(super) reply: oneshot::Sender<Result<Verdict, Error>>,
    deadline: Instant,
    encoded_identity: Vec<u8>,
    packed_terms: Vec<u8>,
    packed_fingerprint: [u8; 40],
}

impl Claiming {
    pub(super) fn new(
        request: ClaimRequest,
        session: SessionId,
        mark: Mark,
        deadline: Instant,
        reply: oneshot::Sender<Result<Verdict, Error>>,
    ) -> Claiming {
        Claiming {
            id: request.identity.claim_id(),
            ask: request.ask(session),
            shelf: ShelfName::of(&request.identity),
            mark,
            deadline,
            reply,
            encoded_identity: request.identity.encode(),
            packed_terms: pack_terms(&request.terms),
            packed_fingerprint: pack_fingerprint(&request.fingerprint),
            identity: request.identity,
        }
    }

    fn leaves(&self) -> Option<&[u8]> {
        self.ask.leaves.as_ref().map(|leaves| &leaves.as_bytes()[..])
    }
}

/// A holder settles.
pub(super) struct Settling {
    pub(super) id: ClaimId,
    pub(super) epoch: Epoch,
    pub(super) outcome: Outcome,
    pub(super) retention: Retention,
    pub(super) mark: Mark,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<Ending, Error>>,
}

impl Settling {
    /// The command, for those who decide it in the slow way.
    pub(super) fn command(&self) -> Command {
        Command::Hold(self.epoch, Report::Settle(self.outcome.clone(), self.retention))
    }
}

impl Item {
    /// Has it decided in the slow way.
    fn hand_in(self, shared: &Arc<Shared>) {
        match self {
            Item::Claim(claiming) => Order::claim(*claiming).hand_in(shared),
            Item::Settle(settling) => Order::settle(shared, *settling).hand_in(shared),
        }
    }

    /// Until when it is sent again where its connection is lost. It counts from when it was asked for, however often one
    /// connection leaves it to another one.
    fn deadline(&self) -> Instant {
        match self {
            Item::Claim(claiming) => claiming.deadline,
            Item::Settle(settling) => settling.deadline,
        }
    }

    fn refuse(self, error: Error) {
        // Whoever asked may have gone.
        match self {
            Item::Claim(claiming) => drop(claiming.reply.send(Err(error))),
            Item::Settle(settling) => drop(settling.reply.send(Err(error))),
        }
    }
}

impl Weigh for Item {
    fn weight(&self) -> usize {
        match self {
            Item::Claim(claiming) => {
                claiming.encoded_identity.len() + claiming.leaves().map_or(0, <[u8]>::len)
            }
            Item::Settle(settling) => settling.outcome.len(),
        }
    }
}

/// Serves batches on one connection. Whoever cannot have one leaves them to the others as long as these have theirs: a server may
/// have room for some connections and not for all of them.
pub(super) async fn serve(shared: Arc<Shared>) {
    let mut line = Line::new(shared.database.clone());
    let mut serving = Serving { lines: &shared.batch_lines, counted: false };
    while let Some((items, mut turn)) = shared.batches.share().await {
        serve_batch(&shared, &mut line, items, &mut turn, &mut serving).await;
        drop(turn);
        // Counted again before each look at the others: two who wait for a connection must not take each other for one who serves.
        while {
            serving.count(line.has_served());
            serving.others() && line.link().await.is_err()
        } {}
    }
}

/// Counts those whose connection has served a batch.
struct Serving<'a> {
    lines: &'a AtomicUsize,
    counted: bool,
}

impl Serving<'_> {
    fn others(&self) -> bool {
        self.lines.load(Ordering::SeqCst) > usize::from(self.counted)
    }

    fn count(&mut self, serves: bool) {
        match (std::mem::replace(&mut self.counted, serves), serves) {
            (false, true) => _ = self.lines.fetch_add(1, Ordering::SeqCst),
            (true, false) => _ = self.lines.fetch_sub(1, Ordering::SeqCst),
            _ => {}
        }
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.count(false);
    }
}

async fn serve_batch(
    shared: &Arc<Shared>,
    line: &mut Line,
    items: Vec<Item>,
    turn: &mut Turn<'_, Item>,
    serving: &mut Serving<'_>,
) {
    let mut batches = vec![Batch::new(items)];
    while let Some(mut batch) = batches.pop() {
        match attempt(shared, line, &mut batch).await {
            Ok(done) => {
                if batches.is_empty() {
                    turn.answers();
                }
                answer::batch(shared, batch, done);
            }
            // The same attempts and the same epochs again: whatever was carried out is found to have been
            // (L13).
            Err(failure @ (Failure::Lost(_) | Failure::Unknown(_))) => {
                serving.count(false);
                let rest = batch.refuse_overdue(failure);
                match serving.others() {
                    _ if rest.is_empty() => {}
                    true => shared.batches.give_back(rest.into_iter()),
                    false => batches.push(Batch::new(rest)),
                }
            }
            // Somebody keeps a row, or the statement failed for one of them: each alone tells for which.
            Err(failure) if batch.len() > 1 && is_about_one(&failure) => batches.extend(batch.into_alone()),
            Err(Failure::Busy) => batch.into_items().for_each(|item| item.hand_in(shared)),
            Err(failure) => {
                let error = failure.into_error();
                batch.into_items().for_each(|item| item.refuse(error.clone()));
            }
        }
    }
}

fn is_about_one(failure: &Failure) -> bool {
    match failure {
        Failure::Busy => true,
        Failure::Refused(error) => error.kind() != Kind::Unavailable,
        _ => false,
    }
}

/// A batch in the order in which it is sent.
pub(super) struct Batch {
    /// One claim per identity, by digest, then those that ask for the same as one of these.
    pub(super) claims: Vec<Claiming>,
    pub(super) more_claims: Vec<Claiming>,
    /// One settle per claim, by digest, then those of the same claims.
    pub(super) settles: Vec<Settling>,
    pub(super) more_settles: Vec<Settling>,
}

impl Batch {
    fn new(items: Vec<Item>) -> Batch {
        let (mut claims, mut settles) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for item in items {
            match item {
                Item::Claim(claiming) => claims.push(*claiming),
                Item::Settle(settling) => settles.push(*settling),
            }
        }
        let (claims, more_claims) = first_of_each(claims, |claiming| claiming.id);
        let (settles, more_settles) = first_of_each(settles, |settling| settling.id);
        Batch { claims, more_claims, settles, more_settles }
    }

    fn len(&self) -> usize {
        self.claims.len() + self.more_claims.len() + self.settles.len() + self.more_settles.len()
    }

    /// A batch for each.
    fn into_alone(self) -> impl Iterator<Item = Batch> {
        self.into_items().map(|item| Batch::new(vec![item]))
    }

    /// Refuses those for whom it is too late to be sent again, and gives the others.
    fn refuse_overdue(self, failure: Failure) -> Vec<Item> {
        let now = clock::timer_now();
        let (overdue, rest): (Vec<Item>, Vec<Item>) =
            self.into_items().partition(|item| item.deadline() <= now);
        let error = failure.into_error();
        overdue.into_iter().for_each(|item| item.refuse(error.clone()));
        rest
    }

    /// All claims of a batch are asked for by the session of the moment. Without one that stands they are refused; settles
    /// need none.
    async fn stand(&mut self, shared: &Shared) {
        if self.claims.is_empty() {
            return;
        }
        match shared.standing().await {
            Ok(session) => {
                let all = self.claims.iter_mut().chain(&mut self.more_claims);
                all.for_each(|claiming| claiming.ask.session = session);
            }
            Err(error) => {
                let all = self.claims.drain(..).chain(self.more_claims.drain(..));
                all.for_each(|claiming| Item::Claim(Box::new(claiming)).refuse(error.clone()));
            }
        }
    }

    fn into_items(self) -> impl Iterator<Item = Item> {
        let claims =
            self.claims.into_iter().chain(self.more_claims).map(|claim| Item::Claim(Box::new(claim)));
        let settles =
            self.settles.into_iter().chain(self.more_settles).map(|settle| Item::Settle(Box::new(settle)));
        claims.chain(settles)
    }
}

/// Sorts by claim; of several for one claim the one that came first leads.
fn first_of_each<T>(mut items: Vec<T>, id: impl Fn(&T) -> ClaimId) -> (Vec<T>, Vec<T>) {
    items.sort_by_key(&id);
    let mut last = None;
    let (mut first, mut more) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items {
        let this = Some(id(&item));
        if last == this {
            more.push(item)
        } else {
            first.push(item)
        }
        last = this;
    }
    (first, more)
}

async fn attempt(shared: &Shared, line: &mut Line, batch: &mut Batch) -> Result<answer::Done, Failure> {
    let link = line.link().await?;
    batch.stand(shared).await;
    let result = send(shared, link, batch).await;
    line.ended(&result);
    result
}

async fn send(shared: &Shared, link: &mut Link, batch: &Batch) -> Result<answer::Done, Failure> {
    fail::fail_point!("postgres.before_commit", |_| Err(link.cut()));
    if !batch.claims.is_empty() {
        let names: Vec<&ShelfName> = batch.claims.iter().map(|claiming| &claiming.shelf).collect();
        shared.database.shelves.number(link, &names).await?;
    }
    if to_be_cut() {
        return send_and_cut(shared, link, batch).await;
    }
    let done = match (&batch.claims[..], &batch.more_claims[..], &batch.settles[..]) {
        ([claiming], [], []) => claim_one(shared, link, claiming).await?,
        ([], [], [settling]) => settle_one(shared, link, settling).await?,
        _ => send_arrays(shared, link, batch).await?,
    };
    fail::fail_point!("postgres.after_commit", |_| Err(link.cut()));
    if to_be_cut_when_answered() {
        link.cut();
        while !link.is_closed() {
            tokio::task::yield_now().await;
        }
    }
    Ok(done)
}

/// Whether a test wants the connection cut when a batch is on its way.
fn to_be_cut() -> bool {
    fail::fail_point!("postgres.cut_after_send", |_| true);
    false
}

/// Whether a test wants the connection known to be cut as soon as a batch was answered.
fn to_be_cut_when_answered() -> bool {
    fail::fail_point!("postgres.cut_when_answered", |_| true);
    false
}

async fn send_and_cut(shared: &Shared, link: &mut Link, batch: &Batch) -> Result<answer::Done, Failure> {
    let sent = std::time::Duration::from_millis(2);
    let _ = tokio::time::timeout(sent, send_arrays(shared, link, batch)).await;
    Err(link.cut())
}

async fn claim_one(shared: &Shared, link: &mut Link, claiming: &Claiming) -> Result<answer::Done, Failure> {
    let shelf = shelf_of(shared, claiming)?;
    let rows = link
        .query(
            CLAIM_ONE,
            &[
                &shared.session.given_time(),
                &claiming.ask.session.0.cast_signed(),
                &&claiming.id.as_bytes()[..],
                &Uuid::from(claiming.ask.attempt),
                &Uuid::from(claiming.ask.operation_id),
                &&claiming.packed_fingerprint[..],
                &claiming.packed_terms,
                &micros(claiming.ask.terms.max_run),
                &shelf,
                &claiming.encoded_identity,
                &claiming.leaves(),
            ],
        )
        .await?;
    if let Some(granted) = rows.first() {
        return answer::Done::of_grant(claiming.id, granted);
    }
    let present = link.query(PRESENT, &[&shared.session.given_time(), &&claiming.id.as_bytes()[..]]).await?;
    answer::Done::of_present(claiming.id, present.first())
}

async fn settle_one(shared: &Shared, link: &mut Link, settling: &Settling) -> Result<answer::Done, Failure> {
    let outcome = OutcomeColumns::from(&settling.outcome);
    let (since_grant, keep) = keep(settling.retention);
    let rows = link
        .query(
            SETTLE_ONE,
            &[
                &shared.session.given_time(),
                &&settling.id.as_bytes()[..],
                &packed(settling.epoch),
                &since_grant,
                &keep,
                &outcome.kind,
                &outcome.status,
                &outcome.checksum,
                &outcome.bytes,
            ],
        )
        .await?;
    answer::Done::of_settle(settling.id, rows.first())
}

async fn send_arrays(shared: &Shared, link: &mut Link, batch: &Batch) -> Result<answer::Done, Failure> {
    let (claims, settles) = (&batch.claims[..], &batch.settles[..]);
    let shelves =
        claims.iter().map(|claiming| shelf_of(shared, claiming)).collect::<Result<Vec<i32>, _>>()?;
    let outcomes: Vec<OutcomeColumns<'_>> =
        settles.iter().map(|s| OutcomeColumns::from(&s.outcome)).collect();
    let keeps: Vec<(bool, i64)> = settles.iter().map(|s| keep(s.retention)).collect();
    let session = claims.first().map_or(0, |claiming| claiming.ask.session.0.cast_signed());
    let rows = link
        .query(
            BATCH,
            &[
                &shared.session.given_time(),
                &session,
                // Only who asks for what another one of the batch is granted needs to know how the session
                // stands.
                &!batch.more_claims.is_empty(),
                &column(claims, |c| &c.id.as_bytes()[..]),
                &column(claims, |c| Uuid::from(c.ask.attempt)),
                &column(claims, |c| Uuid::from(c.ask.operation_id)),
                &column(claims, |c| &c.packed_fingerprint[..]),
                &column(claims, |c| &c.packed_terms[..]),
                &column(claims, |c| micros(c.ask.terms.max_run)),
                &shelves,
                &column(claims, |c| &c.encoded_identity[..]),
                &column(claims, Claiming::leaves),
                &column(settles, |s| &s.id.as_bytes()[..]),
                &column(settles, |s| packed(s.epoch)),
                &column(&keeps, |keep| keep.0),
                &column(&keeps, |keep| keep.1),
                &column(&outcomes, |outcome| -> Letter { outcome.kind }),
                &column(&outcomes, |outcome| outcome.status),
                &column(&outcomes, |outcome| outcome.checksum),
                &column(&outcomes, |outcome| outcome.bytes),
            ],
        )
        .await?;
    answer::Done::of_batch(&rows)
}

fn column<'a, T, C>(items: &'a [T], of: impl Fn(&'a T) -> C) -> Vec<C> {
    items.iter().map(of).collect()
}

/// Shelves are numbered before they are used; only a cleared memory of them can fail here, and that is tried
/// again.
fn shelf_of(shared: &Shared, claiming: &Claiming) -> Result<i32, Failure> {
    shared.database.shelves.get(&claiming.shelf).ok_or(Failure::Busy)
}

/// The moment at which a statement for one came to the server: the same wherever the statement says it, without a subquery. Whoever
/// has waited for a row finds it taken and changes nothing, so hardly any time passes until something changes.
macro_rules! moment {
    () => {
        "coalesce($1::bigint, (date_part('epoch', statement_timestamp()) * 1000000)::bigint)"
    };
}

/// What `hapax.batch` does, for one claim. No row: it is there already, or somebody else was granted it at the same
/// moment. What is there is read apart: a grant, which is what nearly every claim comes to, need not open the tables that
/// only showing a claim takes.
pub(super) const CLAIM_ONE: &str = concat!(
    "WITH won AS ( \
        INSERT INTO hapax.claims AS c (digest, epoch, opened_at, granted_at, since, until, session, shelf, state, note, \
            earlier, watched, leaving, attempt, operation_id, fingerprint, terms, identity, leaves) \
        SELECT $3, nextval('hapax.epochs'), ",
    moment!(),
    ", ",
    moment!(),
    ", ",
    moment!(),
    ", hapax.later(",
    moment!(),
    ", $8), $2, $9, 'H', '-', 'n', false, false, $4, $5, $6, $7, $10, $11 \
        WHERE NOT EXISTS (SELECT FROM hapax.claims present WHERE present.digest = $3) \
        ON CONFLICT (digest) DO NOTHING RETURNING c.opened_at, c.epoch \
    ) \
    INSERT INTO hapax.tally (shelf, at, first, last, held, settled, in_doubt, released) \
    SELECT $9, w.opened_at, w.epoch, w.epoch, 1, 0, 0, 0 FROM won w RETURNING at, first"
);

/// A claim that is there. No row: it is gone again.
const PRESENT: &str = "\
    SELECT m.now, st.* FROM (SELECT coalesce($1::bigint, hapax.clock()) AS now OFFSET 0) m, hapax.standing st \
    WHERE st.digest = $2";

/// What `hapax.batch` does, for one settle. No row: not held under this epoch, or somebody touched it.
pub(super) const SETTLE_ONE: &str = concat!(
    "WITH done AS ( \
        UPDATE hapax.claims c SET state = 'S', note = 'h', since = ",
    moment!(),
    ", until = hapax.later(CASE WHEN $4 THEN c.granted_at ELSE ",
    moment!(),
    " END, $5) \
        WHERE c.digest = $2 AND c.epoch = $3 AND c.state = 'H' AND c.earlier = 'n' AND c.xmax = 0 \
        RETURNING c.since, c.until, c.shelf, c.watched, c.attempt, c.operation_id \
    ), kept AS ( \
        INSERT INTO hapax.outcomes (keep_until, epoch, digest, kind, status, checksum, bytes) \
        SELECT d.until, $3, $2, $6, $7, $8, $9 FROM done d \
    ), counted AS ( \
        INSERT INTO hapax.tally (shelf, at, held, settled, in_doubt, released) \
        SELECT d.shelf, d.since, -1, 1, 0, 0 FROM done d \
    ) \
    SELECT d.since, d.until, d.attempt, d.operation_id, d.watched FROM done d"
);

const BATCH: &str = "\
    SELECT * FROM hapax.batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
        $20)";
