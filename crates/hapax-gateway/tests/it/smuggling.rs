//! Requests that two servers could cut apart at different places: each is refused, or arrives as the one request it is.
//!
//! Every case runs on a keyed route, where the edge reads the body, and on an open one, where it passes the body on. A whole
//! second request, with valid credentials, hides behind each: it must never arrive.

use crate::world::World;

/// What is sent behind the usual head, and what is to come of it. `{hidden}` is a request that nobody sent.
struct Case {
    rest: &'static str,
    statuses: &'static [u16],
    arrived: &'static [&'static str],
}

const fn refused(rest: &'static str) -> Case {
    Case { rest, statuses: &[400], arrived: &[] }
}

const fn taken(rest: &'static str, arrived: &'static [&'static str]) -> Case {
    Case { rest, statuses: &[201], arrived }
}

/// Runs each case on both kinds of route. Each ends its connection: what is refused is not read on.
async fn check(cases: &[Case]) {
    let world = World::start().await;
    for (number, case) in cases.iter().enumerate() {
        for route in ["/raw", "/open"] {
            let before = world.service.count();
            let key = match route {
                "/raw" => format!("idempotency-key: k-{number}\r\n"),
                _ => String::new(),
            };
            let hidden = world.request("GET /charges/hidden", &world.alice, &[], "");
            let rest = case.rest.replace("{hidden}", &hidden);
            let sent = format!(
                "POST {route} HTTP/1.1\r\nhost: edge.example\r\nauthorization: Bearer {}\r\n{key}{rest}",
                world.alice
            );
            let heard = world.hear_out(&sent).await;
            let what = format!("{route} {:?}: {heard:?}", case.rest);
            assert_eq!(heard.statuses, case.statuses, "{what}");
            let arrived: Vec<String> = world.service.arrived()[before..]
                .iter()
                .map(|arrived| String::from_utf8_lossy(&arrived.body).into_owned())
                .collect();
            assert_eq!(arrived, case.arrived, "{what}");
        }
    }
    assert!(world.service.arrived().iter().all(|arrived| !arrived.line().contains("hidden")));
}

#[tokio::test]
async fn a_length_and_a_transfer_coding_are_refused_in_any_order_h11() {
    check(&[
        refused("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{hidden}"),
        refused("content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\nx: y\r\ncontent-length: 0\r\n\r\n{hidden}"),
        refused("Content-Length: 5\r\nTRANSFER-ENCODING: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("content-length: 5\r\ntransfer-encoding: identity\r\n\r\nhello{hidden}"),
    ])
    .await;
}

#[tokio::test]
async fn a_length_that_is_no_number_or_two_is_refused_h11() {
    check(&[
        refused("content-length: 5\r\ncontent-length: 6\r\n\r\nhello{hidden}"),
        refused("content-length: 0\r\ncontent-length: 5\r\n\r\n{hidden}"),
        refused("content-length: 5\r\ncontent-length: 5\r\n\r\nhello{hidden}"),
        refused("content-length: 5, 5\r\n\r\nhello{hidden}"),
        refused("content-length: 5, 6\r\n\r\nhello{hidden}"),
        refused("content-length: +5\r\n\r\nhello{hidden}"),
        refused("content-length: -5\r\n\r\nhello{hidden}"),
        refused("content-length: 0x5\r\n\r\nhello{hidden}"),
        refused("content-length: 5 5\r\n\r\nhello{hidden}"),
        refused("content-length: 5;\r\n\r\nhello{hidden}"),
        refused("content-length: 5.0\r\n\r\nhello{hidden}"),
        refused("content-length: \"5\"\r\n\r\nhello{hidden}"),
        refused("content-length: 18446744073709551621\r\n\r\nhello{hidden}"),
        refused("content-length:\r\n\r\n{hidden}"),
        refused("content-length : 5\r\n\r\nhello{hidden}"),
        refused("content-length\t: 5\r\n\r\nhello{hidden}"),
        taken("content-length: 005\r\nconnection: close\r\n\r\nhello", &["hello"]),
        taken("content-length:5\r\nconnection: close\r\n\r\nhello", &["hello"]),
        taken("content_length: 9\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello", &["hello"]),
    ])
    .await;
}

#[tokio::test]
async fn a_transfer_coding_other_than_chunked_once_is_refused_h11() {
    check(&[
        refused("transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: identity, chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: , chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked,\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunkedx\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked;q=1\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: \"chunked\"\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: identity\r\n\r\n{hidden}"),
        refused("transfer-encoding: gzip\r\n\r\n{hidden}"),
        refused("transfer-encoding:\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\x0c\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding\t: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        taken("Transfer-Encoding: Chunked\r\nconnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n", &["hello"]),
        taken(
            "transfer-encoding:\tchunked\t\r\nconnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            &["hello"],
        ),
        taken(
            "transfer_encoding: chunked\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
            &["hello"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn lines_that_end_or_begin_in_two_ways_are_refused_h11() {
    check(&[
        refused("transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("x: y\r\n transfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("x: y\r\n\ttransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("x: y\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("x: y\rtransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("x: y\r\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        refused("x: y\n\n{hidden}"),
        refused("x: y\r\n\n{hidden}"),
        refused("x: y\n\r\n{hidden}"),
        refused("x: a\0b\r\n\r\n{hidden}"),
        refused("x\0: a\r\n\r\n{hidden}"),
        refused("x y: a\r\n\r\n{hidden}"),
        refused(": a\r\n\r\n{hidden}"),
        refused("x\r\n\r\n{hidden}"),
        refused("x\u{7f}: a\r\n\r\n{hidden}"),
        refused("\u{e9}: a\r\n\r\n{hidden}"),
        refused("x(y): a\r\n\r\n{hidden}"),
        refused("x: a\u{7f}\r\n\r\n{hidden}"),
    ])
    .await;
}

#[tokio::test]
async fn chunks_that_can_be_cut_in_two_ways_are_refused_h11() {
    check(&[
        refused("transfer-encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n5\rhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\ng\r\nhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n{hidden}"),
        refused("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\n\r\n{hidden}"),
        taken(
            "transfer-encoding: chunked\r\nconnection: close\r\n\r\n5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\n",
            &["hello"],
        ),
    ])
    .await;
}

/// Whole requests with something wrong in their first line, and the status of the only answer.
#[tokio::test]
async fn request_lines_are_read_in_one_way_or_not_at_all_h11() {
    let world = World::start().await;
    let head =
        format!("host: edge.example\r\nauthorization: Bearer {}\r\nconnection: close\r\n", world.alice);
    for (line, status) in [
        ("POST  /open HTTP/1.1", 400),
        ("POST\t/open\tHTTP/1.1", 400),
        ("POST /open  HTTP/1.1", 400),
        ("POST /open HTTP/1.1 ", 400),
        ("POST /open HTTP/1.1\u{b}", 400),
        ("POST /open HTTP/2.0", 400),
        ("POST /open HTTP/1.2", 400),
        ("POST /open HTTP/11", 400),
        ("POST /open http/1.1", 400),
        ("POST /open HTTP/1.1 HTTP/1.1", 400),
        ("POST /open", 400),
        (" POST /open HTTP/1.1", 400),
        ("\0POST /open HTTP/1.1", 400),
        ("PO\0ST /open HTTP/1.1", 400),
        ("P(ST /open HTTP/1.1", 400),
        ("POST HTTP/1.1", 400),
        ("PRI * HTTP/2.0", 400),
        ("post /open HTTP/1.1", 405),
        ("Post /open HTTP/1.1", 405),
        ("FOO /open HTTP/1.1", 405),
        ("PROPFIND /open HTTP/1.1", 405),
        ("TRACE /open HTTP/1.1", 405),
        ("CONNECT edge.example:443 HTTP/1.1", 405),
        ("CONNECT /open HTTP/1.1", 405),
        ("POST edge.example:443 HTTP/1.1", 400),
    ] {
        let heard = world.hear_out(format!("{line}\r\n{head}\r\n")).await;
        assert_eq!(heard.statuses, [status], "{line:?}: {}", heard.text);
        assert_eq!(status == 405, heard.text.contains("allow: "), "{line:?}: {}", heard.text);
        assert_eq!(world.service.count(), 0, "{line:?}");
    }
    // The old version is spoken, without what it does not have.
    let old = world.hear_out(format!("POST /open HTTP/1.0\r\n{head}\r\n")).await;
    assert_eq!((old.statuses, world.service.count()), (vec![201], 1), "{}", old.text);
    let coded = format!("POST /open HTTP/1.0\r\n{head}transfer-encoding: chunked\r\n\r\n0\r\n\r\n");
    let coded = world.hear_out(coded).await;
    assert_eq!((coded.statuses, world.service.count()), (vec![400], 1), "{}", coded.text);
    // Nor does it have to name a host.
    let hostless = world.hear_out("GET /charges HTTP/1.0\r\n\r\n").await;
    assert_eq!((hostless.statuses, world.service.count()), (vec![401], 1), "{}", hostless.text);
}

#[tokio::test]
async fn a_body_that_lies_about_its_length_ends_nobodys_request_but_its_own_h11() {
    let world = World::start().await;
    for route in ["/raw", "/open"] {
        let before = world.service.count();
        let keyed = [("idempotency-key", "k-long"), ("content-length", "50")];
        let keyed = if route == "/raw" { &keyed[..] } else { &keyed[1..] };
        let long = world.request(&format!("POST {route}"), &world.alice, keyed, "");
        let mut stream = world.connect().await;
        tokio::io::AsyncWriteExt::write_all(&mut stream, format!("{long}hello").as_bytes()).await.unwrap();
        tokio::io::AsyncWriteExt::shutdown(&mut stream).await.unwrap();
        hapax_testkit::raw::rest(&mut stream).await;
        assert_eq!(world.service.count(), before, "{route}: half a body is no request");
        // What is beyond the length is read as what it is: no request.
        let keyed = [("idempotency-key", "k-short"), ("content-length", "2")];
        let keyed = if route == "/raw" { &keyed[..] } else { &keyed[1..] };
        let short = world.request(&format!("POST {route}"), &world.alice, keyed, "");
        let heard = world.hear_out(format!("{short}hello\r\n\r\n")).await;
        assert_eq!(heard.statuses, [201, 400], "{route}");
        assert_eq!((world.service.count(), world.service.last().body), (before + 1, b"he".to_vec()));
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_and_each_arrives_once_h11() {
    let world = World::start().await;
    let mut sent = String::new();
    for number in 0..200 {
        let key = format!("k-{}", number / 2);
        let body = format!("{{\"n\":{}}}", number / 2);
        sent += &world.request("POST /raw", &world.alice, &[("idempotency-key", &key)], &body);
    }
    let heard = world.hear(&sent, 200).await;
    assert_eq!(heard.statuses, vec![201; 200]);
    assert_eq!(world.service.count(), 100);
    let mut last = 0;
    for number in 0..100 {
        let place = heard.text.find(&format!("answer {} to {{\"n\":{number}}}", number + 1)).unwrap();
        assert!(place > last, "answer {number}");
        last = place;
    }
}

#[tokio::test]
async fn one_bad_request_in_a_pipeline_ends_it_and_the_ones_before_are_done_h11() {
    let world = World::start().await;
    let good = world.request("POST /raw", &world.alice, &[("idempotency-key", "k-1")], "hello");
    let later = world.request("POST /raw", &world.alice, &[("idempotency-key", "k-2")], "hello");
    let mut stream = world.connect().await;
    hapax_testkit::raw::write(&mut stream, &good).await;
    let first = crate::world::client::read_answer(&mut stream, false).await.unwrap();
    assert_eq!(first.status, 201);
    let bad = "POST /raw HTTP/1.1\r\nhost: edge.example\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n";
    hapax_testkit::raw::write(&mut stream, &format!("{bad}{later}")).await;
    assert!(hapax_testkit::raw::rest(&mut stream).await.starts_with("HTTP/1.1 400"));
    assert_eq!(world.service.count(), 1);
}
