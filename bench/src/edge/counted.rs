//! Heap allocations of each request, in a process that holds the gateway and nothing else.
//!
//! This program's allocator counts. It starts itself again with a gateway inside, calls that over a socket and asks it how
//! much was allocated: connections to callers and services, the store and every thread are in the count, the caller is not.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hapax::Store;
use hapax_core::{LeafKey, Policy, Project, Subject, Tenant, Timestamp};
use hapax_exec::Executor;
use hapax_gateway::Gateway;
use hapax_gateway::auth::api_key::{self, NewApiKey};
use hapax_gateway::settings::{Auth, Edge, Level, Route, Settings, TenantLimits, Upstream};
use hapax_store::Options;
use hapax_tower::{Protect, Rule};
use http::Method;

use super::caller::{self, Request, Wanted};
use crate::report::Report;
use crate::{ALLOCATOR, Failure};

/// Requests that are counted, after as many that are not.
const REQUESTS: u64 = 2_000;

/// Measures it.
pub(crate) async fn measure(service: SocketAddr, report: &mut Report) -> Result<(), Failure> {
    let mut gateway = Counted::start(service)?;
    let request = |method, path| Request::new(method, path, &gateway.api_key, super::BODY);
    let cases = [
        ("replay", request("POST", "/charges").keyed("counted", Wanted::Replay), Some(12.0)),
        (
            "first execution, memory store",
            request("POST", "/charges").keyed("first", Wanted::Own),
            Some(40.0),
        ),
        ("pass-through POST", request("POST", "/items/1"), None),
        ("pass-through GET", request("GET", "/items/1"), None),
    ];
    report.heading("heap allocations of one request");
    for (name, request, most) in cases {
        let address = gateway.address;
        let counted = caller::count(address, &request, REQUESTS, || gateway.count()).await?;
        match most {
            Some(most) => report.at_most(&format!("allocations, {name}"), counted, most),
            None => report.figure(&format!("allocations, {name}"), counted, ""),
        }
    }
    Ok(())
}

/// The process with the gateway.
struct Counted {
    child: Child,
    told: BufReader<std::process::ChildStdout>,
    address: SocketAddr,
    api_key: String,
}

impl Drop for Counted {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Counted {
    fn start(service: SocketAddr) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["counted-gateway", &service.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut told = BufReader::new(child.stdout.take().ok_or("no output of the counted gateway")?);
        let mut line = String::new();
        told.read_line(&mut line)?;
        let (address, api_key) = line.trim().split_once(' ').ok_or("the counted gateway did not start")?;
        Ok(Counted { address: address.parse()?, api_key: api_key.to_owned(), told, child })
    }

    /// Allocations so far.
    fn count(&mut self) -> Result<u64, Failure> {
        let asking = self.child.stdin.as_mut().ok_or("the counted gateway has no input")?;
        asking.write_all(b"\n")?;
        let mut line = String::new();
        self.told.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
}

/// The process with the gateway: says where it listens and the key to call it with, then, asked by a line, the count.
pub(crate) async fn serve(service: SocketAddr) -> Result<(), Failure> {
    let store = Store::open("memory:", Options::default()).await?;
    let caller = NewApiKey {
        tenant: Tenant::new("acme")?,
        project: Some(Project::new("shop")?),
        subject: Subject::from_credential_text("user:bench")?,
        level: Level::Project,
        expires_at: None,
        label: String::new(),
    };
    let api_key = api_key::create(&store, caller, Timestamp::from_micros(0)).await?.key;
    let protect = Protect::new(Executor::new(store.clone()), LeafKey::new([7; 32]));
    let gateway = Gateway::start(settings(service)?, protect, store).await?;
    println!("{} {api_key}", gateway.address());
    for line in std::io::stdin().lines() {
        line?;
        let stats = ALLOCATOR.stats();
        println!("{}", stats.allocations + stats.reallocations);
    }
    Ok(())
}

fn settings(service: SocketAddr) -> Result<Settings, Failure> {
    let upstream = Arc::new(Upstream::new("service", &service.ip().to_string(), service.port()));
    let route = |method: Method, path: &str, policy: Policy, rule: Option<Rule>| Route {
        method,
        path: path.into(),
        policy,
        lenient: false,
        public: false,
        recall: true,
        level: Level::Project,
        upstream: upstream.clone(),
        rule: rule.map(Arc::new),
        reconcile: None,
        handler: None,
    };
    Ok(Settings {
        edge: Edge { threads: 1, ..Edge::new(([127, 0, 0, 1], 0).into()) },
        upstreams: [("service".to_owned(), upstream.clone())].into(),
        routes: vec![
            route(Method::GET, "/items/{id}", Policy::Prohibited, None),
            route(Method::POST, "/items/{id}", Policy::Prohibited, None),
            route(Method::POST, "/charges", Policy::RequiredA, Some(Rule::new("bench.charge")?)),
        ],
        auth: Auth { api_keys: true, ..Auth::default() },
        tenants: TenantLimits::default(),
        webhooks: None,
    })
}
