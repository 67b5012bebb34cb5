//! The console in a real browser, in front of the real program: what an operator sees, does and can rely on (M3).

mod away;
mod desk;
mod live;
mod look;
mod planted;
mod safe;
mod setup;

use std::path::PathBuf;

use hapax_testkit::browser::{Browser, Page};
use serde_json::json;

use crate::rig::{Ground, Hapax, Kind, TOKEN};

/// A token that may look and not decide.
const READER: &str = "reader-0123456789";

/// An instance with its service, and a browser.
struct Console {
    ground: Ground,
    edge: Hapax,
    browser: Browser,
}

impl Console {
    /// Routes besides the usual ones: `/brief`, whose calls are given up after a moment, `/printable`, which takes any key, and tokens of both roles.
    async fn new() -> Console {
        Self::on(Ground::new(Kind::Embedded).await, &[]).await
    }

    /// The same on this ground, with more options.
    async fn on(mut ground: Ground, options: &[&str]) -> Console {
        let service = ground.service.address();
        let reader = ground.folder.path().join("reader.token");
        std::fs::write(&reader, READER).unwrap();
        ground.sections = format!(
            "[[admin.tokens]]\nname = \"viewer\"\nrole = \"read\"\nfile = \"{}\"\n\
             [retention]\ndefault = \"interactive\"\ninteractive = \"24h\"\n\
             [webhooks]\nprefix = \"/hooks\"\nupstream = \"service\"\npath = \"/internal/{{provider}}\"\n\
             [upstreams.brief]\nurl = \"http://{service}\"\ntimeout = \"2s\"\ngive_up = \"6s\"\n",
            reader.display()
        );
        let route = |path: &str, upstream: &str, more: &str| {
            format!(
                "[[routes]]\nmethod = \"POST\"\npath = \"/{path}\"\noperation = \"{path}\"\npolicy = \"REQUIRED_A\"\n\
                 upstream = \"{upstream}\"\nfingerprint = \"json\"\n{more}\n"
            )
        };
        ground.routes =
            route("brief", "brief", "") + &route("printable", "service", "key_grammar = \"printable\"");
        let edge = Hapax::start_with(&ground.write("hapax"), options).await;
        Console { ground, edge, browser: Browser::start() }
    }

    fn url(&self, place: &str) -> String {
        format!("http://{}/{place}", self.edge.admin)
    }

    /// A page of somebody who has signed in, at this place.
    fn at(&self, place: &str) -> Page {
        let page = self.browser.page();
        self.sign_in(&page, place, TOKEN);
        page
    }

    fn sign_in(&self, page: &Page, place: &str, token: &str) {
        page.open(&self.url(place));
        page.wait("document.activeElement.id === 'token'");
        page.type_text(token);
        page.click("#by");
        page.type_text("night-shift");
        page.press("Enter");
        page.wait("document.querySelector('main#main h1')");
    }

    /// A claim in doubt; its operation id.
    async fn doubt(&self, path: &str, key: &str) -> String {
        let told = self.edge.post(path, key, &json!({"of": key}).to_string(), "cut").await;
        assert_eq!(told.problem(), (409, "outcome-unknown".into()));
        told.header("x-operation-id").unwrap().to_owned()
    }
}

/// Another place, by its link.
fn go(page: &Page, place: &str) {
    page.eval(&format!("location.hash = {}", json!(place)));
}

/// Sets a field as typing does.
fn fill(page: &Page, selector: &str, text: &str) {
    page.click(selector);
    page.eval(&format!("document.querySelector({}).select()", json!(selector)));
    page.type_text(text);
}

/// Where pictures of screens are kept.
fn picture(name: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    target.parent().unwrap().join("console").join(format!("{name}.png"))
}

/// Keeps pictures of a page, light and dark.
fn pictures(page: &Page, name: &str) {
    for theme in ["light", "dark"] {
        page.theme(theme);
        page.screenshot(&picture(&format!("{name}-{theme}")));
    }
    page.theme("light");
}
