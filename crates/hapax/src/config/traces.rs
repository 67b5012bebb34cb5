//! `[traces]`: where spans of requests go, and of which requests.

use hapax_gateway::trace::Sampling;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::section::Section;
use super::url::Url;

/// Where spans go, and of which requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// The collector's URL, to which spans are posted.
    pub endpoint: String,
    /// Which requests are recorded.
    pub sampling: Sampling,
    /// Headers that the collector wants; each is a secret.
    pub headers: HeaderMap,
}

/// The path at a collector, where its URL has none.
const PATH: &str = "/v1/traces";

/// Reads `[traces]`.
pub(crate) fn traces(section: &Section<'_>) -> Option<Traces> {
    let endpoint = section.url("endpoint", |text| {
        let url = Url::parse(text)?;
        Ok(if url.base.is_empty() {
            format!("{}{PATH}", text.trim_end_matches('/'))
        } else {
            text.to_owned()
        })
    });
    let ratio = section.ratio("ratio").map_or(1.0, |ratio| ratio.value);
    let by_parent = section.flag("parent").is_none_or(|parent| parent.value);
    let headers = headers(section);
    if section.exists() {
        section.require("endpoint", "name the collector, such as \"http://127.0.0.1:4318\"");
    }
    Some(Traces { endpoint: endpoint?.value, sampling: Sampling { ratio, by_parent }, headers })
}

/// The headers, as `NAME=VALUE,NAME=VALUE`.
fn headers(section: &Section<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(written) = section.reader().secret(section, "headers") else { return headers };
    for pair in written.value.reveal().split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let read = pair.split_once('=').and_then(|(name, value)| {
            let name = HeaderName::try_from(name.trim()).ok()?;
            Some((name, HeaderValue::try_from(value.trim()).ok()?))
        });
        match read {
            Some((name, mut value)) => {
                value.set_sensitive(true);
                headers.append(name, value);
            }
            // What is wrong with a secret is told without it.
            None => section.reader().mistake(
                &written.at,
                "the headers cannot be read",
                "write NAME=VALUE, and a comma between two of them",
            ),
        }
    }
    headers
}
