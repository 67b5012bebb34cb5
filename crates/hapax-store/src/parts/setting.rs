//! Where the audit has what operators set beside claims (L8): in the columns of its other entries. Those of the claim hold
//! nothing then, and its bytes are the setting's. A real operation id is never all zeros.

use hapax_core::claim::audit::About;
use hapax_core::{Epoch, Error, OperationId, StateName};

/// An entry's columns about a claim; those of a setting are the same with nothing in them.
#[derive(Clone, Copy, Debug)]
pub struct ClaimColumns {
    /// The claim's public id.
    pub operation_id: OperationId,
    /// The epoch that was decided on.
    pub epoch: Epoch,
    /// Its state before.
    pub before: StateName,
    /// Its state after; `None` where it is gone.
    pub after: Option<StateName>,
}

impl From<&About> for ClaimColumns {
    fn from(about: &About) -> Self {
        match *about {
            About::Claim { operation_id, epoch, before, after } => {
                ClaimColumns { operation_id, epoch, before, after }
            }
            About::Setting { .. } => ClaimColumns {
                operation_id: OperationId::from_bytes([0; 16]),
                epoch: Epoch::from_packed(0),
                before: StateName::Released,
                after: None,
            },
        }
    }
}

impl ClaimColumns {
    /// What an entry is about; `bytes` are those of an entry that has no outcome.
    pub fn about(self, bytes: Option<&[u8]>) -> Result<About, Error> {
        let ClaimColumns { operation_id, epoch, before, after } = self;
        match bytes {
            None => Ok(About::Claim { operation_id, epoch, before, after }),
            Some(bytes) => {
                setting(bytes).ok_or_else(|| Error::corrupt("an entry of the audit cannot be read"))
            }
        }
    }
}

/// The bytes of a setting; `None` for a claim, which has none here.
pub fn bytes(about: &About) -> Option<Vec<u8>> {
    let About::Setting { name, before, after } = about else { return None };
    // A line each; none of them has a line break in it, and nothing is set to nothing.
    let line = |text: &Option<String>| text.as_deref().unwrap_or_default().replace('\n', " ");
    Some(format!("{}\n{}\n{}", name.replace('\n', " "), line(before), line(after)).into_bytes())
}

fn setting(bytes: &[u8]) -> Option<About> {
    let mut lines = std::str::from_utf8(bytes).ok()?.split('\n');
    let (name, before, after) = (lines.next()?, lines.next()?, lines.next()?);
    let text = |line: &str| Some(line.to_owned()).filter(|line| !line.is_empty());
    Some(About::Setting { name: name.to_owned(), before: text(before), after: text(after) })
}
