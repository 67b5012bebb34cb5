//! Counters with labels of their own, which are counted rarely: up to a bound each label set is told apart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::families::Family;
use super::text::Text;
use crate::limits;

/// Counts by the values of `N` labels.
#[derive(Debug)]
pub(super) struct Tally<const N: usize>(Mutex<BTreeMap<[Arc<str>; N], u64>>);

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Tally(Mutex::default())
    }
}

impl<const N: usize> Tally<N> {
    /// Adds so many to these labels; where there is no room for them, to `_other`.
    pub(super) fn add(&self, labels: [&str; N], count: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut labels: [Arc<str>; N] = labels.map(Arc::from);
        if counts.len() >= limits::TALLIED && !counts.contains_key(&labels) {
            labels = labels.map(|_| Arc::from("_other"));
        }
        *counts.entry(labels).or_default() += count;
    }

    /// Writes all of them out.
    pub(super) fn write(&self, family: &Family, text: &mut Text) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut samples = text.family(family);
        for (labels, count) in &counts {
            samples.sample(&labels.each_ref().map(|label| &**label), count);
        }
    }
}
