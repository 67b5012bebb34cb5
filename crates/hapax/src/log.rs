//! The log: lines on standard error, written by a thread of its own.
//!
//! Whoever reads them may stop reading: a pipe is full, a collector hangs. Then lines are left out and counted, and no request
//! waits for them. So are lines that cannot be written at all: on a full disk, or to a reader that has gone.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
use crate::limits;

/// The lines that the process has left out.
static LEFT_OUT: OnceLock<ErrorCounter> = OnceLock::new();

/// The lines that could not be written.
static UNWRITTEN: AtomicU64 = AtomicU64::new(0);

/// Lines are written while this is there; what waits then is written before it goes.
pub(crate) struct Writing(#[expect(dead_code, reason = "what counts is when it is dropped")] WorkerGuard);

/// Starts the log of the process.
pub(crate) fn start(log: &Log) -> Writing {
    let (lines, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(limits::LOG_LINES)
        .thread_name("hapax-log")
        .finish(Lines::to(io::stderr()));
    // Only the first log counts: a program that embeds this may have its own.
    let _ = LEFT_OUT.set(lines.error_counter());
    let filter = EnvFilter::try_from_env("HAPAX_LOG").unwrap_or_else(|_| {
        // The library that speaks to MCP servers logs whole messages, with what they say.
        EnvFilter::new(format!("{},rmcp=error", log.level))
    });
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines);
    let _ = match log.format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.try_init(),
    };
    Writing(guard)
}

/// Lines on their way, many in one write. No failure reaches whoever hands them over: it is counted here, line by line.
struct Lines<W: Write> {
    to: W,
    waiting: Vec<u8>,
    /// The last write ended within a line: what follows must not look like its end.
    cut: bool,
}

impl<W: Write> Lines<W> {
    fn to(to: W) -> Self {
        Lines { to, waiting: Vec::with_capacity(limits::LOG_BYTES), cut: false }
    }
}

/// Writes as much as there is room for; says how much.
fn write(to: &mut impl Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Somebody else has set the pipe so: it is full, and whoever reads it may go on.
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(limits::LOG_PAUSE),
            Err(_) => break,
        }
    }
    written
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.waiting.len() + line.len() > limits::LOG_BYTES {
            self.flush()?;
        }
        self.waiting.extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let ended = !self.cut || self.waiting.is_empty() || write(&mut self.to, b"\n") == 1;
        let written = if ended { write(&mut self.to, &self.waiting) } else { 0 };
        let (gone, left) = self.waiting.split_at(written);
        if let Some(last) = gone.last() {
            self.cut = *last != b'\n';
        }
        let lost = left.iter().filter(|byte| **byte == b'\n').count();
        UNWRITTEN.fetch_add(lost as u64, Ordering::Relaxed);
        self.waiting.clear();
        Ok(())
    }
}

/// How many lines nobody will read.
pub(crate) fn left_out() -> u64 {
    let waited_in_vain = LEFT_OUT.get().map_or(0, |counter| counter.dropped_lines() as u64);
    waited_in_vain.saturating_add(UNWRITTEN.load(Ordering::Relaxed))
}

/// Says in the log itself how many lines it lacks, once lines are read again.
pub(crate) async fn tell_gaps() {
    let mut told = 0;
    loop {
        tokio::time::sleep(limits::LOG_GAPS_EVERY).await;
        let left_out = left_out();
        if left_out > told {
            tracing::warn!(
                lines = left_out - told,
                "lines of this log were left out: nobody read them in time, or they could not be written"
            );
            told = left_out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with so much room, which may become more.
    struct Disk<'a> {
        room: &'a std::cell::Cell<usize>,
        has: &'a std::cell::RefCell<Vec<u8>>,
    }

    impl Write for Disk<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.room.get() {
                0 => Err(ErrorKind::StorageFull.into()),
                room => {
                    let fits = bytes.len().min(room);
                    self.has.borrow_mut().extend_from_slice(&bytes[..fits]);
                    self.room.set(room - fits);
                    Ok(fits)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_line_without_room_is_counted_once_and_the_next_one_stands_alone_o2() {
        let (room, has) = (std::cell::Cell::new(10), std::cell::RefCell::new(Vec::new()));
        let mut lines = Lines::to(Disk { room: &room, has: &has });
        let before = left_out();
        let mut say = |text: &str| {
            lines.write_all(text.as_bytes()).unwrap();
            lines.flush().unwrap();
            left_out() - before
        };
        assert_eq!(say("one\n"), 0);
        assert_eq!(say("two is cut\nthree\n"), 2);
        assert_eq!(say("four\n"), 3);
        room.set(100);
        assert_eq!(say("five\n"), 3);
        assert_eq!(String::from_utf8(has.borrow().clone()).unwrap(), "one\ntwo is\nfive\n");
    }
}
