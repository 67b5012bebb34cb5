//! What counts as the same request, what must not, and how a mismatch is explained.

use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::*;
use crate::Kind;
use crate::limits::{MAX_LEAVES, MAX_LEAVES_COMPARED};

fn pointers(texts: &[&str]) -> Vec<Pointer> {
    texts.iter().map(|text| Pointer::new(*text).unwrap()).collect()
}

fn body_print(recipe: &Recipe, content_type: Option<&str>, body: impl AsRef<[u8]>) -> [u8; 32] {
    let request = RequestParts {
        method: "POST",
        path: "/pay",
        content_type,
        body: body.as_ref(),
        ..Default::default()
    };
    recipe.fingerprint(&request).digest
}

fn json_print(body: impl AsRef<[u8]>) -> [u8; 32] {
    body_print(&Recipe::json(), Some("application/json"), body)
}

const FORM: Option<&str> = Some("application/x-www-form-urlencoded");

fn form_print(body: &str) -> [u8; 32] {
    body_print(&Recipe::form(), FORM, body)
}

#[test]
fn every_part_of_the_head_takes_part_with_its_length() {
    // K7
    let base = RequestParts { method: "POST", path: "/a", query: "b=1", body: b"x", ..Default::default() };
    let others = [
        RequestParts { method: "PUT", ..base },
        RequestParts { path: "/b", ..base },
        RequestParts { query: "", ..base },
        RequestParts { body: b"", ..base },
        RequestParts { method: "POST/", path: "a", ..base },
        RequestParts { path: "/ab", query: "=1", ..base },
        RequestParts { query: "b=", body: b"1x", ..base },
    ];
    let first = Recipe::raw().fingerprint(&base);
    assert_eq!(first, Recipe::raw().fingerprint(&base));
    for other in others {
        assert_ne!(first, Recipe::raw().fingerprint(&other), "{other:?}");
    }
}

