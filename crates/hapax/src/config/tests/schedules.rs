//! `[[schedules]]` and `[auth.schedules]`: what they mean, what is shown of them, and what is refused, with its line (S, P5).

use super::{Folder, loaded};

const ROUTES: &str = "[upstreams.pay]\nurl = \"http://h\"\n[auth]\n[auth.schedules]\nsecret_env = \"SECRET\"\n\
                      [[routes]]\nmethod = \"POST\"\npath = \"/pay\"\noperation = \"pay\"\npolicy = \"REQUIRED_A\"\nupstream = \"pay\"\n";
/// Its first line is the twelfth.
const SCHEDULE: &str = "[[schedules]]\nid = \"nightly\"\ncron = \"0 3 * * *\"\nroute = \"pay\"\nbody = { b = 1.5, a = [\"x\", true, 2] }\n\
                        as = { tenant = \"acme\", project = \"shop\" }\n";

/// The mistakes, without the folder's name.
fn told(text: &str) -> Vec<String> {
    let mistakes = Folder::new(&[]).load_as_is(text).expect_err(text);
    mistakes
        .iter()
        .map(|mistake| mistake.to_string().rsplit_once("hapax.toml:").unwrap().1.to_owned())
        .collect()
}

/// What is wrong when this of the schedule is written so instead.
#[track_caller]
fn instead(from: &str, to: &str, place: &str, parts: &[&str]) {
    assert!(SCHEDULE.contains(from), "{from}");
    let told = told(&format!("{ROUTES}{}", SCHEDULE.replace(from, to)));
    assert_eq!(told.len(), 1, "{to}: {told:#?}");
    assert!(told[0].starts_with(&format!("{place}: ")), "{to}: {told:#?}");
    parts.iter().for_each(|part| assert!(told[0].contains(part), "{part:?}: {told:#?}"));
    assert!(told[0].contains("; "), "there is no remedy: {told:#?}");
}

