//! What is shared with the other processes on a ledger: asked for only when it must be (K6, K7).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hapax_core::fingerprint::RequestParts;
use hapax_core::{Error, Executed, Fingerprint, Recipe, RecipeId};
use hapax_exec::{Ended, Executor, How, Installation, Settings};
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;

use crate::{Effects, call};

/// Others that agree or not, and know one recipe.
#[derive(Default)]
struct Others {
    disagree: AtomicBool,
    asked: AtomicUsize,
    recipes: AtomicUsize,
}

impl Others {
    fn asked(&self) -> (usize, usize) {
        (self.asked.load(Ordering::SeqCst), self.recipes.load(Ordering::SeqCst))
    }
}

fn known() -> Recipe {
    Recipe::raw().with_headers(["x-kind"]).unwrap()
}

impl Installation for Others {
    fn agree(&self) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + '_>> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            match self.disagree.load(Ordering::SeqCst) {
                true => Err(Error::unavailable("another name")),
                false => Ok(()),
            }
        })
    }

    fn recipe(
        &self,
        id: RecipeId,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Recipe>, Error>> + Send + '_>> {
        self.recipes.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(Some(known()).filter(|recipe| recipe.id() == id)) })
    }
}

async fn executor() -> (Executor<Faulty<Memory>>, Faulty<Memory>, Arc<Others>) {
    let (ledger, others) = (Faulty::new(Memory::open(Options::default())), Arc::new(Others::default()));
    let settings = Settings { installation: Some(others.clone()), ..Settings::default() };
    (Executor::open(ledger.clone(), settings).await.unwrap(), ledger, others)
}

#[tokio::test]
async fn after_a_lapse_nothing_is_claimed_until_the_others_agree_k6() {
    let ((executor, ledger, others), effects) = (executor().await, Effects::default());
    let once = async |key: &str| executor.once(call(key), effects.then(Ended::succeeded("paid"))).await;
    once("before").await.unwrap();
    assert_eq!(others.asked(), (0, 0), "nothing has lapsed");
    others.disagree.store(true, Ordering::SeqCst);
    ledger.lapse();
    for asked in 1..3 {
        let claims = ledger.claims();
        let error = once("after").await.unwrap_err();
        assert_eq!((error.code(), error.executed()), ("ledger-unavailable", Executed::Unknown));
        assert_eq!((others.asked().0, effects.count(), ledger.claims()), (asked, 1, claims));
    }
    others.disagree.store(false, Ordering::SeqCst);
    once("after").await.unwrap();
    once("again").await.unwrap();
    assert_eq!((others.asked().0, effects.count()), (3, 3), "once for each lapse");
}

#[tokio::test]
async fn after_a_lapse_between_grant_and_work_nothing_runs_until_the_others_agree_k6() {
    let ((executor, ledger, others), effects) = (executor().await, Effects::default());
    let once = async |key: &str| executor.once(call(key), effects.then(Ended::succeeded("paid"))).await;
    others.disagree.store(true, Ordering::SeqCst);
    ledger.set_no_time_left(true);
    let error = once("k").await.unwrap_err();
    assert_eq!((error.code(), effects.count(), others.asked().0), ("ledger-unavailable", 0, 1));
    // It was given back: nothing is in doubt.
    others.disagree.store(false, Ordering::SeqCst);
    crate::eventually("it is given back", async || once("k").await.is_ok()).await;
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn a_process_that_is_stopped_before_it_asks_does_not_take_its_old_term_for_a_new_one_l4_k6() {
    // It looks at its session, and is stopped for longer than that has left. When it goes on, the session has been renewed, and others
    // may have changed what they take for granted: the lease must be renewed, and they must agree.
    let ((executor, ledger, others), effects) = (executor().await, Effects::default());
    others.disagree.store(true, Ordering::SeqCst);
    ledger.set_time_left(Some(Duration::from_millis(20)));
    let stopped = ledger.clone();
    ledger.after_next_session(move || {
        std::thread::sleep(Duration::from_millis(40));
        stopped.set_time_left(None);
        stopped.lapse();
    });
    let error = executor.once(call("k"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), effects.count(), others.asked().0), ("ledger-unavailable", 0, 1));
}

#[tokio::test]
async fn a_process_that_is_stopped_during_its_last_look_looks_at_the_clock_afterwards_l4() {
    // Its lease is certain for 200 ms. Within them it looks at the session, which others would take for lapsed by the time it goes on.
    let ((executor, ledger, others), effects) = (executor().await, Effects::default());
    others.disagree.store(true, Ordering::SeqCst);
    ledger.set_time_left(Some(Duration::from_millis(200)));
    let stopped = ledger.clone();
    ledger.after_next_claim(move || async move {
        stopped.set_time_left(None);
        // The first look is the one before the caller's own, the second one the last.
        let last = stopped.clone();
        stopped.after_next_session(move || {
            last.after_next_session(|| std::thread::sleep(Duration::from_millis(400)));
        });
    });
    let error = executor.once(call("k"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), effects.count(), others.asked().0), ("ledger-unavailable", 0, 1));
}

#[tokio::test]
async fn a_recipe_that_only_others_had_is_asked_for_when_fingerprints_differ_k7() {
    let ((executor, _, others), effects) = (executor().await, Effects::default());
    let hashed = |recipe: &Recipe, body: &'static [u8]| {
        recipe.fingerprint(&RequestParts {
            method: "POST",
            path: "/pay",
            query: "",
            content_type: None,
            headers: &[("x-kind", b"a")],
            body,
            ..RequestParts::default()
        })
    };
    let once = async |key: &str, fingerprint: Fingerprint, body: &'static [u8]| {
        let asked = call(key).fingerprint(fingerprint);
        let asked = asked.rehash(Arc::new(move |recipe: &Recipe| hashed(recipe, body)));
        executor.once(asked, effects.then(Ended::succeeded("paid"))).await
    };
    once("k", hashed(&known(), b"1"), b"1").await.unwrap();
    once("k", hashed(&known(), b"1"), b"1").await.unwrap();
    assert_eq!(others.asked(), (0, 0), "nothing differs");
    let again = once("k", hashed(&Recipe::json(), b"1"), b"1").await.unwrap();
    assert_eq!((again.how, others.asked()), (How::Replayed, (0, 1)));
    let other = once("k", hashed(&Recipe::json(), b"2"), b"2").await.unwrap_err();
    assert_eq!((other.code(), effects.count()), ("key-reused", 1));
    // One that nobody ever had cannot be compared with.
    let unknown = Recipe::raw().with_headers(["x-other"]).unwrap();
    once("u", hashed(&unknown, b"1"), b"1").await.unwrap();
    let error = once("u", hashed(&Recipe::raw(), b"1"), b"1").await.unwrap_err();
    assert_eq!((error.code(), effects.count()), ("key-reused", 2));
}
