//! Every kind of mistake: where it is, what it is, and what to do about it (P5).

use super::*;

mod nowhere;
mod traces;

/// The mistakes of a configuration, without the name of the folder.
fn told(folder: &Folder, text: &str) -> Vec<String> {
    let mistakes = folder.load(text).map(|_| ()).expect_err(text);
    let path = format!("{}/", folder.0.path().display());
    mistakes.iter().map(|mistake| mistake.to_string().replace(&path, "")).collect()
}

/// Exactly one mistake, which starts and goes on like this.
#[track_caller]
fn one(text: &str, place: &str, parts: &[&str]) {
    one_beside(&Folder::new(&[]), text, place, parts);
}

#[track_caller]
fn one_beside(folder: &Folder, text: &str, place: &str, parts: &[&str]) {
    let told = told(folder, text);
    assert_eq!(told.len(), 1, "{text}\n{told:#?}");
    assert!(told[0].starts_with(&format!("hapax.toml:{place}: ")), "{text}\n{told:#?}");
    for part in parts {
        assert!(told[0].contains(part), "{part:?} is not said:\n{told:#?}");
    }
    assert!(told[0].contains("; "), "there is no remedy: {told:#?}");
}

/// One mistake in the last lines of an otherwise right route; `line` counts from the first of them.
#[track_caller]
fn in_route(more: &str, line: usize, parts: &[&str]) {
    let text = with_route(&format!("policy = \"REQUIRED_A\"\n{more}"));
    let told = told(&Folder::new(&[]), &text);
    assert_eq!(told.len(), 1, "{text}\n{told:#?}");
    assert!(told[0].starts_with(&format!("hapax.toml:{}:", line + 8)), "{text}\n{told:#?}");
    parts.iter().for_each(|part| assert!(told[0].contains(part), "{part:?} is not said:\n{told:#?}"));
}

#[test]
fn all_mistakes_are_told_at_once_in_their_order() {
    let text = "[edge]\nlisten = \"localhost\"\nlisten_port = 8080\nmismatch_status = 400\ndrain_timeout = 30\n\
                [upstreams.a]\nurl = \"nowhere\"\n[[routes]]\nmethod = \"post\"\npath = \"//\"\npolicy = \"REQUIRED\"\nupstream = \"b\"\n\
                [colour]\n";
    let told = told(&Folder::new(&[]), text);
    let places: Vec<_> = told.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        [
            "hapax.toml:2:10",
            "hapax.toml:3:1",
            "hapax.toml:4:19",
            "hapax.toml:5:17",
            "hapax.toml:7:7",
            "hapax.toml:9:10",
            "hapax.toml:10:8",
            "hapax.toml:11:10",
            "hapax.toml:12:12",
            "hapax.toml:13:2",
        ],
        "{told:#?}"
    );
}

#[test]
fn a_file_that_is_not_there_or_no_toml_is_told() {
    let missing = load(Path::new("no/such.toml"), &environment).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.toml: it cannot be read"), "{missing}");
    one("[edge\n", "1:6", &["this is no TOML"]);
    let folder = Folder::new(&[]);
    assert!(told(&folder, "a = 1\na = 2\nb = = 3\n").len() >= 2);
}

#[test]
fn connections_that_are_not_reused_are_not_kept_either_l7() {
    one(
        "[upstreams.a]\nurl = \"http://a.example\"\nidle_timeout = \"9s\"\nreuse = false\n",
        "3:16",
        &["`idle_timeout` has no effect with `reuse = false`"],
    );
}

#[test]
fn an_unknown_field_is_refused_with_what_was_probably_meant() {
    one(
        "[edge]\nlisten_on = \"127.0.0.1:1\"\n",
        "2:1",
        &["`listen_on` is no field of edge", "known here: listen"],
    );
    one("[edge]\nlistn = \"127.0.0.1:1\"\n", "2:1", &["did you mean `listen`?"]);
    one("[retension]\n", "1:2", &["did you mean `retention`?"]);
    one("[auth.jtw]\n", "1:7", &["did you mean `jwt`?"]);
    in_route("polcy = \"ACCEPTED\"", 1, &["did you mean `policy`?"]);
}

#[test]
fn a_value_of_another_type_is_refused() {
    one("[edge]\nlisten = 8080\n", "2:10", &["`listen` cannot be an integer", "a string"]);
    one("[edge]\nthreads = \"4\"\n", "2:11", &["`threads` cannot be a string", "an integer"]);
    one("[edge]\ntls = true\n", "2:7", &["`tls` cannot be a boolean", "a table"]);
    one("edge = 1\n", "1:8", &["`edge` cannot be an integer", "a table"]);
    one("[routes]\n", "1:1", &["`routes` cannot be a table", "[[routes]]"]);
    one("[auth.trusted_headers]\nfrom = \"10.0.0.0/8\"\n", "2:8", &["an array of strings"]);
    one("[tenants]\nheld = 1.5\n", "2:8", &["`held` cannot be a float"]);
    one("[edge]\nmax_detached = 0\n", "2:16", &["`max_detached` cannot be 0", "use 1 to"]);
    one("[tenants]\nheld = -1\n", "2:8", &["`held` cannot be -1", "use 0 to"]);
    one("[tenants]\nheld = 99999999999999999999\n", "2:8", &["beyond 64 bits"]);
    let inline = "upstreams = { a = \"http://h\", of-the-tests = { url = \"http://h\" } }\n[[routes]]\nmethod = \"GET\"\n\
                  path = \"/a\"\npolicy = \"PROHIBITED\"\nupstream = \"of-the-tests\"\n";
    one(inline, "1:19", &["`a` cannot be a string", "[upstreams.a]"]);
    one("[store]\nurl = \"\"\n", "2:7", &["`url` is empty"]);
}

