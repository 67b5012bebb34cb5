//! What reads like a value and can have no effect, or not the one that was meant (P5).

use super::*;

#[test]
fn pages_about_problems_are_on_a_host_h1() {
    for docs in ["https:///", "http://?/", "https://:80/", "http://[/", "https://shop.example:99999/errors/"]
    {
        one(&format!("[edge]\ndocs = \"{docs}\"\n"), "2:8", &["http(s) URL"]);
    }
    assert_eq!(
        loaded("[edge]\ndocs = \"https://[::1]:8443/e/\"\n").settings.edge.docs,
        "https://[::1]:8443/e/"
    );
}

#[test]
fn an_origin_that_no_browser_sends_is_refused_p7() {
    for origin in [
        "https://a.example:443",
        "http://a.example:80",
        "https://a.example:08443",
        "https://a.example:",
        "https://a.example:0",
        "https://a.example:99999",
        "1a://b",
    ] {
        one(&format!("[edge.cors]\norigins = [\"{origin}\"]\n"), "2:12", &["is no origin"]);
    }
    for origin in ["http://a.example:443", "https://a.example:8443", "http://[::1]:3000", "app+x://host", "*"]
    {
        loaded(&format!("[edge.cors]\norigins = [\"{origin}\"]\n"));
    }
}

#[test]
fn a_header_that_stays_at_the_edge_makes_no_request_another_one_k1_k7() {
    for name in
        ["Idempotency-Key", "x-tenant-id", "X-Subject", "x-operation-id", "x-restate-id", "Connection"]
    {
        let field = format!("fingerprint_headers = [\"X-Kind\", \"{name}\"]");
        in_route(&field, 1, &[name, "never reaches the service"]);
    }
    assert_eq!(rule("fingerprint_headers = [\"X-Kind\", \"Host\"]").recipe.headers().len(), 2);
}

#[test]
fn a_header_that_does_not_go_on_as_it_came_makes_no_request_another_one_h3_k7() {
    let field = |name: &str| format!("fingerprint_headers = [\"X-Kind\", \"{name}\"]");
    in_route(&field("Authorization"), 1, &["\"Authorization\" is renewed", "remove it", "scope"]);
    in_route(&field("accept-encoding"), 1, &["\"accept-encoding\" never reaches the service", "remove it"]);
}
