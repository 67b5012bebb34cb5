//! Visits the leaves of JSON text in one pass, without building the document.
//!
//! What is refused is just what [`json`] refuses, so that a body whose leaves are kept is one that has a canonical form.
//! What a leaf is hashed to is decided by whoever visits it.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::json::{self, NotIJson, Pointer};
use crate::limits::{MAX_JSON_DEPTH, MAX_POINTER_BYTES};

/// Members of objects that there is room for from the beginning.
const COMMON_MEMBERS: usize = 24;

/// A value without parts.
#[derive(Clone, Copy)]
pub(super) enum Leaf<'a> {
    Null,
    Bool(bool),
    /// Without the sign of a zero, which means nothing.
    Number(f64),
    Text(&'a str),
    EmptyArray,
    EmptyObject,
}

/// Who is shown the leaves.
pub(super) trait Visit {
    /// Tells places apart; the pointer is that of a leaf, or the last part of a member's.
    fn place(&self, pointer: &str) -> u64;

    /// A leaf and its place. A bit of `lists` is set for each part of the pointer that counts items: `/0` does not tell the
    /// first of a list from the member named 0.
    fn leaf(&mut self, pointer: &str, place: u64, lists: u128, leaf: Leaf<'_>);
}

/// Shows at most `limit` leaves that are not ignored, in the order of the text, and none whose pointer is longer than one of
/// a recipe can be; says whether those were all. `None` if the text has no canonical form, whatever was shown until then.
pub(super) fn walk(text: &[u8], ignored: &[Pointer], limit: usize, visit: &mut impl Visit) -> Option<bool> {
    // Once for the whole text, or the reader does it for every string.
    let text = std::str::from_utf8(text).ok()?;
    let mut walk = Walk {
        visit,
        ignored,
        pointer: String::with_capacity(64),
        lists: 0,
        members: Vec::with_capacity(COMMON_MEMBERS),
        unseen: 0,
        left: limit,
        whole: true,
        plain_numbers: true,
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    Value { walk: &mut walk, place: None, depth: 0 }.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    (walk.plain_numbers || json::is_lossless(text.as_bytes())).then_some(walk.whole)
}

/// An integer of so few digits survives whatever is done with it.
const PLAIN: u64 = 999_999_999_999_999;

struct Walk<'w, V> {
    visit: &'w mut V,
    ignored: &'w [Pointer],
    /// The place that is being read.
    pointer: String,
    /// Which parts of it count items; nothing is as deep as it has bits.
    lists: u128,
    /// The names of the members of all objects that have begun and not ended, as places below them.
    members: Vec<u64>,
    /// How many ignored parts the reader is in.
    unseen: usize,
    left: usize,
    whole: bool,
    /// Whether every number so far is one that need not be looked at again.
    plain_numbers: bool,
}

impl<V: Visit> Walk<'_, V> {
    /// The leaf that the pointer names; its place, if that is known already.
    fn leaf(&mut self, place: Option<u64>, leaf: Leaf<'_>) {
        if self.unseen > 0 {
            return;
        }
        // A long name is part of every pointer below it: whoever hashed them all would hash a body as often as it has leaves.
        if self.pointer.len() > MAX_POINTER_BYTES {
            self.whole = false;
            return;
        }
        match self.left.checked_sub(1) {
            Some(fewer) => {
                self.left = fewer;
                let place = place.unwrap_or_else(|| self.visit.place(&self.pointer));
                self.visit.leaf(&self.pointer, place, self.lists, leaf);
            }
            None => self.whole = false,
        }
    }

    fn is_ignored(&self) -> bool {
        self.ignored.iter().any(|pointer| pointer.as_str() == self.pointer)
    }
}

/// One value, to be read.
struct Value<'a, 'w, V> {
    walk: &'a mut Walk<'w, V>,
    /// Where it is known already: a member of the outermost object has its name for a place.
    place: Option<u64>,
    depth: usize,
}

impl<V: Visit> Value<'_, '_, V> {
    fn leaf<E>(self, leaf: Leaf<'_>) -> Result<(), E> {
        self.walk.leaf(self.place, leaf);
        Ok(())
    }

    fn deeper<E: Error>(&self) -> Result<usize, E> {
        if self.depth == MAX_JSON_DEPTH {
            return Err(E::custom(NotIJson::TooDeep));
        }
        Ok(self.depth + 1)
    }
}