#[test]
fn a_schedule_is_read_with_its_defaults_and_shown_so_that_it_means_the_same() {
    let config = loaded(&format!("{ROUTES}{SCHEDULE}"));
    let schedule = &config.schedules[0];
    assert_eq!((&*schedule.id, schedule.operation.as_str(), schedule.catch_up), ("nightly", "pay", 0));
    assert_eq!(schedule.body, "{\"a\":[\"x\",true,2],\"b\":1.5}");
    assert_eq!(schedule.content_type.as_deref(), Some("application/json"));
    let shown = config.to_toml();
    for line in
        ["[auth.schedules]", "secret = \"(set)\"", "tz = \"UTC\"", "overlap = \"allow\"", "catch_up = 0"]
    {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert!(!shown.contains("a secret of the tests"), "{shown}");
    // What is shown of it means the same.
    let (_, own) = shown.split_once("[[schedules]]").unwrap();
    let own = own.split_once("\n\n").map_or(own, |(own, _)| own);
    let again = loaded(&format!("{ROUTES}[[schedules]]{own}\n"));
    assert_eq!(again.schedules, config.schedules);
    let interval = format!(
        "{ROUTES}{}",
        SCHEDULE.replace("cron = \"0 3 * * *\"", "every = \"90s\"\noverlap = \"skip\"\ncatch_up = 3")
    );
    let config = loaded(&interval);
    assert!(config.to_toml().contains("every = \"90s\""), "{}", config.to_toml());
    let text =
        loaded(&format!("{ROUTES}{}", SCHEDULE.replace("{ b = 1.5, a = [\"x\", true, 2] }", "\"a=1\"")));
    assert_eq!(text.schedules[0].content_type.as_deref(), Some("text/plain; charset=utf-8"));
    let bare =
        loaded(&format!("{ROUTES}{}", SCHEDULE.replace("body = { b = 1.5, a = [\"x\", true, 2] }\n", "")));
    assert_eq!((bare.schedules[0].body.as_str(), &bare.schedules[0].content_type), ("", &None));
    // Where all callers are of one project, its schedules are, too.
    let fixed = ROUTES.replace("[auth]\n", "[auth]\ntenant = \"acme\"\nproject = \"web\"\n");
    let config = loaded(&format!(
        "{fixed}{}",
        SCHEDULE.replace("as = { tenant = \"acme\", project = \"shop\" }\n", "")
    ));
    assert_eq!(config.schedules[0].project.as_str(), "web");
}

#[test]
fn what_a_schedule_cannot_be_is_told_with_its_line() {
    instead("\"nightly\"", "\"Nightly\"", "13:6", &["`id`", "a–z"]);
    instead("\"nightly\"", "\"a.b\"", "13:6", &["`id`"]);
    instead("id = \"nightly\"\n", "", "12:1", &["`id` is missing"]);
    instead("\"0 3 * * *\"", "\"0 3 * *\"", "14:8", &["`cron`", "no cron expression"]);
    instead("\"0 3 * * *\"", "\"0 0 30 2 *\"", "14:8", &["no time that ever comes"]);
    instead("cron = \"0 3 * * *\"\n", "", "12:1", &["nothing says when", "`every"]);
    instead("cron = \"0 3 * * *\"", "cron = \"0 3 * * *\"\nevery = \"1h\"", "15:9", &["both written"]);
    instead("cron = \"0 3 * * *\"", "tz = \"UTC\"\nevery = \"1h\"", "14:6", &["`tz` has no effect"]);
    instead(
        "cron = \"0 3 * * *\"",
        "cron = \"0 3 * * *\"\ntz = \"Europe/Atlantis\"",
        "15:6",
        &["no time zone"],
    );
    instead("cron = \"0 3 * * *\"", "every = \"1ms\"", "14:9", &["`every`", "use 10ms to"]);
    instead("\"pay\"\nbody", "\"pya\"\nbody", "15:9", &["no operation \"pya\"", "did you mean \"pay\"?"]);
    instead("{ b = 1.5, a = [\"x\", true, 2] }", "7", "16:8", &["`body` cannot be an integer"]);
    instead("b = 1.5", "b = 2026-11-18", "16:14", &["cannot stand in a JSON body"]);
    instead("as = { tenant = \"acme\", project = \"shop\" }\n", "", "12:1", &["for whom"]);
    instead("tenant = \"acme\"", "tenant = \"Acme\"", "17:17", &["`tenant`"]);
    instead(", project = \"shop\"", "", "17:6", &["`project` is missing"]);
    instead("as = {", "overlap = \"queue\"\nas = {", "17:11", &["`overlap`", "\"skip\""]);
    instead("as = {", "catch_up = -1\nas = {", "17:12", &["`catch_up` cannot be -1"]);
    instead("as = {", "content_type = \"a\\nb\"\nas = {", "17:16", &["`content_type`"]);
    instead("as = {", "colour = 1\nas = {", "17:1", &["`colour` is no field of schedules"]);
    let long = format!("\"{}\"", "x".repeat(64 * 1024 + 1));
    instead("{ b = 1.5, a = [\"x\", true, 2] }", &long, "16:8", &["`body` is too long"]);
}

#[test]
fn a_schedule_calls_a_route_that_can_be_called_and_signs_what_it_sends() {
    let with = |from: &str, to: &str| told(&format!("{}{SCHEDULE}", ROUTES.replace(from, to)));
    for (from, to, tells) in [
        ("\"REQUIRED_A\"", "\"REQUIRED_A\"\nlevel = \"tenant\"", "of level tenant"),
        ("\"/pay\"", "\"/pay/{id}\"", "has parameters"),
        ("\"REQUIRED_A\"", "\"REQUIRED_A\"\nmax_request_body = \"8B\"", "the body is longer"),
        ("[auth]\n[auth.schedules]\nsecret_env = \"SECRET\"\n", "", "nothing to sign"),
        ("secret_env = \"SECRET\"", "previous_env = \"SECRET\"", "has no secret"),
        ("secret_env = \"SECRET\"", "secret_env = \"NOT_SET\"", "NOT_SET is not set"),
    ] {
        let told = with(from, to);
        assert!(told.len() == 1 && told[0].contains(tells), "{tells}: {told:#?}");
    }
    let public = ROUTES
        .replace("[auth]\n", "[auth]\ntenant = \"acme\"\nproject = \"web\"\n")
        .replace("\"REQUIRED_A\"", "\"REQUIRED_A\"\npublic = \"shared-keys\"");
    let told = told(&format!("{public}{SCHEDULE}"));
    assert!(told.len() == 1 && told[0].contains("is public"), "{told:#?}");
    let cluster = ROUTES
        .replace("url = \"http://h\"", "kind = \"restate\"\ningress = [\"http://h\"]\nadmin = \"http://h\"")
        .replace("upstream = \"pay\"", "upstream = \"pay\"\nrestate = { service = \"S\", handler = \"H\" }");
    let told = self::told(&format!("{cluster}{SCHEDULE}"));
    assert!(told.len() == 1 && told[0].contains("leads to a cluster"), "{told:#?}");
    let plain = "[[routes]]\nmethod = \"POST\"\npath = \"/open\"\noperation = \"open\"\npolicy = \"HANDLER_INTERNAL_C\"\nupstream = \"pay\"\n";
    let open = self::told(&format!("{ROUTES}{plain}{}", SCHEDULE.replace("\"pay\"", "\"open\"")));
    assert!(open.len() == 1 && open[0].contains("takes no key of its caller"), "{open:#?}");
    let twice = self::told(&format!("{ROUTES}{SCHEDULE}{SCHEDULE}"));
    assert!(twice.len() == 1 && twice[0].contains("two schedules are called \"nightly\""), "{twice:#?}");
    // A scheduler elsewhere needs no schedules here.
    let config = loaded(
        &ROUTES.replace("secret_env = \"SECRET\"", "secret_env = \"SHORT\"\nprevious_env = \"SECRET\""),
    );
    assert!(config.settings.auth.schedules.is_some());
    assert!(
        config.notices.iter().any(|notice| notice.contains("shorter than 16 bytes")),
        "{:?}",
        config.notices
    );
}