#[test]
fn durations_and_sizes_have_units_and_bounds() {
    one("[edge]\ndrain_timeout = \"30\"\n", "2:17", &["cannot be \"30\"", "\"30s\""]);
    one("[edge]\nheader_timeout = \"0s\"\n", "2:18", &["use 1ms to 1h"]);
    one("[edge]\nmax_request_body = \"1MB\"\n", "2:20", &["\"64KiB\""]);
    one("[edge]\nmax_request_body = \"2GiB\"\n", "2:20", &["use 0B to 1GiB"]);
    one("[edge]\nmax_kept_response = \"129MiB\"\n", "2:21", &["use 0B to 128MiB"]);
    in_route("max_kept_response = \"1GiB\"", 1, &["use 0B to 128MiB"]);
    one("[edge]\nmax_request_body = \"300MiB\"\n", "2:20", &["`max_buffered`"]);
    one("[edge]\nmax_request_body = \"2MiB\"\nmax_buffered = \"1MiB\"\n", "2:20", &["`max_buffered`"]);
    in_route("max_request_body = \"257MiB\"", 1, &["`edge.max_buffered`"]);
    one("[store]\nlease = \"1ms\"\n", "2:9", &["use 500ms to 10m"]);
    one("[retention]\ninteractive = \"1 day\"\n", "2:15", &["\"forever\""]);
    in_route("retention = \"9999999d\"", 1, &["there is no retention \"9999999d\"", "use 1s to"]);
}

#[test]
fn a_place_for_keys_that_cannot_be_one_is_refused_k1() {
    in_route("key = \"X-Key\"", 1, &["`key` cannot be a string", "a table"]);
    in_route("key = {}", 1, &["one header or one member"]);
    in_route("key = { header = \"X-Key\", json = \"/key\" }", 1, &["one header or one member"]);
    in_route("key = { heder = \"X-Key\", json = \"/key\" }", 1, &["did you mean `header`?"]);
    in_route("key = { header = \"x key\" }", 1, &["the name of a header"]);
    in_route("key = { json = \"key\" }", 1, &["JSON pointer"]);
    for taken in [
        "Authorization",
        "X-Api-Key",
        "Content-Type",
        "Connection",
        "X-Tenant-Id",
        "X-Operation-Id",
        "X-Forwarded-For",
    ] {
        in_route(&format!("key = {{ header = \"{taken}\" }}"), 1, &["another meaning"]);
    }
    in_route("key = [{ header = \"X-Key\" }, { header = \"x-key\" }]", 1, &["a place twice"]);
    in_route("key_grammar = \"any\"", 1, &["\"printable\""]);
    in_route(
        "key = { header = \"X-Key\" }\nfingerprint_headers = [\"x-key\"]",
        2,
        &["never reaches the service"],
    );
    for policy in ["PROHIBITED", "HANDLER_INTERNAL_C"] {
        let text = with_route(&format!("policy = \"{policy}\"\nkey = {{ json = \"/key\" }}"));
        let told = told(&Folder::new(&[]), &text);
        assert!(
            told.len() == 1 && told[0].contains("`key` has no effect on a route that takes no keys"),
            "{told:#?}"
        );
    }
}

/// One mistake of an otherwise right route that is REQUIRED_B, at this line and column behind its policy.
#[track_caller]
fn in_transport(more: &str, (line, column): (usize, usize), parts: &[&str]) {
    let text = with_route(&format!("policy = \"REQUIRED_B\"\n{more}"));
    let told = told(&Folder::new(&[]), &text);
    assert_eq!(told.len(), 1, "{text}\n{told:#?}");
    assert!(told[0].starts_with(&format!("hapax.toml:{}:{column}: ", line + 8)), "{text}\n{told:#?}");
    parts.iter().for_each(|part| assert!(told[0].contains(part), "{part:?} is not said:\n{told:#?}"));
}

#[test]
fn an_identifier_that_cannot_be_one_is_refused_p1() {
    let good = "identifier = { header = \"X-Id\" }";
    loaded(&with_route(&format!("policy = \"REQUIRED_B\"\n{good}")));
    let missing = told(&Folder::new(&[]), &with_route("policy = \"REQUIRED_B\""));
    assert!(
        missing.len() == 1
            && missing[0].contains("`identifier` is missing")
            && missing[0].contains("{ header ="),
        "{missing:#?}"
    );
    for (written, column, parts) in [
        ("\"X-Id\"", 14, &["`identifier` cannot be a string", "a table"][..]),
        ("{}", 14, &["stands in one place", "one of `header`, `json` and `form`"]),
        ("{ header = \"X-Id\", json = \"/id\" }", 14, &["stands in one place"]),
        ("{ heder = \"X-Id\", json = \"/id\" }", 16, &["did you mean `header`?"]),
        ("{ header = \"x id\" }", 25, &["the name of a header"]),
        ("{ header = \"Idempotency-Key\" }", 25, &["REQUIRED_A"]),
        ("{ header = \"Authorization\" }", 25, &["another meaning"]),
        ("{ header = \"X-Tenant-Id\" }", 25, &["another meaning"]),
        ("{ json = \"id\" }", 23, &["`json` cannot be \"id\"", "JSON pointer"]),
        ("{ form = \"\" }", 23, &["`form` is empty"]),
        ("{ form = 7 }", 23, &["`form` cannot be an integer", "a string"]),
    ] {
        in_transport(&format!("identifier = {written}"), (1, column), parts);
    }
    in_transport(
        &format!("{good}\nkey = {{ json = \"/key\" }}"),
        (2, 7),
        &["`key` has no effect", "REQUIRED_B"],
    );
    in_transport(&format!("{good}\nkey_grammar = \"printable\""), (2, 15), &["`key_grammar` has no effect"]);
    in_route(good, 1, &["`identifier` has no effect on a route that is REQUIRED_A", "REQUIRED_B"]);
    let text = with_route(&format!("policy = \"PROHIBITED\"\n{good}"));
    let told = told(&Folder::new(&[]), &text);
    assert!(told.len() == 1 && told[0].contains("`identifier` has no effect"), "{told:#?}");
}

