//! `hapax init`: a configuration to start from. What is not said as an option is asked for on a terminal, until it can be used.
//!
//! Nothing is written that `hapax config check` would refuse, and no file is replaced that nobody said to replace. The text itself is
//! in [`template`].

mod template;

use std::io::{BufRead, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};

use self::template::{Answers, Route};
use super::{Failed, say};
use crate::config::{self, Secrets};

/// What `hapax init` can be told.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// The file to write.
    #[arg(default_value = "hapax.toml")]
    file: PathBuf,
    /// Where the service is, such as http://127.0.0.1:9000.
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// The route that must not run twice, such as "POST /payments".
    #[arg(long, value_name = "METHOD PATH")]
    route: Option<String>,
    /// Who checks callers.
    #[arg(long, value_enum)]
    credentials: Option<Credentials>,
    /// Where the public keys of tokens are; with --credentials tokens.
    #[arg(long, value_name = "URL")]
    jwks_url: Option<String>,
    /// Where claims are kept: memory:, embedded:PATH or postgres://…
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Who checks callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Credentials {
    /// The service behind does, as it always has; hapax lets everybody through to it.
    Service,
    /// hapax does, with API keys that it makes.
    ApiKeys,
    /// hapax does, with tokens (JWT) of an issuer.
    Tokens,
}

/// Runs `hapax init`.
pub(crate) fn run(args: Args) -> Result<(), Failed> {
    if args.file.exists() && !args.force {
        let file = args.file.display();
        return Err(Failed::no(format!("{file} is there already: name another file, or say --force")));
    }
    let answers = answers(&args, &mut Asking::of_terminal())?;
    write(&args.file, &template::configuration(&answers), args.force).map_err(|error| {
        Failed::unavailable(format!("{} cannot be written: {error}", args.file.display()))
    })?;
    let file = args.file.display().to_string();
    let next = template::next(&answers, &file);
    match args.json {
        true => say::json(&serde_json::json!({"file": file, "next": next})),
        false => say::data(format!("{file} is written. Next:\n  {}", next.join("\n  "))),
    }
}

/// What was said, and what is asked for. All of it together makes a configuration without mistakes.
fn answers(args: &Args, asking: &mut Asking<impl BufRead, impl Write>) -> Result<Answers, Failed> {
    let mut answers = Answers::usual();
    let question = "Where is the service?";
    let usual = answers.upstream.clone();
    answers = asking.unless(args.upstream.as_ref(), "--upstream", question, &usual, |text| {
        fitting(Answers { upstream: text.to_owned(), ..answers.clone() })
    })?;
    let question = "The route that must not run twice?";
    let usual = answers.route.to_string();
    answers = asking.unless(args.route.as_ref(), "--route", question, &usual, |text| {
        fitting(Answers { route: Route::parse(text)?, ..answers.clone() })
    })?;
    answers.credentials = match args.credentials {
        Some(credentials) => credentials,
        None => {
            let question = "Who checks callers: service, api-keys or tokens?";
            asking.unless(None, "--credentials", question, "service", |word| {
                let unknown =
                    |_| format!("{word:?} is no kind of credentials: say service, api-keys or tokens");
                Credentials::from_str(word, true).map_err(unknown)
            })?
        }
    };
    if answers.credentials == Credentials::Tokens {
        let question = "Where are the public keys of tokens?";
        let usual = "https://issuer.example/.well-known/jwks.json";
        answers = asking.unless(args.jwks_url.as_ref(), "--jwks-url", question, usual, |text| {
            fitting(Answers { jwks_url: Some(text.to_owned()), ..answers.clone() })
        })?;
    } else if args.jwks_url.is_some() {
        return Err(Failed::misuse("--jwks-url has an effect only with --credentials tokens"));
    }
    let question = "Where are claims kept: memory:, embedded:PATH or postgres://…?";
    let usual = answers.store.clone();
    asking.unless(args.store.as_ref(), "--store", question, &usual, |text| {
        fitting(Answers { store: text.to_owned(), ..answers.clone() })
    })
}

