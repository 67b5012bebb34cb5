//! Who waits for which claim, here and elsewhere: waking, notifying, listening, and looking in case all that
//! failed (L9).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax_core::claim::current;
use hapax_core::{ClaimId, Epoch, StateName};
use hapax_store::hub::{Hub, Watch};
use tokio::sync::{Notify, mpsc};
use tokio_postgres::Notification;

use super::desk::Resend;
use super::failure::Failure;
use super::lanes;
use super::link::{CARELESS, Link};
use super::read::Seen;
use super::session::Beat;
use super::shared::Shared;
use crate::limits;

const CHANGED: &str = "hapax_changed";
const FORGET: &str = "hapax_forget";

/// Notifications that are taken in or sent out at once; more are dropped, and the look every 250 ms finds
/// what they told.
const BACKLOG: usize = 4_096;

/// The waiters of this process, and what of theirs the database knows.
pub(super) struct Watchers {
    hub: Hub,
    /// The waiters of lanes, by the digests of their names.
    lanes: Hub,
    notify: bool,
    state: Mutex<State>,
    fresh: Notify,
    told: Mutex<Vec<ClaimId>>,
    telling: Notify,
    /// How often the watched claims were looked at.
    polls: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Watched claims whose row carries the mark.
    marked: HashSet<ClaimId>,
    /// Claims whose watch has just begun.
    fresh: Vec<ClaimId>,
}

impl Watchers {
    pub(super) fn new(notify: bool) -> Watchers {
        Watchers {
            hub: Hub::default(),
            lanes: Hub::default(),
            notify,
            state: Mutex::default(),
            fresh: Notify::new(),
            told: Mutex::default(),
            telling: Notify::new(),
            polls: AtomicU64::new(0),
        }
    }

    /// Starts to watch a claim.
    pub(super) fn watch(&self, claim: ClaimId) -> Watch {
        let first = !self.hub.watches(&claim);
        let watch = self.hub.watch(claim);
        if self.notify {
            let mut state = self.lock();
            if first {
                // An old mark may have gone with its row.
                state.marked.remove(&claim);
            }
            if !state.marked.contains(&claim) {
                state.fresh.push(claim);
                self.fresh.notify_one();
            }
        }
        watch
    }

    /// A claim was changed by this process: wakes who waits here and, if its row was marked, everybody
    /// elsewhere.
    pub(super) fn changed(&self, claim: &ClaimId, watched: bool) {
        if !self.notify {
            return;
        }
        self.hub.wake(claim);
        self.tell(claim, watched);
    }

    /// Starts to watch a lane.
    pub(super) fn watch_lane(&self, lane: ClaimId) -> Watch {
        self.lanes.watch(lane)
    }

    /// A lane was changed by this process: wakes the waiters here and, where tickets of other processes are in it, those elsewhere.
    pub(super) fn lane_changed(&self, lane: &ClaimId, elsewhere: bool) {
        if self.notify {
            self.lanes.wake(lane);
            self.tell(lane, elsewhere);
        }
    }

    fn tell(&self, changed: &ClaimId, watched: bool) {
        if watched {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() < BACKLOG {
                told.push(*changed);
            }
            self.telling.notify_one();
        }
    }

    /// How often the watched claims were looked at.
    pub(super) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Whether nobody here waits for anything.
    pub(super) fn is_idle(&self) -> bool {
        self.hub.is_idle()
    }

    /// Those of the claims that are watched here and not marked yet.
    pub(super) fn unmarked(&self, claims: &[ClaimId]) -> Vec<ClaimId> {
        if !self.notify || self.hub.is_idle() {
            return Vec::new();
        }
        let state = self.lock();
        let unmarked = |claim: &&ClaimId| self.hub.watches(claim) && !state.marked.contains(claim);
        claims.iter().filter(unmarked).copied().collect()
    }

    /// A claim's row was read, with the mark or without. A mark that was there went with its row, and the claim was granted
    /// anew: it is made again.
    pub(super) fn found(&self, claim: ClaimId, marked: bool) {
        if marked && self.hub.watches(&claim) {
            self.lock().marked.insert(claim);
        } else if !marked && self.lock().marked.remove(&claim) {
            self.lock().fresh.push(claim);
            self.fresh.notify_one();
        }
    }

    fn is_marked(&self, claim: &ClaimId) -> bool {
        self.lock().marked.contains(claim)
    }

