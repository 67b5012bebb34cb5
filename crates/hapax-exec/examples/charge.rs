//! A charge that happens once, however often the program is started:
//! `cargo run -p hapax-exec --example charge -- order-42`

use hapax_exec::{Call, Executor, Failure};
use hapax_sqlite::Embedded;
use hapax_store::{Lifecycle as _, Options};

#[tokio::main]
#[allow(clippy::print_stdout, reason = "it is a program for people")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let order = std::env::args().nth(1).unwrap_or_else(|| "order-42".into());
    let store = Embedded::open("./data", Options::default())?;
    let executor = Executor::new(store.clone());
    let call = Call::local("charge", &order)?.body(b"10 EUR");
    let done = executor.run(call, |_| charge(&order)).await?;
    println!("{} ({:?})", done.value, done.how);
    store.close().await?;
    Ok(())
}

/// The work that must not happen twice.
#[allow(clippy::print_stdout, reason = "it is a program for people")]
async fn charge(order: &str) -> Result<String, Failure> {
    println!("charging 10 EUR for {order} …");
    Ok(format!("receipt for {order}"))
}