/// These answers, if `hapax config check` takes what they make; else why not.
fn fitting(answers: Answers) -> Result<Answers, String> {
    let text = template::configuration(&answers);
    match config::read(&text, Path::new("hapax.toml"), &|_| None, Secrets::MayBeAbsent) {
        Ok(_) => Ok(answers),
        Err(mistakes) => {
            let told = mistakes.iter().map(|mistake| format!("{}; {}", mistake.what, mistake.remedy));
            Err(told.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Asks a person, where there is one.
struct Asking<I, O> {
    input: I,
    output: O,
    is_terminal: bool,
}

impl Asking<std::io::StdinLock<'static>, std::io::Stderr> {
    fn of_terminal() -> Self {
        let is_terminal = std::io::stdin().is_terminal();
        Asking { input: std::io::stdin().lock(), output: std::io::stderr(), is_terminal }
    }
}

impl<I: BufRead, O: Write> Asking<I, O> {
    /// What is made of what was said; where nothing was, of the answer of a person, who may leave it at the usual one and is asked
    /// again when an answer cannot be used.
    fn unless<T>(
        &mut self,
        said: Option<&String>,
        option: &str,
        question: &str,
        usual: &str,
        made: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failed> {
        if let Some(said) = said {
            return made(said).map_err(|why| Failed::misuse(format!("{option}: {why}")));
        }
        if !self.is_terminal {
            return Err(Failed::misuse(format!("{option} is missing, and there is no terminal to ask at")));
        }
        let unheard = |error: std::io::Error| Failed::unavailable(format!("the terminal: {error}"));
        loop {
            let asked = write!(self.output, "{question} [{usual}] ").and_then(|()| self.output.flush());
            asked.map_err(unheard)?;
            let mut line = String::new();
            if self.input.read_line(&mut line).map_err(unheard)? == 0 {
                return Err(Failed::misuse(format!("no answer: say {option}")));
            }
            let answer = if line.trim().is_empty() { usual } else { line.trim() };
            match made(answer) {
                Ok(made) => return Ok(made),
                Err(why) => writeln!(self.output, "{why}").map_err(unheard)?,
            }
        }
    }
}

/// Writes the file, whole or not at all. One that came meanwhile stays unless it is to be replaced.
fn write(path: &Path, text: &str, replace: bool) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    match replace {
        true => file.persist(path)?,
        false => file.persist_noclobber(path)?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        Line::try_parse_from([&["init"], words].concat()).unwrap().args
    }

    fn asked(words: &[&str], typed: &str, is_terminal: bool) -> (Result<Answers, Failed>, String) {
        let mut asking = Asking { input: typed.as_bytes(), output: Vec::new(), is_terminal };
        let answers = answers(&args(words), &mut asking);
        (answers, String::from_utf8(asking.output).unwrap())
    }

    #[test]
    fn what_is_not_said_is_asked_for_on_a_terminal_and_nowhere_else() {
        let (answers, questions) = asked(&["--store", "memory:"], "\nPUT /a/{id}\ntokens\n\n", true);
        let answers = answers.unwrap();
        assert_eq!((answers.upstream.as_str(), answers.store.as_str()), ("http://127.0.0.1:9000", "memory:"));
        assert_eq!((answers.route.method.as_str(), answers.route.path.as_str()), ("PUT", "/a/{id}"));
        assert_eq!(answers.credentials, Credentials::Tokens);
        assert!(answers.jwks_url.is_some() && !questions.contains("claims"), "{questions}");
        let (refused, questions) = asked(&["--store", "memory:"], "", false);
        assert!(refused.is_err() && questions.is_empty());
        assert!(asked(&[], "http://h\n", true).0.is_err(), "the end of the input is no answer");
        assert!(asked(&[], "\n\nnonsense\n", true).0.is_err());
    }

    #[test]
    fn what_cannot_be_used_is_asked_for_again() {
        let typed = "no url\nhttp://h\npay\nPOST pay\nPOST /a/:id\nPOST /pay\nanyone\ntokens\nkeys\nhttps://i/keys\ndisk\nmemory:\n";
        let (answers, told) = asked(&[], typed, true);
        let answers = answers.unwrap_or_else(|_| panic!("{told}"));
        assert_eq!((answers.upstream.as_str(), answers.store.as_str()), ("http://h", "memory:"));
        assert_eq!(
            (answers.route.to_string(), answers.credentials),
            ("POST /pay".into(), Credentials::Tokens)
        );
        assert_eq!(answers.jwks_url.as_deref(), Some("https://i/keys"));
        for (question, times) in [
            ("Where is the service?", 2),
            ("run twice?", 4),
            ("Who checks", 2),
            ("public keys", 2),
            ("claims", 2),
        ] {
            assert_eq!(told.matches(question).count(), times, "{question}\n{told}");
        }
        for why in [
            "`url` cannot be \"no url\"",
            "write a method and a path",
            "a path starts with /",
            "{id} instead of :id",
        ] {
            assert!(told.contains(why), "{why}\n{told}");
        }
        assert!(!told.contains("hapax.toml"), "there is no such file yet: {told}");
    }

    #[test]
    fn a_name_with_spaces_can_be_pasted_with_what_is_to_be_run_next() {
        let next = template::next(&Answers::usual(), "my config's.toml");
        assert!(next.contains(&r"hapax serve --config 'my config'\''s.toml'".to_owned()), "{next:?}");
        assert_eq!(template::next(&Answers::usual(), "a/b_1.toml")[1], "hapax config check a/b_1.toml");
    }

    #[test]
    fn every_answer_makes_a_configuration_without_mistakes() {
        for credentials in [Credentials::Service, Credentials::ApiKeys, Credentials::Tokens] {
            for (store, route) in [("memory:", "POST /pay"), ("postgres://h/d", "PATCH /a/{id}/b")] {
                let answers = Answers {
                    upstream: "https://api.example/base".into(),
                    route: Route::parse(route).unwrap(),
                    credentials,
                    jwks_url: (credentials == Credentials::Tokens).then(|| "https://i.example/keys".into()),
                    store: store.into(),
                };
                let text = template::configuration(&answers);
                let path = Path::new("/nowhere/hapax.toml");
                let config = config::read(&text, path, &|_| None, Secrets::MayBeAbsent)
                    .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
                assert_eq!(config.settings.routes.len(), 2, "{text}");
                assert!(config.settings.routes[1].is_catch_all());
                assert!(text.lines().filter(|line| line.contains('#')).count() > 8, "{text}");
            }
        }
    }
}