    fn forget_unwatched(&self) {
        self.lock().marked.retain(|claim| self.hub.watches(claim));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the claims marked that nobody has read since their watch began, and wakes their waiters, who may have
/// read before the mark was made.
pub(super) async fn announce(shared: Arc<Shared>) {
    if !shared.watchers.notify {
        return;
    }
    loop {
        shared.watchers.fresh.notified().await;
        tokio::time::sleep(limits::WATCH_GRACE).await;
        let fresh = std::mem::take(&mut shared.watchers.lock().fresh);
        let waiting = fresh.into_iter().collect::<HashSet<_>>();
        let unmarked = shared.watchers.unmarked(&waiting.into_iter().collect::<Vec<_>>());
        let mut again = Vec::new();
        for (claim, seen) in read_all(&shared, unmarked).await {
            if shared.watchers.is_marked(&claim) {
                shared.watchers.hub.wake(&claim);
            } else if seen.is_none_or(|seen| seen.stored.is_some()) {
                // Its row is locked, or the database is away.
                again.push(claim);
            }
        }
        if !again.is_empty() {
            tokio::time::sleep(limits::BUSY_PAUSE.0).await;
            shared.watchers.lock().fresh.extend(again);
            shared.watchers.fresh.notify_one();
        }
    }
}

/// Reads claims together.
async fn read_all(shared: &Shared, claims: Vec<ClaimId>) -> Vec<(ClaimId, Option<Seen>)> {
    let reads = claims.into_iter().map(async |claim| (claim, shared.read(claim).await.ok()));
    futures_util::future::join_all(reads).await
}

/// Looks at every watched claim from time to time, and wakes the waiters of those that are not what they
/// were. One that has not been looked at yet may have changed since its waiter read it, so its waiters are
/// woken too.
pub(super) async fn poll(shared: Arc<Shared>) {
    let mut before: HashMap<ClaimId, Option<(Epoch, StateName)>> = HashMap::new();
    loop {
        tokio::time::sleep(limits::POLL_EVERY).await;
        shared.watchers.forget_unwatched();
        if !shared.options.poll || shared.watchers.is_idle() {
            before.clear();
            continue;
        }
        shared.watchers.polls.fetch_add(1, Ordering::Relaxed);
        let mut after = HashMap::new();
        for (claim, seen) in read_all(&shared, shared.watchers.hub.watched()).await {
            let Some(seen) = seen else { continue };
            let now = seen.now();
            let claim_now = current(seen.stored.as_ref().map(|stored| &stored.claim), &now);
            let is = claim_now.map(|claim| (claim.epoch, claim.state.name()));
            if before.get(&claim) != Some(&is) {
                shared.watchers.hub.wake(&claim);
            }
            after.insert(claim, is);
        }
        before = after;
    }
}

/// The same for lanes, all of them in one query.
pub(super) async fn poll_lanes(shared: Arc<Shared>) {
    let mut before: HashMap<ClaimId, i64> = HashMap::new();
    loop {
        tokio::time::sleep(limits::POLL_EVERY).await;
        let watched = shared.watchers.lanes.watched();
        if !shared.options.poll || watched.is_empty() {
            before.clear();
            continue;
        }
        let asked = watched.clone();
        let versions = shared
            .ask(Resend::Always, async move |link: &mut Link| lanes::versions(link, &asked).await)
            .await;
        // While the database is away, nothing that it has can have changed.
        let Ok(versions) = versions else { continue };
        for lane in watched {
            let version = versions.get(&lane).copied().unwrap_or_default();
            if before.insert(lane, version) != Some(version) {
                shared.watchers.lanes.wake(&lane);
            }
        }
        before.retain(|lane, _| shared.watchers.lanes.watches(lane));
    }
}

/// Listens to what others changed, and tells them what was changed here.
pub(super) async fn listen(shared: Arc<Shared>) {
    if !shared.watchers.notify {
        return;
    }
    let mut pause = limits::RECONNECT_PAUSE.0;
    loop {
        let (sink, mut notifications) = mpsc::channel(BACKLOG);
        match connect(&shared, sink).await {
            Ok(mut link) => {
                pause = limits::RECONNECT_PAUSE.0;
                // What was told while nobody listened is lost.
                for hub in [&shared.watchers.hub, &shared.watchers.lanes] {
                    hub.watched().iter().for_each(|watched| hub.wake(watched));
                }
                // It ends when the connection does; then there is another one.
                let _ = converse(&shared, &mut link, &mut notifications).await;
            }
            Err(_) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(limits::RECONNECT_PAUSE.1);
            }
        }
    }
}

async fn connect(shared: &Shared, sink: mpsc::Sender<Notification>) -> Result<Link, Failure> {
    let mut link = Link::open(&shared.database, Some(sink)).await?;
    link.run(CARELESS).await?;
    link.run(&format!("LISTEN {CHANGED}; LISTEN {FORGET}")).await?;
    Ok(link)
}

async fn converse(
    shared: &Shared,
    link: &mut Link,
    notifications: &mut mpsc::Receiver<Notification>,
) -> Result<(), Failure> {
    loop {
        tokio::select! {
            heard = notifications.recv() => match heard {
                Some(notification) => hear(shared, &notification),
                None => return Err(Failure::Lost("the listening connection ended".to_owned())),
            },
            () = shared.watchers.telling.notified() => tell(shared, link).await?,
        }
    }
}

fn hear(shared: &Shared, notification: &Notification) {
    match notification.channel() {
        CHANGED => {
            for claim in notification.payload().split(' ').filter_map(from_hex) {
                shared.watchers.hub.wake(&claim);
                shared.watchers.lanes.wake(&claim);
            }
        }
        FORGET => {
            // If so many beats are asked for that there is no room, one of them brings it.
            let _ = shared.heart.try_send(Beat::Follow);
        }
        _ => {}
    }
}

/// One notification for as many claims as fit.
async fn tell(shared: &Shared, link: &mut Link) -> Result<(), Failure> {
    let told = std::mem::take(&mut *shared.watchers.told.lock().unwrap_or_else(PoisonError::into_inner));
    for some in told.chunks(limits::NOTIFY_BYTES / 65) {
        let payload = some.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        link.query("SELECT pg_notify($1, $2)", &[&CHANGED, &payload]).await?;
    }
    Ok(())
}

/// Has every process hear that its memory table must forget something.
pub(super) async fn tell_forget(link: &mut Link) -> Result<(), Failure> {
    link.query("SELECT pg_notify($1, '')", &[&FORGET]).await.map(|_| ())
}

fn from_hex(text: &str) -> Option<ClaimId> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(ClaimId::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_told_as_it_is_heard() {
        let claim = ClaimId::from_bytes([0xab; 32]);
        assert_eq!(from_hex(&claim.to_string()), Some(claim));
        assert_eq!(from_hex("zz"), None);
    }
}
