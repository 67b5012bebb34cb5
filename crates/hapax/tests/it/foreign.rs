//! Clients that nobody here wrote, against the edge, over a network that cuts connections: the official Stripe clients for
//! Node and Python, Square's for Python, whose key is in the body, httpx with several headers, and curl.
//!
//! Each of them charges at a service that counts. However often a call is cut off, it is one charge, and the client has its
//! answer. The control, without hapax, is two.

use std::process::Command;

use serde_json::{Value, json};

use crate::claims_cli::told;
use crate::rig::cutter::{Cut, Cutter};
use crate::rig::service::{SQUARE_PAYMENTS, STRIPE_CHARGES};
use crate::rig::{Ground, Hapax, Kind};

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    StripeNode,
    StripePython,
    Httpx,
    /// httpx with the header of PayPal's API.
    PayPal,
    /// httpx with the header of many others.
    XKey,
    Square,
    Curl,
}

/// One call of a program, and what the network does to it; then it goes through.
#[derive(Clone, Copy, Debug)]
struct Call {
    amount: u32,
    /// The program's own key; without it, the client makes one.
    key: Option<&'static str>,
    /// How often the program itself tries, beside what its client does.
    tries: u32,
    cuts: &'static [Cut],
}

/// A call whose key and retries are the client's own.
fn call(cuts: &'static [Cut]) -> Call {
    Call { amount: 1000, key: None, tries: 1, cuts }
}

/// A call whose key is the program's.
fn keyed(key: &'static str, amount: u32) -> Call {
    Call { amount, key: Some(key), tries: 1, cuts: &[] }
}

/// The program itself tries again, with its key.
fn retried(key: &'static str, cuts: &'static [Cut]) -> Call {
    Call { tries: 3, cuts, ..keyed(key, 1000) }
}

impl Client {
    /// What becomes of these calls, one after the other in one process.
    async fn calls(self, cutter: &Cutter, api_key: &str, calls: &[Call]) -> Vec<Value> {
        for call in calls {
            cutter.plan(call.cuts);
            cutter.plan(&[Cut::Not]);
        }
        let came = match self {
            Client::Curl => curl(cutter, api_key, calls).await,
            _ => self.program(cutter, api_key, calls).await,
        };
        assert_eq!(cutter.left(), [], "every cut was met: {came:?}");
        came
    }

    /// What its route says beyond the usual.
    fn route(self) -> (&'static str, &'static str) {
        match self {
            Client::Square => {
                (SQUARE_PAYMENTS, "fingerprint = \"json\"\nkey = { json = \"/idempotency_key\" }")
            }
            Client::PayPal => {
                (STRIPE_CHARGES, "fingerprint = \"form\"\nkey = { header = \"PayPal-Request-Id\" }")
            }
            Client::XKey => {
                (STRIPE_CHARGES, "fingerprint = \"form\"\nkey = { header = \"X-Idempotency-Key\" }")
            }
            _ => (STRIPE_CHARGES, "fingerprint = \"form\""),
        }
    }

