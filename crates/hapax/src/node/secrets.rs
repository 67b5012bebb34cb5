//! The secrets of an installation that the program itself needs; how they are kept is the gateway's affair, which needs one, too.

use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, LeafKey, Registry};
use hapax_exec::Seal;
use hapax_gateway::secrets;

/// The secret that explains mismatches (H10).
pub(super) async fn leaf_key(registry: &impl Registry, seal: Option<&Seal>) -> Result<LeafKey, Error> {
    secrets::of_installation(registry, seal, secrets::LEAF_KEY).await.map(LeafKey::new)
}

/// Where it is kept.
pub(crate) fn secret_id() -> Result<DocumentId, Error> {
    secrets::document_id(secrets::LEAF_KEY)
}

/// Says why these keys, or none, do not open the secret.
pub(crate) fn opens(document: &Document, seal: Option<&Seal>) -> Result<(), Error> {
    secrets::opens(document, seal, secrets::LEAF_KEY)
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
        let id = secret_id().unwrap();
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
