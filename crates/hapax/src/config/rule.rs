//! How a keyed route is protected: the fields of `[[routes]]` that become a [`Rule`].

use std::time::Duration;

use hapax_core::claim::{DoubtEnds, DoubtThen};
use hapax_core::json::Pointer;
use hapax_core::{Recipe, Rerun, Retention, Width};
use hapax_exec::Attach;
use hapax_gateway::settings::Upstream;
use hapax_tower::{Keep, KeyPlace, Keys, On5xx, Rule};
use http::HeaderName;
use http::header::ACCEPT_ENCODING;

use super::edge::{self, fixed_path};
use super::keeping::retention_text;
use super::mistakes::Place;
use super::route::Context;
use super::section::{Section, Spot};
use super::upstream::Ready;
use super::{fields, keys, units};
use crate::limits;

/// How a route is protected, but for its names.
pub(crate) struct Protection {
    pub(crate) rule: Rule,
    pub(crate) retention_class: Option<String>,
    pub(crate) reconcile: Option<String>,
}

pub(crate) const RERUNS: [(&str, Rerun); 3] =
    [("unsafe", Rerun::Unsafe), ("safe", Rerun::Safe), ("ask", Rerun::Ask)];
pub(crate) const WIDTHS: [(&str, Width); 3] =
    [("subject", Width::Subject), ("project", Width::Project), ("tenant", Width::Tenant)];
pub(crate) const KEEPS: [(&str, Keep); 3] =
    [("full", Keep::Full), ("head", Keep::Head), ("fact", Keep::Fact)];
pub(crate) const ON_5XX: [(&str, On5xx); 3] =
    [("release", On5xx::Release), ("keep", On5xx::Keep), ("doubt", On5xx::Doubt)];
pub(crate) const FINGERPRINTS: [(&str, char); 4] =
    [("raw", 'r'), ("json", 'j'), ("form", 'f'), ("none", 'n')];
pub(crate) const ENDS: [(&str, DoubtThen); 2] =
    [("release", DoubtThen::Release), ("forget", DoubtThen::Forget)];

/// A rule with nothing but defaults. Its operation is a placeholder.
pub(crate) fn plain() -> Rule {
    Rule::new("unnamed").expect("a plain word is an operation's name")
}

/// Reads what protects a keyed route.
pub(crate) fn read(section: &Section<'_>, context: &Context<'_>, behind: Option<&Ready>) -> Protection {
    let mut rule = plain();
    rule.rerun = section.word("rerun", &RERUNS).map_or(rule.rerun, |rerun| rerun.value);
    rule.width = section.word("scope", &WIDTHS).map_or(rule.width, |width| width.value);
    rule.keep = section.word("keep", &KEEPS).map_or(rule.keep, |keep| keep.value);
    rule.on_5xx = section.word("on_5xx", &ON_5XX).map(|on_5xx| on_5xx.value);
    rule.keys = keys::read(section);
    rule.recipe = recipe(section, &rule.keys);
    rule.quiet = quiet(section, rule.rerun);
    rule.doubt = doubt(&section.section("doubt"));
    rule.mismatch_status = edge::mismatch_status(section).unwrap_or(context.defaults.mismatch_status);
    rule.max_request_body = edge::max_request_body(section).unwrap_or(context.defaults.max_request_body);
    edge::fits_memory(section, rule.max_request_body, context.max_buffered);
    rule.max_kept_response = edge::max_kept_response(section).unwrap_or(context.defaults.max_kept_response);
    rule.attach = attach(section, context);
    times(section, behind, &mut rule);
    let (retention, retention_class) = retention(section, context);
    rule.retention = retention;
    rule.derived = derived(section, &rule);
    Protection { reconcile: reconcile(section, rule.rerun), retention_class, rule }
}

