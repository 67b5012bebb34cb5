//! `hapax demo`: a payments service that charges once, on the embedded store.
//!
//! It shows [`Executor::once`] from the outside, with nothing but curl. The work it protects is a charge that takes half a
//! second and is written to a file, so that everybody can count. What happens at the edge of a real service (routes,
//! tenants, limits) is not shown here.

mod service;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args as ClapArgs;
use hapax_exec::{Executor, Settings};
use hapax_store::embedded::Embedded;
use hapax_store::{Lifecycle as _, Options};
use tokio::net::TcpListener;

use crate::cli::Failed;
use service::Service;

/// What `hapax demo` can be told.
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Keep the store in this folder, so that the next demo remembers; without it everything is forgotten at the end.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

/// Runs the demo until Ctrl-C.
pub async fn run(args: Args) -> Result<(), Failed> {
    // Held until the end: dropping it deletes the folder.
    let temporary = match &args.data {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(|error| {
            Failed::unavailable(format!("no temporary folder can be made: {error}; name one with --data"))
        })?),
    };
    let folder =
        args.data.as_deref().or(temporary.as_ref().map(|folder| folder.path())).unwrap_or(Path::new("."));
    let store = Embedded::open(folder, Options::default())?;
    let settings = Settings { spool: Some(folder.join("spool")), ..Settings::default() };
    let executor = Executor::open(store.clone(), settings)
        .await
        .map_err(|error| Failed::unavailable(error.to_string()))?;
    let listener = listen(args.listen).await?;
    let address = listener.local_addr().map_err(|error| Failed::unavailable(error.to_string()))?;
    let service = Arc::new(Service::new(executor, folder.join("charges.jsonl")));
    print_guide(address, folder, args.data.is_some());
    let served = axum::serve(listener, service.router()).with_graceful_shutdown(stop()).await;
    store.close().await?;
    served.map_err(|error| Failed::unavailable(format!("the service stopped: {error}")))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failed> {
    TcpListener::bind(address).await.map_err(|error| {
        Failed::unavailable(format!(
            "{address} cannot be listened on: {error}; choose another with --listen 127.0.0.1:0"
        ))
    })
}

/// Ctrl-C, or a polite kill.
#[allow(clippy::print_stderr, reason = "progress of a command that people watch")]
async fn stop() {
    let interrupted = tokio::signal::ctrl_c();
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = interrupted => {}
        _ = terminated => {}
    }
    eprintln!("\nhapax demo: finishing what is running, then stopping");
}

#[allow(clippy::print_stdout, reason = "the guide is what the command is for")]
fn print_guide(address: SocketAddr, folder: &Path, kept: bool) {
    let fate = if kept { "kept" } else { "deleted when you stop; --data FOLDER keeps it" };
    println!(
        r#"hapax demo: a payments service that charges once

  service  http://{address}/charges
  store    embedded:{folder} ({fate})

Try these in another terminal. A charge takes half a second.

1. Charge somebody. The key says: this is one charge, however often it is sent.
   curl -i http://{address}/charges -H 'Idempotency-Key: order-42' -d '{{"amount": 10}}'

2. Send exactly the same again: the first answer, byte for byte, at once, with `idempotent-replayed: true`.

3. The same key for another amount is refused (422), and nobody is charged:
   curl -i http://{address}/charges -H 'Idempotency-Key: order-42' -d '{{"amount": 99}}'

4. Twenty at once with a new key: one charge, twenty equal answers:
   seq 20 | xargs -P 20 -I{{}} curl -s http://{address}/charges -H 'Idempotency-Key: order-43' -d '{{"amount": 10}}'

5. A charge whose answer is lost. Nobody can know whether it happened, so hapax says so (409) instead of guessing,
   and a retry charges nobody:
   curl -i 'http://{address}/charges?fault=lost-answer' -H 'Idempotency-Key: order-44' -d '{{"amount": 10}}'

6. A card that is declined is an answer like any other: it is kept, and a retry gets it again (402):
   curl -i 'http://{address}/charges?fault=declined' -H 'Idempotency-Key: order-45' -d '{{"amount": 10}}'

7. Without a key there is no protection, and the demo asks for one (400):
   curl -i http://{address}/charges -d '{{"amount": 10}}'

Who was charged, and how often?
   curl http://{address}/charges

Ctrl-C finishes what is running and stops."#,
        folder = folder.display(),
    );
}
