//! Reads the language. What it means is left to the player, what answers it gets to the driver.

use std::collections::BTreeMap;
use std::time::Duration;

use hapax_core::claim::{DoubtEnds, DoubtThen};
use hapax_core::{Doubt, Key, Outcome, Ran, Report, Rerun, Retention, Terms, Verb};

use super::{Act, Event, Failure, Line, Scenario, Seen, Who, text};

/// What is kept unless a scenario says otherwise.
const DEFAULT_RETENTION: Retention = Retention::For(Duration::from_secs(24 * 60 * 60));
/// What is asked unless a scenario says otherwise.
const DEFAULT_BODY: &str = "work";

pub(super) fn scenario(file: &str, text: &str) -> Result<Scenario, Failure> {
    let mut parser = Parser::new(file);
    for (index, line) in text.lines().enumerate() {
        parser.line(line).map_err(|message| failure(file, index + 1, message))?;
        parser.number += 1;
    }
    let scenario = parser.scenario;
    if scenario.title.is_empty() {
        return Err(failure(file, 1, "say in a first comment what the scenario shows".to_owned()));
    }
    if !scenario.lines.iter().any(|line| line.expected.is_some()) {
        return Err(failure(file, 1, "no answer is expected anywhere: nothing is shown".to_owned()));
    }
    Ok(scenario)
}

fn failure(file: &str, line: usize, message: String) -> Failure {
    Failure { file: file.to_owned(), line, message }
}

/// What was read so far.
struct Parser {
    scenario: Scenario,
    number: usize,
    terms: Terms,
    retention: Retention,
    keys: BTreeMap<String, String>,
    last_key: Option<String>,
}

impl Parser {
    fn new(file: &str) -> Self {
        Parser {
            scenario: Scenario {
                file: file.to_owned(),
                title: String::new(),
                needs_sessions: false,
                lines: Vec::new(),
            },
            number: 1,
            terms: Terms::default(),
            retention: DEFAULT_RETENTION,
            keys: BTreeMap::new(),
            last_key: None,
        }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let code = self.strip_comment(line).trim().to_owned();
        if code.is_empty() {
            return Ok(());
        }
        let (said, expected) = match code.split_once("->") {
            Some((said, expected)) => (said.trim(), Some(normal(expected))),
            None => (code.as_str(), None),
        };
        if expected.as_ref().is_some_and(String::is_empty) {
            return Err("an answer is missing after `->`".to_owned());
        }
        let event = match said.split_once(':') {
            Some(("needs", what)) => return self.needs(what.trim()),
            Some((actor, act)) if is_name(actor) => self.act(actor, act.trim())?,
            _ => match self.happening(said)? {
                Some(event) => event,
                None => return Ok(()),
            },
        };
        if expected.is_some() && !has_answer(&event) {
            return Err("nothing answers this event: leave out `->`".to_owned());
        }
        self.scenario.lines.push(Line { number: self.number, event, expected });
        Ok(())
    }

