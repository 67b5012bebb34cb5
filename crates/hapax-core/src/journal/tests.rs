//! The rules of streams: who may write, what is written twice, and what a chain shows.

use super::*;
use crate::{Kind, Particular};

const AT: Timestamp = Timestamp::from_micros(5);

fn stream() -> Stream {
    Stream::new("execution/acme/prod/e-1").unwrap()
}

fn event(kind: &str, payload: &'static str) -> NewEvent {
    NewEvent::new(kind, payload.as_bytes())
}

fn write(author: Author, kinds: &[&str]) -> Append {
    Append::new(stream(), author).with(kinds.iter().map(|kind| event(kind, "{}")).collect())
}

fn decide(head: Option<&Head>, write: &Append) -> Result<(Head, Vec<Event>), Error> {
    match append(Found { head, made: None, lives: false }, write, AT)? {
        Decided::Written(head, events) => Ok((head, events)),
        Decided::Repeated(_) => panic!("it was not written before"),
    }
}

fn made(chain: Chain, kinds: &[&str]) -> (Head, Vec<Event>) {
    let birth = Birth { chain, ..Birth::default() };
    decide(None, &write(Author::Creator(birth), kinds)).unwrap()
}

fn run_by(lease: u64) -> (Runner, Head) {
    let runner = Runner::fresh(SessionId(lease));
    let birth = Birth { runner: Some(runner), ..Birth::default() };
    (runner, decide(None, &write(Author::Creator(birth), &["A"])).unwrap().0)
}

fn walk(chain: Chain, events: &[Event], head: &Head) -> Result<(), Error> {
    let mut walk = Walk::new(&stream(), chain);
    events.iter().try_for_each(|event| walk.step(event))?;
    walk.finish(head)
}