#[test]
fn listeners_must_not_meet_m1() {
    one(
        "[edge]\nlisten = \"0.0.0.0:8081\"\n",
        "2:10",
        &["[admin] listens on 127.0.0.1:8081 and [edge] on 0.0.0.0:8081"],
    );
    let text = "[edge]\nlisten = \"127.0.0.1:1\"\n[api]\nlisten = \"127.0.0.1:1\"\n";
    one(text, "4:10", &["the same port", "an address of its own"]);
    loaded("[edge]\nlisten = \"127.0.0.1:0\"\n[api]\nlisten = \"127.0.0.1:0\"\n");
    loaded("[edge]\nlisten = \"127.0.0.2:8081\"\n");
}

#[test]
fn keyed_routes_have_operations_of_their_own_k6() {
    let base = "[upstreams.a]\nurl = \"http://h\"\n";
    let route = |method: &str, path: &str, more: &str| {
        format!(
            "[[routes]]\nmethod = \"{method}\"\npath = \"{path}\"\npolicy = \"ACCEPTED\"\nupstream = \"a\"\n{more}\n"
        )
    };
    one(
        &format!("{base}{}", route("POST", "/a", "")),
        "3:1",
        &["`operation` is missing", "every keyed route"],
    );
    let bad = format!("{base}{}", route("POST", "/a", "operation = \"a b\""));
    one(&bad, "8:13", &["`operation` cannot be \"a b\"", "letters, digits"]);
    let first = route("POST", "/a", "operation = \"x\"");
    let twice = format!("{base}{first}{}", route("POST", "/b", "operation = \"x\""));
    one(&twice, "14:13", &["the operation \"x\" is there already, at line 8"]);
    let was = format!("{base}{first}{}", route("POST", "/b", "operation = \"y\"\nwas = \"x\""));
    one(&was, "15:7", &["\"x\" is still there, at line 8"]);
    let heirs = route("POST", "/a", "operation = \"x\"\nwas = \"o\"")
        + &route("PUT", "/a", "operation = \"y\"\nwas = \"o\"");
    one(&format!("{base}{heirs}"), "16:7", &["has a new name already, at line 9"]);
    let listed =
        |was: &str| format!("{base}{}", route("POST", "/a", &format!("operation = \"x\"\nwas = {was}")));
    one(&listed("[\"y\", \"x\"]"), "9:13", &["\"x\" is still there, at line 8"]);
    one(&listed("[\"y\", \"y\"]"), "9:13", &["has a new name already, at line 9"]);
    one(&listed("[\"a b\"]"), "9:8", &["`was` cannot be \"a b\"", "letters, digits"]);
    one(&listed("3"), "9:7", &["`was` cannot be an integer"]);
    let many: Vec<String> = (0..33).map(|number| format!("o{number}")).collect();
    one(&listed(&format!("{many:?}")), "9:7", &["`was` has 33 names", "use at most 32"]);
}

#[test]
fn what_is_retired_has_no_route_p5() {
    let route = |more: &str| {
        with_route(&format!("policy = \"ACCEPTED\"\n{more}")).replace("[upstreams", "\n[upstreams")
    };
    for (retired, more, parts) in [
        ("[\"pay\"]", "", ["\"pay\" has a route", "remove the name here"]),
        ("[\"old\"]", "was = \"old\"", ["\"old\" has a route", "remove the name here"]),
        ("[\"a b\"]", "", ["`retired` cannot be \"a b\"", "letters, digits"]),
    ] {
        one(&format!("retired = {retired}{}", route(more)), "1:12", &parts);
    }
    one(&format!("retired = \"x\"{}", route("")), "1:11", &["an array of strings"]);
}

#[test]
fn a_configuration_has_a_route_p5() {
    let folder = Folder::new(&[("empty.json", "{\"openapi\": \"3.1.0\", \"paths\": {}}")]);
    let openapi = "[upstreams.a]\nurl = \"http://h\"\n[[openapi]]\nfile = \"empty.json\"\nupstream = \"a\"\n";
    for text in ["", "# nothing\n", "[edge]\n", "[upstreams.a]\nurl = \"http://h\"\n", openapi] {
        let mistakes = folder.load_as_is(text).map(|_| ()).expect_err(text).to_string();
        assert!(mistakes.contains("hapax.toml: there is no route; write a [[routes]] section"), "{mistakes}");
        assert_eq!(mistakes.lines().count(), 1, "{mistakes}");
    }
}

/// The mistakes of these routes, all PROHIBITED or all keyed.
fn routes(list: &[(&str, &str)], keyed: bool) -> Vec<String> {
    let mut text = "[upstreams.a]\nurl = \"http://h\"\n".to_owned();
    for (index, (method, path)) in list.iter().enumerate() {
        let policy =
            if keyed { format!("\"ACCEPTED\"\noperation = \"o{index}\"") } else { "\"PROHIBITED\"".into() };
        text += &format!(
            "[[routes]]\nmethod = \"{method}\"\npath = \"{path}\"\nupstream = \"a\"\npolicy = {policy}\n"
        );
    }
    match Folder::new(&[]).load(&text) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.iter().map(|mistake| mistake.what.clone()).collect(),
    }
}