impl<'de, V: Visit> DeserializeSeed<'de> for Value<'_, '_, V> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, V: Visit> Visitor<'de> for Value<'_, '_, V> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.leaf(Leaf::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.leaf(Leaf::Bool(value))
    }

    // An integer that a double cannot hold is refused at the end.
    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.walk.plain_numbers &= value <= PLAIN;
        self.leaf(Leaf::Number(value as f64))
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.walk.plain_numbers &= value.unsigned_abs() <= PLAIN;
        self.leaf(Leaf::Number(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom(NotIJson::Unreadable));
        }
        self.walk.plain_numbers = false;
        self.leaf(Leaf::Number(value + 0.0))
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.leaf(Leaf::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let depth = self.deeper()?;
        let parent = self.walk.pointer.len();
        let walk = self.walk;
        let mut count = 0_usize;
        walk.lists |= 1 << self.depth;
        loop {
            push_index(&mut walk.pointer, count);
            let ignored = walk.is_ignored();
            walk.unseen += usize::from(ignored);
            let item = items.next_element_seed(Value { walk: &mut *walk, place: None, depth })?;
            walk.unseen -= usize::from(ignored);
            if item.is_some() && ignored {
                // So that the pointers to the items behind it stay true.
                walk.leaf(None, Leaf::Null);
            }
            walk.pointer.truncate(parent);
            if item.is_none() {
                break;
            }
            count += 1;
        }
        walk.lists &= !(1 << self.depth);
        if count == 0 {
            walk.leaf(self.place, Leaf::EmptyArray);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let depth = self.deeper()?;
        let parent = self.walk.pointer.len();
        let walk = self.walk;
        let first = walk.members.len();
        let mut seen = 0_usize;
        while let Some(()) = members.next_key_seed(Name(&mut walk.pointer))? {
            // Names of one object are told apart without what they have in common, however many there are.
            let name = walk.visit.place(&walk.pointer[parent..]);
            walk.members.push(name);
            let place = (parent == 0).then_some(name);
            let ignored = walk.is_ignored();
            walk.unseen += usize::from(ignored);
            members.next_value_seed(Value { walk: &mut *walk, place, depth })?;
            walk.unseen -= usize::from(ignored);
            seen += usize::from(!ignored);
            walk.pointer.truncate(parent);
        }
        let places = &mut walk.members[first..];
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(A::Error::custom(NotIJson::DuplicateName));
        }
        walk.members.truncate(first);
        if seen == 0 {
            walk.leaf(self.place, Leaf::EmptyObject);
        }
        Ok(())
    }
}

/// Appends an index to a pointer.
fn push_index(pointer: &mut String, index: usize) {
    match u8::try_from(index) {
        Ok(digit @ 0..10) => pointer.extend(['/', char::from(b'0' + digit)]),
        // Writing into a string does not fail.
        _ => drop(write!(pointer, "/{index}")),
    }
}

/// The name of a member, to be read onto the end of a pointer.
struct Name<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        json::push_token(self.0, name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::limits::MAX_LEAVES;

    /// Counts what it is given to hash, and remembers where leaves are.
    #[derive(Default)]
    struct Counting {
        hashed: Cell<usize>,
        leaves: Vec<String>,
    }

    impl Visit for Counting {
        fn place(&self, pointer: &str) -> u64 {
            self.hashed.set(self.hashed.get() + pointer.len());
            // Tells places apart as far as these bodies need it.
            pointer.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
        }

        fn leaf(&mut self, pointer: &str, _: u64, _: u128, _: Leaf<'_>) {
            self.leaves.push(pointer.to_owned());
        }
    }

    fn counted(body: &str) -> (Counting, Option<bool>) {
        let mut counting = Counting::default();
        let whole = walk(body.as_bytes(), &[], MAX_LEAVES, &mut counting);
        (counting, whole)
    }

    #[test]
    fn a_body_costs_as_much_as_it_is_long_and_not_its_length_times_that_of_a_name_h10() {
        let (name, many) = ("n".repeat(10_000), 3_000);
        let members = |value: &str| -> String {
            let all: Vec<String> = (0..many).map(|number| format!("\"{number}\":{value}")).collect();
            all.join(",")
        };
        let deep = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        for body in [
            format!("{{\"{name}\":{{{}}}}}", members("1")),
            format!("{{\"{name}\":{{{}}}}}", members("{}")),
            format!("{{\"{name}\":[{}1]}}", "1,".repeat(many)),
            format!("{{\"{name}\":{{{}}}}}", members(&deep(20))),
            format!("{{\"{}\":{{{}}}}}", &name[..MAX_POINTER_BYTES - 8], members("1")),
        ] {
            let (counting, whole) = counted(&body);
            assert_eq!(whole, Some(false));
            let most = body.len() + MAX_LEAVES * MAX_POINTER_BYTES;
            assert!(counting.hashed.get() <= most, "{} of {}", counting.hashed.get(), body.len());
        }
    }

    #[test]
    fn a_leaf_with_a_longer_pointer_than_a_recipe_can_have_is_left_out_h10() {
        let name = |bytes: usize| "n".repeat(bytes);
        let body = |bytes: usize| format!("{{\"a\":1,\"{}\":2,\"b\":{{\"c\":3}}}}", name(bytes));
        let (counting, whole) = counted(&body(MAX_POINTER_BYTES - 1));
        assert_eq!((counting.leaves.len(), whole), (3, Some(true)));
        let (counting, whole) = counted(&body(MAX_POINTER_BYTES));
        assert_eq!((counting.leaves, whole), (vec!["/a".to_owned(), "/b/c".to_owned()], Some(false)));
    }

    #[test]
    fn a_name_that_is_there_twice_is_found_at_every_depth_and_length_k7() {
        let long = "n".repeat(MAX_POINTER_BYTES);
        for twice in
            ["{\"a\":1,\"b\":2,\"a\":3}", "{\"x\":{\"a\":1,\"b\":{},\"a\":3}}", "[{\"a\":[],\"a\":[]}]"]
        {
            assert_eq!(counted(twice).1, None, "{twice}");
            assert_eq!(counted(&twice.replace('a', &long)).1, None, "{twice}");
            assert_eq!(counted(&format!("{{\"{long}\":{twice}}}")).1, None, "{twice}");
        }
        assert_eq!(counted("{\"a\":{\"a\":1},\"b\":{\"a\":1}}").1, Some(true));
    }
}
