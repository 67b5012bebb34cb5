//! Feeds `request_head` to libFuzzer. What it checks is in `fuzz/src`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hapax_fuzz::request_head(data));
