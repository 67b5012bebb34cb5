//! What a worker and its parent say to each other: one line each way, one word per field.
//!
//! A line is written with a single write, so a worker that is killed has said it whole or not at all. An outcome is
//! named by the token of the effect that it came from, its length and a sum of its bytes.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use hapax_core::Rerun;

/// A call that a worker is to make, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Who calls; the answer names the caller.
    pub caller: String,
    /// Under which key.
    pub key: String,
    /// Whether the work may run again after doubt.
    pub rerun: Rerun,
    /// Bytes of the outcome.
    pub size: usize,
    /// How long the work takes after its effect.
    pub linger_ms: u64,
}

/// What a parent asks of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Make a call.
    Run(Run),
    /// Say how the claim of this key stands.
    Look(String),
    /// As an operator: settle a claim in doubt with the outcome of this effect.
    Settle {
        /// The claim's key.
        key: String,
        /// The effect's token.
        token: String,
        /// Bytes of the outcome.
        size: usize,
    },
    /// As an operator: release a claim in doubt.
    Release(String),
}

/// An outcome as it is seen from outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// The effect that it came from.
    pub token: String,
    /// How many bytes it has.
    pub size: usize,
    /// The sum of its bytes.
    pub sum: u64,
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The store is open, and faults count from here on.
    Ready,
    /// A caller was answered with an outcome.
    Done {
        /// Who called.
        caller: String,
        /// Under which key.
        key: String,
        /// How the outcome was come by.
        how: String,
        /// The outcome.
        seen: Seen,
    },
    /// A caller was answered without one.
    Failed {
        /// Who called.
        caller: String,
        /// Under which key.
        key: String,
        /// The problem's code.
        code: String,
        /// What lies behind it.
        cause: String,
    },
    /// How a claim stands.
    State {
        /// The claim's key.
        key: String,
        /// Its state's name, or `absent`.
        state: String,
        /// What is kept.
        seen: Option<Seen>,
    },
    /// What came of an operator's decision.
    Operated {
        /// The claim's key.
        key: String,
        /// One word.
        word: String,
    },
    /// The process kills or stops itself now, while it does something for this key.
    Struck {
        /// The key, or `-` where the point does not know.
        key: String,
        /// The named point in the source.
        point: String,
    },
    /// Something the worker could not do.
    Broken(String),
}

/// As a word.
pub fn rerun_word(rerun: Rerun) -> &'static str {
    match rerun {
        Rerun::Safe => "safe",
        Rerun::Ask => "ask",
        Rerun::Unsafe => "unsafe",
    }
}

fn rerun(word: &str) -> Result<Rerun> {
    Ok(match word {
        "safe" => Rerun::Safe,
        "ask" => Rerun::Ask,
        "unsafe" => Rerun::Unsafe,
        other => bail!("no rerun is called {other:?}"),
    })
}

/// The bytes that the effect with this token answers with: different for every effect, and known to whoever knows the token.
pub fn outcome(token: &str, size: usize) -> Bytes {
    let mut bytes = token.as_bytes().to_vec();
    bytes.push(b'\n');
    let mut state = sum(token.as_bytes()) | 1;
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size.max(token.len() + 1));
    Bytes::from(bytes)
}

impl Seen {
    /// How these bytes look from outside.
    pub fn of(bytes: &[u8]) -> Seen {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let token: String =
            String::from_utf8_lossy(&bytes[..end]).chars().filter(|c| c.is_ascii_graphic()).collect();
        let token = if token.is_empty() { "?".to_owned() } else { token };
        Seen { token, size: bytes.len(), sum: sum(bytes) }
    }

    /// The outcome of an effect.
    pub fn of_effect(token: &str, size: usize) -> Seen {
        Seen::of(&outcome(token, size))
    }
}

/// FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:016x}", self.token, self.size, self.sum)
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Run(Run { caller, key, rerun, size, linger_ms }) => {
                write!(f, "run {caller} {key} {} {size} {linger_ms}", rerun_word(*rerun))
            }
            Ask::Look(key) => write!(f, "look {key}"),
            Ask::Settle { key, token, size } => write!(f, "settle {key} {token} {size}"),
            Ask::Release(key) => write!(f, "release {key}"),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::Ready => write!(f, "ready"),
            Said::Done { caller, key, how, seen } => write!(f, "done {caller} {key} {how} {seen}"),
            Said::Failed { caller, key, code, cause } => {
                write!(f, "failed {caller} {key} {code} {}", one_line(cause))
            }
            Said::State { key, state, seen: Some(seen) } => write!(f, "state {key} {state} {seen}"),
            Said::State { key, state, seen: None } => write!(f, "state {key} {state}"),
            Said::Operated { key, word } => write!(f, "operated {key} {word}"),
            Said::Struck { key, point } => write!(f, "struck {key} {point}"),
            Said::Broken(why) => write!(f, "broken {}", one_line(why)),
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// The fields of a line, taken one by one.
struct Fields<'a>(std::str::SplitN<'a, char>);