#[test]
fn two_routes_that_match_the_same_request_are_refused_p2() {
    for (a, b) in
        [("/a", "/a"), ("/a/{x}", "/a/{y}"), ("/a/{x}...{y}", "/a/{c}...{d}"), ("/s/{x}/b/c", "/s/{y}/b/c")]
    {
        let told = routes(&[("GET", a), ("GET", b)], false);
        assert!(
            told.len() == 1 && told[0].contains("the same requests") && told[0].contains("line 5"),
            "{a} {b}: {told:?}"
        );
        assert_eq!(routes(&[("GET", a), ("POST", b)], false), [""; 0], "{a} {b}");
    }
    assert_eq!(routes(&[("GET", "/a/{x}"), ("GET", "/a/me")], false), [""; 0], "the concrete one is meant");
    // The leftmost literal decides.
    for (a, b) in [("/s/a/{x}", "/s/{y}/b"), ("/s/{x}/b/c", "/s/a/{y}/c")] {
        assert_eq!(routes(&[("GET", a), ("GET", b)], false), [""; 0], "{a} {b}");
        assert_eq!(routes(&[("POST", a), ("POST", b)], true), [""; 0], "{a} {b}");
    }
}

#[test]
fn a_route_that_overlaps_a_recall_route_is_refused_h7() {
    for path in [
        "/a/by-idempotency-key/{key}",
        "/a/{x}/{y}",
        "/a/by-idempotency-key/x",
        "/a/by-idempotency-key/{k}/output",
        "/operations/{id}",
        "/operations/x",
        "/{x}/{y}",
        "/operations/{id}/output",
        "/{x}/logs",
    ] {
        for method in ["GET", "POST"] {
            let told = routes(&[("POST", "/a"), (method, path)], true);
            assert!(told.len() == 1 && told[0].contains("where outcomes are recalled"), "{path}: {told:?}");
        }
    }
    for path in ["/.well-known/hapax/x", "/.well-known/{x}/y", "/{x}/{y}/z"] {
        let told = routes(&[("GET", path)], false);
        assert!(told.len() == 1 && told[0].contains("/.well-known/hapax/"), "{path}: {told:?}");
    }
    let fine =
        [("POST", "/a"), ("PUT", "/a/{x}"), ("GET", "/a/{x}/notes"), ("PUT", "/a"), ("POST", "/operations")];
    assert_eq!(routes(&fine, true), [""; 0]);
    let crossing = routes(&[("POST", "/s/a/{x}"), ("PUT", "/s/{y}/b")], true);
    assert!(crossing.len() == 1 && crossing[0].contains("recalled at the same paths"), "{crossing:?}");
}

#[test]
fn a_path_or_method_with_tricks_is_refused_p2_p7() {
    let text = with_route("policy = \"REQUIRED_A\"");
    for path in ["/a//b", "/a/../b", "/a/%2e%2e", "a", "/a?b", "/a/{x}{y}", "/:id", "/a/*", "/a/{*rest}"] {
        one(&text.replace("/pay", path), "5:8", &["`path` cannot be"]);
    }
    for (method, remedy) in [
        ("HEAD", "follow the routes"),
        ("OPTIONS", "follow"),
        ("CONNECT", "not forward"),
        ("post", "capitals"),
    ] {
        one(&text.replace("POST", method), "4:10", &[remedy]);
    }
    one("[edge]\noperations_prefix = \"/a/{b}\"\n", "2:21", &["without parameters"]);
    // A path that no request can have.
    one("[edge]\noperations_prefix = \"/a;b\"\n", "2:21", &["`;` is refused in every request"]);
    let route = "method = \"GET\"\npath = \"/a;b\"\npolicy = \"PROHIBITED\"\nupstream = \"a\"";
    let text = format!("[upstreams.a]\nurl = \"http://h\"\n[[routes]]\n{route}\n");
    one(&text, "5:8", &["`;` is refused in every request"]);
    for own in ["/.well-known/hapax", "/.well-known/hapax/errors", "/pay/by-idempotency-key"] {
        one(&format!("[edge]\noperations_prefix = \"{own}\"\n"), "2:21", &["not below /.well-known/hapax"]);
    }
    one("[edge]\ndocs = \"/errors\"\n", "2:8", &["ends with a slash"]);
    one("[edge]\ndocs = \"https://shop.example/errors\"\n", "2:8", &["ends with a slash"]);
    // Nobody serves pages there, and `type` of every problem would lead nowhere (H1).
    one("[edge]\ndocs = \"/help/errors/\"\n", "2:8", &["/help/errors/", "http(s) URL"]);
    one("[edge]\ndocs = \"https://u:s3cret@h/\"\n", "2:8", &["(not shown)@h", "every caller"]);
    for docs in [
        "https://shop.example/errors/",
        "http://h/?page=/",
        "https://h/@acme/errors/",
        "/.well-known/hapax/errors/",
    ] {
        let text = format!("[edge]\ndocs = \"{docs}\"\n");
        assert_eq!(loaded(&text).settings.edge.docs, docs);
    }
}

#[test]
fn an_unknown_upstream_or_class_is_refused() {
    let text = with_route("policy = \"REQUIRED_A\"");
    one(
        &text.replace("upstream = \"pay\"", "upstream = \"pai\""),
        "6:12",
        &["no upstream \"pai\"", "did you mean \"pay\"?"],
    );
    one(&text.replace("upstream = \"pay\"", "upstream = \"x\""), "6:12", &["add [upstreams.x]"]);
    in_route("retention = \"interactiv\"", 1, &["did you mean \"interactive\"?"]);
    in_route("retention = \"archive\"", 1, &["name one of interactive"]);
    let broken = format!(
        "[retention]\narchive = \"long\"\n{}",
        with_route("policy = \"ACCEPTED\"\nretention = \"archive\"")
    );
    one(&broken, "2:11", &["`archive` cannot be \"long\""]);
    one("[retention]\ndefault = \"archive\"\n", "2:11", &["no retention class \"archive\""]);
    one("[retention]\n\"24h\" = \"24h\"\n", "2:1", &["no name of a retention class"]);
    one("[upstreams.\"A b\"]\nurl = \"http://h\"\n", "1:12", &["no name of an upstream"]);
    one("[upstreams.a]\n", "1:1", &["`url` is missing"]);
    one("[upstreams.a]\nurl = \"http://u:p@h\"\n", "2:7", &["remove user and password"]);
    one("[upstreams.a]\nurl = \"http://h\"\nkind = \"grpc\"\n", "3:8", &["use one of \"http\""]);
    one("[upstreams.a]\nurl = \"http://h\"\ndigest_chars = 40\n", "3:16", &["only on digests"]);
    one(
        "[upstreams.a]\nurl = \"http://h\"\nupstream_key = \"digest\"\ndigest_chars = 41\n",
        "4:16",
        &["32, 40 or 64"],
    );
    one("[upstreams.a]\nurl = \"http://h\"\nretry = {}\n", "3:9", &["`max_attempts` is missing"]);
    one("[upstreams.a]\nurl = \"http://h\"\ngive_up = \"1s\"\n", "3:11", &["shorter than `timeout`"]);
}

