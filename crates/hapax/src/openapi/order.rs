//! Writes a document in the order in which its members stood before, so that people who look at the difference see what was
//! added and nothing else. New members come after the old ones. Whoever must know whether a member is there twice asks here,
//! too: in the values alone, the last has replaced the others.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::token;

/// The order of members, without their values.
#[derive(Debug, Default)]
pub(crate) enum Order {
    Object(Vec<(String, Order)>),
    Array(Vec<Order>),
    #[default]
    Other,
}

impl Order {
    /// The order of a text; none where it is no JSON.
    pub(crate) fn of(text: &str) -> Order {
        serde_json::from_str(text).unwrap_or_default()
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
            Order::Other => None,
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

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderVisitor)
    }
}

struct OrderVisitor;

impl<'de> Visitor<'de> for OrderVisitor {
    type Value = Order;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Order, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Order::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Order, A::Error> {
        let mut orders = Vec::new();
        while let Some(item) = items.next_element()? {
            orders.push(item);
        }
        Ok(Order::Array(orders))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Order, E> {
        Ok(Order::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Order, E> {
        Ok(Order::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Order, E> {
        Ok(Order::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Order, E> {
        Ok(Order::Other)
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
        plain => text.push_str(&plain.to_string()),
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
}
