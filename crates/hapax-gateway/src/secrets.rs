//! Secrets of an installation: made once, kept in its registry, shared by its instances; sealed where there is a key (B9).

use bytes::Bytes;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, Kind, Registry};
use hapax_exec::Seal;

/// The secret that explains mismatches (H10).
pub const LEAF_KEY: &str = "leaf-key";
/// The secret of the public ids of delegated calls (D2).
pub const OPERATION_ID: &str = "operation-id";

const KIND: &str = "secret";

/// The secret with this name: the one that is kept, or one that is made now.
pub async fn of_installation(
    registry: &impl Registry,
    seal: Option<&Seal>,
    name: &str,
) -> Result<[u8; 32], Error> {
    let id = document_id(name)?;
    loop {
        let found = registry.get(&id).await?;
        let (version, key, kept_well) = match &found {
            Some(document) => {
                let (key, kept_well) = read(document, seal, name)?;
                (document.version, key, kept_well)
            }
            None => (0, fresh()?, false),
        };
        if kept_well {
            return Ok(key);
        }
        let body = match seal {
            Some(seal) => seal.seal_bytes(&context(name), &key),
            None => Bytes::copy_from_slice(&key),
        };
        match registry.put(&id, version, body).await {
            // Another instance was faster: what it wrote counts.
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(key),
        }
    }
}

/// Where it is kept.
pub fn document_id(name: &str) -> Result<DocumentId, Error> {
    DocumentId::new(KIND, name)
}

/// Says why these keys, or none, do not open the secret with this name.
pub fn opens(document: &Document, seal: Option<&Seal>, name: &str) -> Result<(), Error> {
    read(document, seal, name).map(drop)
}

/// Where the secret belongs: sealed bytes that were moved elsewhere do not open.
fn context(name: &str) -> Vec<u8> {
    format!("{KIND}/{name}").into_bytes()
}

/// The secret, and whether it is kept as the present keys would keep it.
fn read(document: &Document, seal: Option<&Seal>, name: &str) -> Result<([u8; 32], bool), Error> {
    let broken = || Error::corrupt(format!("the installation's secret {name} cannot be read"));
    let plain = <[u8; 32]>::try_from(&document.body[..]);
    match (plain, seal) {
        (Ok(key), seal) => Ok((key, seal.is_none())),
        (Err(_), Some(seal)) => {
            let opened = seal.open_bytes(&context(name), &document.body)?;
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