#[test]
fn what_makes_no_sense_on_a_route_is_refused() {
    in_route("reconcile = \"/r\"", 1, &["`rerun = \"ask\"`"]);
    one(&with_route("policy = \"REQUIRED_A\"\nrerun = \"ask\""), "3:1", &["`reconcile` is missing"]);
    in_route("quiet = \"1s\"", 1, &["only where rerun is safe"]);
    in_route("lenient = true", 1, &["has no effect on a route that is REQUIRED_A"]);
    in_route("max_run = \"1m\"", 1, &["shorter than `give_up` (15m)"]);
    in_route("timeout = \"1m\"\ngive_up = \"30s\"", 2, &["at least as long as `timeout`"]);
    in_route("ignore = [\"/a\"]", 1, &["only on JSON fingerprints"]);
    in_route("fingerprint = \"json\"\nignore = [\"a\"]", 2, &["\"a\" cannot be ignored", "JSON pointer"]);
    in_route(
        "fingerprint = \"none\"\nfingerprint_headers = [\"a\"]",
        2,
        &["`fingerprint_headers` cannot be used"],
    );
    in_route("attach = \"reject\"\nattach_timeout = \"1s\"", 2, &["nobody waits"]);
    in_route("mismatch_status = 418", 1, &["use 422, or 409"]);
    in_route("doubt = { after = \"1d\" }", 1, &["`then` is missing"]);
    in_route("window = \"1h\"", 1, &["only with `key_from`"]);
}

#[test]
fn keys_from_fingerprints_are_for_accepted_routes_that_state_their_rerun_h9() {
    in_route("key_from = \"fingerprint\"\nrerun = \"safe\"", 1, &["for routes whose policy is ACCEPTED"]);
    let accepted =
        |more: &str| with_route(&format!("policy = \"ACCEPTED\"\nkey_from = \"fingerprint\"\n{more}"));
    one(&accepted(""), "3:1", &["`rerun` is missing", "it must be stated"]);
    one(&accepted("rerun = \"safe\"\nfingerprint = \"none\""), "9:12", &["takes all requests for one"]);
    loaded(&accepted("rerun = \"unsafe\""));
}

#[test]
fn a_window_that_is_over_before_the_work_must_have_ended_is_refused_h9() {
    let accepted =
        |more: &str| with_route(&format!("policy = \"ACCEPTED\"\nkey_from = \"fingerprint\"\n{more}"));
    for window in ["1s", "15m"] {
        let text = accepted(&format!("rerun = \"unsafe\"\nwindow = \"{window}\""));
        one(&text, "11:10", &["may be over before", "`give_up` (15m)", "make `window` longer"]);
    }
    loaded(&accepted("rerun = \"unsafe\"\nwindow = \"16m\""));
    // Where running again is safe, the call ends with the wait of its caller.
    one(&accepted("rerun = \"safe\"\nwindow = \"10s\""), "11:10", &["`give_up` (10s)"]);
    loaded(&accepted("rerun = \"safe\"\nwindow = \"11s\""));
    // The default window, too.
    one(&accepted("rerun = \"unsafe\"\ngive_up = \"1h\""), "9:12", &["`window` (1h)", "`give_up` (1h)"]);
}

#[test]
fn a_route_without_keys_has_nothing_to_say_about_them_p1() {
    let text = with_route("policy = \"PROHIBITED\"\nretention = \"1h\"\ntimeout = \"1s\"");
    let told = told(&Folder::new(&[]), &text);
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(
        told.iter().all(|line| line.contains("has no effect on a route that takes no keys")),
        "{told:#?}"
    );
    one(&with_route(""), "3:1", &["`policy` is missing", "REQUIRED_A"]);
}

#[test]
fn missing_variables_and_files_are_told_by_name() {
    one("[admin]\ntoken_env = \"NOT_SET\"\n", "2:13", &["NOT_SET is not set", "set NOT_SET"]);
    one("[admin]\ntoken_env = \"EMPTY\"\n", "2:13", &["EMPTY is not set"]);
    one("[admin]\ntoken_file = \"nowhere\"\n", "2:14", &["nowhere cannot be read"]);
    one("[admin]\nlisten = \"127.0.0.1:1\"\n", "1:1", &["`token_env` is missing", "HAPAX_ADMIN_TOKEN"]);
    one("[admin]\ntoken_env = \"SECRET\"\ntoken_file = \"x\"\n", "3:14", &["both written"]);
    let folder = Folder::new(&[("empty", "\n"), ("pem", "")]);
    one_beside(&folder, "[admin]\ntoken_file = \"empty\"\n", "2:14", &["is empty"]);
    one_beside(
        &folder,
        "[edge.tls]\ncert = \"pem\"\nkey = \"nowhere\"\n",
        "3:7",
        &["nowhere cannot be read"],
    );
    one_beside(&folder, "[edge.tls]\ncert = \"pem\"\n", "1:1", &["`key` is missing"]);
    one_beside(&folder, "[edge.tls]\ncert = \"pem\"\nkey = \".\"\n", "3:7", &["cannot be read"]);
    one("[upstreams.a]\nurl = \"https://h\"\nca = \"nowhere\"\n", "3:6", &["nowhere cannot be read"]);
    one_beside(&folder, "[upstreams.a]\nurl = \"http://h\"\nca = \"pem\"\n", "3:6", &["no effect on http"]);
}

