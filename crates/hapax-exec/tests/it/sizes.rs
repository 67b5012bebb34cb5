//! How large the futures of a call are: each is kept, and moved, for every call. Before the steps were taken apart `enter` had 2,200
//! bytes and `once` 2,624.

use hapax_exec::{Begun, Ended, Entered, Executor, Held, Reconciled};
use hapax_store::Options;
use hapax_store::memory::Memory;

use crate::call;

#[tokio::test]
async fn the_futures_of_a_call_stay_small() {
    let executor = Executor::new(Memory::open(Options::default()));
    let once = executor.once(call("k"), |_| async { Ended::succeeded("paid") });
    assert!(size_of_val(&once) <= 2_312, "once: {}", size_of_val(&once));
    drop(once);
    let entering = executor.enter(call("k"), ());
    assert!(size_of_val(&entering) <= 1_736, "enter: {}", size_of_val(&entering));
    assert!(size_of::<Held<Memory>>() <= 8, "Held: {}", size_of::<Held<Memory>>());
    let Ok(Entered::Held(held, ())) = entering.await else { panic!("not granted") };
    let beginning = held.begin(async |_| Reconciled::Unknown);
    assert!(size_of_val(&beginning) <= 728, "begin: {}", size_of_val(&beginning));
    let Ok(Begun::Running(running)) = beginning.await else { panic!("not begun") };
    let working = running.run(async { Ended::succeeded("paid") });
    assert!(size_of_val(&working) <= 200, "run: {}", size_of_val(&working));
    let concluded = running.judged(working.await);
    let concluding = running.conclude(concluded);
    assert!(size_of_val(&concluding) <= 712, "conclude: {}", size_of_val(&concluding));
    concluding.await.unwrap();
}
