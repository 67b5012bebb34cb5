//! `hapax probe`: what it can be told, the question before it writes to somebody's API, and what it prints (M5).

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args as ClapArgs;
use hapax_core::json::Pointer;
use hapax_probe::body::{Bodies, with_keys};
use hapax_probe::client::{self, Client, KeyPlace};
use hapax_probe::report::{Report, Target};
use hapax_probe::row::{Finding, Level, Row};
use hapax_probe::{Options, limits};
use hapax_tower::answer::IDEMPOTENCY_KEY;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{Certificate, Url};

use super::{Failed, say};
use crate::config::units;

/// Find out from outside what an API makes of Idempotency-Key, as draft-ietf-httpapi-idempotency-key-header-07 has it.
///
/// It sends real requests, a bounded number of them, and whatever they ask for happens: probe a test system, with
/// credentials of a test account. Exit code: 0 when nothing failed, 1 when something did, 2 for misuse, 3 when the API
/// cannot be reached.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Where the requests go, such as http://127.0.0.1:8080/charges
    #[arg(value_name = "URL")]
    url: String,
    /// POST, PATCH, PUT or DELETE.
    #[arg(long, default_value = "POST")]
    method: String,
    /// A body that the API takes, from a file; `-` is standard input. Without one it is `{}`.
    #[arg(long, value_name = "FILE", conflicts_with = "body_json")]
    body: Option<PathBuf>,
    /// A body that the API takes, as JSON.
    #[arg(long, value_name = "JSON")]
    body_json: Option<String>,
    /// Another body that it takes, as JSON; without it the first number or text of the body is changed.
    #[arg(long, value_name = "JSON")]
    other_body_json: Option<String>,
    /// A header of every request, such as 'Authorization: Bearer …'.
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// A header of another caller's requests, instead of the one of the same name.
    #[arg(long, value_name = "HEADER")]
    other_header: Vec<String>,
    /// Another path that takes the same request, to see whether keys are told apart.
    #[arg(long, value_name = "PATH")]
    other_path: Option<String>,
    /// The header that carries keys, where that is not Idempotency-Key; such as PayPal-Request-Id.
    #[arg(long, value_name = "NAME", conflicts_with = "key_json")]
    key_header: Option<String>,
    /// The member of the JSON body that carries keys; such as /idempotency_key.
    #[arg(long, value_name = "POINTER")]
    key_json: Option<String>,
    /// Certificates to trust instead of the system's, PEM; for https.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// How many requests are sent at once with one key.
    #[arg(long, value_name = "N", default_value_t = 20)]
    race: usize,
    /// How long one answer is waited for.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write a JUnit report to this file too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Do not ask before writing to something that is not on this machine.
    #[arg(long)]
    yes: bool,
}

/// Runs `hapax probe`.
pub(crate) async fn run(args: Args) -> Result<(), Failed> {
    let url = url(&args.url)?;
    let (client, options, at_most) = prepare(&args, &url)?;
    let method = args.method.to_ascii_uppercase();
    say::note(format!(
        "This sends at most {at_most} requests ({method} {url}), each for at most {}; what they ask for happens.",
        args.timeout
    ));
    if !(args.yes || client::is_loopback(&url)) {
        confirm(&url)?;
    }
    let race = options.race;
    let told = |row: Row, finding: Option<&Finding>| match (finding, row.requests(race)) {
        (None, 0) => {}
        (None, requests) => say::note(format!("… {} ({requests} at most)", row.title())),
        (Some(finding), _) if finding.level == Level::Fail => {
            say::note(format!("  {}", say::clean(&finding.seen)))
        }
        (Some(_), _) => {}
    };
    let report = hapax_probe::run(client, options, told)
        .await
        .map_err(|why| Failed::unavailable(format!("{url}: {why}; nothing could be found out")))?;
    tell(&args, &report, &Target { method: &method, url: url.as_str(), at_most })?;
    match report.verdict() {
        Level::Fail => Err(Failed::no("")),
        _ => Ok(()),
    }
}

/// Reads everything that was said, before anything is sent.
fn prepare(args: &Args, url: &Url) -> Result<(Client, Options, usize), Failed> {
    if !limits::RACE.contains(&args.race) {
        let (least, most) = (limits::RACE.start(), limits::RACE.end());
        return Err(Failed::misuse(format!("--race is {least} to {most}")));
    }
    let other = match &args.other_body_json {
        Some(text) => Some(json("--other-body-json", text)?),
        None => None,
    };
    let mut bodies = Bodies::of(body(args)?, other);
    let key = key_place(args)?;
    if let KeyPlace::Json(pointer) = &key {
        let has_room = |body: &Bytes| with_keys(body, pointer, &[]).is_some();
        if ![&bodies.one, &bodies.other].into_iter().all(has_room) {
            return Err(Failed::misuse(
                "--key-json needs a JSON body with an object where the key is to stand",
            ));
        }
        // Without its key, a body that is broken would say nothing about keys.
        bodies.broken = Bytes::from_static(b"{}");
    }
    let other_url = match &args.other_path {
        Some(path) => Some(other_url(url, path)?),
        None => None,
    };
    let media_type = bodies.media_type;
    let options = Options {
        bodies,
        as_drafted: key == KeyPlace::Header(IDEMPOTENCY_KEY),
        race: args.race,
        other_headers: headers("--other-header", &args.other_header)?,
        other_url,
    };
    let at_most = hapax_probe::at_most(&options);
    let client = Client::new(client::Options {
        url: url.clone(),
        method: method(&args.method)?,
        headers: headers("--header", &args.header)?,
        media_type,
        key,
        trusted: args.cacert.as_deref().map(|file| certificates(url, file)).transpose()?,
        timeout: timeout(&args.timeout)?,
        at_most,
    })
    .map_err(Failed::unavailable)?;
    Ok((client, options, at_most))
}

