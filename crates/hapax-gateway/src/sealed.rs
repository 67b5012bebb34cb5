//! The public ids of delegated calls (D2): whose a call is, and which one, sealed, so that only this installation reads it.
//!
//! The same call has the same id in every answer: the nonce is an HMAC of what is sealed. The id opens for the scope that it was made
//! for and no other, because the scope is part of what is authenticated and is nowhere written.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hapax_core::Error;
use hapax_core::scope::ScopeParts;
use hapax_tower::OpaqueId;
use sha2::{Digest as _, Sha256};

/// The first byte of what is sealed. To be raised with every change of the format.
const VERSION: u8 = 1;
/// How many bytes say which handler of which route it is.
const TARGET_BYTES: usize = 16;
/// How such an id starts, as every operation id does.
const PREFIX: &str = "op_";

/// Which handler an id leads to: a digest of the operation, the service and the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SealedTarget([u8; TARGET_BYTES]);

impl SealedTarget {
    pub(crate) fn of(operation: &str, service: &str, handler: &str) -> Self {
        let mut bytes = [0; TARGET_BYTES];
        bytes.copy_from_slice(&digest([operation, service, handler])[..TARGET_BYTES]);
        SealedTarget(bytes)
    }
}

/// Makes and reads the public ids of delegated calls.
pub(crate) struct OperationSeal {
    key: LessSafeKey,
    nonces: hmac::Key,
}

impl OperationSeal {
    /// With the installation's secret.
    pub(crate) fn new(secret: &[u8; 32]) -> Result<Self, Error> {
        let derived = |what: &str| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            hmac::sign(&key, what.as_bytes())
        };
        let unusable = |_| Error::internal("the secret of operation ids cannot be used");
        let key = UnboundKey::new(&AES_256_GCM, derived("hapax.operation-id.v1.key").as_ref());
        let nonces = hmac::Key::new(hmac::HMAC_SHA256, derived("hapax.operation-id.v1.nonce").as_ref());
        Ok(OperationSeal { key: LessSafeKey::new(key.map_err(unusable)?), nonces })
    }

    /// The id of a call of this scope.
    pub(crate) fn seal(
        &self,
        scope: &ScopeParts<'_>,
        target: SealedTarget,
        invocation: &str,
    ) -> Option<OpaqueId> {
        let scope = of_scope(scope);
        let mut plain = Vec::with_capacity(1 + TARGET_BYTES + invocation.len() + 16);
        plain.push(VERSION);
        plain.extend(target.0);
        plain.extend(invocation.as_bytes());
        let mut context = hmac::Context::with_key(&self.nonces);
        context.update(&scope);
        context.update(&plain);
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&context.sign().as_ref()[..NONCE_LEN]);
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(unique, Aad::from(scope), &mut plain).ok()?;
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode([&nonce[..], &plain].concat()));
        OpaqueId::new(text).ok()
    }

    /// What an id stands for, if it was made for this scope.
    pub(crate) fn open(&self, scope: &ScopeParts<'_>, id: &OpaqueId) -> Option<(SealedTarget, String)> {
        let bytes = URL_SAFE_NO_PAD.decode(id.as_str().strip_prefix(PREFIX)?).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let plain = self.key.open_in_place(nonce, Aad::from(of_scope(scope)), &mut sealed).ok()?;
        let (&version, rest) = plain.split_first()?;
        let (target, invocation) = rest.split_first_chunk::<TARGET_BYTES>()?;
        let invocation = std::str::from_utf8(invocation).ok()?;
        (version == VERSION).then(|| (SealedTarget(*target), invocation.to_owned()))
    }
}

fn of_scope(scope: &ScopeParts<'_>) -> [u8; 32] {
    digest([scope.tenant(), scope.project(), scope.subject()])
}

/// The digest of several texts, each with its length.
fn digest<const N: usize>(parts: [&str; N]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use hapax_core::{Project, Scope, Subject, SubjectKind, Tenant, Width};

    use super::*;

    fn scope(tenant: &str, project: &str, user: &str) -> Scope {
        let subject = Subject::from_credential(SubjectKind::User, user).unwrap();
        Scope::new(Tenant::new(tenant).unwrap(), Project::new(project).unwrap(), subject)
    }

    #[test]
    fn an_id_is_the_same_every_time_and_opens_for_its_own_scope_alone_d2() {
        let seal = OperationSeal::new(&[7; 32]).unwrap();
        let target = SealedTarget::of("pay", "Payments", "charge");
        let (alice, inv) = (scope("acme", "shop", "alice"), "inv_19WxlJSKNByp16K1tj7svVSGN7ElVXhYzX");
        let parts = alice.narrowed(Width::Subject);
        let id = seal.seal(&parts, target, inv).unwrap();
        assert_eq!(seal.seal(&parts, target, inv).unwrap(), id);
        assert_eq!(OperationSeal::new(&[7; 32]).unwrap().open(&parts, &id), Some((target, inv.to_owned())));
        assert!(id.as_str().len() <= 512 && !id.as_str().contains("inv_") && !id.as_str().contains("acme"));
        for other in
            [scope("acme", "shop", "bob"), scope("acme", "sho", "palice"), scope("globex", "shop", "alice")]
        {
            assert_eq!(seal.open(&other.narrowed(Width::Subject), &id), None);
            assert_ne!(seal.seal(&other.narrowed(Width::Subject), target, inv).unwrap(), id);
        }
        assert_eq!(seal.open(&alice.narrowed(Width::Project), &id), None, "kept for one subject");
        assert_eq!(OperationSeal::new(&[8; 32]).unwrap().open(&parts, &id), None, "of another installation");
        assert_ne!(seal.seal(&parts, SealedTarget::of("pay", "Payment", "scharge"), inv).unwrap(), id);
        let mut forged = id.as_str().to_owned();
        forged.replace_range(20..21, if &forged[20..21] == "A" { "B" } else { "A" });
        assert_eq!(seal.open(&parts, &OpaqueId::new(forged).unwrap()), None);
    }
}
