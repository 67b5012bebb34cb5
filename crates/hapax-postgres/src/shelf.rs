//! Shelves: tenant, project and operation of a claim as one number, so that lists have a narrow index to go
//! by.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hapax_core::Identity;

use super::failure::Failure;
use super::link::Link;
use super::row::get;
use crate::limits;

/// The three names, joined; none of them can contain the separator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ShelfName(Box<str>);

const SEPARATOR: char = '\n';

impl ShelfName {
    /// The shelf of an identity. Equal claim ids have equal shelves: the width says which parts count.
    pub(super) fn of(identity: &Identity) -> ShelfName {
        let scope = identity.scope().narrowed(identity.width());
        let operation = identity.operation().as_str();
        ShelfName(format!("{}{SEPARATOR}{}{SEPARATOR}{operation}", scope.tenant(), scope.project()).into())
    }

    fn parts(&self) -> [&str; 3] {
        let mut parts = self.0.splitn(3, SEPARATOR);
        [(); 3].map(|()| parts.next().unwrap_or_default())
    }
}

/// The numbers this process knows. They never change, unless the database is another one than before.
#[derive(Default)]
pub(super) struct Shelves {
    known: Mutex<HashMap<ShelfName, i32>>,
}

impl Shelves {
    /// The number of a shelf, if it is known.
    pub(super) fn get(&self, name: &ShelfName) -> Option<i32> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// Forgets all numbers.
    pub(super) fn clear(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The numbers of these shelves, given out now where they have none.
    pub(super) async fn number(&self, link: &mut Link, names: &[&ShelfName]) -> Result<(), Failure> {
        let mut missing: Vec<&ShelfName> =
            names.iter().copied().filter(|name| self.get(name).is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        // In order, so that two processes with the same new shelves wait for each other and do not deadlock.
        missing.sort_unstable();
        missing.dedup();
        let column = |n: usize| missing.iter().map(|name| name.parts()[n]).collect::<Vec<_>>();
        let (tenants, projects, operations) = (column(0), column(1), column(2));
        link.query(ADD, &[&tenants, &projects, &operations]).await?;
        let rows = link.query(NUMBERS, &[&tenants, &projects, &operations]).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + rows.len() > limits::SHELVES_KNOWN {
            known.clear();
        }
        for row in rows {
            let place: i64 = get(&row, 0)?;
            if let Some(name) = usize::try_from(place - 1).ok().and_then(|place| missing.get(place)) {
                known.insert((*name).clone(), get(&row, 1)?);
            }
        }
        Ok(())
    }
}

const ADD: &str = "\
    INSERT INTO hapax.shelves (tenant, project, operation) \
    SELECT a.tenant, a.project, a.operation FROM unnest($1::text[], $2::text[], $3::text[]) AS a (tenant, project, operation) \
    WHERE NOT EXISTS (SELECT FROM hapax.shelves s \
        WHERE s.tenant = a.tenant AND s.project = a.project AND s.operation = a.operation) \
    ON CONFLICT DO NOTHING";

const NUMBERS: &str = "\
    SELECT a.place, s.id \
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS a (tenant, project, operation, place) \
    JOIN hapax.shelves s ON s.tenant = a.tenant AND s.project = a.project AND s.operation = a.operation";

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{Key, Operation, Scope, Source, Width};

    #[test]
    fn a_shelf_is_what_the_width_leaves_of_the_scope() {
        let identity = |width| {
            let (operation, key) = (Operation::new("pay").unwrap(), Key::new("k").unwrap());
            Identity::new(Source::Header, Scope::local(), width, operation, key)
        };
        assert_eq!(ShelfName::of(&identity(Width::Subject)).parts(), ["local", "local", "pay"]);
        assert_eq!(ShelfName::of(&identity(Width::Tenant)).parts(), ["local", "_any", "pay"]);
    }
}