    async fn program(self, cutter: &Cutter, api_key: &str, calls: &[Call]) -> Vec<Value> {
        let python = || format!("{}/bin/python", needed("HAPAX_TEST_PYTHON"));
        let (program, script) = match self {
            Client::StripeNode => ("node".to_owned(), "stripe.js"),
            Client::StripePython => (python(), "stripe_client.py"),
            Client::Httpx | Client::PayPal | Client::XKey => (python(), "httpx_client.py"),
            Client::Square => (python(), "square_client.py"),
            Client::Curl => unreachable!("its script makes one call"),
        };
        if self == Client::StripeNode {
            needed("HAPAX_TEST_NPM");
        }
        let said =
            calls.iter().map(|call| json!({"amount": call.amount, "key": call.key, "tries": call.tries}));
        let mut command = Command::new(program);
        command.arg(script_at(script)).args([
            cutter.url(),
            api_key.to_owned(),
            Value::from_iter(said).to_string(),
        ]);
        match self {
            Client::PayPal => drop(command.arg("PayPal-Request-Id")),
            Client::XKey => drop(command.arg("X-Idempotency-Key")),
            _ => {}
        }
        let told = told(command).await;
        assert_eq!(told.code, 0, "{}", told.err);
        told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn needed(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("`cargo xtask test` installs peers and sets {variable}"))
}

fn script_at(name: &str) -> String {
    format!("{}/tests/it/foreign/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// curl has no keys of its own: where the program has none, it is a fresh one for each call.
async fn curl(cutter: &Cutter, api_key: &str, calls: &[Call]) -> Vec<Value> {
    let mut came = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        let key = call.key.map_or_else(|| format!("call-{number}"), str::to_owned);
        let mut command = Command::new("sh");
        command.arg(script_at("charge.sh")).args([&cutter.url(), api_key, &call.amount.to_string(), &key]);
        let told = told(command).await;
        assert_eq!(told.code, 0, "{}", told.err);
        let (status, answer) = told.out.split_once(' ').unwrap();
        let answer: Value = serde_json::from_str(answer).unwrap();
        came.push(match status {
            "201" => json!({"id": answer["id"], "status": answer["status"]}),
            _ => json!({"http": answer["status"], "code": answer["code"]}),
        });
    }
    came
}

/// An edge in front of a service in Stripe's shape, a key for it, and a bad network in front of the edge.
struct Shop {
    ground: Ground,
    edge: Hapax,
    api_key: String,
    cutter: Cutter,
}

impl Shop {
    async fn open(client: Client) -> Shop {
        let mut ground = Ground::new(Kind::Embedded).await;
        let (path, more) = client.route();
        ground.routes = format!(
            "[[routes]]\nmethod = \"POST\"\npath = \"{path}\"\noperation = \"stripe.charge\"\n\
             policy = \"REQUIRED_A\"\nupstream = \"service\"\n{more}\n"
        );
        let edge = ground.serve().await;
        let admin = format!("http://{}", edge.admin);
        let who = ["--tenant", "acme", "--project", "shop", "--subject", "service:checkout"];
        let made = ground.run(&[&["keys", "create", "--json", "--admin", &admin], &who[..]].concat()).await;
        let made: Value = serde_json::from_str(&made.out).unwrap_or_else(|_| panic!("{}", made.err));
        let api_key = made["key"].as_str().unwrap().to_owned();
        let cutter = Cutter::before(edge.edge).await;
        Shop { ground, edge, api_key, cutter }
    }

    async fn calls(&self, client: Client, calls: &[Call]) -> Vec<Value> {
        client.calls(&self.cutter, &self.api_key, calls).await
    }

    fn charges(&self) -> usize {
        self.ground.service.count()
    }
}

/// The charges that came of calls, which all succeeded.
fn ids(came: &[Value]) -> Vec<&str> {
    came.iter()
        .map(|came| match (&came["id"], &came["status"]) {
            (Value::String(id), status) if status == "succeeded" => id.as_str(),
            _ => panic!("not charged: {came:?}"),
        })
        .collect()
}

/// Cut off before, while and after it is done: what clients try again by themselves.
async fn a_call_that_is_cut_off_is_one_charge(client: Client) {
    let shop = Shop::open(client).await;
    let calls = [
        call(&[]),
        call(&[Cut::Request]),
        call(&[Cut::Sent]),
        call(&[Cut::Answer]),
        call(&[Cut::After(10)]),
        call(&[Cut::Request, Cut::Answer]),
        call(&[Cut::Answer, Cut::Answer]),
    ];
    let came = shop.calls(client, &calls).await;
    assert_eq!(ids(&came), ["ch_1", "ch_2", "ch_3", "ch_4", "ch_5", "ch_6", "ch_7"]);
    assert_eq!(shop.charges(), calls.len(), "one charge for each call");
}

/// Cut off in the midst of the answer: not every client tries again, and a program that has its own key can.
async fn an_answer_that_is_cut_in_the_midst_is_had_with_the_same_key(client: Client) {
    let shop = Shop::open(client).await;
    let came = shop
        .calls(
            client,
            &[
                retried("order-1", &[Cut::After(40)]),
                retried("order-2", &[Cut::After(200)]),
                retried("order-3", &[Cut::ShortOf(20)]),
                retried("order-4", &[Cut::ShortOf(1), Cut::After(1)]),
            ],
        )
        .await;
    assert_eq!(ids(&came), ["ch_1", "ch_2", "ch_3", "ch_4"]);
    assert_eq!(shop.charges(), 4);
}

/// The same key again is the same charge; with another amount it is refused, and the client says so.
async fn a_key_is_one_charge_and_another_amount_is_refused(client: Client, error: &str) {
    let shop = Shop::open(client).await;
    let calls =
        [keyed("order-1", 1000), keyed("order-1", 1000), keyed("order-1", 9900), keyed("order-2", 1000)];
    let mut came = shop.calls(client, &calls).await;
    let refused = came.remove(2);
    assert_eq!(ids(&came), ["ch_1", "ch_1", "ch_2"]);
    assert_eq!((&refused["http"], &refused["code"]), (&json!(422), &json!("key-reused")), "{refused}");
    assert_eq!(refused["error"].as_str().unwrap_or_default(), error, "{refused}");
    assert_eq!(shop.charges(), 2);
}

/// hapax is killed while the charge is being made: nobody knows, nothing is charged again, and the client says so.
async fn a_kill_of_the_edge_is_an_error_and_no_second_charge(client: Client, error: &str) {
    let mut shop = Shop::open(client).await;
    shop.ground.service.hold();
    let (cutter, api_key) = (shop.cutter.clone(), shop.api_key.clone());
    let calling =
        tokio::spawn(async move { client.calls(&cutter, &api_key, &[keyed("order-1", 1000)]).await });
    shop.ground.service.reached(1).await;
    shop.cutter.aim(None);
    shop.edge.kill();
    shop.ground.service.let_go();
    shop.edge = shop.ground.serve().await;
    shop.cutter.aim(Some(shop.edge.edge));
    let came = calling.await.unwrap().remove(0);
    assert_eq!((&came["http"], &came["code"]), (&json!(409), &json!("outcome-unknown")), "{came}");
    assert_eq!(came["error"].as_str().unwrap_or_default(), error, "{came}");
    assert_eq!(shop.charges(), 1, "never a second charge");
}

/// The control: the same program and the same cut without hapax.
async fn without_the_edge_a_lost_answer_is_two_charges(client: Client) {
    let ground = Ground::new(Kind::Embedded).await;
    let cutter = Cutter::before(ground.service.address()).await;
    let came = client.calls(&cutter, "sk_test", &[call(&[Cut::Answer])]).await;
    assert_eq!((ids(&came), ground.service.count()), (vec!["ch_2"], 2));
}

macro_rules! against_the_edge {
    ($client:ident, mismatch: $mismatch:literal, unknown: $unknown:literal) => {
        use super::Client::$client;

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_call_that_is_cut_off_is_one_charge_h5() {
            super::a_call_that_is_cut_off_is_one_charge($client).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn an_answer_that_is_cut_in_the_midst_is_had_with_the_same_key_l3() {
            super::an_answer_that_is_cut_in_the_midst_is_had_with_the_same_key($client).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_key_is_one_charge_and_another_amount_is_refused_k7() {
            super::a_key_is_one_charge_and_another_amount_is_refused($client, $mismatch).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_kill_of_the_edge_is_an_error_and_no_second_charge_l6() {
            super::a_kill_of_the_edge_is_an_error_and_no_second_charge($client, $unknown).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn without_the_edge_a_lost_answer_is_two_charges() {
            super::without_the_edge_a_lost_answer_is_two_charges($client).await;
        }
    };
}

mod npm_stripe {
    against_the_edge!(StripeNode, mismatch: "StripeAPIError", unknown: "StripeAPIError");
}

mod python_stripe {
    against_the_edge!(StripePython, mismatch: "APIError", unknown: "APIError");
}

mod python_httpx {
    against_the_edge!(Httpx, mismatch: "HTTPStatusError", unknown: "HTTPStatusError");
}

mod python_paypal_header {
    against_the_edge!(PayPal, mismatch: "HTTPStatusError", unknown: "HTTPStatusError");
}

mod python_x_idempotency_key {
    against_the_edge!(XKey, mismatch: "HTTPStatusError", unknown: "HTTPStatusError");
}

mod python_square {
    against_the_edge!(Square, mismatch: "ApiError", unknown: "ApiError");
}

mod curl {
    against_the_edge!(Curl, mismatch: "", unknown: "");
}