fn broken_at(result: Result<(), Error>) -> Option<u64> {
    match result.err()?.particular() {
        Some(Particular::BrokenChain { stream: name, position }) => {
            assert_eq!(name, stream().as_str());
            Some(*position)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn version_1_is_the_formula_of_its_source() {
    // J3: hash_0 = SHA256("GENESIS" + payload), hash_n = SHA256(hex(hash_{n-1}) + payload).
    let birth = Birth { chain: Chain::V1, ..Birth::default() };
    let events = vec![event("A", "{}"), event("B", "[1]")];
    let (_, kept) = decide(None, &Append::new(stream(), Author::Creator(birth)).with(events)).unwrap();
    let first: [u8; 32] = Sha256::digest("GENESIS{}").into();
    assert_eq!(kept[0].hash, Hash(first));
    let second: [u8; 32] = Sha256::digest(format!("{}[1]", Hash(first).to_hex())).into();
    assert_eq!(kept[1].hash, Hash(second));
}

#[test]
fn version_2_shows_every_change_of_an_event_at_its_place() {
    // J3
    let (head, events) = made(Chain::V2, &["A", "B", "C"]);
    assert_eq!(broken_at(walk(Chain::V2, &events, &head)), None);
    for place in 0..3 {
        let changed = |change: &dyn Fn(&mut Event)| {
            let mut events = events.clone();
            change(&mut events[place]);
            broken_at(walk(Chain::V2, &events, &head))
        };
        let at = Some(place as u64);
        assert_eq!(changed(&|event| event.kind = "X".into()), at);
        assert_eq!(changed(&|event| event.at = Timestamp::from_micros(6)), at);
        assert_eq!(changed(&|event| event.seq += 1), at);
        assert_eq!(changed(&|event| event.hash.0[31] ^= 1), at);
        assert_eq!(changed(&|event| event.checkpoint = Some(Hash([1; 32]))), at);
        assert_eq!(changed(&|event| event.subject = Some("user:bob".into())), at);
        let other = Payload::Kept { bytes: "[]".into(), salt: Salt([0; 16]) };
        assert_eq!(changed(&|event| event.payload = other.clone()), at);
        assert_eq!(changed(&|event| event.payload = Payload::Erased { digest: Hash([0; 32]) }), at);
    }
}

#[test]
fn a_chain_shows_what_is_missing_swapped_or_cut_off() {
    // J3, in both versions.
    for chain in [Chain::V1, Chain::V2] {
        let birth = Birth { chain, ..Birth::default() };
        let events = vec![event("A", "1"), event("B", "2"), event("C", "3")];
        let (head, events) =
            decide(None, &Append::new(stream(), Author::Creator(birth)).with(events)).unwrap();
        let without = |place: usize| {
            let mut events = events.clone();
            events.remove(place);
            broken_at(walk(chain, &events, &head))
        };
        assert_eq!([without(0), without(1), without(2)], [Some(0), Some(1), Some(2)], "{chain:?}");
        let mut swapped = events.clone();
        swapped.swap(1, 2);
        assert_eq!(broken_at(walk(chain, &swapped, &head)), Some(1));
        (swapped[1].seq, swapped[2].seq) = (1, 2);
        assert_eq!(broken_at(walk(chain, &swapped, &head)), Some(1));
        let shorter = Head { length: 2, hash: Some(events[1].hash), ..head.clone() };
        assert_eq!(broken_at(walk(chain, &events, &shorter)), Some(1), "more than the head knows of");
    }
}

#[test]
fn an_event_of_another_stream_does_not_fit() {
    let (_, events) = made(Chain::V2, &["A"]);
    let mut other = Walk::new(&Stream::new("execution/acme/prod/e-2").unwrap(), Chain::V2);
    assert!(other.step(&events[0]).is_err());
}

#[test]
fn a_payload_erased_with_its_salt_leaves_a_chain_that_verifies() {
    // B9, J3
    let (head, mut events) = made(Chain::V2, &["A", "B"]);
    for event in &mut events {
        event.payload = Payload::Erased { digest: event.payload.digest() };
    }
    assert_eq!(broken_at(walk(Chain::V2, &events, &head)), None);
    // The same payload under another salt has another digest: nobody can try out what it was.
    let digest = |salt| Payload::Kept { bytes: "{}".into(), salt: Salt([salt; 16]) }.digest();
    assert_ne!(digest(1), digest(2));
    // Chain 1 has nothing but the payload: its hash stands for it, and what follows is checked.
    let (head, mut events) = made(Chain::V1, &["A", "B"]);
    events[0].payload = Payload::Erased { digest: events[0].payload.digest() };
    assert_eq!(broken_at(walk(Chain::V1, &events, &head)), None);
    events[0].hash.0[0] ^= 1;
    assert_eq!(broken_at(walk(Chain::V1, &events, &head)), Some(1));
}

#[test]
fn a_checkpoint_is_covered_by_the_event_that_it_belongs_to() {
    // J3
    let mut first = write(Author::Anyone { version: None }, &["A", "B"]);
    first.checkpoint = Some("state".into());
    let (head, events) = decide(None, &first).unwrap();
    assert_eq!((head.checkpoint, events[0].checkpoint), (Some(1), None));
    let kept = Checkpoint { seq: 1, bytes: Some("state".into()) };
    assert!(check_checkpoint(&stream(), &kept, events[1].checkpoint).is_ok());
    let other = Checkpoint { bytes: Some("other".into()), ..kept };
    assert_eq!(broken_at(check_checkpoint(&stream(), &other, events[1].checkpoint)), Some(1));
    let (head, _) = decide(Some(&head), &write(Author::Anyone { version: None }, &["C"])).unwrap();
    assert_eq!(head.checkpoint, Some(1), "it stays until another one comes");
    first.events.clear();
    assert_eq!(decide(None, &first).unwrap_err().kind(), Kind::Invalid, "it belongs to no event");
}

#[test]
fn a_write_that_was_made_before_is_answered_with_its_own_head() {
    // J2, L13
    let first = write(Author::Anyone { version: Some(0) }, &["A"]);
    let (made, _) = decide(None, &first).unwrap();
    let (head, _) = decide(Some(&made), &write(Author::Anyone { version: None }, &["B"])).unwrap();
    let found = Found { head: Some(&head), made: Some(&made), lives: false };
    assert_eq!(append(found, &first, AT).unwrap(), Decided::Repeated(made));
}

#[test]
fn only_the_runner_writes_whatever_the_version() {
    // J2
    let (runner, head) = run_by(1);
    let own = |version| write(Author::Runner { id: runner.id, version }, &["B"]);
    assert!(decide(Some(&head), &own(1)).is_ok());
    let late = decide(Some(&head), &own(7)).unwrap_err();
    assert_eq!(late.kind(), Kind::Conflict);
    assert_eq!(late.particular(), Some(&Particular::VersionConflict { expected: 7, found: 1 }));
    for version in [0, 1, 2] {
        let other = Author::Runner { id: RunnerId::random(), version };
        assert_eq!(decide(Some(&head), &write(other, &["B"])).unwrap_err().kind(), Kind::Fenced);
    }
    let anyone = write(Author::Anyone { version: Some(1) }, &["B"]);
    assert_eq!(decide(Some(&head), &anyone).unwrap_err().kind(), Kind::Fenced);
}

#[test]
fn a_successor_comes_when_the_lease_has_lapsed_or_is_forced_in() {
    // J2, J4
    let (former, head) = run_by(1);
    let next = Runner::fresh(SessionId(2));
    let found = |lives| Found { head: Some(&head), made: None, lives };
    let take = |version, force| {
        let mut take = write(Author::Successor { runner: next, version, force }, &[]);
        take.status = Some(Status::Recovering);
        take
    };
    assert_eq!(append(found(true), &take(1, false), AT).unwrap_err().kind(), Kind::Fenced);
    assert_eq!(append(found(false), &take(3, false), AT).unwrap_err().kind(), Kind::Conflict);
    for (lives, force) in [(false, false), (true, true)] {
        let Decided::Written(after, _) = append(found(lives), &take(1, force), AT).unwrap() else {
            panic!("it is written")
        };
        assert_eq!((after.runner, after.status), (Some(next), Some(Status::Recovering)));
        let zombie = write(Author::Runner { id: former.id, version: after.version }, &["B"]);
        assert_eq!(decide(Some(&after), &zombie).unwrap_err().kind(), Kind::Fenced);
    }
}

#[test]
fn a_result_needs_an_open_stream_and_nothing_else() {
    // J2
    let (runner, head) = run_by(1);
    let result = write(Author::Step, &["RESULT"]);
    assert!(decide(Some(&head), &result).is_ok());
    assert_eq!(decide(None, &result).unwrap_err().kind(), Kind::Conflict, "it makes no stream");
    for status in [Status::Completed, Status::Failed] {
        let mut end = write(Author::Runner { id: runner.id, version: 1 }, &[]);
        end.status = Some(status);
        let (head, _) = decide(Some(&head), &end).unwrap();
        let own = write(Author::Runner { id: runner.id, version: 2 }, &["B"]);
        let next = Author::Successor { runner: Runner::fresh(SessionId(2)), version: 2, force: true };
        for late in [&result, &own, &write(next, &[])] {
            assert_eq!(decide(Some(&head), late).unwrap_err().kind(), Kind::Conflict, "{status:?}");
        }
    }
}

#[test]
fn a_stream_is_made_once() {
    let (_, head) = run_by(1);
    let again = write(Author::Creator(Birth::default()), &[]);
    let error = decide(Some(&head), &again).unwrap_err();
    assert_eq!(error.particular(), Some(&Particular::VersionConflict { expected: 0, found: 1 }));
}

#[test]
fn a_write_beyond_its_bounds_is_refused() {
    let anyone = || Author::Anyone { version: None };
    let refused = |write: &Append| decide(None, write).unwrap_err().kind() == Kind::Invalid;
    let long = "x".repeat(limits::MAX_EVENT_TYPE_CHARS + 1);
    assert!(["", &long, "a\0b"].iter().all(|kind| refused(&write(anyone(), &[kind]))));
    let large = NewEvent::new("A", vec![0; limits::MAX_PAYLOAD_BYTES + 1]);
    assert!(refused(&Append::new(stream(), anyone()).with(vec![large])));
    let half = || NewEvent::new("A", vec![0; limits::MAX_PAYLOAD_BYTES]);
    assert!(refused(&Append::new(stream(), anyone()).with(vec![half(), half(), half()])));
    assert!(refused(&write(anyone(), &["A"; limits::MAX_APPEND_EVENTS + 1])));
    let mut large = write(anyone(), &["A"]);
    large.checkpoint = Some(vec![0; limits::MAX_CHECKPOINT_BYTES + 1].into());
    assert!(refused(&large));
    let agent = |agent: String| Author::Creator(Birth { agent: Some(agent), ..Birth::default() });
    assert!(refused(&write(agent("a".repeat(limits::MAX_AGENT_CHARS + 1)), &[])));
    assert!(append(Found::default(), &write(agent("a".into()), &[]), AT).is_ok());
}

#[test]
fn an_unknown_schema_version_is_refused_by_its_number() {
    // J3
    let error = Chain::from_version(3).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert_eq!(error.particular(), Some(&Particular::UnsupportedVersion { version: 3 }));
}
