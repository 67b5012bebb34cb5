//! A worker as its parent sees it: what it is told, what it says, and its end, whatever happens to the parent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::words::{Ask, Said, Seen};
use crate::worker::Setup;

/// How long anything may take that always ends.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running worker; killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Result<Said>>,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    pub fn start(program: &Path, setup: &Setup) -> Result<Worker> {
        let mut worker = Worker::spawn(Command::new(program).args(setup.arguments()))?;
        worker.wait_ready()?;
        Ok(worker)
    }

    /// Starts a command that runs a worker, and does not wait.
    pub fn spawn(command: &mut Command) -> Result<Worker> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", command.get_program().to_string_lossy()))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("a worker has an output")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line.parse()).is_err() {
                    return;
                }
            }
        });
        Ok(Worker { child, stdin, lines })
    }

    /// Waits until the worker's store is open.
    pub fn wait_ready(&mut self) -> Result<()> {
        match self.next(PATIENCE)? {
            Some(Said::Ready) => Ok(()),
            Some(other) => bail!("the worker is not ready: {other}"),
            None => bail!("the worker ended before it was ready: {}", self.wait()?),
        }
    }

    /// Asks for something. A worker that is dead hears nothing, which its end will show.
    pub fn ask(&mut self, ask: &Ask) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{ask}\n").as_bytes());
        }
    }

    /// The next thing it says; `None` when it has ended.
    pub fn next(&mut self, within: Duration) -> Result<Option<Said>> {
        match self.lines.recv_timeout(within) {
            Ok(said) => said.map(Some),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!("the worker said nothing for {within:?}"),
        }
    }

    /// The next thing it says, if it says one in this time.
    pub fn heard_within(&mut self, within: Duration) -> Result<Option<Said>> {
        match self.lines.recv_timeout(within) {
            Ok(said) => said.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// How the claim of a key stands. Only while no call is under way.
    pub fn look(&mut self, key: &str) -> Result<(String, Option<Seen>)> {
        self.ask(&Ask::Look(key.to_owned()));
        match self.next(PATIENCE)? {
            Some(Said::State { key: about, state, seen }) if about == key => Ok((state, seen)),
            other => bail!("asked how {key} stands, the worker said {other:?}"),
        }
    }

    /// Carries out an operator's decision. Only while no call is under way.
    pub fn operate(&mut self, decision: &Ask) -> Result<String> {
        self.ask(decision);
        match self.next(PATIENCE)? {
            Some(Said::Operated { word, .. }) => Ok(word),
            other => bail!("asked to `{decision}`, the worker said {other:?}"),
        }
    }

    /// Waits until the worker has struck itself, and says for which key. Answers that come before are an error.
    pub fn wait_struck(&mut self) -> Result<String> {
        match self.next(PATIENCE)? {
            Some(Said::Struck { key, .. }) => Ok(key),
            other => bail!("the worker was to strike itself and said {other:?}"),
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).with_context(|| format!("cannot send {signal:?}"))
    }

    /// Tells the worker to end when it has answered everybody, and sees to it that it does.
    pub fn finish(mut self) -> Result<()> {
        self.stdin = None;
        while let Some(said) = self.next(PATIENCE)? {
            ensure!(!matches!(said, Said::Broken(_)), "the worker could not do its part: {said}");
        }
        let status = self.wait()?;
        ensure!(status.success(), "a worker that was not killed ended with {status}");
        Ok(())
    }

    /// The end of a worker that has ended or is about to.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("the worker does not end")
    }

    /// Whether it was SIGKILL that ended the worker.
    pub fn was_killed(&mut self) -> Result<bool> {
        Ok(self.wait()?.signal() == Some(Signal::KILL.as_raw()))
    }

    /// Kills it now.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill a worker")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Either it has ended, or it ends now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
