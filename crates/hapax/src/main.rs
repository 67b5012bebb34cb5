//! The `hapax` program: everything it does is in the library.

use std::process::ExitCode;

/// Requests and claims are of many sizes and outlive each other; the system's allocator asks the kernel for room too often.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hapax::cli::main()
}
