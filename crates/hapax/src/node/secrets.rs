//! Secrets of an installation: made once, kept in its registry, shared by its instances; sealed where there is a key (B9).

use bytes::Bytes;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, Kind, LeafKey, Registry};
use hapax_exec::Seal;

/// Where the secret belongs: sealed bytes that were moved elsewhere do not open.
const LEAF_KEY: (&str, &str) = ("secret", "leaf-key");
const CONTEXT: &[u8] = b"secret/leaf-key";

/// The secret that explains mismatches (H10).
pub(super) async fn leaf_key(registry: &impl Registry, seal: Option<&Seal>) -> Result<LeafKey, Error> {
    let id = secret_id()?;
    loop {
        let found = registry.get(&id).await?;
        let (version, key, kept_well) = match &found {
            Some(document) => {
                let (key, kept_well) = read(document, seal)?;
                (document.version, key, kept_well)
            }
            None => (0, fresh()?, false),
        };
        if kept_well {
            return Ok(LeafKey::new(key));
        }
        let body = match seal {
            Some(seal) => seal.seal_bytes(CONTEXT, &key),
            None => Bytes::copy_from_slice(&key),
        };
        match registry.put(&id, version, body).await {
            // Another instance was faster: what it wrote counts.
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(LeafKey::new(key)),
        }
    }
}

/// Where it is kept.
pub(crate) fn secret_id() -> Result<DocumentId, Error> {
    DocumentId::new(LEAF_KEY.0, LEAF_KEY.1)
}

/// Says why these keys, or none, do not open the secret.
pub(crate) fn opens(document: &Document, seal: Option<&Seal>) -> Result<(), Error> {
    read(document, seal).map(drop)
}

/// The secret, and whether it is kept as the present keys would keep it.
fn read(document: &Document, seal: Option<&Seal>) -> Result<([u8; 32], bool), Error> {
    let broken = || Error::corrupt("the installation's leaf key cannot be read");
    let plain = <[u8; 32]>::try_from(&document.body[..]);
    match (plain, seal) {
        (Ok(key), seal) => Ok((key, seal.is_none())),
        (Err(_), Some(seal)) => {
            let opened = seal.open_bytes(CONTEXT, &document.body)?;
            let key = <[u8; 32]>::try_from(&opened[..]).map_err(|_| broken())?;
            Ok((key, seal.seals_like(&document.body)))
        }
        (Err(_), None) if Seal::is_sealed(&document.body) => {
            Err(Error::corrupt("what is kept here is sealed, and no key is set: see [seal]"))
        }
        (Err(_), None) => Err(broken()),
    }
}

fn fresh() -> Result<[u8; 32], Error> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(|_| Error::internal("the system gives no random bytes"))?;
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use hapax_core::{Leaves, Registry as _};
    use hapax_store::Options;
    use hapax_store::memory::Memory;

    use super::*;

    fn leaves(key: &LeafKey) -> Option<Leaves> {
        Leaves::of_json(br#"{"a": 1}"#, key, &[])
    }

    #[tokio::test]
    async fn the_secret_stays_the_same_and_is_sealed_with_the_first_key_b9() {
        let store = Memory::open(Options::default());
        let id = DocumentId::new(LEAF_KEY.0, LEAF_KEY.1).unwrap();
        let (old, new) = (Seal::new(vec![[1; 32]]).unwrap(), Seal::new(vec![[2; 32], [1; 32]]).unwrap());
        let plain = leaf_key(&store, None).await.unwrap();
        for seal in [&old, &new, &new] {
            assert_eq!(leaves(&leaf_key(&store, Some(seal)).await.unwrap()), leaves(&plain));
            let kept = store.get(&id).await.unwrap().unwrap().body;
            assert!(Seal::is_sealed(&kept) && seal.seals_like(&kept));
        }
        assert!(leaf_key(&store, Some(&old)).await.is_err(), "the old key alone does not open it any more");
        let told = leaf_key(&store, None).await.err().unwrap();
        assert!(told.message().contains("[seal]"), "{told}");
    }
}