#[test]
fn the_raw_fingerprint_is_the_documented_digest() {
    // K7: pinned, because every store holds it.
    let mut bytes = b"hapax.fingerprint.v1".to_vec();
    for part in ["POST", "/pay", "q=1"] {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes.extend(0_u64.to_be_bytes());
    bytes.push(0);
    bytes.extend(Sha256::digest(b"body"));
    let request =
        RequestParts { method: "POST", path: "/pay", query: "q=1", body: b"body", ..Default::default() };
    let print = Recipe::raw().fingerprint(&request);
    assert_eq!(print.digest, <[u8; 32]>::from(Sha256::digest(&bytes)));
    assert_eq!(
        format!("{print:?}"),
        "Fingerprint(2c184aa356fcf128:ebe4d105767173b0090d58d17f7d62c0700a84810fd236a281d87fb59041cb69)"
    );
}

#[test]
fn recipes_have_lasting_names() {
    // K6: pinned, because the store remembers them; a change of meaning needs a new domain.
    let named = Recipe::json_ignoring(pointers(&["/sent_at"])).unwrap().with_headers(["X-Version"]).unwrap();
    let ids =
        [Recipe::raw(), Recipe::json(), Recipe::form(), Recipe::none(), named].map(|recipe| recipe.id().0);
    let pinned = [
        0x2c18_4aa3_56fc_f128,
        0x3141_d75f_62ee_5ff3,
        0x41f8_94f1_b8f8_e893,
        0xf688_c442_ea7f_54a7,
        0x78f8_6f09_c545_dfd6,
    ];
    assert_eq!(ids, pinned);
}

#[test]
fn the_order_in_which_a_recipe_is_written_does_not_matter() {
    let a = Recipe::json_ignoring(pointers(&["/a", "/b"])).unwrap().with_headers(["X-B", "x-a"]).unwrap();
    let b =
        Recipe::json_ignoring(pointers(&["/b", "/a", "/b"])).unwrap().with_headers(["X-A", "x-b"]).unwrap();
    assert_eq!((a.id(), a.headers(), a.ignored()), (b.id(), b.headers(), b.ignored()));
    assert_ne!(a.id(), Recipe::json_ignoring(pointers(&["/a", "/b"])).unwrap().id());
}

#[test]
fn a_recipe_that_cannot_be_meant_is_refused() {
    assert!(Recipe::raw().with_headers(["a b"]).is_err());
    assert!(Recipe::raw().with_headers([""]).is_err());
    assert!(Recipe::none().with_headers(["a"]).is_err());
    assert!(Recipe::raw().with_headers((0..65).map(|n| format!("h{n}"))).is_err());
    let many = (0..65).map(|n| Pointer::new(format!("/{n}")).unwrap());
    assert!(Recipe::json_ignoring(many).is_err());
}

#[test]
fn named_headers_count_by_value_order_and_presence() {
    // K7
    let recipe = Recipe::raw().with_headers(["X-Version"]).unwrap();
    let print =
        |headers: &[(&str, &[u8])]| recipe.fingerprint(&RequestParts { headers, ..Default::default() });
    assert_eq!(print(&[("x-version", b"1"), ("other", b"2")]), print(&[("X-VERSION", b"1")]));
    assert_ne!(print(&[("x-version", b"1")]), print(&[("x-version", b"2")]));
    assert_ne!(print(&[("x-version", b"")]), print(&[]));
    assert_ne!(
        print(&[("x-version", b"1"), ("x-version", b"2")]),
        print(&[("x-version", b"2"), ("x-version", b"1")])
    );
    assert_ne!(print(&[("x-version", b"1, 2")]), print(&[("x-version", b"1"), ("x-version", b"2")]));
}

#[test]
fn the_recipe_none_compares_nothing() {
    let a = RequestParts { method: "POST", body: b"a", ..Default::default() };
    assert_eq!(Recipe::none().fingerprint(&a), Fingerprint::none());
    assert_ne!(Fingerprint::none(), Fingerprint::of_bytes(b""));
}

#[test]
fn json_bodies_are_the_same_whatever_their_member_order_and_white_space() {
    // K7
    let first = json_print(r#"{"amount": 10, "to": {"iban": "X", "name": "Jos\u00e9"}}"#);
    assert_eq!(first, json_print("{\"to\":{\"name\":\"José\",\"iban\":\"X\"},\n\t\"amount\":1e1}"));
    assert_ne!(first, json_print(r#"{"amount": 11, "to": {"iban": "X", "name": "José"}}"#));
    assert_ne!(json_print("[1,2]"), json_print("[2,1]"));
}

#[test]
fn json_that_loses_something_when_read_is_compared_by_its_bytes() {
    let pairs = [
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#"{"a":2,"a":1}"#, r#"{"a":1,"a":2}"#),
        ("[9007199254740993]", "[9007199254740992]"),
        ("[1152921504606846976]", "[1152921504606847000]"),
        ("[12345678901234567890]", "[12345678901234567000]"),
        ("[0.1000000000000000055]", "[0.1]"),
        ("[1e-400]", "[0]"),
        ("[1e400]", "[1e401]"),
        (r#"["\ud800"]"#, r#"["\ud801"]"#),
        (r#"["\ud800"]"#, "[\"\u{fffd}\"]"),
    ];
    for (a, b) in pairs {
        assert_ne!(json_print(a), json_print(b), "{a} {b}");
    }
    assert_ne!(json_print(b"[\"\xff\"]"), json_print(b"[\"\xfe\"]"));
    // White space counts then, because the bytes do.
    assert_ne!(json_print("[9007199254740993]"), json_print("[ 9007199254740993 ]"));
    assert_eq!(json_print("[9007199254740993]"), json_print("[9007199254740993]"));
}

#[test]
fn bytes_that_look_like_a_canonical_form_are_not_taken_for_one() {
    // The same bytes under two recipes, and in two forms, are two digests.
    let canonical = r#"{"a":1}"#;
    assert_ne!(json_print(canonical), body_print(&Recipe::raw(), None, canonical));
    assert_eq!(json_print("no json"), body_print(&Recipe::raw(), None, "no json"));
}

#[test]
fn ignored_pointers_do_not_take_part() {
    // K7
    let recipe = Recipe::json_ignoring(pointers(&["/sent_at", "/items/0/seen"])).unwrap();
    let print = |body: &str| body_print(&recipe, None, body);
    let first = print(r#"{"amount":1,"sent_at":"now","items":[{"id":1,"seen":true}]}"#);
    assert_eq!(first, print(r#"{"amount":1,"sent_at":"later","items":[{"id":1,"seen":false}]}"#));
    assert_eq!(first, print(r#"{"amount":1,"items":[{"id":1}]}"#));
    assert_ne!(first, print(r#"{"amount":2,"items":[{"id":1}]}"#));
}

#[test]
fn form_fields_are_the_same_however_they_are_encoded() {
    // K7
    assert_eq!(form_print("name=Jos%C3%A9+B&x=%41"), form_print("name=Jos%c3%a9%20B&x=A"));
    assert_eq!(form_print("a=1&&b=2&"), form_print("b=2&a=1"));
    assert_eq!(form_print("a=1"), body_print(&Recipe::form(), None, "a=1"));
    let charset = Some("Application/X-WWW-Form-URLencoded ; charset=utf-8");
    assert_eq!(form_print("a=%31"), body_print(&Recipe::form(), charset, "a=1"));
}

#[test]
fn form_fields_that_a_server_could_tell_apart_differ() {
    let pairs = [
        ("a=1&a=2", "a=2&a=1"),
        ("a=1", "a=1&a=1"),
        ("a", "a="),
        ("a=1&b=2", "a=1%26b=2"),
        ("a=b=c", "a%3Db=c"),
        ("a=%zz", "a=%25zz"),
        ("a=%4", "a=%254"),
        ("a=1;b=2", "a=1%3Bb=2"),
        ("i[][id]=1&i[][q]=2&i[][id]=3&i[][q]=4", "i[][id]=1&i[][id]=3&i[][q]=2&i[][q]=4"),
        ("a=1&a[x]=2", "a[x]=2&a=1"),
        ("a=1&A=2", "A=2&a=1"),
        ("a.b=1&a_b=2", "a_b=2&a.b=1"),
    ];
    for (a, b) in pairs {
        assert_ne!(form_print(a), form_print(b), "{a} {b}");
    }
    let json = Some("application/json");
    assert_ne!(body_print(&Recipe::form(), json, "a=%31"), body_print(&Recipe::form(), json, "a=1"));
}

fn multipart(boundary: &str, parts: &[(&str, &str)]) -> (String, String) {
    let mut body = String::new();
    for (headers, content) in parts {
        body += &format!("--{boundary}\r\n{headers}\r\n\r\n{content}\r\n");
    }
    body += &format!("--{boundary}--\r\n");
    (format!("multipart/form-data; boundary={boundary}"), body)
}

#[test]
fn multipart_bodies_are_compared_by_parts_under_every_recipe() {
    // K7
    let parts = [
        ("Content-Disposition: form-data; name=\"a\"", "1\r\n2"),
        ("content-disposition:form-data; name=b", ""),
    ];
    let (one, other) = (multipart("x1", &parts), multipart("y--2", &parts));
    let changed = multipart("x1", &[parts[0], ("content-disposition: form-data; name=b", "!")]);
    let swapped = multipart("x1", &[parts[1], parts[0]]);
    let renamed = multipart("x1", &[("Content-Disposition: form-data; name=\"c\"", "1\r\n2"), parts[1]]);
    for recipe in [Recipe::raw(), Recipe::json(), Recipe::form()] {
        let print = |(content_type, body): &(String, String)| body_print(&recipe, Some(content_type), body);
        assert_eq!(print(&one), print(&other));
        for different in [&changed, &swapped, &renamed] {
            assert_ne!(print(&one), print(different));
        }
        let quoted = (one.0.replace("x1", "\"x1\" ; charset=utf-8"), one.1.clone());
        assert_eq!(print(&one), print(&quoted));
    }
}

#[test]
fn a_multipart_body_that_is_not_strictly_written_is_compared_by_its_bytes() {
    let form_data = "multipart/form-data; boundary=x";
    let as_bytes = [
        (form_data, "preamble\r\n--x\r\nA: b\r\n\r\n1\r\n--x--\r\n"),
        (form_data, "--x\r\nA: b\r\n\r\n1\r\n--x--\r\nepilogue"),
        (form_data, "--x\nA: b\n\n1\n--x--\n"),
        (form_data, "--x \r\nA: b\r\n\r\n1\r\n--x--"),
        (form_data, "--x\r\nA: b\r\n c\r\n\r\n1\r\n--x--"),
        (form_data, "--x\r\nA b\r\n\r\n1\r\n--x--"),
        (form_data, "--x\r\nA: b\r\n\r\n1\r\n--x"),
        (form_data, "--x\r\nA: b\r\n\r\n1\r\n--xy\r\n--x--"),
        (form_data, "--x\r\n--x--"),
        (form_data, ""),
        ("multipart/form-data", "--x--"),
        ("multipart/form-data; boundary=", "--x--"),
        ("multipart/form-data; boundary=x; boundary=x", "--x--"),
        ("multipart/form-data; boundary=\"x", "--x--"),
        ("multipart/form-data; boundary=x y", "--x--"),
        ("multipartly/mixed; boundary=x", "--x--"),
    ];
    for (content_type, body) in as_bytes {
        let parsed = body_print(&Recipe::raw(), Some(content_type), body);
        assert_eq!(parsed, body_print(&Recipe::raw(), None, body), "{content_type} {body:?}");
    }
    assert_ne!(
        body_print(&Recipe::raw(), Some(form_data), "--x--"),
        body_print(&Recipe::raw(), None, "--x--")
    );
    let headless = "--x\r\n\r\n1\r\n--x--";
    assert_ne!(
        body_print(&Recipe::raw(), Some(form_data), headless),
        body_print(&Recipe::raw(), None, headless)
    );
}

#[test]
fn only_raw_bodies_without_parts_can_be_hashed_while_they_are_read() {
    let multipart =
        RequestParts { content_type: Some("multipart/form-data; boundary=x"), ..Default::default() };
    assert!(RawHasher::start(&Recipe::raw(), &multipart).is_none());
    for recipe in [Recipe::json(), Recipe::form(), Recipe::none()] {
        assert!(RawHasher::start(&recipe, &RequestParts::default()).is_none());
    }
}

proptest! {
    #[test]
    fn hashing_while_reading_gives_the_same_fingerprint(
        chunks in proptest::collection::vec(any::<Vec<u8>>(), 0..5),
    ) {
        let recipe = Recipe::raw().with_headers(["x"]).unwrap();
        let head = RequestParts { method: "POST", path: "/", headers: &[("X", b"1")], ..Default::default() };
        let mut hasher = RawHasher::start(&recipe, &head).unwrap();
        chunks.iter().for_each(|chunk| hasher.update(chunk));
        let body = chunks.concat();
        prop_assert_eq!(hasher.finish(), recipe.fingerprint(&RequestParts { body: &body, ..head }));
    }

    #[test]
    fn any_body_under_any_content_type_gets_a_fingerprint(
        body in any::<Vec<u8>>(),
        content_type in prop_oneof![
            Just("multipart/form-data; boundary=x".to_owned()),
            "multipart/form-data;[ a-z=\";]{0,20}",
            "\\PC{0,20}",
        ],
    ) {
        for recipe in [Recipe::raw(), Recipe::json(), Recipe::form()] {
            let print = body_print(&recipe, Some(&content_type), &body);
            prop_assert_eq!(print, body_print(&recipe, Some(&content_type), &body));
        }
    }

    #[test]
    fn multipart_like_bodies_are_read_or_left_but_never_confused(
        a in "(--x|\r\n|--|A: b|y){0,12}", b in "(--x|\r\n|--|A: b|y){0,12}",
    ) {
        prop_assume!(a != b);
        let content_type = Some("multipart/form-data; boundary=x");
        // The only text that may be forgotten is what cannot carry meaning: case of names, white space around
        // values and the line break behind the last delimiter.
        let plain = |text: &str| text.replace("A: b", "a:b").trim_end_matches("\r\n").to_owned();
        prop_assume!(plain(&a) != plain(&b));
        let recipe = Recipe::raw();
        prop_assert_ne!(body_print(&recipe, content_type, &a), body_print(&recipe, content_type, &b));
    }
}

fn leaf_key() -> LeafKey {
    LeafKey::new([7; 32])
}

fn explained(first: &Value, new: &Value) -> Explanation {
    let leaves = Leaves::of_json(first.to_string().as_bytes(), &leaf_key(), &[]).unwrap();
    leaves.explain(new.to_string().as_bytes(), &leaf_key(), &[])
}

fn all(changed: &[&str], added: &[&str], missing: usize) -> Explanation {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Explanation {
        changed: owned(changed),
        added: owned(added),
        missing,
        complete: true,
        ..Explanation::default()
    }
}

#[test]
fn a_mismatch_names_the_pointers_that_differ() {
    // H10
    let first = json!({"amount": 10, "to": {"iban": "X", "a/b~": [1, 2]}, "tags": []});
    let cases = [
        (first.clone(), all(&[], &[], 0)),
        (json!({"amount": 11, "to": {"iban": "X", "a/b~": [1, 2]}, "tags": []}), all(&["/amount"], &[], 0)),
        (
            json!({"amount": 10, "to": {"iban": "X", "a/b~": [1, 3]}, "tags": []}),
            all(&["/to/a~1b~0/1"], &[], 0),
        ),
        (
            json!({"amount": 10, "to": {"iban": "X", "a/b~": [1, 2, 3]}, "tags": {}}),
            all(&["/tags"], &["/to/a~1b~0/2"], 0),
        ),
        (json!({"amount": 10, "to": "X", "tags": ["n"]}), all(&[], &["/tags/0", "/to"], 4)),
        (json!(5), all(&[], &[""], 5)),
    ];
    for (new, expected) in cases {
        assert_eq!(explained(&first, &new), expected, "{new}");
    }
    assert_eq!(explained(&json!(1), &json!("1")), all(&[""], &[], 0));
}

#[test]
fn spelling_and_ignored_parts_are_no_difference() {
    let ignored = pointers(&["/sent_at"]);
    let first = Leaves::of_json(br#"{"sent_at":1,"n":1.0,"s":"\u0041"}"#, &leaf_key(), &ignored).unwrap();
    assert_eq!(first.len(), 2);
    let same = first.explain(br#"{ "s":"A", "n":1e0, "sent_at":2 }"#, &leaf_key(), &ignored);
    assert_eq!(same, all(&[], &[], 0));
}

#[test]
fn a_body_that_is_not_json_is_not_explained() {
    assert!(Leaves::of_json(b"no json", &leaf_key(), &[]).is_none());
    assert!(Leaves::of_json(br#"{"a":1,"a":2}"#, &leaf_key(), &[]).is_none());
    let leaves = Leaves::of_json(b"[1]", &leaf_key(), &[]).unwrap();
    assert_eq!(leaves.explain(b"no json", &leaf_key(), &[]), Explanation::default());
    assert!(!Explanation::default().complete);
}

#[test]
fn only_so_many_leaves_are_kept_and_the_rest_is_admitted() {
    // H10: at most 256 leaves.
    let body = |count: usize| json!((0..count).collect::<Vec<_>>()).to_string();
    let leaves = |count| Leaves::of_json(body(count).as_bytes(), &leaf_key(), &[]).unwrap();
    let (full, cut) = (leaves(MAX_LEAVES), leaves(MAX_LEAVES + 1));
    assert_eq!((full.len(), full.is_truncated()), (MAX_LEAVES, false));
    assert_eq!((cut.len(), cut.is_truncated()), (MAX_LEAVES, true));
    let told = cut.explain(body(MAX_LEAVES + 2).as_bytes(), &leaf_key(), &[]);
    assert_eq!(told, Explanation::default(), "what lies beyond the bound is neither added nor complete");
    let told = full.explain(body(MAX_LEAVES + 2).as_bytes(), &leaf_key(), &[]);
    assert_eq!(told, all(&[], &["/256", "/257"], 0));
    let told = full.explain(body(MAX_LEAVES_COMPARED + 1).as_bytes(), &leaf_key(), &[]);
    assert_eq!((told.complete, told.missing, told.added.len()), (false, 0, crate::limits::MAX_POINTERS_TOLD));
}

#[test]
fn an_item_of_a_list_is_not_the_member_that_is_named_like_its_place_h10() {
    let explain = |first: &str, second: &str| {
        let leaves = Leaves::of_json(first.as_bytes(), &leaf_key(), &[]).unwrap();
        leaves.explain(second.as_bytes(), &leaf_key(), &[])
    };
    assert_eq!(explain("[null]", r#"{"0":null}"#), all(&["/0"], &[], 0));
    assert_eq!(explain(r#"{"a":{"0":[1]}}"#, r#"{"a":[{"0":1}]}"#), all(&["/a/0/0"], &[], 0));
    assert_eq!(explain(r#"{"a":[[],1]}"#, r#"{"a":[[],1]}"#), all(&[], &[], 0));
}

#[test]
fn leaves_say_nothing_without_their_key() {
    let body = br#"{"pin":"1234"}"#;
    let leaves = Leaves::of_json(body, &leaf_key(), &[]).unwrap();
    let other_key = LeafKey::new([8; 32]);
    assert_ne!(leaves, Leaves::of_json(body, &other_key, &[]).unwrap());
    assert_eq!(leaves.explain(body, &other_key, &[]), all(&[], &["/pin"], 1));
    assert_eq!(format!("{other_key:?} {leaves:?}"), "LeafKey(…) Leaves(1)");
}

#[test]
fn stored_leaves_are_read_back_strictly() {
    let leaves = Leaves::of_json(br#"{"a":1,"b":2}"#, &leaf_key(), &[]).unwrap();
    let bytes = leaves.as_bytes().to_vec();
    assert_eq!(Leaves::from_bytes(bytes.clone()).unwrap(), leaves);
    let (head, entries) = bytes.split_at(2);
    let (first, second) = entries.split_at(16);
    let corrupt: [Vec<u8>; 9] = [
        vec![],
        vec![1],
        vec![0, 0],
        vec![2, 0],
        vec![1, 2],
        bytes[..bytes.len() - 1].to_vec(),
        [head, second, first].concat(),
        [head, first, first].concat(),
        [head, &(0..=256_u16).flat_map(|n| [n.to_be_bytes(); 8].concat()).collect::<Vec<u8>>()].concat(),
    ];
    for bytes in corrupt {
        assert_eq!(Leaves::from_bytes(bytes).unwrap_err().kind(), Kind::Corrupt);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        (-9_000_000_000_000_000_i64..9_000_000_000_000_000).prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("finite", |double| serde_json::Number::from_f64(double).map(Value::from)),
        Just(json!(-0.0)),
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        "[a-c/~\"\\\\é😀]{0,3}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[ab/~0]{0,2}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same document, its members the other way round and its text spaced out.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().rev();
            let members: Vec<_> =
                members.map(|(name, value)| format!("{} : {}", json!(name), reversed(value))).collect();
            format!("{{ {} }}", members.join(" ,\n"))
        }
        Value::Array(items) => {
            format!("[ {} ]", items.iter().map(reversed).collect::<Vec<_>>().join(" , "))
        }
        scalar => scalar.to_string(),
    }
}

proptest! {
    #[test]
    fn two_bodies_have_the_same_leaves_if_they_have_the_same_canonical_form_h10(
        (a, b) in (any_json(), any_json()),
    ) {
        let leaves = |text: &str| Leaves::of_json(text.as_bytes(), &leaf_key(), &[]);
        let canonical = |value: &Value| json::canonicalize(value.to_string().as_bytes()).unwrap();
        prop_assert_eq!(leaves(&a.to_string()), leaves(&reversed(&a)));
        prop_assert_eq!(leaves(&a.to_string()) == leaves(&b.to_string()), canonical(&a) == canonical(&b));
    }

    #[test]
    fn ignored_parts_are_left_out_just_as_they_are_of_the_fingerprint_h10(
        document in any_json(), pointer in "(/[ab0]){1,3}",
    ) {
        let pointer = Pointer::new(pointer).unwrap();
        let mut without = document.clone();
        pointer.remove_from(&mut without);
        let leaves = Leaves::of_json(document.to_string().as_bytes(), &leaf_key(), &[pointer]);
        prop_assert_eq!(leaves, Leaves::of_json(without.to_string().as_bytes(), &leaf_key(), &[]));
    }

    #[test]
    fn leaves_are_kept_of_what_can_be_compared_as_json_and_of_nothing_else_h10(
        text in "[\\[\\]{}:,\"\\\\ab01.eE+\\- ]{0,14}|\\{\"a\":(1|1e1|\"\\\\ud800\"|9007199254740993|0.1000000000000000055),\"(a|b)\":2\\}",
    ) {
        let leaves = Leaves::of_json(text.as_bytes(), &leaf_key(), &[]);
        prop_assert_eq!(leaves.is_some(), json::read_lossless(text.as_bytes()).is_ok(), "{}", text);
    }
}

#[test]
fn a_body_that_is_nested_too_deep_has_no_leaves() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let leaves = |depth| Leaves::of_json(nested(depth).as_bytes(), &leaf_key(), &[]);
    let deepest = crate::limits::MAX_JSON_DEPTH;
    assert!(leaves(deepest).is_some());
    assert!(leaves(deepest + 1).is_none());
    let ignored = pointers(&["/a"]);
    let twice = br#"{"a": {"b": 1, "b": 2}}"#;
    assert!(Leaves::of_json(twice, &leaf_key(), &ignored).is_none(), "also where it is ignored");
}

#[test]
fn a_value_of_one_header_never_passes_for_the_name_of_the_next() {
    // K7
    let recipe = Recipe::raw().with_headers(["x", "y"]).unwrap();
    let print = |headers: &[(&str, &[u8])]| {
        recipe.fingerprint(&RequestParts { method: "POST", path: "/pay", headers, ..Default::default() })
    };
    assert_ne!(print(&[("x", b"y")]), print(&[("y", b"y")]));
    assert_ne!(print(&[("x", b"y"), ("x", b"")]), print(&[("x", b"y")]));
}

#[test]
fn equal_values_in_different_places_have_different_hashes() {
    // H10: what is stored does not tell that two secrets are the same.
    let leaves = Leaves::of_json(br#"{"a":"pin","b":"pin"}"#, &leaf_key(), &[]).unwrap();
    let entries = &leaves.as_bytes()[2..];
    assert_ne!(entries[8..16], entries[24..32]);
}

#[test]
fn leaves_that_are_hashed_later_are_those_that_are_hashed_now_h10() {
    struct Posted(&'static str, Vec<Pointer>);
    impl Asked for Posted {
        fn leaves(&self, key: &LeafKey) -> Leaves {
            Leaves::of_request(&posted(self.0), key, &self.1)
        }
    }
    let later = |body: &'static str, ignored: &[Pointer]| {
        LazyLeaves::of(std::sync::Arc::new(Posted(body, ignored.to_vec())), leaf_key().into()).get()
    };
    let ignored = pointers(&["/sent_at"]);
    let body = r#"{"pin":"1234","sent_at":7}"#;
    assert_eq!(later(body, &ignored), Leaves::of_request(&posted(body), &leaf_key(), &ignored));
    assert_ne!(later(body, &ignored), later(body, &[]));
    assert!(later("no JSON", &[]).is_empty());
    let made = Leaves::of_json(body.as_bytes(), &leaf_key(), &[]).unwrap();
    assert_eq!(LazyLeaves::from(made.clone()).get(), made);
}

fn posted(body: &str) -> RequestParts<'_> {
    RequestParts {
        method: "POST",
        path: "/orders/1",
        query: "a=1",
        body: body.as_bytes(),
        ..Default::default()
    }
}

#[test]
fn leaves_of_a_request_say_which_of_method_path_and_query_differ_h10() {
    for body in [r#"{"a":1}"#, "no JSON", ""] {
        let first = posted(body);
        let leaves = Leaves::of_request(&first, &leaf_key(), &[]);
        let differs = |new: RequestParts<'_>| leaves.explain_request(&new, &leaf_key(), &[]).request;
        assert_eq!(differs(first), [""; 0]);
        assert_eq!(differs(RequestParts { path: "/orders/2", ..first }), ["path"]);
        assert_eq!(differs(RequestParts { method: "PUT", query: "", ..first }), ["method", "query"]);
        assert!(leaves.is_to(&first, &leaf_key()));
        assert!(
            leaves.is_to(&RequestParts { body: b"another", ..first }, &leaf_key()),
            "the body is not asked about"
        );
        assert!(!leaves.is_to(&RequestParts { path: "/orders/2", ..first }, &leaf_key()));
        assert_eq!(Leaves::from_bytes(leaves.as_bytes().clone()).unwrap(), leaves);
    }
    let (first, new) = (posted(r#"{"a":1}"#), posted(r#"{"a":2}"#));
    let leaves = Leaves::of_request(&first, &leaf_key(), &[]);
    assert_eq!(leaves.explain_request(&new, &leaf_key(), &[]), all(&["/a"], &[], 0));
    // Claims that were made before keep nothing of their target: nothing is said of it.
    let old = Leaves::of_json(br#"{"a":1}"#, &leaf_key(), &[]).unwrap();
    assert!(old.is_to(&new, &leaf_key()));
    assert_eq!(
        old.explain_request(&RequestParts { path: "/x", ..new }, &leaf_key(), &[]),
        all(&["/a"], &[], 0)
    );
    for broken in [&[2, 2][..], &[2, 0, 1], &[2, 3], &[1, 2]] {
        assert!(Leaves::from_bytes(broken.to_vec()).is_err(), "{broken:?}");
    }
    let mut wrong = Leaves::of_request(&posted(""), &leaf_key(), &[]).as_bytes().to_vec();
    wrong.extend([0; 16]);
    assert!(Leaves::from_bytes(wrong).is_err(), "a body without leaves has none");
}

/// A client that compresses anew for a retry sends other bytes.
#[test]
fn a_body_in_gzip_is_compared_by_its_content_k7() {
    use std::io::Write as _;
    let gzip = |content: &str, time| {
        let mut encoder =
            flate2::GzBuilder::new().mtime(time).write(Vec::new(), flate2::Compression::new(time % 10));
        encoder.write_all(content.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let text = r#"{"amount": 10, "note": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#;
    let (one, other, changed) = (gzip(text, 1), gzip(text, 9), gzip(&text.replace("10", "11"), 1));
    assert_ne!(one, other);
    for recipe in [Recipe::raw(), Recipe::json(), Recipe::form()] {
        let print = |body: &[u8], max_content| {
            let parts = RequestParts { content_encoding: Some("gzip"), max_content, body, ..posted("") };
            recipe.fingerprint(&parts)
        };
        assert_eq!(print(&one, 100), print(&other, 100));
        assert_ne!(print(&one, 100), print(&changed, 100));
        assert_eq!(print(&one, 100), recipe.fingerprint(&posted(text)), "the content is what counts");
        assert_ne!(print(&one, 10), print(&other, 10), "beyond the bound, the bytes count");
        assert_ne!(print(b"no gzip", 100), print(b"no gzip!", 100));
    }
    let parts = RequestParts { content_encoding: Some("gzip"), max_content: 100, body: &one, ..posted("") };
    assert_eq!(
        Leaves::of_request(&parts, &leaf_key(), &[]),
        Leaves::of_request(&posted(text), &leaf_key(), &[])
    );
    assert!(RawHasher::start(&Recipe::raw(), &parts).is_none());
}

#[test]
fn every_kind_of_multipart_is_compared_by_its_parts_k7() {
    let parts = [("Content-Type: application/json", "{}"), ("content-type: image/png", "png")];
    for kind in ["related; type=\"application/json\"", "mixed", "Alternative", "x-other"] {
        let of = |(content_type, body): (String, String)| (content_type.replace("form-data", kind), body);
        let (one, other) = (of(multipart("x1", &parts)), of(multipart("y2", &parts)));
        let changed = of(multipart("x1", &[parts[0], ("content-type: image/png", "gif")]));
        let print =
            |(content_type, body): &(String, String)| body_print(&Recipe::raw(), Some(content_type), body);
        assert_eq!(print(&one), print(&other), "{kind}");
        assert_ne!(print(&one), print(&changed), "{kind}");
    }
    let (_, body) = multipart("x1", &parts);
    assert_ne!(
        body_print(&Recipe::raw(), Some("multipartly/x; boundary=x1"), &body),
        body_print(&Recipe::raw(), Some("multipart/x; boundary=x1"), &body)
    );
}

/// Claims that were made before are explained by whoever comes later: what is stored must not change unnoticed.
#[test]
fn the_stored_form_of_leaves_stays_as_it_is_h10() {
    let long = "x".repeat(200);
    let body = format!(
        r#"{{"a":1,"b":{{"c/d":"text","e~f":[true,null,-2.5,[],{{}}]}},"long":"{long}","many":[0,1,2,3,4,5,6,7,8,9,10,11]}}"#
    );
    let leaves = Leaves::of_json(body.as_bytes(), &leaf_key(), &[]).unwrap();
    assert_eq!(leaves.len(), 20);
    let digest = Sha256::digest(leaves.as_bytes());
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "2426680ec2aadfcd");
}

#[test]
fn a_key_is_recognised_in_logs_and_cannot_be_read_there_o2() {
    let digest = leaf_key().log_digest("acme", "order-1");
    assert_eq!(digest, leaf_key().log_digest("acme", "order-1"));
    assert!(digest.len() == 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
    for (tenant, key) in [("acme", "order-2"), ("globex", "order-1"), ("acm", "eorder-1")] {
        assert_ne!(digest, leaf_key().log_digest(tenant, key), "{tenant} {key}");
    }
    assert_ne!(digest, LeafKey::new([9; 32]).log_digest("acme", "order-1"));
}
