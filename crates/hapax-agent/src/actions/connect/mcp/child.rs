//! An MCP server as a child process: started with a small environment, ended when its connection is.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::net::unix::pipe;

use super::McpProcess;
use crate::clock::{deadline, left};
use crate::limits;

/// What a program needs to run at all. Nothing else of this process's environment reaches a server: secrets are in it.
const INHERITED: [&str; 10] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

pub(super) type Pipes = AsyncRwTransport<RoleClient, pipe::Receiver, pipe::Sender>;

/// As long as this lives, so does the process.
#[derive(Debug)]
pub(super) struct Alive(#[allow(dead_code, reason = "its end is what is told")] Arc<()>);

/// Servers of this process that have not ended.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Waits until the MCP servers have ended that this process has started, once nothing uses them any more: as long as one has to end by
/// itself, and a look more.
pub async fn servers_ended() {
    let until = deadline(limits::MCP_END + 3 * limits::MCP_LOOK);
    while RUNNING.load(Ordering::SeqCst) > 0 && !left(until).is_zero() {
        tokio::time::sleep(limits::MCP_LOOK / 10).await;
    }
}

/// Starts the process. Two threads belong to it: one waits for its end, one reads what it writes to its standard error.
pub(super) fn start(process: &McpProcess) -> Result<(Pipes, Alive), String> {
    let mut command = Command::new(&process.command);
    command.args(&process.args).env_clear();
    command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs(&process.env);
    if let Some(folder) = &process.folder {
        command.current_dir(folder);
    }
    // In a group of its own: Ctrl-C at a terminal ends hapax, which first lets calls come to their end.
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = process.command.display().to_string();
    let mut child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let alive = Arc::new(());
    let (watched, watcher) = (Arc::downgrade(&alive), name.clone());
    RUNNING.fetch_add(1, Ordering::SeqCst);
    std::thread::spawn(move || {
        watch(&watcher, child, &watched);
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    });
    let (Some(input), Some(output), Some(errors)) = (input, output, errors) else {
        return Err(format!("{name} has no standard input and output"));
    };
    let (input, output) = (OwnedFd::from(input), OwnedFd::from(output));
    let told = |error: std::io::Error| format!("{name} cannot be spoken to: {error}");
    let input = pipe::Sender::from_owned_fd(input).map_err(told)?;
    let output = pipe::Receiver::from_owned_fd(output).map_err(told)?;
    std::thread::spawn(move || log(&name, errors));
    let pipes = AsyncRwTransport::new(output, input).with_max_line_length(limits::MAX_ANSWER_BYTES);
    Ok((pipes, Alive(alive)))
}

/// Waits for the process, so that none is left behind. Its input is closed with its connection, which is its sign to end.
fn watch(name: &str, mut child: Child, alive: &Weak<()>) {
    let mut left: Option<Duration> = None;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                if left.is_none() {
                    tracing::warn!(server = name, %status, "an MCP server has ended");
                }
                return;
            }
            Ok(None) => {}
            Err(error) => return tracing::warn!(server = name, %error, "an MCP server cannot be waited for"),
        }
        if alive.strong_count() == 0 {
            let rest = left.unwrap_or(limits::MCP_END);
            if rest.is_zero() {
                tracing::warn!(server = name, "an MCP server did not end by itself and is killed");
                drop(child.kill());
                drop(child.wait());
                return;
            }
            left = Some(rest.saturating_sub(limits::MCP_LOOK));
        }
        std::thread::sleep(limits::MCP_LOOK);
    }
}

/// What a server writes to its standard error is for people.
fn log(name: &str, errors: ChildStderr) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    let most = u64::try_from(limits::MCP_LOG_LINE).unwrap_or(u64::MAX);
    while let Ok(1..) = (&mut errors).take(most).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line);
        tracing::debug!(server = name, text = text.trim_end(), "an MCP server says");
        line.clear();
    }
}
