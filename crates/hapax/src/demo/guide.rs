//! What the demo prints: where everything is, and what to try.

use std::net::SocketAddr;
use std::path::Path;

use super::Caller;
use crate::cli::{Failed, say};

/// Where everything is.
pub(super) struct Facts<'a> {
    pub(super) edge: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) service: SocketAddr,
    pub(super) folder: &'a Path,
    pub(super) kept: bool,
    pub(super) token: &'a str,
    pub(super) callers: &'a [Caller],
}

/// Prints the guide.
pub(super) fn print(facts: &Facts<'_>) -> Result<(), Failed> {
    let Facts { edge, admin, service, folder, kept, token, callers } = facts;
    let program = program();
    let fate = if *kept { "kept" } else { "deleted when you stop; --data FOLDER keeps it" };
    say::data(format!(
        r#"Open http://{admin}/ in a browser: the console (token: {token}). A refund waits there for somebody to decide.

hapax demo: a payments service that is safe to retry

  edge     http://{edge}   send requests here
  service  http://{service}   the payments service behind it, which charges whenever it is asked
  admin    http://{admin}   health, metrics, claims (token: {token})
  store    embedded:{folder} ({fate})

Paste this into another terminal first: three callers, and how to charge somebody. A charge takes half a second.
"#,
        folder = folder.display(),
    ))?;
    for Caller { variable, who, key } in *callers {
        say::data(format!("   {variable}={key}   # {who}"))?;
    }
    say::data(format!(
        r#"   charge() {{ curl -si http://{edge}/charges$4 -H "Authorization: Bearer $1" -H "Idempotency-Key: $2" -H 'Content-Type: application/json' -d "$3"; echo; }}
   hapax() {{ {program} "$@"; }}

1. Charge somebody. The key says: this is one charge, however often it is sent.
   charge $ALICE order-42 '{{"amount": 10}}'
   201, and `x-operation-id` is the receipt.

2. Send exactly the same again: the first answer, byte for byte, at once, with `idempotent-replayed: true`.
   charge $ALICE order-42 '{{"amount": 10}}'

3. The same key for another amount is refused (422 key-reused), with a pointer to what differs. Nobody is charged.
   charge $ALICE order-42 '{{"amount": 99}}'

4. Bob and Eve use the same key: they are other people, so each is charged once, and nobody sees another's answer.
   charge $BOB order-42 '{{"amount": 10}}'; charge $EVE order-42 '{{"amount": 10}}'

5. Twenty at once with a new key: one charge, twenty equal answers.
   for i in $(seq 20); do charge $ALICE order-43 '{{"amount": 10}}' | tail -2 & done; wait

6. You lost the answer? Fetch it by the key you sent (only Alice can; for anybody else there is nothing here).
   curl -si http://{edge}/charges/by-idempotency-key/order-42 -H "Authorization: Bearer $ALICE"

7. The service crashes right after the charge. Nobody can know whether it happened, so hapax says so
   (409 outcome-unknown) instead of guessing, and a retry charges nobody.
   charge $ALICE order-44 '{{"amount": 10}}' '?fault=crash'

8. Somebody looks into the service's books, finds the charge, and says what the answer is. From then on every retry gets it.
   export HAPAX_ADMIN_TOKEN={token}
   hapax claims list --state in_doubt --operation payments.charge --admin http://{admin}
   ID=$(hapax claims list --state in_doubt --operation payments.charge --admin http://{admin} | grep -o 'op_[0-9a-f]*' | head -1)
   echo '{{"charged": "as the books say"}}' > answer.json
   hapax claims resolve $ID --settle-status 201 --settle-body answer.json --reason "it is in the books" --admin http://{admin}

9. A declined card is an answer like any other: it is kept, and a retry gets it again (402).
   charge $ALICE order-45 '{{"amount": 10}}' '?fault=declined'

Who was charged, and how often?
   curl -s http://{edge}/charges -H "Authorization: Bearer $ALICE"

Ctrl-C finishes what is running and stops."#
    ))
}

/// Says that the demo ends.
pub(super) fn say_goodbye() {
    say::note("\nhapax demo: finishing what is running, then stopping");
}

/// How this program is called from a shell in any folder: it need not be where the shell looks for programs.
fn program() -> String {
    let Ok(path) = std::env::current_exe() else { return "command hapax".into() };
    in_shell(&path, std::env::home_dir().as_deref())
}

/// A path as a word of a shell: short where it is in the home, quoted where it must be.
fn in_shell(path: &Path, home: Option<&Path>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let short = home.and_then(|home| path.strip_prefix(home).ok()).map(|rest| rest.display().to_string());
    match (short, path.display().to_string()) {
        (Some(short), _) if short.chars().all(plain) => format!("~/{short}"),
        (_, whole) if whole.chars().all(plain) => whole,
        (_, whole) => format!("'{}'", whole.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_named_so_that_a_shell_in_any_folder_finds_it() {
        let word = |path: &str| in_shell(Path::new(path), Some(Path::new("/their/home")));
        assert_eq!(word("/their/home/hapax/target/release/hapax"), "~/hapax/target/release/hapax");
        assert_eq!(word("/usr/bin/hapax"), "/usr/bin/hapax");
        assert_eq!(word("/their/home/my work/hapax"), "'/their/home/my work/hapax'");
        assert_eq!(word("/it's/hapax"), r"'/it'\''s/hapax'");
    }
}