#[test]
fn seal_keys_are_checked_b9() {
    one("[seal]\n", "1:1", &["`key_env` is missing"]);
    one("[seal]\nkey_env = \"SHORT\"\n", "2:11", &["32 bytes", "openssl rand"]);
    one("[seal]\nkey_env = [\"SEAL\", \"NOT_SET\"]\n", "2:20", &["NOT_SET is not set"]);
    one("[seal]\nkey_env = [\"SEAL\", \"SEAL\"]\n", "2:20", &["there twice"]);
    one("[seal]\nkey_env = []\n", "1:1", &["has no key"]);
    one("[seal]\nkey_env = 1\n", "2:11", &["cannot be an integer"]);
}

#[test]
fn algorithms_must_fit_the_kind_of_keys_a1() {
    let folder = Folder::new(&[("jwks.json", JWKS), ("none.json", "{\"keys\": []}"), ("no.json", "[]")]);
    let jwt = |text: &str| format!("[auth.jwt]\n{text}\n");
    let cases = [
        (
            "algorithms = [\"HS256\"]\njwks_url = \"https://i.example/keys\"",
            "2:15",
            "cannot be checked with public keys",
        ),
        ("algorithms = [\"HS256\"]\njwks_file = \"jwks.json\"", "2:15", "HS256 cannot be checked"),
        (
            "algorithms = [\"HS256\", \"RS256\"]\nsecret_env = \"SECRET\"",
            "2:24",
            "RS256 cannot be checked with a shared secret",
        ),
        ("algorithms = [\"none\"]\nsecret_env = \"SECRET\"", "2:15", "\"none\" is no algorithm"),
        ("algorithms = []\nsecret_env = \"SECRET\"", "2:14", "`algorithms` is empty"),
        ("secret_env = \"SECRET\"", "1:1", "`algorithms` is missing"),
        ("algorithms = [\"HS256\"]", "1:1", "has no keys"),
        ("algorithms = [\"ES256\"]\njwks_file = \"no.json\"", "3:13", "is no JWKS"),
        (
            "algorithms = [\"ES256\"]\njwks_file = \"none.json\"",
            "3:13",
            "no usable key for the configured algorithms",
        ),
        (
            "algorithms = [\"RS256\"]\njwks_file = \"jwks.json\"",
            "3:13",
            "no usable key for the configured algorithms",
        ),
        ("algorithms = [\"ES256\"]\njwks_url = \"i.example\"", "3:12", "http:// or https://"),
        (
            "algorithms = [\"HS256\"]\nsecret_env = \"SECRET\"\njwks_file = \"jwks.json\"",
            "4:13",
            "more than one source",
        ),
        (
            "algorithms = [\"HS256\"]\nsecret_env = \"SECRET\"\nsubject_type = \"robot\"",
            "4:16",
            "use one of \"user\"",
        ),
    ];
    for (text, place, part) in cases {
        one_beside(&folder, &jwt(text), place, &[part]);
    }
    let short = folder.load(&jwt("algorithms = [\"HS256\"]\nsecret_env = \"SHORT\"")).unwrap();
    assert!(short.notices[0].contains("shorter than 32 bytes"), "{:?}", short.notices);
}

#[test]
fn networks_and_origins_are_checked_a3_p7() {
    one("[auth.trusted_headers]\nfrom = [\"10.0.0.0/33\"]\n", "2:9", &["\"10.0.0.0/33\" is no network"]);
    one("[auth.trusted_headers]\nfrom = [\"10.1.0.0/8\"]\n", "2:9", &["did you mean \"10.0.0.0/8\"?"]);
    one("[auth.trusted_headers]\nfrom = [\"localhost\"]\n", "2:9", &["is no network"]);
    one("[auth.trusted_headers]\nlevel = true\n", "2:9", &["no effect where no peer is trusted"]);
    one("[edge.cors]\norigins = [\"*\"]\ncredentials = true\n", "2:12", &["every page"]);
    one("[edge.cors]\norigins = [\"https://a.example/\"]\n", "2:12", &["is no origin"]);
    one("[edge.cors]\norigins = [\"a.example\"]\n", "2:12", &["is no origin"]);
    // Browsers leave the usual port out, so nobody would ever come from there.
    for never in ["https://a.example:443", "http://a.example:80", "https://a.example:", "https://[::1]:443"] {
        one(&format!("[edge.cors]\norigins = [\"{never}\"]\n"), "2:12", &["is no origin"]);
    }
    for origin in ["https://a.example:80", "http://a.example:443", "http://localhost:8080", "https://[::443]"]
    {
        let loaded = Folder::new(&[]).load(&format!("[edge.cors]\norigins = [\"{origin}\"]\n"));
        assert!(loaded.is_ok(), "{origin}");
    }
    one("[edge.cors]\n", "1:1", &["`origins` is missing"]);
    one("[edge.cors]\norigins = [\"*\"]\nheaders = [\"a b\"]\n", "3:12", &["is no header name"]);
    one("[auth.verify]\nurl = \"https://k.example\"\n", "1:1", &["`token_env` is missing"]);
}