fn url(text: &str) -> Result<Url, Failed> {
    let bad = |why: &str| Failed::misuse(format!("{why}; such as http://127.0.0.1:8080/charges"));
    let url = Url::parse(text).map_err(|_| bad("that is no URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("the URL starts with http:// or https:// and names a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("credentials go into --header 'Authorization: …', not into the URL"));
    }
    Ok(url)
}

fn key_place(args: &Args) -> Result<KeyPlace, Failed> {
    if let Some(text) = &args.key_json {
        let pointer = Pointer::new(text.as_str());
        return pointer
            .map(KeyPlace::Json)
            .map_err(|error| Failed::misuse(format!("--key-json: {}", error.message())));
    }
    let Some(name) = &args.key_header else { return Ok(KeyPlace::Header(IDEMPOTENCY_KEY)) };
    let name = HeaderName::try_from(name.as_str());
    name.map(KeyPlace::Header).map_err(|_| Failed::misuse("--key-header is the name of a header"))
}

/// The other path is on the same host: nothing is sent to anybody who was not named.
fn other_url(url: &Url, path: &str) -> Result<Url, Failed> {
    let bad = || Failed::misuse("--other-path is a path on the same host, such as /refunds");
    let other = url.join(path).map_err(|_| bad())?;
    match path.starts_with('/') && other.origin() == url.origin() {
        true => Ok(other),
        false => Err(bad()),
    }
}

fn certificates(url: &Url, file: &Path) -> Result<Vec<Certificate>, Failed> {
    let bad = |why: String| Failed::misuse(format!("--cacert {}: {why}", file.display()));
    if url.scheme() != "https" {
        return Err(bad("only an https:// URL has certificates".into()));
    }
    let pem = read(file).map_err(|error| bad(error.to_string()))?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(bad("there are no certificates in PEM in it".into())),
    }
}

fn method(text: &str) -> Result<Method, Failed> {
    match text.to_ascii_uppercase().as_str() {
        "POST" => Ok(Method::POST),
        "PATCH" => Ok(Method::PATCH),
        "PUT" => Ok(Method::PUT),
        "DELETE" => Ok(Method::DELETE),
        _ => Err(Failed::misuse("--method is POST, PATCH, PUT or DELETE: keys are about writes")),
    }
}

fn timeout(text: &str) -> Result<Duration, Failed> {
    let fits = |time: &Duration| limits::TIMEOUT.contains(time);
    units::duration(text).filter(fits).ok_or_else(|| {
        let (least, most) = (limits::TIMEOUT.start(), limits::TIMEOUT.end());
        let (least, most) = (units::show_duration(*least), units::show_duration(*most));
        Failed::misuse(format!("--timeout is {least} to {most}, such as 10s"))
    })
}

/// What is secret in them is not repeated when they cannot be read.
fn headers(option: &str, lines: &[String]) -> Result<HeaderMap, Failed> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let bad = || Failed::misuse(format!("{option} is 'Name: value', in characters that can be sent"));
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        let name: HeaderName = name.trim().parse().map_err(|_| bad())?;
        if name == "idempotency-key" {
            return Err(Failed::misuse("the keys are the probe's own"));
        }
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

fn json(option: &str, text: &str) -> Result<Bytes, Failed> {
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map_err(|error| Failed::misuse(format!("{option} is no JSON: {error}")))?;
    Ok(Bytes::copy_from_slice(text.as_bytes()))
}

fn body(args: &Args) -> Result<Bytes, Failed> {
    match (&args.body_json, &args.body) {
        (Some(text), _) => json("--body-json", text),
        (None, Some(file)) => {
            let told = |error| Failed::misuse(format!("--body {}: {error}", file.display()));
            read(file).map_err(told)
        }
        (None, None) => Ok(Bytes::from_static(b"{}")),
    }
}

fn read(file: &Path) -> std::io::Result<Bytes> {
    let mut bytes = Vec::new();
    let longest = limits::BODY_BYTES;
    if file == Path::new("-") {
        std::io::stdin().lock().take(longest + 1).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(file)?.take(longest + 1).read_to_end(&mut bytes)?;
    }
    match bytes.len() as u64 > longest {
        true => Err(std::io::Error::other(format!("more than {}", units::show_size(longest)))),
        false => Ok(bytes.into()),
    }
}

/// Whoever owns the API at the other end should know.
fn confirm(url: &Url) -> Result<(), Failed> {
    let host = url.host_str().unwrap_or_default();
    if !std::io::stdin().is_terminal() {
        return Err(Failed::misuse(format!(
            "{host} is not this machine: --yes says that its owner agrees to these writes; nothing was sent"
        )));
    }
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{host} is not this machine. Send these writes to it? [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().take(16).read_line(&mut answer);
    match (read, answer.trim().to_ascii_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Ok(()),
        _ => Err(Failed::misuse("nothing was sent")),
    }
}

fn tell(args: &Args, report: &Report, target: &Target<'_>) -> Result<(), Failed> {
    if let Some(file) = &args.junit {
        std::fs::write(file, report.junit(target))
            .map_err(|error| Failed::unavailable(format!("--junit {}: {error}", file.display())))?;
    }
    if args.json {
        return say::json(&report.json(target));
    }
    report.table().lines().try_for_each(|line| say::data(say::clean(line)))
}
