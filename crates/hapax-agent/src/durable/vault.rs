//! How payloads, checkpoints and results are kept: sealed where there is a seal, plain elsewhere (B9).

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::journal::Stream;
use hapax_core::{ClaimId, Error as CoreError};
use hapax_exec::Seal;

/// Seals what is written and opens what is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vault(pub(crate) Option<Arc<Seal>>);

/// Sealed bytes of a stream open in that stream only.
fn context(stream: &Stream) -> Vec<u8> {
    [b"hapax.journal\0", stream.as_str().as_bytes()].concat()
}

impl Vault {
    /// Bytes of a stream, as they are kept.
    pub(crate) fn close(&self, stream: &Stream, plain: Vec<u8>) -> Bytes {
        match &self.0 {
            Some(seal) => seal.seal_bytes(&context(stream), &plain),
            None => plain.into(),
        }
    }

    /// Bytes of a stream, as they were written. What was written before there was a seal is plain.
    pub(crate) fn open(&self, stream: &Stream, kept: &Bytes) -> Result<Bytes, CoreError> {
        match (&self.0, Seal::is_sealed(kept)) {
            (_, false) => Ok(kept.clone()),
            (Some(seal), true) => seal.open_bytes(&context(stream), kept),
            (None, true) => Err(unknown_key()),
        }
    }

    /// What a claim keeps.
    pub(crate) fn close_outcome(&self, claim: &ClaimId, plain: Vec<u8>) -> Bytes {
        match &self.0 {
            Some(seal) => seal.seal(claim, &plain),
            None => plain.into(),
        }
    }

    /// What a claim has kept.
    pub(crate) fn open_outcome(&self, claim: &ClaimId, kept: &Bytes) -> Result<Bytes, CoreError> {
        match (&self.0, Seal::is_sealed(kept)) {
            (_, false) => Ok(kept.clone()),
            (Some(seal), true) => seal.open(claim, kept),
            (None, true) => Err(unknown_key()),
        }
    }
}

fn unknown_key() -> CoreError {
    CoreError::corrupt("it is sealed, and no key to open it with is set")
}
