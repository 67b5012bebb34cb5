//! The gate of the admin listener: whose token a request shows, how often an address may be wrong, and what the audit hears of
//! decisions that were refused (M1, L8).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hapax_api::Role;
use hapax_core::claim::audit::{About, Note};
use hapax_core::{Inspect as _, OperationId};
use http::request::Parts;

use super::access::{AdminTokens, Operator, bearer, sha256, unauthenticated};
use crate::Store;
use crate::listen::connections::Caller;
use crate::listen::mount::{Authenticator, Of};
use crate::listen::refusal::{ListenerCode, Refusal};
use crate::{clock, limits};

/// Who may pass, and what is written down about those who may not.
pub(crate) struct Gate {
    tokens: AdminTokens,
    store: Store,
    guesses: Mutex<Guesses>,
    told: Mutex<Told>,
}

impl Gate {
    pub(crate) fn new(tokens: AdminTokens, store: Store) -> Self {
        Gate { tokens, store, guesses: Mutex::default(), told: Mutex::default() }
    }

    fn known(&self, request: &Parts) -> Result<Operator, Refusal> {
        let tokenless = || unauthenticated(self.tokens.is_empty());
        let token = bearer(&request.headers).ok_or_else(tokenless)?;
        let from = request.extensions.get::<Caller>().map(|caller| network(caller.0));
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = from.and_then(|from| guesses.shut_out(from, clock::now())) {
            let detail = format!(
                "look again in {} s: until then no token of this address is looked at",
                left.as_secs().max(1)
            );
            return Err(Refusal::listener(ListenerCode::TooManyGuesses, detail, Some(left)));
        }
        self.tokens.operator(token).ok_or_else(|| {
            if let Some(from) = from {
                guesses.note(from, sha256(token), clock::now());
            }
            tokenless()
        })
    }

    /// Writes a refused decision down. The audit stays for ever, so it is not told of more of them than people can have made.
    async fn write_down(&self, operator: &Operator, of: &Of<'_>, refusal: &Refusal) {
        let (code, detail) = (refusal.code(), refusal.detail());
        let (verb, actor) = (verb_of(of.operation), &operator.name);
        tracing::warn!(verb, actor, on = of.id, code, "a decision was refused");
        if !self.told.lock().unwrap_or_else(PoisonError::into_inner).one_more(clock::now()) {
            return;
        }
        let about = self.about(of).await;
        let reason: String = detail.chars().filter(|c| !c.is_control()).take(limits::REASON_LENGTH).collect();
        let note = Note { verb: format!("{verb}{REFUSED}{code}"), actor: actor.clone(), reason, about };
        if let Err(error) = self.store.note(note).await {
            tracing::warn!(cause = %error, "a refused decision is not in the audit");
        }
    }

    /// The claim that was to be decided about; or the name of what it was.
    async fn about(&self, of: &Of<'_>) -> About {
        if let Ok(id) = of.id.parse::<OperationId>()
            && let Ok(Some(record)) = self.store.find(id).await
        {
            return claim_as_it_is(&record.claim);
        }
        let named = of.id.chars().filter(|c| !c.is_control()).take(limits::NAME_LENGTH).collect::<String>();
        let (_, noun) = words_of(of.operation);
        let name = if named.is_empty() { noun } else { format!("{noun}/{named}") };
        About::Setting { name, before: None, after: None }
    }
}

/// What an entry says of a claim that nothing was done to.
pub(super) fn claim_as_it_is(claim: &hapax_core::Claim) -> About {
    let state = claim.state.name();
    About::Claim { operation_id: claim.operation_id, epoch: claim.epoch, before: state, after: Some(state) }
}

/// What stands in an entry between what was to be done and the code with which it was refused.
pub(super) const REFUSED: &str = " refused: ";

/// An operator has a token of at least the role that is needed.
impl Authenticator for Gate {
    type Need = Role;
    type Caller = Operator;

    async fn admit(&self, request: &Parts, needs: Role, of: &Of<'_>) -> Result<Operator, Refusal> {
        let operator = self.known(request)?;
        match operator.needs(needs) {
            Ok(()) => Ok(operator),
            Err(refusal) => {
                self.refused(&operator, of, &refusal).await;
                Err(refusal)
            }
        }
    }

