//! What the targets look at. Each subject can be broken on purpose, so that a test shows that its target finds it.

use std::cell::Cell;
use std::path::Path;

use bytes::{Buf as _, BytesMut};
use hapax::config::{Config, Mistake, Secrets};
use hapax_core::Policy;
use hapax_core::json::NotIJson;
use hapax_http::Refusal;
use hapax_http::http1::framing::{Framing, Step};
use hapax_http::http1::{Malformed, request, response};
use hapax_tower::Problem;
use hapax_tower::key::{Found, Keys};
use http::HeaderMap;

thread_local! {
    static BROKEN: Cell<bool> = const { Cell::new(false) };
}

/// Runs this with every subject broken, on this thread alone.
pub fn broken<T>(run: impl FnOnce() -> T) -> T {
    struct Mend;
    impl Drop for Mend {
        fn drop(&mut self) {
            BROKEN.set(false);
        }
    }
    let _mend = Mend;
    BROKEN.set(true);
    run()
}

/// The head of a request. Broken, it takes a byte of what is behind it, if that is there already.
pub(crate) fn request(
    reader: &mut request::Reader,
    come: &mut BytesMut,
) -> Result<Option<request::Head>, Refusal> {
    let head = reader.read(come)?;
    if BROKEN.get() && head.is_some() && !come.is_empty() {
        come.advance(1);
    }
    Ok(head)
}

/// The head of an answer. Broken, it does not keep the connection if something is behind the head already.
pub(crate) fn response(
    reader: &mut response::Reader,
    come: &mut BytesMut,
) -> Result<Option<response::Head>, Malformed> {
    let mut head = reader.read(come)?;
    if let (true, Some(head)) = (BROKEN.get(), &mut head) {
        head.keep &= come.is_empty();
    }
    Ok(head)
}

/// A piece of a body. Broken, it is a byte short if something is behind it already.
pub(crate) fn piece(framing: &mut Framing, come: &mut BytesMut) -> Result<Step, Malformed> {
    let mut step = framing.next(come)?;
    if let (true, Step::Data(data)) = (BROKEN.get() && !come.is_empty(), &mut step) {
        data.truncate(data.len().saturating_sub(1));
    }
    Ok(step)
}

/// The key of a request. Broken, everybody is trusted.
pub(crate) fn key(
    headers: &HeaderMap,
    policy: Policy,
    lenient: bool,
    trusted: bool,
) -> Result<Found, Problem> {
    hapax_tower::key::find(headers, policy, lenient, Keys::plain(), trusted || BROKEN.get())
}

/// Canonical JSON. Broken, the text stays as it came.
pub(crate) fn canonical(text: &[u8]) -> Result<Vec<u8>, NotIJson> {
    let canonical = hapax_core::json::canonicalize(text)?;
    Ok(if BROKEN.get() { text.to_vec() } else { canonical })
}

/// A configuration. Broken, it does not say what to do about a mistake.
pub(crate) fn configuration(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<Mistake>> {
    // Files that the text names are looked for where there are none.
    let read = hapax::config::read(text, Path::new("/nonexistent/hapax.toml"), env, Secrets::Needed);
    read.map_err(|mistakes| {
        let mut mistakes: Vec<Mistake> = mistakes.iter().cloned().collect();
        if BROKEN.get() {
            mistakes.iter_mut().for_each(|mistake| mistake.remedy.clear());
        }
        mistakes
    })
}
