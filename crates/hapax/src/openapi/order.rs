//! Writes a document in the order in which its members stood before, and its numbers as they were written, so that people who look
//! at the difference see what was added and nothing else. New members come after the old ones. Whether a member is there twice is
//! known here, too: in the values alone, the last has replaced the others.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::token;

/// The order of members, without their values, and how numbers are written.
#[derive(Debug, Default)]
pub(crate) enum Order {
    Object(Vec<(String, Order)>),
    Array(Vec<Order>),
    Number(Box<str>),
    #[default]
    Other,
}

impl Order {
    /// The order of a text; none where it is no JSON.
    pub(crate) fn of(text: &str) -> Order {
        let numbers = Cell::new(text);
        let mut reader = serde_json::Deserializer::from_str(text);
        let order = Reading { numbers: &numbers }.deserialize(&mut reader);
        order.and_then(|order| reader.end().map(|()| order)).unwrap_or_default()
    }

    /// The pointer of a member whose name an object has twice.
    pub(crate) fn twice(&self) -> Option<String> {
        match self {
            Order::Object(members) => {
                let mut names = HashSet::new();
                members.iter().find_map(|(name, order)| {
                    let below = if names.insert(name) { order.twice()? } else { String::new() };
                    Some(format!("/{}{below}", token(name)))
                })
            }
            Order::Array(items) => {
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| item.twice().map(|below| format!("/{index}{below}")))
            }
            Order::Number(_) | Order::Other => None,
        }
    }

    fn member(&self, name: &str) -> &Order {
        match self {
            Order::Object(members) => {
                members.iter().find(|(own, _)| own == name).map_or(&Order::Other, |(_, order)| order)
            }
            _ => &Order::Other,
        }
    }

    fn item(&self, index: usize) -> &Order {
        match self {
            Order::Array(items) => items.get(index).unwrap_or(&Order::Other),
            _ => &Order::Other,
        }
    }
}

/// Reads the order of one value.
#[derive(Clone, Copy)]
struct Reading<'t, 'c> {
    /// What is left of the text behind the last number that was read: a reader tells the value of a number, not how it is written.
    numbers: &'c Cell<&'t str>,
}

impl Reading<'_, '_> {
    /// The next number of the text as it is written.
    fn number(self) -> Order {
        let mut rest = self.numbers.get();
        while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
            rest = &rest[at..];
            if let Some(text) = rest.strip_prefix('"') {
                rest = behind_text(text);
                continue;
            }
            let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
            let (number, behind) = rest.split_at(rest.find(|c| !is_of_number(c)).unwrap_or(rest.len()));
            self.numbers.set(behind);
            return Order::Number(number.into());
        }
        Order::Other
    }
}

/// What follows a text whose opening quote has gone.
fn behind_text(mut rest: &str) -> &str {
    while let Some(at) = rest.find(['"', '\\']) {
        let is_end = rest[at..].starts_with('"');
        // What is escaped is one byte, which may be a quote.
        rest = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            break;
        }
    }
    rest
}

impl<'de> DeserializeSeed<'de> for Reading<'_, '_> {
    type Value = Order;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Order, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_, '_> {
    type Value = Order;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Order, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key()? {
            members.push((name, map.next_value_seed(self)?));
        }
        Ok(Order::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Order, A::Error> {
        let mut orders = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            orders.push(item);
        }
        Ok(Order::Array(orders))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Order, E> {
        Ok(Order::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Order, E> {
        Ok(self.number())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Order, E> {
        Ok(self.number())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Order, E> {
        Ok(self.number())
    }

    fn visit_str<E>(self, _: &str) -> Result<Order, E> {
        Ok(Order::Other)
    }

    fn visit_unit<E>(self) -> Result<Order, E> {
        Ok(Order::Other)
    }
}

/// The document as indented text.
pub(crate) fn write(document: &Json, order: &Order) -> String {
    let mut text = String::new();
    value(&mut text, document, order, 0);
    text.push('\n');
    text
}

fn value(text: &mut String, json: &Json, order: &Order, depth: usize) {
    match json {
        Json::Object(members) if !members.is_empty() => {
            let known = if let Order::Object(known) = order { known.as_slice() } else { &[] };
            let old = known.iter().filter_map(|(name, _)| members.get_key_value(name));
            let new = members.iter().filter(|(name, _)| !known.iter().any(|(own, _)| own == *name));
            let members: Vec<_> = old.chain(new).collect();
            block(text, '{', '}', depth, &members, |text, (name, member)| {
                text.push_str(&Json::from(name.as_str()).to_string());
                text.push_str(": ");
                value(text, member, order.member(name), depth + 1);
            });
        }
        Json::Array(items) if !items.is_empty() => {
            let items: Vec<_> = items.iter().enumerate().collect();
            block(text, '[', ']', depth, &items, |text, (index, item)| {
                value(text, item, order.item(*index), depth + 1);
            });
        }
        plain => match order {
            Order::Number(written) if written.parse().is_ok_and(|read: Json| read == *plain) => {
                text.push_str(written);
            }
            _ => text.push_str(&plain.to_string()),
        },
    }
}

fn block<T>(
    text: &mut String,
    open: char,
    close: char,
    depth: usize,
    items: &[T],
    each: impl Fn(&mut String, &T),
) {
    text.push(open);
    for (index, item) in items.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&"  ".repeat(depth + 1));
        each(text, item);
    }
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stay_where_they_were_and_new_ones_come_after() {
        let before = "{\n  \"z\": 1,\n  \"b\": [\n    {\n      \"y\": \"é\\n\",\n      \"a\": {}\n    }\n  ],\n  \"c\": []\n}\n";
        let mut document: Json = serde_json::from_str(before).unwrap();
        let order = Order::of(before);
        assert_eq!(write(&document, &order), before);
        document["a"] = true.into();
        document["b"][0]["m"] = Json::Null;
        let after = before
            .replace("\"a\": {}", "\"a\": {},\n      \"m\": null")
            .replace("[]\n", "[],\n  \"a\": true\n");
        assert_eq!(write(&document, &order), after);
        let read: Json = serde_json::from_str(&after).unwrap();
        assert_eq!(read, document);
    }

    #[test]
    fn numbers_stay_as_they_are_written_also_those_that_no_double_holds() {
        let before = "{\n  \"z-1\": \"a\\\\\",\n  \"5\": \"\\\"7\",\n  \"b\": [\n    1.0,\n    1e2,\n    -0.10,\n    \"8\",\n    \
                      115792089237316195423570985008687907853269984665640564039457584007913129639935,\n    null,\n    1E+5\n  ],\n  \
                      \"c\": 12345678901234567890.5\n}\n";
        let mut document: Json = serde_json::from_str(before).unwrap();
        let order = Order::of(before);
        assert_eq!(write(&document, &order), before);
        document["b"][1] = 7.into();
        assert_eq!(write(&document, &order), before.replace("1e2", "7"), "another value is written as it is");
    }
}
