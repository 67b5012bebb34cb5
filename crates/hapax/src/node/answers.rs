//! Kept answers as operators write and read them: the same bytes that the edge keeps, sealed where it seals.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{ClaimId, Error};
use hapax_tower::{Answer, Seal};
use http::StatusCode;

use crate::admin::{AnswerCodec, HttpAnswer};

/// Writes and reads what the edge keeps.
pub(crate) struct KeptAnswers {
    seal: Option<Arc<Seal>>,
}

impl KeptAnswers {
    pub(crate) fn new(seal: Option<Arc<Seal>>) -> Self {
        KeptAnswers { seal }
    }
}

impl AnswerCodec for KeptAnswers {
    fn encode(&self, claim: &ClaimId, answer: &HttpAnswer) -> Result<Bytes, Error> {
        let status =
            StatusCode::from_u16(answer.status).map_err(|_| Error::invalid("this is no HTTP status"))?;
        let kept =
            Answer { status, headers: answer.headers.clone(), body: Some(answer.body.clone()) }.encode();
        Ok(match &self.seal {
            Some(seal) => seal.seal(claim, &kept),
            None => kept,
        })
    }

    fn decode(&self, claim: &ClaimId, kept: &Bytes) -> Result<HttpAnswer, Error> {
        let kept = match &self.seal {
            Some(seal) if Seal::is_sealed(kept) => seal.open(claim, kept)?,
            None if Seal::is_sealed(kept) => {
                return Err(Error::corrupt("the answer is sealed, and no key is set: see [seal]"));
            }
            _ => kept.clone(),
        };
        let Answer { status, headers, body } = Answer::decode(&kept)?;
        Ok(HttpAnswer { status: status.as_u16(), headers, body: body.unwrap_or_default() })
    }
}
