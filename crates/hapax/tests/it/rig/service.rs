//! The service behind: it lives in the test's process, so that it survives whoever is killed, and counts what is done.
//!
//! It answers as the header `x-do` says: `status=N`, `pause=MS`, `hit` (the handler found its token used), `outcome=WORD`, `cut` (done, but the connection breaks), `binary`. A request
//! counts as done when it has arrived; while the test holds the service, answers wait. On one path it takes and answers charges
//! as Stripe's API does, on another one payments as Square's does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::wire::Message;

/// Something that was done.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    message: Message,
    pub(crate) body: String,
}

impl Done {
    /// Whether it was asked for on this path.
    pub(crate) fn is_on(&self, path: &str) -> bool {
        self.message.head.split(' ').nth(1) == Some(path)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.message.header(name)
    }
}

/// The service.
#[derive(Clone)]
pub(crate) struct Service {
    address: SocketAddr,
    done: Arc<Mutex<Vec<Done>>>,
    held: Arc<watch::Sender<bool>>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = Service { address, done: Arc::default(), held: Arc::new(watch::Sender::new(false)) };
        let serving = service.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().connection(stream));
            }
        });
        service
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers wait from now on.
    pub(crate) fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Answers go out.
    pub(crate) fn let_go(&self) {
        self.held.send_replace(false);
    }

    /// Everything that was done.
    pub(crate) fn done(&self) -> Vec<Done> {
        self.done.lock().unwrap().clone()
    }

    /// How often something was done.
    pub(crate) fn count(&self) -> usize {
        self.done.lock().unwrap().len()
    }

    /// Waits until something was done so often.
    pub(crate) async fn reached(&self, count: usize) {
        super::process::eventually("the service is reached", async || self.count() >= count).await;
    }

    async fn connection(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(message) = Message::read(&mut stream, &mut buffer).await {
            let body = String::from_utf8_lossy(&message.body).into_owned();
            let done = Done { message, body };
            let number = {
                let mut all = self.done.lock().unwrap();
                all.push(done.clone());
                all.len()
            };
            let mut held = self.held.subscribe();
            let _ = held.wait_for(|held| !held).await;
            if !answer(&mut stream, &done, number).await {
                return;
            }
        }
    }
}

/// Answers; says whether the connection goes on.
async fn answer(stream: &mut TcpStream, done: &Done, number: usize) -> bool {
    let told = done.header("x-do").unwrap_or_default();
    let tell = |name: &str| told.split(';').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let is_told = |name: &str| told.split(';').any(|word| word == name);
    if let Some(pause) = tell("pause") {
        tokio::time::sleep(Duration::from_millis(pause.parse().unwrap())).await;
    }
    if is_told("cut") {
        return false;
    }
    let status = tell("status").unwrap_or("201");
    let (media_type, body) = match is_told("binary") {
        true => ("text/plain", (0..=255).collect()),
        false if done.is_on(STRIPE_CHARGES) => ("application/json", stripe_charge(&done.body, number)),
        false if done.is_on(SQUARE_PAYMENTS) => ("application/json", square_payment(&done.body, number)),
        false => ("text/plain", format!("answer {number} to {}", done.body).into_bytes()),
    };
    let outcome = tell("outcome").map(|word| format!("idempotency-outcome: {word}\r\n")).unwrap_or_default();
    let hit = if is_told("hit") { "idempotency-handler-hit: true\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} Told\r\nlocation: /charges/{number}\r\nx-custom: one\r\nx-custom: two\r\ncontent-type: {media_type}\r\n\
         set-cookie: session={number}\r\n{outcome}{hit}content-length: {}\r\n\r\n",
        body.len()
    );
    let bytes = [head.as_bytes(), &body].concat();
    stream.write_all(&bytes).await.is_ok()
}

/// Where Stripe's clients make charges.
pub(crate) const STRIPE_CHARGES: &str = "/v1/charges";

/// A charge as Stripe's clients read it, of what they send as a form.
fn stripe_charge(form: &str, number: usize) -> Vec<u8> {
    let field = |name: &str| form.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let amount: u64 = field("amount").expect("a charge has an amount").parse().unwrap();
    let charge = serde_json::json!({
        "id": format!("ch_{number}"),
        "object": "charge",
        "amount": amount,
        "currency": field("currency"),
        "status": "succeeded",
    });
    charge.to_string().into_bytes()
}

/// Where Square's clients make payments.
pub(crate) const SQUARE_PAYMENTS: &str = "/v2/payments";

/// A payment as Square's clients read it, of what they send as JSON.
fn square_payment(json: &str, number: usize) -> Vec<u8> {
    let asked: serde_json::Value = serde_json::from_str(json).expect("a payment is JSON");
    assert!(asked["idempotency_key"].is_string(), "the body stays as it came: {json}");
    let payment = serde_json::json!({
        "payment": {
            "id": format!("ch_{number}"),
            "status": "COMPLETED",
            "amount_money": asked["amount_money"],
        },
    });
    payment.to_string().into_bytes()
}