#[test]
fn too_many_routes_are_refused() {
    let mut text = with_route("policy = \"REQUIRED_A\"");
    for index in 0..limits::ROUTES {
        text += &format!(
            "[[routes]]\nmethod = \"GET\"\npath = \"/r/{index}/x/y\"\npolicy = \"PROHIBITED\"\nupstream = \"pay\"\n"
        );
    }
    let told = told(&Folder::new(&[]), &text);
    assert!(told.len() == 1 && told[0].contains(&format!("{} routes", limits::ROUTES + 1)), "{told:#?}");
}

#[test]
fn certificates_and_keys_that_cannot_be_used_are_told_where_they_are_named_p5() {
    let ((cert, key), (_, other)) = (certificate(), certificate());
    let folder = Folder::new(&[("cert", &cert), ("key", &key), ("other", &other), ("text", "no PEM\n")]);
    let tls = |cert: &str, key: &str| format!("[edge.tls]\ncert = \"{cert}\"\nkey = \"{key}\"\n");
    folder.load(&tls("cert", "key")).unwrap();
    one_beside(&folder, &tls("key", "cert"), "2:8", &["name each other's file", "swap them"]);
    one_beside(&folder, &tls("text", "key"), "2:8", &["`cert`: the certificate cannot be read"]);
    one_beside(&folder, &tls("cert", "text"), "3:7", &["`key`: the private key cannot be read"]);
    one_beside(&folder, &tls("cert", "other"), "2:8", &["does not belong to the private key"]);
    let both = told(&folder, &tls("text", "text"));
    assert!(both.len() == 2 && both[1].contains("there is no private key"), "{both:#?}");
    let upstream = |ca: &str| format!("[upstreams.a]\nurl = \"https://h\"\nca = \"{ca}\"\n");
    folder.load(&upstream("cert")).unwrap();
    one_beside(&folder, &upstream("text"), "3:6", &["`ca`: the certificate cannot be read"]);
}

#[test]
fn stores_and_tokens_that_could_not_work_are_told_without_their_secrets_p5() {
    for url in
        ["postgres://u:s3cret@h:99999/d", "postgres://u:s3cret@/d", "postgres://", "sqlite:x", "embedded:"]
    {
        let text = format!("[store]\nurl = \"{url}\"\n");
        one(&text, "2:7", &["`url` cannot be", "write \"memory:\""]);
        assert!(!told(&Folder::new(&[]), &text)[0].contains("s3cret"));
    }
    loaded("[store]\nurl = \"postgres://u@h:5432/d\"\n");
    let token = "[admin]\ntoken_env = \"SECRET\"\n";
    one(token, "2:13", &["visible ASCII characters", "openssl rand"]);
    assert!(!told(&Folder::new(&[]), token)[0].contains("a secret of the tests"));
    let verify = "[auth.verify]\nurl = \"http://h/verify\"\ntoken_env = \"BROKEN\"\n";
    one(verify, "3:13", &["cannot be sent in a header"]);
}

#[test]
fn an_unknown_upstream_of_a_document_is_told_whatever_is_in_the_document_p5() {
    let empty = r#"{"openapi": "3.1.0", "info": {"title": "a", "version": "1"}, "paths": {}}"#;
    let folder = Folder::new(&[("empty.json", empty)]);
    let text = |file: &str| format!("[[openapi]]\nfile = \"{file}\"\nupstream = \"x\"\n");
    one_beside(&folder, &text("empty.json"), "3:12", &["there is no upstream \"x\""]);
    let told = told(&folder, &text("gone.json"));
    assert!(told.len() == 2 && told[1].contains("there is no upstream \"x\""), "{told:#?}");
}

#[test]
fn a_refused_url_is_told_without_what_may_be_secret_p5() {
    for (url, shown) in [
        ("http://u:s3cret@h", "http://(not shown)@h"),
        ("http://u:s3?cr#et@h/b", "http://(not shown)@h/b"),
        ("https://h/b?token=s3cret", "https://h/b(not shown)"),
        ("https://h/#s3cret", "https://h/(not shown)"),
        ("u:s3cret@h:80", "(not shown)@h:80"),
    ] {
        for text in [
            format!("[upstreams.a]\nurl = \"{url}\"\n"),
            format!("[auth.jwt]\njwks_url = \"{url}\"\nalgorithms = [\"RS256\"]\n"),
            format!("[auth.verify]\nurl = \"{url}\"\ntoken_env = \"SHORT\"\n"),
            format!("[edge]\ndocs = \"{url}\"\n"),
            format!("[edge.cors]\norigins = [\"{url}\"]\n"),
        ] {
            let told = told(&Folder::new(&[]), &text).join("\n");
            assert!(told.contains(&format!("{shown:?}")) && !told.contains("s3"), "{told}");
        }
    }
}

#[test]
fn a_catch_all_takes_every_method_prohibits_keys_and_is_there_once_p2() {
    let base = "[upstreams.a]\nurl = \"http://h\"\n";
    let rest = |more: &str| format!("{base}[[routes]]\nupstream = \"a\"\n{more}\n");
    let config = loaded(&rest("method = \"*\"\npath = \"/{*rest}\""));
    let route = &config.settings.routes[0];
    assert!(route.is_catch_all() && route.policy == Policy::Prohibited && route.rule.is_none());
    one(&rest("method = \"GET\"\npath = \"/{*rest}\""), "5:10", &["takes every method", "method = \"*\""]);
    let some = rest("method = \"*\"\npath = \"/a\"\npolicy = \"PROHIBITED\"");
    one(&some, "5:10", &["for a catch-all only", "/{*rest}"]);
    let keyed = "method = \"*\"\npath = \"/{*all}\"\npolicy = \"ACCEPTED\"\noperation = \"x\"";
    let config = loaded(&rest(keyed));
    assert!(!config.settings.routes[0].recall && config.settings.routes[0].rule.is_some());
    one(&rest(&format!("{keyed}\nrecall = true")), "9:10", &["a catch-all has no recall by key"]);
    let twice = "method = \"*\"\npath = \"/{*rest}\"\n[[routes]]\nupstream = \"a\"\nmethod = \"*\"\npath = \"/{*all}\"";
    one(&rest(twice), "10:8", &["match the same requests"]);
}

