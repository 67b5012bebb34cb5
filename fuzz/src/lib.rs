//! What is fuzzed: each target is a plain function of bytes that panics when it finds something.
//!
//! `libfuzzer/` beside this crate feeds them to libFuzzer (`cargo xtask fuzz NAME`); the tests of this crate feed them their
//! seeds and a bounded number of mutations, the same ones in every run. They also break the subject of each target ([`broken`]) and see
//! that the target finds it.

mod canonical_json;
mod configuration;
mod cut;
mod http1;
mod key_header;
mod second_opinion;
mod subject;

pub use canonical_json::canonical_json;
pub use configuration::configuration;
pub use http1::{chunked_body, request_head, response_head};
pub use key_header::key_header;
pub use second_opinion::against_hyper;
pub use subject::broken;

/// Panics when it finds something in these bytes.
pub type Target = fn(&[u8]);

/// Every target, with the name of its program and of the folder of its seeds.
pub const TARGETS: [(&str, Target); 7] = [
    ("request_head", request_head),
    ("response_head", response_head),
    ("chunked_body", chunked_body),
    ("against_hyper", against_hyper),
    ("key_header", key_header),
    ("canonical_json", canonical_json),
    ("configuration", configuration),
];
