//! Which requests are recorded, and what is handed over.

use super::*;

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn headers(lines: &[&str]) -> HeaderMap {
    lines.iter().map(|line| (TRACEPARENT, HeaderValue::from_str(line).unwrap())).collect()
}

fn tracer(ratio: f64, by_parent: bool) -> (Tracer, Receiver<Trace>, Arc<SpanCounts>) {
    Tracer::new(Sampling { ratio, by_parent })
}

#[test]
fn a_traceparent_that_cannot_be_read_is_none_o3() {
    assert!(Parent::of(&headers(&[SAMPLED])).unwrap().sampled);
    assert!(!Parent::of(&headers(&[UNSAMPLED])).unwrap().sampled);
    let later = format!("01{}-more", &SAMPLED[2..]);
    assert!(Parent::of(&headers(&[&later])).is_some(), "a later version may have more");
    let wrong = [
        "",
        "00",
        &SAMPLED[..54],
        &format!("{SAMPLED}-more"),
        &format!("ff{}", &SAMPLED[2..]),
        &SAMPLED.to_uppercase(),
        &SAMPLED.replace('-', "_"),
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    ];
    for line in wrong {
        assert_eq!(Parent::of(&headers(&[line])), None, "{line}");
    }
    assert_eq!(Parent::of(&headers(&[SAMPLED, SAMPLED])), None);
    assert_eq!(Parent::of(&headers(&[])), None);
}

#[test]
fn a_caller_decides_where_it_may_and_the_ratio_everywhere_else_o3() {
    let recorded = |ratio, by_parent, lines: &[&str]| {
        tracer(ratio, by_parent).0.request(&headers(lines), clock::now()).is_some()
    };
    assert!(recorded(0.0, true, &[SAMPLED]) && !recorded(1.0, true, &[UNSAMPLED]));
    assert!(recorded(1.0, false, &[UNSAMPLED]) && !recorded(0.0, false, &[SAMPLED]));
    assert!(recorded(1.0, true, &[]) && !recorded(0.0, true, &[]));
    let (tracer, ..) = tracer(0.25, true);
    let sampled = (0..100_000).filter(|_| tracer.request(&headers(&[]), clock::now()).is_some()).count();
    assert!((24_000..26_000).contains(&sampled), "{sampled}");
}

#[test]
fn a_recording_is_handed_over_with_its_steps_below_the_callers_span_o3() {
    let (tracer, traces, counts) = tracer(1.0, true);
    let recording = tracer.request(&headers(&[SAMPLED]), clock::now()).unwrap();
    let told = Parent::of(&headers(&[recording.header().unwrap().to_str().unwrap()])).unwrap();
    recording.step(Step::Claim);
    recording.step(Step::Upstream);
    let work = recording.clone();
    recording.answered("POST /charges".into(), vec![("hapax.event", Value::Text("executed".into()))], false);
    drop(recording);
    assert!(traces.try_recv().is_err(), "work that goes on without its caller is part of it");
    work.step(Step::Settle);
    drop(work);
    let trace = traces.try_recv().unwrap();
    assert_eq!(trace.id.to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(trace.parent.unwrap().to_string(), "b7ad6b7169203331");
    let names: Vec<_> = trace.spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["POST /charges", "intake", "claim", "upstream", "settle"]);
    assert_eq!((told.trace, told.span, told.sampled), (trace.id, trace.spans[3].id, true));
    assert_eq!(counts.read(), [0, 0]);
}

#[test]
fn what_finds_no_room_is_counted_and_nothing_waits_o3() {
    let (tracer, traces, counts) = tracer(1.0, true);
    for _ in 0..limits::TRACES_WAITING + 3 {
        drop(tracer.request(&HeaderMap::new(), clock::now()));
    }
    assert_eq!(counts.read(), [0, 3 * 2], "a request and its intake");
    drop(traces);
    drop(tracer.request(&HeaderMap::new(), clock::now()));
    assert_eq!(counts.read(), [0, 4 * 2]);
}
