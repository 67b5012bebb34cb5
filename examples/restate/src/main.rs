//! Handlers of a Restate service behind hapax.
//!
//! `cargo run -- 127.0.0.1:9080` serves them; register that address with Restate. [`payments`] is what to look at: a plain handler, one
//! that says status and headers itself, and one that makes a key out of what it was sent. [`trouble`] is what hapax is tested with.

mod payments;
mod trouble;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use restate_sdk::prelude::*;
use tokio::net::TcpListener;

/// What was done, one line for each time: whoever reads the file can count.
#[derive(Clone, Default)]
pub struct Effects(Option<Arc<PathBuf>>);

impl Effects {
    /// Something was done.
    pub fn happened(&self, what: &str) {
        let Some(path) = &self.0 else { return println!("{what}") };
        let file = OpenOptions::new().create(true).append(true).open(&**path);
        let written = file.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes()));
        written.expect("the file of effects can be written");
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9080".into());
    let effects = Effects(arguments.next().map(|path| Arc::new(path.into())));
    let endpoint = Endpoint::builder()
        .bind(payments::Payments::new(effects.clone()))
        .bind(trouble::Trouble::new(effects.clone()))
        .bind(trouble::Account::new(effects.clone()))
        .bind(trouble::Signup)
        .build();
    let listener = TcpListener::bind(&address).await.expect("the address is free");
    println!("serving on {address}");
    HttpServer::new(endpoint).serve_with_cancel(listener, std::future::pending::<()>()).await;
}
