//! Running other programs so that none is left behind.
//!
//! A signal (Ctrl-C, SIGTERM, SIGHUP) does not end this program on the spot: it is passed on to the child that is
//! running, and the wait for that child then fails with "interrupted". So everything is always cleaned up in one
//! way, by leaving the scopes that own it. A second signal kills the child.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long output is waited for after the program that wrote it has ended: something it started may hold the pipe.
const PIPE_GRACE: Duration = Duration::from_secs(2);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
static WAKE: Condvar = Condvar::new();

/// The child that signals are passed on to.
#[derive(Clone, Copy)]
struct Running {
    pid: Pid,
    manner: Manner,
}

/// How a child stands to the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// In a process group of its own, without input: signals reach it, and all it started, through us only.
    Grouped,
    /// Owns the terminal: Ctrl-C reaches it directly, and it decides what that means.
    Foreground,
}

fn running() -> MutexGuard<'static, Option<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether somebody asked this program to end.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Starts to pass signals on. Called once, first thing.
pub(crate) fn listen_for_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
    thread::spawn(move || signals.forever().for_each(pass_on));
    Ok(())
}

/// A child that has just ended cannot be signalled, and need not be.
fn pass_on(number: i32) {
    let child = running();
    match *child {
        Some(Running { manner: Manner::Foreground, .. }) if number == SIGINT => return,
        Some(Running { pid, manner: Manner::Foreground }) => {
            let _ = kill_process(pid, Signal::TERM);
        }
        Some(Running { pid, manner: Manner::Grouped }) => {
            let signal = match number {
                _ if interrupted() => Signal::KILL,
                SIGINT => Signal::INT,
                _ => Signal::TERM,
            };
            let _ = kill_process_group(pid, signal);
        }
        None => {}
    }
    INTERRUPTED.store(true, Ordering::SeqCst);
    WAKE.notify_all();
}

/// Waits until somebody asks this program to end.
pub(crate) fn wait_for_interrupt() {
    let mut child = running();
    while !interrupted() {
        child = WAKE.wait(child).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Runs a program to its end; it writes to our terminal and has no input.
pub(crate) fn run(command: &mut Command) -> Result<ExitStatus> {
    let mut child = start(command.stdin(Stdio::null()), Manner::Grouped)?;
    finish(&mut child)
}

/// Runs a program to its end and hands the terminal to it.
pub(crate) fn run_in_foreground(command: &mut Command) -> Result<ExitStatus> {
    let mut child = start(command, Manner::Foreground)?;
    finish(&mut child)
}

/// Runs a program to its end, shows what it writes as it comes, and hands each line, without colours, to `on_line`.
pub(crate) fn run_and_read(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<ExitStatus> {
    if io::stdout().is_terminal() {
        // It writes to a pipe and would leave out the colours that whoever sits at the terminal expects.
        command.env("CARGO_TERM_COLOR", "always");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(command, Manner::Grouped)?;
    let (sender, lines) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        read_lines(stdout, io::stdout(), sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        read_lines(stderr, io::stderr(), sender);
    }

    let mut ended: Option<Instant> = None;
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => on_line(&without_colours(&line)),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => match ended {
                Some(since) if since.elapsed() > PIPE_GRACE => break,
                Some(_) => {}
                None => ended = child.try_wait()?.map(|_| Instant::now()),
            },
        }
    }
    finish(&mut child)
}

fn start(command: &mut Command, manner: Manner) -> Result<Child> {
    if interrupted() {
        bail!("interrupted");
    }
    if manner == Manner::Grouped {
        command.process_group(0);
    }
    let mut slot = running();
    let child = command
        .spawn()
        .with_context(|| format!("cannot start `{}`", command.get_program().to_string_lossy()))?;
    *slot = Some(Running { pid: Pid::from_child(&child), manner });
    Ok(child)
}

fn finish(child: &mut Child) -> Result<ExitStatus> {
    let status = child.wait();
    *running() = None;
    let status = status.context("cannot wait for a program that was started")?;
    if interrupted() {
        bail!("interrupted");
    }
    Ok(status)
}

fn read_lines(
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    lines: mpsc::Sender<String>,
) {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            // A closed terminal must not end the run: the counts are still wanted.
            drop(to.write_all(&line).and_then(|()| to.flush()));
            if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// The line without the escape sequences that colour it, and without its end.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.trim_end().chars();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(char);
        }
    }
    plain
}

/// Our own exit code for a program that ran in our place: its code, or as a shell says it, 128 + its signal.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Whether a program can be started and says that it is well.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_read_line_by_line_without_colours() {
        let mut lines = Vec::new();
        let script = r"printf '\033[32mgreen\033[0m one\n'; printf 'two\n' >&2; exit 3";
        let status =
            run_and_read(Command::new("sh").args(["-c", script]), |line| lines.push(line.to_owned()));
        lines.sort();
        assert_eq!(lines, ["green one", "two"]);
        assert_eq!(status.unwrap().code(), Some(3));
    }

    #[test]
    fn a_program_that_leaves_its_pipe_open_is_not_waited_for_for_ever() {
        let mut left = None;
        let status = run_and_read(Command::new("sh").args(["-c", "sleep 60 & echo $!"]), |pid| {
            left = Pid::from_raw(pid.parse().unwrap());
        });
        assert!(status.unwrap().success());
        assert!(kill_process(left.unwrap(), Signal::KILL).is_ok(), "it was waited for");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(format!("{error:#}").contains("cannot start `no-such-program`"), "{error:#}");
    }
}