    fn strip_comment<'a>(&mut self, line: &'a str) -> &'a str {
        let start = line.match_indices('#').find(|(at, _)| line[..*at].ends_with(' ') || *at == 0);
        let Some((at, _)) = start else { return line };
        if self.scenario.title.is_empty() {
            self.scenario.title = line[at + 1..].trim().to_owned();
        }
        &line[..at]
    }

    fn needs(&mut self, what: &str) -> Result<(), String> {
        if what != "sessions" {
            return Err(format!("a scenario can need `sessions`, not `{what}`"));
        }
        if !self.scenario.lines.is_empty() {
            return Err("`needs:` stands above all events".to_owned());
        }
        self.scenario.needs_sessions = true;
        Ok(())
    }

    /// What happens without an actor; `None` for what is no event.
    fn happening(&mut self, said: &str) -> Result<Option<Event>, String> {
        let words: Vec<&str> = said.split_whitespace().collect();
        Ok(Some(match words.as_slice() {
            ["terms", options @ ..] => {
                let mut options = Options::read(options)?;
                (self.terms, self.retention) = options.terms(&self.terms, self.retention)?;
                options.finish()?;
                return Ok(None);
            }
            ["sweep"] => Event::Sweep,
            ["time", by] => Event::Time(
                by.strip_prefix('+')
                    .map_or_else(|| Err(format!("write `time +{by}`: time only goes forward")), duration)?,
            ),
            ["lapse", who] => Event::Lapse(self.who(who)?),
            ["crash", who] => Event::Crash(self.who(who)?),
            ["revive", actor] => {
                self.need_sessions("revive")?;
                Event::Revive(name(actor)?)
            }
            ["restart", actor] => Event::Restart(name(actor)?),
            _ => {
                return Err(format!(
                    "`{said}` is no event: begin with `actor:`, terms, sweep, time, lapse, crash, revive or restart"
                ));
            }
        }))
    }

    fn who(&self, who: &str) -> Result<Who, String> {
        if who == "everyone" {
            return Ok(Who::Everyone);
        }
        self.need_sessions("lapse or crash of one actor")?;
        Ok(Who::Actor(name(who)?))
    }

    fn need_sessions(&self, what: &str) -> Result<(), String> {
        if self.scenario.needs_sessions {
            return Ok(());
        }
        Err(format!("{what}: say `needs: sessions` at the top, or let `everyone` lapse"))
    }

    fn act(&mut self, actor: &str, act: &str) -> Result<Event, String> {
        let words: Vec<&str> = act.split_whitespace().collect();
        let (plain, options): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| !word.contains('='));
        let mut options = Options::read(&options)?;
        let key = self.key(actor, options.take("key"))?;
        let act = self.deed(&plain, &mut options)?;
        options.finish()?;
        Ok(Event::Act { actor: actor.to_owned(), key, act })
    }

    /// The key that was named, or that the actor means.
    fn key(&mut self, actor: &str, named: Option<&str>) -> Result<String, String> {
        let key = match named {
            Some(key) => key.to_owned(),
            None => self
                .keys
                .get(actor)
                .or(self.last_key.as_ref())
                .cloned()
                .ok_or("no key was named before: add `key=…`")?,
        };
        Key::new(key.as_str()).map_err(|error| format!("`key={key}`: {error}"))?;
        self.keys.insert(actor.to_owned(), key.clone());
        self.last_key = Some(key.clone());
        Ok(key)
    }

    fn deed(&self, words: &[&str], options: &mut Options<'_>) -> Result<Act, String> {
        Ok(match words {
            ["claim"] => {
                let body = body(options);
                Act::Claim { body, terms: options.terms(&self.terms, self.retention)?.0 }
            }
            ["resend"] => Act::Resend,
            ["set", kept] => {
                let (body, outcome) = (body(options), outcome(kept)?);
                let (terms, retention) = options.terms(&self.terms, self.retention)?;
                Act::Set { body, terms, outcome, retention }
            }
            ["peek"] => Act::Peek,
            ["look"] => Act::Look,
            ["resolve", "release"] => Act::Decide(Verb::Release { force: false }, seen(options)?),
            ["resolve", "release", "force"] => Act::Decide(Verb::Release { force: true }, seen(options)?),
            ["resolve", "settle", kept] => {
                let verb = Verb::Settle(outcome(kept)?, options.retention(self.retention)?);
                Act::Decide(verb, seen(options)?)
            }
            ["reopen"] => Act::Decide(Verb::Reopen, seen(options)?),
            ["purge"] => Act::Decide(Verb::Purge, seen(options)?),
            ["erase"] => Act::Decide(Verb::Erase, seen(options)?),
            _ => Act::Report(self.report(words, options)?),
        })
    }

    fn report(&self, words: &[&str], options: &mut Options<'_>) -> Result<Report, String> {
        Ok(match words {
            ["renew"] => Report::Renew,
            ["cleared"] => Report::Cleared,
            ["settle", kept] => Report::Settle(outcome(kept)?, options.retention(self.retention)?),
            ["release"] => Report::Release(Ran::No),
            ["release", "perhaps"] => {
                Report::Release(Ran::Perhaps).because(options.take("cause").unwrap_or_default())
            }
            ["release", "waived"] => Report::Release(Ran::Waived),
            ["doubt", reason] => {
                Report::Doubt(doubt(reason)?).because(options.take("cause").unwrap_or_default())
            }
            _ => {
                return Err(format!(
                    "`{}` is nothing an actor does: claim, resend, renew, cleared, settle, release, doubt, set, peek, \
                     look, resolve, reopen, purge or erase",
                    words.join(" ")
                ));
            }
        })
    }
}

