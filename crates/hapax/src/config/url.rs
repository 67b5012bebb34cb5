//! URLs of services: `http(s)://host[:port][/base]`, and nothing else that a URL can have.

/// A URL of a service, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) https: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) base: String,
}

const REMEDY: &str = "write http:// or https://, a host, and if need be a port and a path";

impl Url {
    /// Reads a URL; the error says what to write instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let https = match text.split_once("://") {
            Some(("http", _)) => false,
            Some(("https", _)) => true,
            _ => return Err(REMEDY.into()),
        };
        if text.contains('#') {
            return Err("remove the fragment".into());
        }
        let uri: http::Uri = text.parse().map_err(|_| REMEDY.to_owned())?;
        let authority = uri.authority().ok_or(REMEDY)?;
        if authority.as_str().contains('@') {
            return Err("remove user and password: they would be shown wherever the URL is".into());
        }
        if uri.query().is_some() {
            return Err("remove the query".into());
        }
        let host = authority.host();
        let port = match authority.as_str().strip_prefix(host) {
            Some("") => {
                if https {
                    443
                } else {
                    80
                }
            }
            Some(port) => port
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .filter(|port| *port != 0)
                .ok_or(REMEDY)?,
            None => return Err(REMEDY.into()),
        };
        if host.is_empty() {
            return Err(REMEDY.into());
        }
        let base = uri.path().trim_end_matches('/');
        if base.contains("//")
            || base.contains('%')
            || base.split('/').any(|part| part == "." || part == "..")
        {
            return Err("write the path without //, .., and encoded characters".into());
        }
        Ok(Url { https, host: host.to_owned(), port, base: base.to_owned() })
    }
}

/// The host of an authority, and its port, if there is one; `None` where it has no host or no such port.
pub(crate) fn host_and_port(authority: &str) -> Option<(String, Option<u16>)> {
    let parsed: http::uri::Authority = authority.parse().ok()?;
    let (host, rest) = (parsed.host(), authority.strip_prefix(parsed.host())?);
    let port = match rest.strip_prefix(':') {
        Some(digits) if digits.starts_with(|first: char| ('1'..='9').contains(&first)) => {
            Some(digits.parse().ok()?)
        }
        None if rest.is_empty() => None,
        _ => return None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// A URL as a mistake may quote it: without what stands before an `@`, and without query and fragment. All of them are refused
/// where they are, and all of them may be secret.
pub(crate) fn shown(text: &str) -> String {
    const HIDDEN: &str = "(not shown)";
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let (who, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| (HIDDEN, rest));
    let at = if who.is_empty() { "" } else { "@" };
    match rest.find(['?', '#']) {
        Some(end) => format!("{scheme}{who}{at}{}{HIDDEN}", &rest[..end]),
        None => format!("{scheme}{who}{at}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (bool, String, u16, String) {
        let Url { https, host, port, base } = Url::parse(text).unwrap();
        (https, host, port, base)
    }

    #[test]
    fn a_url_is_taken_apart() {
        assert_eq!(parts("http://127.0.0.1:9000"), (false, "127.0.0.1".into(), 9000, "".into()));
        assert_eq!(parts("https://pay.example/v1/"), (true, "pay.example".into(), 443, "/v1".into()));
        assert_eq!(parts("http://[::1]:80/a/b"), (false, "[::1]".into(), 80, "/a/b".into()));
    }

    #[test]
    fn a_url_that_says_too_much_or_too_little_is_refused() {
        for text in [
            "",
            "127.0.0.1:9000",
            "ftp://a",
            "http://",
            "http:///a",
            "http://u:p@a",
            "http://a?b",
            "http://a#b",
            "http://a:0",
            "http://a:99999",
            "http://a:x",
            "http://a b",
            "http://a//b",
            "http://a/../b",
            "HTTP//a",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
