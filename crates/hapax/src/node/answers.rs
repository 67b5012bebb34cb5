//! Kept answers as operators write and read them: the same bytes that the edge keeps, sealed where it seals.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{ClaimId, Error};
use hapax_exec::Seal;
use hapax_tower::Answer;

/// Writes and reads what the edge keeps.
#[derive(Clone)]
pub(crate) struct KeptAnswers {
    seal: Option<Arc<Seal>>,
}

impl KeptAnswers {
    pub(crate) fn new(seal: Option<Arc<Seal>>) -> Self {
        KeptAnswers { seal }
    }

    /// For those who have no key.
    pub(crate) const fn unsealed() -> Self {
        KeptAnswers { seal: None }
    }

    /// What seals, where anything does.
    pub(crate) fn seal(&self) -> Option<Arc<Seal>> {
        self.seal.clone()
    }

    /// What the ledger keeps for this answer of this claim.
    pub(crate) fn encode(&self, claim: &ClaimId, answer: &Answer) -> Bytes {
        let kept = answer.encode();
        match &self.seal {
            Some(seal) => seal.seal(claim, &kept),
            None => kept,
        }
    }

    /// Reads what the ledger keeps for this claim.
    pub(crate) fn decode(&self, claim: &ClaimId, kept: &Bytes) -> Result<Answer, Error> {
        match &self.seal {
            Some(seal) if Seal::is_sealed(kept) => Answer::decode(&seal.open(claim, kept)?),
            None if Seal::is_sealed(kept) => {
                Err(Error::corrupt("the answer is sealed, and no key is set: see [seal]"))
            }
            _ => Answer::decode(kept),
        }
    }
}