#[test]
fn a_public_route_says_whose_its_callers_are_and_that_they_share_keys_a2() {
    let fixed = "[auth]\ntenant = \"acme\"\nproject = \"shop\"\n";
    let text = |auth: &str, more: &str| format!("{auth}{}", with_route(more));
    let keyed = "policy = \"REQUIRED_A\"\npublic = \"shared-keys\"";
    let config = loaded(&text(fixed, keyed));
    let route = &config.settings.routes[0];
    assert!(route.public && !route.recall, "no recall by key");
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    let (auth, settings) = (&config.settings.auth, &config.settings);
    assert_eq!(auth.fixed.tenant.as_ref().map(|name| name.as_str()), Some("acme"));
    assert_eq!(settings.auth.fixed.project.as_ref().map(|name| name.as_str()), Some("shop"));
    one(&text("", keyed), "9:10", &["needs a tenant and a project", "[auth]"]);
    one(&text("[auth]\ntenant = \"acme\"\n", keyed), "11:10", &["needs a tenant and a project"]);
    one(&text(fixed, "policy = \"REQUIRED_A\"\npublic = true"), "12:10", &["shared-keys"]);
    one(&text(fixed, &format!("{keyed}\nfingerprint = \"none\"")), "13:15", &["answer to another request"]);
    one(&text(fixed, &format!("{keyed}\nscope = \"tenant\"")), "13:9", &["callers are one subject"]);
    one(&text(fixed, &format!("{keyed}\nlevel = \"tenant\"")), "12:10", &["level tenant"]);
    one(&text(fixed, &format!("{keyed}\nrecall = true")), "13:10", &["a public route has no recall"]);
    one(
        &text(fixed, "policy = \"ACCEPTED\"\npublic = 1"),
        "12:10",
        &["`public` cannot be an integer", "shared-keys"],
    );
    let derived =
        "policy = \"ACCEPTED\"\npublic = \"shared-keys\"\nrerun = \"safe\"\nkey_from = \"fingerprint\"";
    one(&text(fixed, derived), "14:12", &["two callers for one"]);
    let open = "[upstreams.a]\nurl = \"http://h\"\n[[routes]]\nmethod = \"GET\"\npath = \"/a\"\nupstream = \"a\"\npolicy = \"PROHIBITED\"\n";
    assert!(loaded(&format!("{fixed}{open}public = true\n")).settings.routes[0].public);
    one(&format!("{fixed}{open}public = \"shared-keys\"\n"), "11:10", &["say `public = true`"]);
    one("[auth]\ntenant = \"A B\"\n", "2:10", &["`tenant` cannot be \"A B\""]);
    one("[auth.api_keys]\nalso_from = [\"cookie\"]\n", "2:14", &["\"cookie\"", "\"basic\""]);
}

#[test]
fn recall_is_switched_off_or_named_otherwise_h7() {
    let clash = |first: &str, edge: &str| {
        format!(
            "{edge}{}[[routes]]\nmethod = \"GET\"\npath = \"/pay/{{x}}/{{y}}\"\npolicy = \"PROHIBITED\"\nupstream = \"pay\"\n",
            with_route(&format!("policy = \"REQUIRED_A\"\n{first}"))
        )
    };
    one(&clash("", ""), "12:8", &["where outcomes are recalled", "recall = false"]);
    assert!(!loaded(&clash("recall = false", "")).settings.routes[0].recall);
    let named = "[edge]\nrecall_segment = \"recall\"\n";
    let literal = clash("", named).replace("/pay/{x}/{y}", "/pay/by-idempotency-key/{y}");
    assert_eq!(&*loaded(&literal).settings.edge.recall_segment, "recall");
    one(&literal.replace("by-idempotency-key", "recall"), "14:8", &["/pay/recall/{key}"]);
    for bad in ["a/b", "{a}", "a;b", ".."] {
        one(&format!("[edge]\nrecall_segment = \"{bad}\"\n"), "2:18", &["one segment"]);
    }
    let open = "[upstreams.a]\nurl = \"http://h\"\n[[routes]]\nmethod = \"GET\"\npath = \"/a\"\nupstream = \"a\"\npolicy = \"PROHIBITED\"\n";
    one(&format!("{open}recall = false\n"), "8:10", &["`recall` has no effect"]);
}

#[test]
fn secrets_may_be_absent_where_that_is_said_and_are_checked_where_they_are_there_p5() {
    let folder = Folder::new(&[("short", "x\n")]);
    let text = "[admin]\ntoken_env = \"NOWHERE\"\n[seal]\nkey_file = \"gone\"\n[auth.api_keys]\n[auth.jwt]\nalgorithms = [\"HS256\"]\n\
                secret_env = \"NOWHERE\"\n[auth.verify]\nurl = \"https://h/v\"\ntoken_file = \"gone\"\n[edge.tls]\ncert = \"c\"\nkey = \"k\"\n[webhooks]\nupstream = \"u\"\npath = \"/h\"\n[upstreams.u]\nurl = \"http://h\"\n";
    let path = folder.0.path().join("hapax.toml");
    let spared = |text: &str| super::super::read(text, &path, &environment, Secrets::MayBeAbsent);
    assert_eq!(told(&folder, text).len(), 6, "the control: every one of them is missed");
    let config = spared(text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    let wrong = spared(&text.replace("\"gone\"", "\"short\"")).unwrap_err().to_string();
    assert!(wrong.contains("a seal key is 32 bytes"), "{wrong}");
    assert!(spared("[admin]\ntokn = 1\n").is_err(), "everything else is checked");
}