/// The `name=value` words of a line; what nobody takes is a mistake.
struct Options<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Options<'a> {
    fn read(words: &[&'a str]) -> Result<Self, String> {
        let mut options = BTreeMap::new();
        for word in words {
            let (name, value) = word.split_once('=').ok_or(format!("`{word}`: write name=value"))?;
            if value.is_empty() || options.insert(name, value).is_some() {
                return Err(format!("`{word}`: give `{name}=` one value, once"));
            }
        }
        Ok(Options(options))
    }

    fn take(&mut self, name: &str) -> Option<&'a str> {
        self.0.remove(name)
    }

    fn terms(&mut self, before: &Terms, retention: Retention) -> Result<(Terms, Retention), String> {
        let mut terms = before.clone();
        if let Some(text) = self.take("rerun") {
            terms.rerun = rerun(text)?;
        }
        for (name, field) in
            [("quiet", &mut terms.quiet), ("max_run", &mut terms.max_run), ("give_up", &mut terms.give_up)]
        {
            if let Some(text) = self.take(name) {
                *field = duration(text)?;
            }
        }
        if let Some(text) = self.take("doubt") {
            terms.doubt = doubt_ends(text)?;
        }
        Ok((terms, self.retention(retention)?))
    }

    fn retention(&mut self, default: Retention) -> Result<Retention, String> {
        let Some(text) = self.take("retention") else { return Ok(default) };
        match text.split_once(':') {
            Some(("since-grant", time)) => Ok(Retention::SinceGrant(duration(time)?)),
            _ if text == "forever" => Ok(Retention::Forever),
            _ => Ok(Retention::For(duration(text)?)),
        }
    }

    fn finish(&self) -> Result<(), String> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("`{name}=` has no place here")),
        }
    }
}

fn has_answer(event: &Event) -> bool {
    matches!(event, Event::Act { .. } | Event::Sweep)
}

/// With one space between words.
fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn name(text: &str) -> Result<String, String> {
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no actor's name: use a-z, 0-9 and -"))
    }
}

fn body(options: &mut Options<'_>) -> String {
    options.take("body").unwrap_or(DEFAULT_BODY).to_owned()
}

fn outcome(word: &str) -> Result<Outcome, String> {
    text::parse_outcome(word)
        .ok_or_else(|| format!("`{word}` is no outcome: ok:TEXT, refused:TEXT, not-kept:STATUS or erased"))
}

fn duration(word: &str) -> Result<Duration, String> {
    text::parse_duration(word)
        .ok_or_else(|| format!("`{word}` is no duration: such as 250ms, 30s, 5m, 25h, 7d"))
}

fn rerun(word: &str) -> Result<Rerun, String> {
    match word {
        "safe" => Ok(Rerun::Safe),
        "ask" => Ok(Rerun::Ask),
        "unsafe" => Ok(Rerun::Unsafe),
        _ => Err(format!("`rerun={word}`: safe, ask or unsafe")),
    }
}

fn doubt(word: &str) -> Result<Doubt, String> {
    match word {
        "failed" => Ok(Doubt::Failed),
        "stated" => Ok(Doubt::Stated),
        "paused" => Ok(Doubt::Paused),
        _ => Err(format!("`doubt {word}`: failed, stated or paused; a lapse is no report")),
    }
}

fn doubt_ends(word: &str) -> Result<Option<DoubtEnds>, String> {
    match word.split_once(':') {
        Some(("release", after)) => Ok(Some(DoubtEnds { after: duration(after)?, then: DoubtThen::Release })),
        Some(("forget", after)) => Ok(Some(DoubtEnds { after: duration(after)?, then: DoubtThen::Forget })),
        _ if word == "stays" => Ok(None),
        _ => Err(format!("`doubt={word}`: stays, release:TIME or forget:TIME")),
    }
}

fn seen(options: &mut Options<'_>) -> Result<Seen, String> {
    match options.take("seen") {
        None => Ok(Seen::Present),
        Some("looked") => Ok(Seen::Looked),
        Some("stale") => Ok(Seen::Stale),
        Some(other) => Err(format!("`seen={other}`: looked or stale")),
    }
}
