//! Very many callers with one key at once: one execution, and an answer for everybody.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::caller::{self, Request, Wanted};
use super::servers::{Log, Place, Server};
use crate::Failure;
use crate::report::Report;

/// How long the service takes: longer than all callers need to ask.
const TAKES: Duration = Duration::from_secs(5);

/// Measures it.
pub(crate) async fn measure(
    folder: &Path,
    place: Place,
    callers: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    let executions = Arc::new(AtomicUsize::new(0));
    let service = slow_service(executions.clone()).await?;
    let hapax = Server::hapax(&folder.join("burst"), place, service, "memory:", Log::None)?;
    let request =
        Request::new("POST", "/charges", &hapax.api_key, super::BODY).keyed("burst", Wanted::Replay);
    let before = hapax.resident()?;
    let mut sockets = Vec::with_capacity(callers);
    for _ in 0..callers {
        sockets.push(TcpStream::connect(hapax.address).await?);
    }
    let connected = hapax.resident()?;
    let began = Instant::now();
    for socket in &mut sockets {
        socket.write_all(request.bytes()).await?;
    }
    let asked = began.elapsed();
    tokio::time::sleep((TAKES - Duration::from_secs(1)).saturating_sub(asked)).await;
    let waiting = hapax.resident()?;
    let answered = answers(sockets).await?;
    let after = hapax.resident()?;
    if answered != callers || executions.load(Ordering::SeqCst) != 1 {
        return Err(format!("{answered} of {callers} were answered, {executions:?} executions").into());
    }
    report.heading(&format!("{callers} callers on one key at once: one execution, everybody answered"));
    report.figure("executions", 1.0, "");
    report.figure("callers that were answered", answered as f64, "");
    report.figure("resident before", before, "MiB");
    report.figure("resident with all connections open", connected, "MiB");
    report.figure("resident while all wait", waiting, "MiB");
    report.figure("resident after", after, "MiB");
    report.figure("after the outcome, until the last one was answered", late(began), "ms");
    Ok(())
}

/// Milliseconds since the service answered.
fn late(began: Instant) -> f64 {
    began.elapsed().saturating_sub(TAKES).as_secs_f64() * 1_000.0
}

async fn answers(sockets: Vec<TcpStream>) -> Result<usize, Failure> {
    let mut reading: JoinSet<_> = sockets
        .into_iter()
        .map(|mut socket| async move {
            let mut buffer = [0; 4 << 10];
            caller::read(&mut socket, &mut buffer).await.map(|answer| (answer.status, socket))
        })
        .collect();
    // Kept open until all have come, as callers do.
    let mut open = Vec::new();
    while let Some(read) = reading.join_next().await {
        let (status, socket) = read??;
        if status == 200 {
            open.push(socket);
        }
    }
    Ok(open.len())
}

/// A service that takes its time, and counts.
async fn slow_service(executions: Arc<AtomicUsize>) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer_late(socket, executions.clone()));
        }
    });
    Ok(address)
}

/// One request, which comes in one or two pieces; its end is its body's last character.
async fn answer_late(mut socket: TcpStream, executions: Arc<AtomicUsize>) {
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        match socket.read_buf(&mut request).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    executions.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(TAKES).await;
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1024\r\n\r\n{}", "x".repeat(1_024));
    // Whoever has gone away is missed by the count of answers.
    let _ = socket.write_all(answer.as_bytes()).await;
    let _ = socket.read_buf(&mut request).await;
}
