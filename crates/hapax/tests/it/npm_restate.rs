//! The edge in front of a real Restate server, which keeps the claims (D): what callers get, what handlers see, what runs.

mod bad_input;
mod calls;
mod cluster;
mod errors;
mod features;
mod ingresses;
mod operators;
mod postgres_ids;
mod probe;
mod recalls;
mod webhooks;

use std::net::SocketAddr;

use hapax_testkit::restate::Restate;
use tempfile::TempDir;

use crate::rig::Hapax;
use crate::rig::caller::{Got, Who};

/// Another subject of the same project.
const BOB: Who = Who("acme", "web", "user:bob");
/// The same subject of another tenant.
const ELSEWHERE: Who = Who("globex", "web", "user:alice");

/// A server with handlers, and what edges in front of it are told.
struct Ground {
    restate: Restate,
    folder: TempDir,
    /// Where instances keep what they share.
    store: String,
    /// What the upstream says beyond its addresses.
    upstream: String,
    /// What every instance says beyond the usual.
    sections: String,
    /// What the route of an operation says beyond the usual.
    said: Vec<(&'static str, &'static str)>,
}

impl Ground {
    async fn new(nodes: usize, more: &'static str) -> Ground {
        let restate = tokio::task::spawn_blocking(move || Restate::start(nodes, more)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (store, upstream, sections) = ("memory:".into(), String::new(), String::new());
        Ground { restate, folder, store, upstream, sections, said: Vec::new() }
    }

    fn with(mut self, upstream: &str) -> Ground {
        self.upstream = upstream.to_owned();
        self
    }

    fn configuration(&self) -> String {
        let list = |addresses: Vec<SocketAddr>| {
            let texts: Vec<_> = addresses.iter().map(|address| format!("\"http://{address}\"")).collect();
            format!("[{}]", texts.join(", "))
        };
        let (ingress, admin) = (list(self.restate.ingress()), list(self.restate.admins()));
        let (store, upstream, sections) = (&self.store, &self.upstream, &self.sections);
        let mut text = format!(
            r#"
[edge]
listen = "127.0.0.1:0"
threads = 2
max_request_body = "64MiB"
[admin]
listen = "127.0.0.1:0"
token_env = "HAPAX_ADMIN_TOKEN"
[api]
listen = "127.0.0.1:0"
[store]
url = "{store}"
[auth.trusted_headers]
from = ["127.0.0.1"]
[auth.api_keys]
{sections}
[upstreams.engine]
kind = "restate"
ingress = {ingress}
admin = {admin}
headers = ["traceparent", "x-shown"]
{upstream}
"#
        );
        for (path, operation, more, handler) in [
            ("/charges", "charge", "fingerprint = \"json\"", "service = \"Payments\", handler = \"charge\""),
            ("/bookings", "book", "", "service = \"Payments\", handler = \"book\", envelope = true"),
            ("/echo", "echo", "", "service = \"Trouble\", handler = \"echo\""),
            ("/naps", "nap", "", "service = \"Trouble\", handler = \"nap\""),
            ("/refusals", "refuse", "", "service = \"Trouble\", handler = \"refuse\""),
            ("/never", "never", "", "service = \"Trouble\", handler = \"never\", input = \"none\""),
            ("/pauses", "pause", "", "service = \"Trouble\", handler = \"pause\""),
            ("/kills", "kill", "", "service = \"Trouble\", handler = \"kill\""),
            ("/long", "long", "", "service = \"Trouble\", handler = \"long\""),
            ("/envelopes", "envelope", "", "service = \"Trouble\", handler = \"envelope\", envelope = true"),
            (
                "/accounts/{account}/add",
                "add",
                "",
                "service = \"Account\", handler = \"add\", key = \"{account}\"",
            ),
            ("/gone", "gone", "", "service = \"Nowhere\", handler = \"nothing\""),
        ] {
            let said: Vec<_> =
                self.said.iter().filter(|(of, _)| *of == operation).map(|(_, said)| *said).collect();
            let said = said.join("\n");
            text.push_str(&format!(
                "[[routes]]\nmethod = \"POST\"\npath = \"{path}\"\noperation = \"{operation}\"\npolicy = \"REQUIRED_A\"\n\
                 upstream = \"engine\"\n{more}\n{said}\nrestate = {{ {handler} }}\n"
            ));
        }
        text.push_str(
            "[[routes]]\nmethod = \"POST\"\npath = \"/signups/{name}\"\npolicy = \"PROHIBITED\"\nupstream = \"engine\"\n\
             restate = { service = \"Signup\", handler = \"run\", key = \"{name}\", workflow = true }\n\
             [[routes]]\nmethod = \"POST\"\npath = \"/settlements\"\noperation = \"settle\"\npolicy = \"ACCEPTED\"\nupstream = \"engine\"\n\
             restate = { service = \"Payments\", handler = \"settle\" }\n",
        );
        text
    }

    /// An edge with this name, in front of the server.
    async fn edge(&self, name: &str) -> Hapax {
        let path = self.folder.path().join(format!("{name}.toml"));
        std::fs::write(&path, self.configuration()).unwrap();
        Hapax::start(&path, &[("HAPAX_LOG", "hapax::request=info,warn")]).await
    }

    /// How often the handlers have done this.
    fn count(&self, begins: &str) -> usize {
        self.restate.effects().iter().filter(|effect| effect.starts_with(begins)).count()
    }
}

/// A request under a key.
async fn post(edge: &Hapax, who: Who, path: &str, key: &str, body: &str) -> Got {
    edge.send(who, &format!("POST {path}"), &[("idempotency-key", key)], body).await
}

async fn get(edge: &Hapax, who: Who, path: &str) -> Got {
    edge.send(who, &format!("GET {path}"), &[], "").await
}

/// Nothing of the cluster is seen in an answer (H8).
fn shows_nothing_of_the_cluster(got: &Got) {
    // What a handler tells of the headers that it was called with is its own affair.
    let body = got.text();
    let body = body.split("\"headers\"").next().unwrap_or_default();
    // Any letters may stand in a sealed id.
    let headers: Vec<_> = got.headers.iter().filter(|(name, _)| name != "x-operation-id").collect();
    let text = format!("{headers:?} {body}").to_lowercase();
    for word in ["restate", "inv_", "ingress", "invocation", "stacktrace", "access-control", "vary"] {
        assert!(!text.contains(word), "{word}: {got:?}");
    }
}
