//! A table of another listener, with callers of another kind, is mounted as the admin listener's is.

use hapax_api::{Endpoint, Nothing, Revoked, Status};
use http::header::HeaderMap;
use serde_json::Value;
use tower_service::Service as _;

use super::*;

/// What these callers must have: a tenant, as whom they are seen.
#[derive(Clone, Copy, Debug)]
struct OfTenant;

impl Need for OfTenant {
    fn scope(self) -> &'static str {
        "tenant"
    }

    fn refusals(self) -> &'static [hapax_api::Refusal] {
        const { &[hapax_api::Refusal::with::<hapax_api::Problem>(401, "No tenant.")] }
    }
}

/// An operation with this path, and what it needs.
macro_rules! operation {
    ($name:ident $method:ident $path:literal $needs:expr) => {
        struct $name;

        impl Operation for $name {
            type Need = OfTenant;
            type Query = Nothing;
            type Body = Nothing;
            type Answer = Revoked;
            const METHOD: Method = Method::$method;
            const PATH: &'static str = $path;
            const ID: &'static str = stringify!($name);
            const SUMMARY: &'static str = "For this test.";
            const NEEDS: Option<OfTenant> = $needs;
            const ANSWERS: (Status, &'static [Status]) = ((200, "Done."), &[]);
            const REFUSALS: &'static [hapax_api::Refusal] = &[];
        }
    };
}

operation!(Own Get "/v1/own/{id}" Some(OfTenant));
operation!(Open Get "/open" None);
operation!(Stray Delete "/v1/own/{id}" Some(OfTenant));

static TABLE: Table<OfTenant> = Table {
    listener: "application",
    title: "An application API",
    summary: "For this test.",
    description: "For this test.",
    refusals: &[],
    server: "http://127.0.0.1:8082",
    body: (1024, "The body is too long."),
    credential: ("key", "An API key."),
    parameters: &[hapax_api::Parameter::of::<String>("id", "An id.")],
    endpoints: &[Endpoint::of::<Own>(), Endpoint::of::<Open>()],
};

/// Callers who name their tenant, found out by asking somebody else.
struct Tenants;

impl Authenticator for Tenants {
    type Need = OfTenant;
    type Caller = String;

    async fn admit(&self, request: &Parts, _: OfTenant, _: &Of<'_>) -> Result<String, Refusal> {
        tokio::task::yield_now().await;
        let tenant = request.headers.get("x-tenant").and_then(|tenant| tenant.to_str().ok());
        tenant.map(str::to_owned).ok_or_else(|| Problem::new(Code::Unauthenticated).into())
    }
}

async fn own(greeting: &'static str, tenant: String, asked: Asked<Own>) -> Result<Revoked, Refusal> {
    Ok(Revoked { id: format!("{greeting} {} of {tenant}", asked.id), revoked: true })
}

async fn open(greeting: &'static str, _: Asked<Open>) -> Result<Revoked, Refusal> {
    Ok(Revoked { id: greeting.to_owned(), revoked: true })
}

async fn stray(_: &'static str, _: String, _: Asked<Stray>) -> Result<Revoked, Refusal> {
    Err(Refusal::not_found("nothing is here"))
}

fn mount() -> Mount<&'static str, Tenants> {
    Mount::new(
        &TABLE,
        "hello",
        Tenants,
        "/errors/",
        Hosts::new("api", &[], std::net::IpAddr::from([127, 0, 0, 1])),
    )
}

async fn ask(router: &mut Router, method: &str, path: &str, tenant: Option<&str>) -> (u16, HeaderMap, Value) {
    let mut request = http::Request::builder().method(method).uri(path);
    if let Some(tenant) = tenant {
        request = request.header("x-tenant", tenant);
    }
    let response = router.call(request.body(Body::empty()).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), head.headers, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_table_is_mounted_on_another_listener_with_another_kind_of_caller() {
    let mut router = mount().on(own).open(open).router().unwrap();
    let (status, headers, body) = ask(&mut router, "GET", "/v1/own/a%2Fb", Some("acme")).await;
    assert_eq!((status, &body["id"]), (200, &"hello a/b of acme".into()));
    assert_eq!(
        (&headers[LISTENER], &headers[CACHE_CONTROL]),
        (&"application".parse().unwrap(), &"no-store".parse().unwrap())
    );
    assert_eq!(ask(&mut router, "GET", "/v1/own/a", None).await.2["code"], "unauthenticated");
    assert_eq!(ask(&mut router, "GET", "/open", None).await.0, 200);
    for (method, path, status) in [("DELETE", "/v1/own/a", 405), ("GET", "/v1/others", 404)] {
        let (answered, headers, body) = ask(&mut router, method, path, Some("acme")).await;
        assert_eq!((answered, &headers[LISTENER]), (status, &"application".parse().unwrap()));
        assert!(body["type"].as_str().unwrap().starts_with("/errors/"), "{body}");
    }
    let document = hapax_api::document(&TABLE);
    assert_eq!(document["paths"]["/v1/own/{id}"]["get"]["security"][0]["key"][0], "tenant");
    assert_eq!(document["paths"]["/open"]["get"]["security"], Value::Array(Vec::new()));
}

#[test]
fn what_is_served_and_what_is_described_are_the_same_m4() {
    let refused = |mount: Mount<&'static str, Tenants>| format!("{:#}", mount.router().unwrap_err());
    assert!(refused(mount().on(own)).contains("Open has no handler"));
    assert!(refused(mount().on(own).open(open).on(stray)).contains("Stray is not in the table"));
    assert!(refused(mount().on(own).open(open).on(own)).contains("Own has two handlers"));
    let closed = async |_: &'static str, asked: Asked<Own>| Ok(Revoked { id: asked.id, revoked: true });
    assert!(refused(mount().open(open).open(closed)).contains("Own needs a caller"));
}