impl<'a> Fields<'a> {
    fn word(&mut self) -> Result<String> {
        self.0.next().map(str::to_owned).context("the line is too short")
    }

    fn number<T: FromStr>(&mut self) -> Result<T> {
        let word = self.word()?;
        word.parse().ok().with_context(|| format!("{word:?} is no number"))
    }

    fn seen(&mut self) -> Result<Seen> {
        let (token, size, sum) = (self.word()?, self.number()?, self.word()?);
        Ok(Seen { token, size, sum: u64::from_str_radix(&sum, 16)? })
    }
}

impl FromStr for Ask {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Ask> {
        let mut fields = Fields(line.splitn(6, ' '));
        Ok(match fields.word()?.as_str() {
            "run" => Ask::Run(Run {
                caller: fields.word()?,
                key: fields.word()?,
                rerun: rerun(&fields.word()?)?,
                size: fields.number()?,
                linger_ms: fields.number()?,
            }),
            "look" => Ask::Look(fields.word()?),
            "settle" => Ask::Settle { key: fields.word()?, token: fields.word()?, size: fields.number()? },
            "release" => Ask::Release(fields.word()?),
            _ => bail!("not understood: {line:?}"),
        })
    }
}

impl FromStr for Said {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Said> {
        let mut fields = Fields(line.splitn(7, ' '));
        let kind = fields.word()?;
        Ok(match kind.as_str() {
            "ready" => Said::Ready,
            "done" => {
                let (caller, key, how) = (fields.word()?, fields.word()?, fields.word()?);
                Said::Done { caller, key, how, seen: fields.seen()? }
            }
            "failed" => {
                let rest: Vec<&str> = line.splitn(5, ' ').collect();
                ensure!(rest.len() >= 4, "the line is too short: {line:?}");
                let cause = rest.get(4).map_or_else(String::new, |cause| (*cause).to_owned());
                Said::Failed { caller: rest[1].into(), key: rest[2].into(), code: rest[3].into(), cause }
            }
            "state" => {
                let (key, state) = (fields.word()?, fields.word()?);
                Said::State { key, seen: if state == "settled" { fields.seen().ok() } else { None }, state }
            }
            "operated" => Said::Operated { key: fields.word()?, word: fields.word()? },
            "struck" => Said::Struck { key: fields.word()?, point: fields.word()? },
            "broken" => Said::Broken(line["broken".len()..].trim().to_owned()),
            _ => bail!("not understood: {line:?}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_and_said_reads_back() {
        let run = Run { caller: "c1".into(), key: "k1".into(), rerun: Rerun::Safe, size: 9, linger_ms: 20 };
        let settle = Ask::Settle { key: "k".into(), token: "7.1.2".into(), size: 30 };
        for ask in [Ask::Run(run), Ask::Look("k".into()), settle, Ask::Release("k".into())] {
            assert_eq!(ask.to_string().parse::<Ask>().unwrap(), ask);
        }
        let (caller, key, seen) = ("c1".to_owned(), "k1".to_owned(), Seen::of_effect("7.1.2", 100));
        let code = "outcome-unknown".to_owned();
        for said in [
            Said::Ready,
            Said::Done {
                caller: caller.clone(),
                key: key.clone(),
                how: "executed".into(),
                seen: seen.clone(),
            },
            Said::Failed { caller, key: key.clone(), code, cause: "one two  three".into() },
            Said::State { key: key.clone(), state: "settled".into(), seen: Some(seen) },
            Said::State { key: key.clone(), state: "in_doubt".into(), seen: None },
            Said::Operated { key: key.clone(), word: "done".into() },
            Said::Struck { key, point: "once.worked".into() },
            Said::Broken("no disk".into()),
        ] {
            assert_eq!(said.to_string().parse::<Said>().unwrap(), said);
        }
        assert!("done c1 k1".parse::<Said>().is_err());
        assert!("run c1 k1 never 1 1".parse::<Ask>().is_err());
    }

    #[test]
    fn outcomes_of_two_effects_differ_in_bytes_and_from_outside() {
        let (one, two) = (outcome("1.2.3", 5000), outcome("1.2.4", 5000));
        assert_eq!((one.len(), two.len()), (5000, 5000));
        assert_ne!(Seen::of(&one), Seen::of(&two));
        assert_ne!(Seen::of(&one), Seen::of(&one[..4999]), "a cut one is another one");
        assert_eq!(Seen::of(&one).token, "1.2.3");
        assert_eq!(outcome("1.2.3", 0).len(), 6, "the token is always there");
    }
}
