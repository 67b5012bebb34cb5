//! Free memory that the machine has at hand.
//!
//! A virtual machine may give memory that nobody uses back to its host, and get it back page by page when it is touched: on
//! such a machine the first touch of a page takes twenty times as long as on others. A store that keeps what it is told
//! touches new pages with every claim, so that the host's work is taken for hapax's. Before each measurement, nginx's as well
//! as hapax's, memory is therefore touched and freed. That helps as far as the kernel hands just those pages out again, and how
//! long a page took is printed beside what was measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// More than any measurement of a few seconds comes to need.
const BYTES: usize = 512 << 20;
const PAGE: usize = 4096;

/// Touches that much memory and frees it again; how long one page took.
pub(crate) fn touch() -> Duration {
    let began = Instant::now();
    drop(black_box(vec![1_u8; BYTES]));
    began.elapsed() / (BYTES / PAGE) as u32
}
