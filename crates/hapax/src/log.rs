//! The log: lines on standard error, written by a thread of its own.
//!
//! Whoever reads them may stop reading: a pipe is full, a collector hangs. Then lines are left out and counted, and no request
//! waits for them.

use std::io::{self, BufWriter};
use std::sync::OnceLock;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
use crate::limits;

/// The lines that the process has left out.
static LEFT_OUT: OnceLock<ErrorCounter> = OnceLock::new();

/// Lines are written while this is there; what waits then is written before it goes.
pub(crate) struct Writing(#[expect(dead_code, reason = "what counts is when it is dropped")] WorkerGuard);

/// Starts the log of the process.
pub(crate) fn start(log: &Log) -> Writing {
    let (lines, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(limits::LOG_LINES)
        .thread_name("hapax-log")
        .finish(BufWriter::new(io::stderr()));
    // Only the first log counts: a program that embeds this may have its own.
    let _ = LEFT_OUT.set(lines.error_counter());
    let filter = EnvFilter::try_from_env("HAPAX_LOG").unwrap_or_else(|_| EnvFilter::new(log.level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines);
    let _ = match log.format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.try_init(),
    };
    Writing(guard)
}

/// How many lines nobody will read.
pub(crate) fn left_out() -> u64 {
    LEFT_OUT.get().map_or(0, |counter| counter.dropped_lines() as u64)
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
                "lines of this log were left out: nobody read them in time"
            );
            told = left_out;
        }
    }
}
