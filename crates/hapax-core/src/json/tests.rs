//! RFC 8785 against its published vectors, and what must be refused because readers disagree about it.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn canonical(text: &str) -> String {
    String::from_utf8(canonicalize(text.as_bytes()).unwrap()).unwrap()
}

/// RFC 8785 Appendix B: the bits of a double and the text it becomes.
const NUMBERS: &[(u64, &str)] = &[
    (0x0000_0000_0000_0000, "0"),
    (0x8000_0000_0000_0000, "0"),
    (0x0000_0000_0000_0001, "5e-324"),
    (0x8000_0000_0000_0001, "-5e-324"),
    (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
    (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
    (0x4340_0000_0000_0000, "9007199254740992"),
    (0xc340_0000_0000_0000, "-9007199254740992"),
    (0x4430_0000_0000_0000, "295147905179352830000"),
    (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
    (0x44b5_2d02_c7e1_4af6, "1e+23"),
    (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
    (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
    (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
    (0x444b_1ae4_d6e2_ef50, "1e+21"),
    (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
    (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
    (0x41b3_de43_5555_5553, "333333333.3333332"),
    (0x41b3_de43_5555_5554, "333333333.33333325"),
    (0x41b3_de43_5555_5555, "333333333.3333333"),
    (0x41b3_de43_5555_5556, "333333333.3333334"),
    (0x41b3_de43_5555_5557, "333333333.33333343"),
    (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
    (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
];

#[test]
fn doubles_are_written_as_rfc_8785_appendix_b_has_them() {
    for (bits, text) in NUMBERS {
        let value = json!(f64::from_bits(*bits));
        assert_eq!(String::from_utf8(canonical_value(&value).unwrap()).unwrap(), *text, "{bits:016x}");
    }
}

#[test]
fn the_texts_of_rfc_8785_appendix_b_are_read_back_without_loss() {
    for (_, text) in NUMBERS {
        assert_eq!(canonical(text), *text);
        assert!(read_lossless(text.as_bytes()).is_ok(), "{text}");
    }
}

#[test]
fn the_example_of_rfc_8785_section_3_2_2_becomes_the_bytes_of_section_3_2_4() {
    let input = r#"{
        "numbers": [333333333.33333329, 1E30, 4.50,
                    2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let bytes = "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a\
                 5b3333333333333333332e333333333333332c31652b33302c342e352c302e3030322c31652d32375d\
                 2c22737472696e67223a22e282ac245c75303030665c6e4127425c225c5c5c5c5c222f227d";
    let hex: String =
        canonicalize(input.as_bytes()).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, bytes);
}

#[test]
fn members_are_sorted_by_utf_16_units_as_in_rfc_8785_section_3_2_3() {
    let input = r#"{
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\ud83d\ude00": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis"
    }"#;
    let expected = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\
                    \"\u{f6}\":\"Latin Small Letter O With Diaeresis\",\"\u{20ac}\":\"Euro Sign\",\
                    \"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}";
    assert_eq!(canonical(input), expected);
}

/// The test files that the authors of RFC 8785 publish (cyberphone/json-canonicalization, `testdata`).
const PUBLISHED: &[(&str, &str, &str)] = &[
    ("arrays", r#"[ 56, { "d": true, "10": null, "1": [ ] } ]"#, r#"[56,{"1":[],"10":null,"d":true}]"#),
    (
        "french",
        "{\n  \"peach\": \"This sorting order\",\n  \"p\u{e9}ch\u{e9}\": \"is wrong according to French\",\n  \
         \"p\u{ea}che\": \"but canonicalization MUST\",\n  \"sin\":   \"ignore locale\"\n}\n",
        "{\"peach\":\"This sorting order\",\"p\u{e9}ch\u{e9}\":\"is wrong according to French\",\
         \"p\u{ea}che\":\"but canonicalization MUST\",\"sin\":\"ignore locale\"}",
    ),
    (
        "structures",
        r#"{
          "1": {"f": {"f": "hi","F": 5} ,"\n": 56.0},
          "10": { },
          "": "empty",
          "a": { },
          "111": [ {"e": "yes","E": "no" } ],
          "A": { }
        }"#,
        r#"{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}"#,
    ),
    ("unicode", r#"{ "Unnormalized Unicode":"A\u030a" }"#, "{\"Unnormalized Unicode\":\"A\u{30a}\"}"),
    (
        "values",
        r#"{
          "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
          "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
          "literals": [null, true, false]
        }"#,
        "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
         \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}",
    ),
    (
        "weird",
        r#"{
          "\u20ac": "Euro Sign",
          "\r": "Carriage Return",
          "\u000a": "Newline",
          "1": "One",
          "\u0080": "Control\u007f",
          "\ud83d\ude02": "Smiley",
          "\u00f6": "Latin Small Letter O With Diaeresis",
          "\ufb33": "Hebrew Letter Dalet With Dagesh",
          "</script>": "Browser Challenge"
        }"#,
        "{\"\\n\":\"Newline\",\"\\r\":\"Carriage Return\",\"1\":\"One\",\"</script>\":\"Browser Challenge\",\
         \"\u{80}\":\"Control\u{7f}\",\"\u{f6}\":\"Latin Small Letter O With Diaeresis\",\
         \"\u{20ac}\":\"Euro Sign\",\"\u{1f602}\":\"Smiley\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
    ),
];

#[test]
fn the_published_test_files_are_canonicalised_as_published() {
    for (name, input, expected) in PUBLISHED {
        assert_eq!(canonical(input), *expected, "{name}");
    }
}

#[test]
fn what_readers_disagree_about_is_refused_with_its_reason() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let too_deep = deep(MAX_JSON_DEPTH + 1);
    let table: &[(&[u8], NotIJson)] = &[
        (b"", NotIJson::Unreadable),
        (b"{\"a\":1", NotIJson::Unreadable),
        (b"1 2", NotIJson::Unreadable),
        (b"\xef\xbb\xbf1", NotIJson::Unreadable),
        (b"{\"a\":1,}", NotIJson::Unreadable),
        (b"[01]", NotIJson::Unreadable),
        (b"NaN", NotIJson::Unreadable),
        (b"1e400", NotIJson::Unreadable),
        (b"\"\xff\"", NotIJson::Unreadable),
        (br#""\ud800""#, NotIJson::Unreadable),
        (br#""\udc00\ud800""#, NotIJson::Unreadable),
        (br#"{"a":1,"a":1}"#, NotIJson::DuplicateName),
        (br#"{"a":1,"\u0061":2}"#, NotIJson::DuplicateName),
        (br#"[{"x":{"b":1,"c":2,"b":3}}]"#, NotIJson::DuplicateName),
        (b"9007199254740993", NotIJson::InexactNumber),
        (b"-9007199254740993", NotIJson::InexactNumber),
        (b"12345678901234567890", NotIJson::InexactNumber),
        (b"123456789012345678901234567890", NotIJson::InexactNumber),
        // A power of two, so a double holds it; but the canonical text would be 1152921504606847000.
        (b"1152921504606846976", NotIJson::InexactNumber),
        (too_deep.as_bytes(), NotIJson::TooDeep),
    ];
    for (text, reason) in table {
        assert_eq!(canonicalize(text), Err(*reason), "{}", String::from_utf8_lossy(text));
    }
    assert_eq!(canonical(&deep(MAX_JSON_DEPTH)), deep(MAX_JSON_DEPTH));
}

#[test]
fn fractions_are_rounded_for_rfc_8785_but_are_a_loss_for_fingerprints() {
    for text in
        ["0.1000000000000000055", "333333333.33333329", "1e-400", "9007199254740993.0", "9007199254740993e0"]
    {
        assert!(canonicalize(text.as_bytes()).is_ok(), "{text}");
        assert_eq!(read_lossless(text.as_bytes()), Err(NotIJson::InexactNumber), "{text}");
    }
    for text in [
        "0.1",
        "0.10",
        "1E30",
        "1e5",
        "10e-1",
        "-0",
        "-0.0",
        "0e999",
        "9007199254740994",
        "1.5e300",
        "0.000001",
    ] {
        assert!(read_lossless(text.as_bytes()).is_ok(), "{text}");
    }
}

#[test]
fn digits_inside_strings_are_no_numbers() {
    for text in [r#""9007199254740993""#, r#"{"a\\":"9007199254740993"}"#, r#"["\"9007199254740993",1]"#] {
        assert!(read_lossless(text.as_bytes()).is_ok(), "{text}");
    }
    assert!(read_lossless(br#"["\\",9007199254740993]"#).is_err());
    assert!(read_lossless(br#"{"9":9007199254740993}"#).is_err());
}

#[test]
fn a_value_with_an_integer_beyond_doubles_has_no_canonical_form() {
    assert_eq!(canonical_value(&json!({ "n": u64::MAX })), Err(NotIJson::InexactNumber));
    assert_eq!(canonical_value(&json!([i64::MIN + 1])), Err(NotIJson::InexactNumber));
    assert_eq!(canonical_value(&json!(1_u64 << 53)).unwrap(), b"9007199254740992");
    let deep = (0..=MAX_JSON_DEPTH).fold(json!(0), |inner, _| json!([inner]));
    assert_eq!(canonical_value(&deep), Err(NotIJson::TooDeep));
}

#[test]
fn pointers_are_checked_and_removed() {
    for bad in ["", "a", "/~", "/~2", "/a~"] {
        assert!(Pointer::new(bad).is_err(), "{bad}");
    }
    let removed = |pointers: &[&str]| {
        let mut document = json!({"a": {"b": 1, "c/d": 2, "~1": 3}, "list": [1, 2, 3], "": 4});
        pointers.iter().for_each(|pointer| Pointer::new(*pointer).unwrap().remove_from(&mut document));
        document
    };
    assert_eq!(removed(&["/a/b", "/a/c~1d", "/a/~01"]), json!({"a": {}, "list": [1, 2, 3], "": 4}));
    assert_eq!(removed(&["/"]), json!({"a": {"b": 1, "c/d": 2, "~1": 3}, "list": [1, 2, 3]}));
    // Items become null, so the order in which pointers are written does not matter.
    assert_eq!(removed(&["/a", "/list/0", "/list/1"]), json!({"list": [null, null, 3], "": 4}));
    assert_eq!(removed(&["/list/1", "/list/0", "/a"]), json!({"list": [null, null, 3], "": 4}));
    assert_eq!(
        removed(&["/a", "/list/01", "/list/-", "/list/9", "/x/y", "/list/0/x", "/list/+1"])["list"],
        json!([1, 2, 3])
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=(1_i64 << 53)).prop_map(Value::from),
        any::<f64>().prop_filter("JSON has finite numbers only", |n| n.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn canonical_text_is_its_own_canonical_form_and_says_the_same(value in any_json()) {
        let text = canonical_value(&value).unwrap();
        prop_assert_eq!(&canonicalize(&text).unwrap(), &text);
        let again = read_lossless(&text).unwrap();
        prop_assert_eq!(canonical_value(&again).unwrap(), text);
    }

    #[test]
    fn white_space_does_not_change_the_canonical_form(value in any_json()) {
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(canonicalize(&pretty).unwrap(), canonical_value(&value).unwrap());
    }

    #[test]
    fn two_integers_never_share_a_canonical_form(
        digits in 1_i64..10_000, shift in 0..50_u32, near in prop_oneof![-3_i64..=-1, 1_i64..=3],
    ) {
        let text = |integer: i64| canonicalize(integer.to_string().as_bytes());
        let (a, b) = (digits << shift, (digits << shift) + near);
        prop_assert!(text(a).is_err() || text(a) != text(b), "{a} and {b}");
        prop_assert!(a >= 1 << 53 || text(a).is_ok());
    }

    #[test]
    fn two_decimals_that_are_read_without_loss_are_equal_only_if_their_digits_are(
        whole in 0_u64..10, digits in "[0-9]{14,18}", last in 0..10_u8, step in 1..10_u8,
    ) {
        let other = (last + step) % 10;
        let (a, b) = (format!("{whole}.{digits}{last}"), format!("{whole}.{digits}{other}"));
        if let (Ok(a), Ok(b)) = (read_lossless(a.as_bytes()), read_lossless(b.as_bytes())) {
            prop_assert_ne!(canonical_value(&a).unwrap(), canonical_value(&b).unwrap());
        }
    }
}
