//! Feeds `chunked_body` to libFuzzer. What it checks is in `fuzz/src`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hapax_fuzz::chunked_body(data));