/// What makes two requests the same (K7).
fn recipe(section: &Section<'_>, keys: &Keys) -> Recipe {
    let stated = section.word("fingerprint", &FINGERPRINTS);
    let reader = section.reader();
    if let (Some(none), Some(path)) = (stated.as_ref().filter(|word| word.value == 'n'), section.text("path"))
        && path.value.contains('{')
    {
        let text = format!(
            "`fingerprint = \"none\"` compares no path either: with one key, all of {} are one request",
            path.value
        );
        reader.notice(&none.at, text);
    }
    let word = stated.map_or('r', |word| word.value);
    let ignored = section.texts("ignore").unwrap_or_default();
    if word != 'j' && section.has("ignore") {
        let remedy = "remove it, or say `fingerprint = \"json\"`";
        reader.mistake(&section.place("ignore"), "`ignore` has an effect only on JSON fingerprints", remedy);
    }
    let mut pointers = Vec::new();
    for text in ignored {
        match Pointer::new(text.value) {
            Ok(pointer) => pointers.push(pointer),
            Err(error) => {
                reader.mistake(&text.at, format!("{:?} cannot be ignored", text.value), error.message())
            }
        }
    }
    // The place of a key is no part of the request: the same key elsewhere is the same claim (K1).
    pointers.extend(
        keys.places
            .iter()
            .filter_map(|place| match place {
                KeyPlace::Json(pointer) if !pointers.contains(pointer) => Some(pointer.clone()),
                _ => None,
            })
            .collect::<Vec<_>>(),
    );
    let recipe = match word {
        'j' => Recipe::json_ignoring(pointers),
        'f' => Ok(Recipe::form()),
        'n' => Ok(Recipe::none()),
        _ => Ok(Recipe::raw()),
    };
    let recipe = recipe.unwrap_or_else(|error| {
        reader.mistake(&section.place("ignore"), "`ignore` is too long", error.message());
        Recipe::json()
    });
    let names = section.texts("fingerprint_headers").unwrap_or_default();
    // Two ways to write one key would be two requests, and what a caller says there has no effect on the work.
    for name in names.iter().filter(|name| stays_at_the_edge(name.value, keys)) {
        let what =
            format!("`fingerprint_headers`: what callers send as {:?} never reaches the service", name.value);
        reader.mistake(&name.at, what, "remove it: it cannot make two requests different");
    }
    // Who asks is known by then, and a retry may come with a credential that was renewed; one that is an API key does not even go on.
    for name in names.iter().filter(|name| name.value.eq_ignore_ascii_case("authorization")) {
        let what = format!(
            "`fingerprint_headers`: {:?} is renewed, and a retry would be another request",
            name.value
        );
        reader.mistake(&name.at, what, "remove it: who shares an outcome is said by `scope`");
    }
    recipe.clone().with_headers(names.iter().map(|name| name.value)).unwrap_or_else(|error| {
        let at = section.place("fingerprint_headers");
        reader.mistake(&at, "`fingerprint_headers` cannot be used", format!("{error:#}"));
        recipe
    })
}

/// Whether a header of a caller does not go on as it came: it is for hapax alone (A5), or is overwritten for every keyed request
/// (H3, K1).
fn stays_at_the_edge(name: &str, keys: &Keys) -> bool {
    let overwritten = |name: &HeaderName| *name == ACCEPT_ENCODING || keys.headers().any(|key| key == name);
    HeaderName::try_from(name).is_ok_and(|name| overwritten(&name) || keys::is_for_hapax(&name))
}

fn quiet(section: &Section<'_>, rerun: Rerun) -> Duration {
    let quiet = section.duration("quiet");
    if let Some(quiet) = quiet.as_ref().filter(|_| rerun != Rerun::Safe) {
        let remedy = "remove it, or say `rerun = \"safe\"`";
        section.reader().mistake(&quiet.at, "`quiet` has an effect only where rerun is safe", remedy);
    }
    quiet.map_or(Duration::ZERO, |quiet| quiet.value)
}

fn doubt(section: &Section<'_>) -> Option<DoubtEnds> {
    if !section.exists() {
        return None;
    }
    section.require("after", "say how long a doubt lasts at most, such as \"7d\"");
    section.require("then", "say what happens then: \"release\" or \"forget\"");
    let after = section.duration("after");
    let then = section.word("then", &ENDS);
    Some(DoubtEnds { after: after?.value, then: then?.value })
}

fn attach(section: &Section<'_>, context: &Context<'_>) -> Attach {
    let waits = section.word("attach", &edge::ATTACH).map_or(context.defaults.waits, |waits| waits.value);
    let bound = section.duration("attach_timeout");
    if let Some(bound) = bound.as_ref().filter(|_| !waits) {
        let remedy = "remove it, or say `attach = \"wait\"`";
        section.reader().mistake(&bound.at, "`attach_timeout` has no effect where nobody waits", remedy);
    }
    if waits {
        Attach::Wait(bound.map_or(context.defaults.attach_timeout, |bound| bound.value))
    } else {
        Attach::Reject
    }
}

/// `timeout` ends the wait and `give_up` the call (H5); `max_run` must leave room for it (L4).
fn times(section: &Section<'_>, behind: Option<&Ready>, rule: &mut Rule) {
    let timeout = section.duration("timeout");
    let give_up = section.duration("give_up");
    let max_run = section.duration("max_run");
    let of_upstream = |upstream: &Ready| upstream.upstream.timeout;
    rule.timeout = timeout.as_ref().map_or_else(|| behind.map_or(rule.timeout, of_upstream), |own| own.value);
    let inherited = behind.and_then(|upstream| upstream.give_up);
    let stated = give_up.as_ref().map(|own| own.value).or(inherited);
    rule.give_up = stated.unwrap_or_else(|| default_give_up(rule));
    rule.max_run = max_run.as_ref().map_or(rule.max_run.max(rule.give_up), |own| own.value);
    let reader = section.reader();
    let blamed = give_up.as_ref().or(timeout.as_ref()).map(|spot| &spot.at);
    if let Some(at) = blamed.filter(|_| rule.give_up < rule.timeout) {
        let (end, wait) = (units::show_duration(rule.give_up), units::show_duration(rule.timeout));
        let what = format!("the call is given up after {end}, while its caller waits for {wait}");
        reader.mistake(at, what, "make `give_up` at least as long as `timeout`");
    }
    if let Some(max_run) = max_run.filter(|max_run| max_run.value < rule.give_up) {
        let what = format!("`max_run` is shorter than `give_up` ({})", units::show_duration(rule.give_up));
        reader.mistake(
            &max_run.at,
            what,
            "a call must not outlive its lease: raise `max_run` or lower `give_up`",
        );
    }
}

