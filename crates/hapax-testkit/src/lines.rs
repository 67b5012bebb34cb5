//! What one test's thread logs.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The lines that were logged so far, as text.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Hears what this thread says at the level `info` and above, as long as the other one lives.
    pub fn listen() -> (Lines, Listening) {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        // Where there is only one subscriber, whoever logs first asks that of its own thread, and another test's has none.
        let other = tracing::Dispatch::new(tracing_subscriber::registry());
        (lines, Listening(tracing::subscriber::set_default(subscriber.finish()), other))
    }

    /// What was said.
    pub fn told(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Listens as long as it lives.
#[must_use]
#[expect(dead_code, reason = "it is only held")]
pub struct Listening(tracing::subscriber::DefaultGuard, tracing::Dispatch);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
