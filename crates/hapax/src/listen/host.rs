//! Which hosts a listener answers to: addresses, `localhost`, and the names that its operator states.
//!
//! A page in an operator's browser can be made to reach any address under a name of its own (DNS rebinding), and would then read
//! what needs no token. Such a request carries that name in `Host`. It cannot carry an address or `localhost`: those are not looked
//! up where a stranger could answer.

use std::net::IpAddr;

use http::header::{HOST, HeaderMap};
use http::uri::{Authority, Uri};

use super::refusal::{ListenerCode, Refusal};

/// The names that a listener answers to, beside addresses and `localhost`.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    names: Vec<String>,
    /// The section of the configuration that has them.
    section: &'static str,
    everywhere: bool,
}

impl Hosts {
    /// These names of a section, in whatever case, of a listener at this address.
    pub(crate) fn new(section: &'static str, names: &[String], at: IpAddr) -> Self {
        Hosts { names: names.to_vec(), section, everywhere: at.is_loopback() || !names.is_empty() }
    }

    /// Whether every path has these names only. Where none is stated and others than this machine ask, orchestrators may ask for the
    /// health of a process under names of their own.
    pub(crate) fn everywhere(&self) -> bool {
        self.everywhere
    }

    /// Refuses a request for another host. One that names none comes from no browser.
    pub(crate) fn admit(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
        let lines = headers.get_all(HOST).iter().map(|line| line.to_str().unwrap_or_default());
        for named in lines.chain(uri.authority().map(Authority::as_str)) {
            if !self.has(named) {
                let detail = format!(
                    "this listener does not answer to the host {named:?}: ask by address, or add the name to `hosts` of [{}]",
                    self.section
                );
                return Err(Refusal::listener(ListenerCode::Misdirected, detail, None));
            }
        }
        Ok(())
    }

    fn has(&self, named: &str) -> bool {
        let Ok(authority) = named.parse::<Authority>() else { return false };
        let host = authority.host().trim_end_matches('.');
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        bare.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_stated_names_are_answered_to_and_nothing_else_m1() {
        let hosts = Hosts::new("admin", &["hapax.internal".into()], IpAddr::from([0, 0, 0, 0]));
        let admits = |request: http::Request<()>| hosts.admit(request.headers(), request.uri()).is_ok();
        let admitted = |host: &str| admits(http::Request::get("/").header(HOST, host).body(()).unwrap());
        for host in [
            "127.0.0.1:8081",
            "10.1.2.3",
            "[::1]:8081",
            "localhost",
            "LOCALHOST:1",
            "Hapax.Internal:8081",
            "hapax.internal.",
        ] {
            assert!(admitted(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8081",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a@localhost.example",
            "",
            "a b",
        ] {
            assert!(!admitted(host), "{host}");
        }
        let two = http::Request::get("/").header(HOST, "localhost").header(HOST, "evil.example");
        assert!(!admits(two.body(()).unwrap()));
        assert!(admits(http::Request::get("/").body(()).unwrap()));
        let target = http::Request::get("http://evil.example/").header(HOST, "localhost").body(()).unwrap();
        assert!(!admits(target));
    }

    #[test]
    fn every_path_has_these_names_on_loopback_and_where_some_are_stated_m1() {
        let (none, some) = (Vec::new(), vec!["hapax.internal".to_owned()]);
        let (loopback, all) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0]));
        for (names, at, everywhere) in
            [(&none, loopback, true), (&some, loopback, true), (&some, all, true), (&none, all, false)]
        {
            assert_eq!(Hosts::new("admin", names, at).everywhere(), everywhere, "{names:?} at {at}");
        }
    }
}
