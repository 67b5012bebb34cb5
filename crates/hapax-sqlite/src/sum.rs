//! The checksum that every stored record carries (B8).
//!
//! A record is checked as a list of values, each with its type and length, so that no two records give the
//! same bytes.

use hapax_core::Error;

use super::fault::damaged;

/// Collects a record's values.
#[derive(Debug)]
pub(super) struct Sum(Vec<u8>);

impl Sum {
    /// Starts a record of a table. The table's name keeps a row from passing for one of another table.
    pub(super) fn of(table: &str) -> Self {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(table.as_bytes());
        Sum(bytes)
    }

    /// Adds a number.
    pub(super) fn int(mut self, value: i64) -> Self {
        self.0.push(1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Adds a number that may be missing.
    pub(super) fn opt(mut self, value: Option<i64>) -> Self {
        match value {
            Some(value) => self.int(value),
            None => {
                self.0.push(0);
                self
            }
        }
    }

    /// Adds bytes.
    pub(super) fn bytes(mut self, value: &[u8]) -> Self {
        self.0.push(2);
        self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.0.extend_from_slice(value);
        self
    }

    /// Adds bytes that may be missing.
    pub(super) fn opt_bytes(mut self, value: Option<&[u8]>) -> Self {
        match value {
            Some(value) => self.bytes(value),
            None => {
                self.0.push(0);
                self
            }
        }
    }

    /// The checksum as it is stored.
    pub(super) fn value(self) -> i64 {
        stored(crc32fast::hash(&self.0))
    }

    /// Compares with what was stored. `what` names the record for the operator.
    pub(super) fn check(self, stored: i64, what: impl FnOnce() -> String) -> Result<(), Error> {
        if self.value() == stored {
            return Ok(());
        }
        Err(damaged(format_args!("checksum of {}", what())))
    }
}

/// The checksum of large bytes, which are not copied for it.
pub(super) fn of_bytes(table: &str, ids: [i64; 2], bytes: &[u8]) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(table.as_bytes());
    hasher.update(&ids[0].to_le_bytes());
    hasher.update(&ids[1].to_le_bytes());
    hasher.update(bytes);
    stored(hasher.finalize())
}

/// A checksum as it is stored: with a sign it always takes four bytes.
pub(super) fn stored(crc: u32) -> i64 {
    i64::from(crc.cast_signed())
}