/// 15 minutes; where running again is safe, the call ends with the wait (H5).
fn default_give_up(rule: &Rule) -> Duration {
    if rule.rerun == Rerun::Safe { rule.timeout } else { rule.give_up.max(rule.timeout) }
}

/// A class by its name, a duration, or `forever`.
pub(super) fn retention(section: &Section<'_>, context: &Context<'_>) -> (Retention, Option<String>) {
    let classes = context.retention;
    let standard = (classes.default_retention(), Some(classes.default.clone()));
    let Some(text) = section.text("retention") else { return standard };
    if let Some(retention) = classes.get(text.value) {
        return (retention, Some(text.value.to_owned()));
    }
    match retention_text(text.value) {
        Ok(retention) => (retention, None),
        Err(remedy) => {
            let known: Vec<_> = classes.classes.keys().map(String::as_str).collect();
            let remedy = match fields::nearest(text.value, known.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None if units::duration(text.value).is_some() => remedy,
                None => format!("name one of {} from [retention], or write a duration", known.join(", ")),
            };
            section.reader().mistake(&text.at, format!("there is no retention {:?}", text.value), remedy);
            standard
        }
    }
}

/// Without a key, what is asked is the key (H9).
fn derived(section: &Section<'_>, rule: &Rule) -> Option<Duration> {
    let from = section.word("key_from", &[("fingerprint", ())]);
    let window = section.duration("window");
    let reader = section.reader();
    if !section.has("key_from") {
        if let Some(window) = window {
            let remedy = "remove it, or say `key_from = \"fingerprint\"`";
            reader.mistake(&window.at, "`window` has an effect only with `key_from`", remedy);
        }
        return None;
    }
    let at = from?.at;
    let accepted = section.text("policy").is_some_and(|policy| policy.value == "ACCEPTED");
    if !accepted {
        let what = "`key_from` is for routes whose policy is ACCEPTED";
        reader.mistake(&at, what, "remove it, or let callers choose to send a key: `policy = \"ACCEPTED\"`");
    }
    section.require("rerun", "with `key_from` it must be stated: \"unsafe\", \"safe\" or \"ask\"");
    if *rule.recipe.body() == hapax_core::fingerprint::BodyRecipe::None {
        let what = "`key_from = \"fingerprint\"` with `fingerprint = \"none\"` takes all requests for one";
        reader.mistake(&at, what, "choose another fingerprint");
    }
    let lasts = window.as_ref().map_or(limits::WINDOW, |window| window.value);
    // It counts from the grant: over before the work has ended, it would let the same request run beside it or after it.
    if lasts <= rule.give_up {
        let (lasts, end) = (units::show_duration(lasts), units::show_duration(rule.give_up));
        let what = format!("`window` ({lasts}) may be over before the work has ended: `give_up` ({end})");
        let remedy = "make `window` longer than `give_up`, or lower `give_up`";
        reader.mistake(window.as_ref().map_or(&at, |window| &window.at), what, remedy);
    }
    Some(lasts)
}

/// Whom to ask whether an earlier attempt happened (L6).
fn reconcile(section: &Section<'_>, rerun: Rerun) -> Option<String> {
    let path: Option<Spot<String>> = section.parsed("reconcile", fixed_path);
    if rerun == Rerun::Ask {
        section.require(
            "reconcile",
            "with `rerun = \"ask\"`, say which path of the upstream knows, such as \"/reconcile\"",
        );
    } else if section.has("reconcile") {
        let at: Place = section.place("reconcile");
        let remedy = "remove it, or say `rerun = \"ask\"`";
        section.reader().mistake(&at, "`reconcile` is asked only where `rerun = \"ask\"`", remedy);
    }
    path.map(|path| path.value)
}

/// What an upstream says about time must fit together without any route.
pub(crate) fn upstream_times(section: &Section<'_>, upstream: &Upstream, give_up: Option<&Spot<Duration>>) {
    if let Some(give_up) = give_up.filter(|give_up| give_up.value < upstream.timeout) {
        let wait = units::show_duration(upstream.timeout);
        let what = format!("`give_up` is shorter than `timeout` ({wait})");
        section.reader().mistake(&give_up.at, what, "make it at least as long");
    }
}