    async fn refused(&self, operator: &Operator, of: &Of<'_>, refusal: &Refusal) {
        if of.changes {
            self.write_down(operator, of, refusal).await;
        }
    }
}

/// The verb and the noun in the name of an operation: `resolveClaim` is `resolve` and `claim`.
fn words_of(operation: &str) -> (String, String) {
    let at = operation.find(|c: char| c.is_ascii_uppercase()).unwrap_or(operation.len());
    let (verb, noun) = operation.split_at(at);
    (verb.to_owned(), noun.to_lowercase())
}

/// As the audit has it of what was carried out: `resolve`, `retention-set`.
fn verb_of(operation: &str) -> String {
    match words_of(operation) {
        (verb, noun) if noun.is_empty() || noun == "claim" => verb,
        (verb, noun) => format!("{noun}-{verb}"),
    }
}

/// How many refused decisions the audit was told of within this minute.
#[derive(Default)]
struct Told {
    since: Option<Instant>,
    count: u32,
}

impl Told {
    fn one_more(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(60)) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count += 1;
        self.count <= limits::REFUSALS_AUDITED
    }
}

/// Wrong tokens by the address that they came from.
#[derive(Default)]
struct Guesses(HashMap<IpAddr, Guesser>);

/// One address, and the digests of its wrong tokens.
struct Guesser {
    since: Instant,
    wrong: Vec<[u8; 32]>,
}

impl Guesses {
    /// For how long tokens of this address are not looked at; `None` where they are.
    fn shut_out(&mut self, from: IpAddr, now: Instant) -> Option<Duration> {
        let guesser = self.0.get(&from)?;
        let left = limits::GUESS_SPAN.checked_sub(now.duration_since(guesser.since));
        match left {
            Some(left) => (guesser.wrong.len() >= limits::GUESSES).then_some(left),
            None => {
                self.0.remove(&from);
                None
            }
        }
    }

    /// A wrong token. The same one again finds nothing out, and counts once.
    fn note(&mut self, from: IpAddr, token: [u8; 32], now: Instant) {
        if !self.0.contains_key(&from) && self.0.len() >= limits::GUESSERS {
            let longest = self.0.iter().min_by_key(|(_, guesser)| guesser.since).map(|(from, _)| *from);
            longest.map(|longest| self.0.remove(&longest));
        }
        let guesser = self.0.entry(from).or_insert_with(|| Guesser { since: now, wrong: Vec::new() });
        if !guesser.wrong.contains(&token) {
            guesser.wrong.push(token);
        }
    }
}

/// Whose address it is: a host has a whole network of IPv6 addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_different_wrong_tokens_of_an_address_shut_it_out_until_the_minute_is_over_m1() {
        let (mut guesses, start) = (Guesses::default(), clock::now());
        let (guesser, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        for number in 0..limits::GUESSES {
            assert_eq!(guesses.shut_out(guesser, start), None, "{number}");
            guesses.note(guesser, sha256(&[number as u8]), start);
            // Again the same: a forgotten script.
            guesses.note(other, sha256(b"old"), start);
        }
        assert_eq!(guesses.shut_out(guesser, start), Some(limits::GUESS_SPAN));
        assert_eq!(guesses.shut_out(other, start), None);
        assert_eq!(guesses.shut_out(guesser, start + limits::GUESS_SPAN + Duration::from_secs(1)), None);
    }

    #[test]
    fn the_table_of_addresses_is_bounded_m1() {
        let (mut guesses, start) = (Guesses::default(), clock::now());
        for number in 0..limits::GUESSERS as u32 + 10 {
            let from = IpAddr::from(number.to_be_bytes());
            guesses.note(from, sha256(b"wrong"), start + Duration::from_millis(number.into()));
        }
        assert_eq!(guesses.0.len(), limits::GUESSERS);
        assert!(!guesses.0.contains_key(&IpAddr::from([0, 0, 0, 0])));
    }

    #[test]
    fn a_host_has_a_network_of_ipv6_and_one_address_of_ipv4_m1() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!((of("::1"), of("10.0.0.1")), ("::1".into(), "10.0.0.1".into()));
    }

    #[test]
    fn a_refused_decision_is_called_as_one_that_was_carried_out() {
        for (operation, verb) in
            [("resolveClaim", "resolve"), ("createKey", "key-create"), ("setRetention", "retention-set")]
        {
            assert_eq!(verb_of(operation), verb);
        }
    }
}
