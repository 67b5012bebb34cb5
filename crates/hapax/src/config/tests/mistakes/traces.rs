//! `[traces]`: what is refused, and what is meant by what is not (O3).

use super::*;

const ENDPOINT: &str = "[traces]\nendpoint = \"http://127.0.0.1:4318\"\n";

#[test]
fn a_collector_that_cannot_be_meant_is_refused_o3() {
    let missing = told(&Folder::new(&[]), &with_route("policy = \"REQUIRED_A\"\n[traces]\n"));
    assert!(missing.len() == 1 && missing[0].contains("`endpoint` is missing"), "{missing:?}");
    for (field, part) in [
        ("ratio = 1.5", "a number from 0 to 1"),
        ("ratio = -1", "a number from 0 to 1"),
        ("ratio = \"1 %\"", "a number from 0 to 1"),
        ("ratio = nan", "a number from 0 to 1"),
        ("parent = \"yes\"", "true or false"),
        ("headers_env = \"NOT_SET\"", "NOT_SET is not set"),
        ("headers_env = \"SHORT\"", "the headers cannot be read"),
        ("sampler = 1", "`sampler`"),
    ] {
        let text = with_route(&format!("policy = \"REQUIRED_A\"\n{ENDPOINT}{field}\n"));
        let mistakes = told(&Folder::new(&[]), &text);
        assert!(mistakes.len() == 1 && mistakes[0].contains(part), "{field}: {mistakes:?}");
    }
    for url in ["4318", "grpc://a:1", "http://u:p@a/", "http://a/?x=1"] {
        let text = with_route(&format!("policy = \"REQUIRED_A\"\n[traces]\nendpoint = \"{url}\"\n"));
        let mistakes = told(&Folder::new(&[]), &text);
        assert!(mistakes.len() == 1 && mistakes[0].contains("`endpoint`"), "{url}: {mistakes:?}");
        assert!(!mistakes[0].contains("u:p"), "{mistakes:?}");
    }
}

#[test]
fn a_collector_without_a_path_gets_spans_where_collectors_take_them_o3() {
    let traces = |more: &str| {
        let text = with_route(&format!("policy = \"REQUIRED_A\"\n[traces]\n{more}\n"));
        let config = Folder::new(&[]).load(&text).unwrap();
        (config.traces.clone().unwrap(), config.to_toml())
    };
    let (plain, shown) = traces("endpoint = \"http://a:4318/\"");
    assert_eq!(plain.endpoint, "http://a:4318/v1/traces");
    assert_eq!((plain.sampling.ratio, plain.sampling.by_parent), (1.0, true));
    assert!(shown.contains("ratio = 1.0\nparent = true\n"), "{shown}");
    let (other, _) = traces("endpoint = \"https://a/otlp\"\nratio = 0.25\nparent = false");
    assert_eq!(other.endpoint, "https://a/otlp");
    assert_eq!((other.sampling.ratio, other.sampling.by_parent), (0.25, false));
}
