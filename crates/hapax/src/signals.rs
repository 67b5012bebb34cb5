//! What the system tells this process: to end, or to read its configuration again.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::Failed;

/// What a process that serves was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// To end.
    End,
    /// To read its configuration again.
    Reload,
}

/// Hears everything from the moment it is made: also what is said while the process starts, or reloads.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Starts to listen.
    pub(crate) fn listen() -> Result<Self, Failed> {
        let hear = |kind| {
            signal(kind).map_err(|error| Failed::unavailable(format!("signals cannot be heard: {error}")))
        };
        Ok(Signals {
            interrupt: hear(SignalKind::interrupt())?,
            terminate: hear(SignalKind::terminate())?,
            hangup: hear(SignalKind::hangup())?,
        })
    }

    /// What is said next. To end goes before everything else.
    pub(crate) async fn next(&mut self) -> Told {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Told::End,
            _ = self.terminate.recv() => Told::End,
            _ = self.hangup.recv() => Told::Reload,
        }
    }

    /// Returns when the process is told to end, by Ctrl-C or otherwise. That it is to read its configuration again stays to be
    /// heard.
    pub(crate) async fn end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
