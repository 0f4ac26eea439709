//! The dictionary: maps names and constants to numbers, so that matching compares integers only.
//!
//! Each attribute has one *slot* for each way in which filters test it: presence, equality with a boolean,
//! number or string, and order of numbers or strings. An event is the list of its slots' codes. The first 64
//! slots have byte codes in addition to wide codes; the fast checks read these. Equality slots are assigned
//! from the front of the 64, order slots from the back. The equalities of many filters then lie in a few
//! neighbouring slots, and so do the ranges, which is cheaper on processors that look bytes up in tables of
//! 16.

use std::collections::HashMap;

use super::column::{Column, Equal, NONE, NULL, NULL8, OTHER8, Order};
use super::event::{Event, Line};
use super::hashing::Seeded;
use crate::constant::Kind;
use crate::value::Value;

/// Number of slots with byte codes.
pub(crate) const NARROW_SLOTS: usize = 64;

/// A way to test an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Presence,
    Equal(Kind),
    Order(Kind),
}

impl Use {
    fn at(self) -> usize {
        match self {
            Use::Presence => 0,
            Use::Equal(kind) => 1 + kind as usize,
            Use::Order(kind) => 3 + kind as usize, // booleans have no order
        }
    }
}

/// A name used by some filter, looked up once and used for many events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute(u32);

#[derive(Clone, Debug)]
pub(crate) struct Dictionary {
    seed: u64,
    names: HashMap<Box<str>, u32, Seeded>,
    /// For each name the slots of its uses, or `NONE`.
    attributes: Vec<[u32; 6]>,
    pub(crate) slots: Vec<Column>,
    /// The codes of an event without attributes.
    blank: Line,
    /// Whether any filter needs wide codes.
    pub(crate) wide: bool,
}

impl Dictionary {
    pub(crate) fn new(seed: u64) -> Dictionary {
        let names = HashMap::with_hasher(Seeded(seed));
        let blank = Line([NULL8; 64]);
        Dictionary { seed, names, attributes: Vec::new(), slots: Vec::new(), blank, wide: false }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<Attribute> {
        self.names.get(name).copied().map(Attribute)
    }

    /// The slot for a use of a name, if a filter needs it.
    pub(crate) fn slot(&self, name: &str, wanted: Use) -> Option<u32> {
        let attribute = *self.names.get(name)?;
        Some(self.attributes[attribute as usize][wanted.at()]).filter(|slot| *slot != NONE)
    }

    /// Assigns a slot for a use of a name.
    pub(crate) fn add_slot(&mut self, name: &str, wanted: Use) -> u32 {
        let attribute = match self.names.get(name) {
            Some(attribute) => *attribute,
            None => {
                let attribute = self.attributes.len() as u32;
                self.names.insert(name.into(), attribute);
                self.attributes.push([NONE; 6]);
                attribute
            }
        };
        let slot = self.free_slot(wanted);
        self.attributes[attribute as usize][wanted.at()] = slot as u32;
        self.slots[slot] = match wanted {
            Use::Presence => Column::Presence,
            Use::Equal(kind) => Column::Equal(Equal::new(kind, self.seed)),
            Use::Order(_) => Column::Order(Order::default()),
        };
        if let (Use::Presence, Some(code)) = (wanted, self.blank.0.get_mut(slot)) {
            *code = 0;
        }
        slot as u32
    }

    /// The next free byte slot from the front or the back, or else a new wide slot.
    fn free_slot(&mut self, wanted: Use) -> usize {
        if matches!(wanted, Use::Order(_)) && self.slots.len() < NARROW_SLOTS {
            self.slots.resize(NARROW_SLOTS, Column::Unused);
        }
        let small = &self.slots[..self.slots.len().min(NARROW_SLOTS)];
        let is_free = |column: &Column| matches!(column, Column::Unused);
        let found = match wanted {
            Use::Order(_) => small.iter().rposition(is_free),
            _ => small.iter().position(is_free),
        };
        found.unwrap_or_else(|| {
            self.slots.push(Column::Unused);
            self.slots.len() - 1
        })
    }

    /// An event without attributes.
    pub(crate) fn blank(&self, version: u64) -> Event {
        let wide = match self.wide {
            false => Vec::new(),
            true => self
                .slots
                .iter()
                .map(|column| if matches!(column, Column::Presence) { 0 } else { NULL })
                .collect(),
        };
        Event { line: self.blank, ids: vec![NONE; self.slots.len()], wide, version }
    }

    /// Codes one attribute of an event.
    pub(crate) fn set(&self, event: &mut Event, attribute: Attribute, value: Value<'_>) {
        let uses = &self.attributes[attribute.0 as usize];
        let numbers = [uses[2], uses[4]].iter().any(|slot| *slot != NONE);
        let number = if numbers { value.number() } else { None };
        for slot in uses.iter().filter(|slot| **slot != NONE) {
            let at = *slot as usize;
            let (narrow, wide) = match &self.slots[at] {
                Column::Unused => continue,
                Column::Presence => (1, 1),
                Column::Equal(column) => {
                    let code = match () {
                        () if *slot == uses[1] => value.boolean().map_or(NULL, u64::from),
                        () if *slot == uses[2] => column.number(number),
                        () => column.bytes(value.string()),
                    };
                    event.ids[at] = u32::try_from(code).unwrap_or(NONE);
                    let narrow = match code {
                        NULL => NULL8,
                        _ => u8::try_from(code).unwrap_or(OTHER8).min(OTHER8),
                    };
                    (narrow, code)
                }
                Column::Order(column) if *slot == uses[4] => column.number(number),
                Column::Order(column) => column.bytes(value.string()),
            };
            if let Some(code) = event.line.0.get_mut(at) {
                *code = narrow;
            }
            if let Some(code) = event.wide.get_mut(at) {
                *code = wide;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equalities_take_slots_from_the_front_and_ranges_from_the_back() {
        let mut dictionary = Dictionary::new(1);
        let mut slot = |name: &str, wanted| dictionary.add_slot(name, wanted);
        assert_eq!(slot("a", Use::Equal(Kind::Number)), 0);
        assert_eq!(slot("a", Use::Order(Kind::Number)), 63);
        assert_eq!(slot("b", Use::Order(Kind::Bytes)), 62);
        assert_eq!(slot("b", Use::Presence), 1);
        for at in 2..62 {
            assert_eq!(slot(&format!("c{at}"), Use::Equal(Kind::Bytes)), at);
        }
        assert_eq!(slot("d", Use::Order(Kind::Number)), 64, "no byte code is left");
        assert_eq!(slot("d", Use::Equal(Kind::Number)), 65);
    }
}
