//! The dictionary: maps names and constants to numbers, so that matching compares integers only.
//!
//! Each attribute has one *slot* for each way in which filters test it: presence, equality with a boolean, number or
//! string, and order of numbers or strings. An event is the list of its slots' codes. The first 64 slots have byte
//! codes in addition to wide codes; the fast checks read these. Equality slots are assigned from the front of the 64,
//! order slots from the back. The equalities of many filters then lie in a few neighbouring slots, and so do the
//! ranges, which is faster on CPUs that look up bytes in tables of 16.
//!
//! A slot is freed with the last condition that reads it, and a name with its last slot. Both are reused.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

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

/// An attribute name that some filter uses: look it up once and use it for many events.
///
/// It is valid as long as some filter of the index uses the name; afterwards [`Snapshot`](crate::Snapshot)s ignore it,
/// even if a later filter uses the name again. Look attributes up again when the [version](crate::Snapshot::version)
/// changes, unless you know that some filter always uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    at: u32,
    generation: u32,
}

/// An attribute with its slots.
#[derive(Clone, Debug)]
struct Named {
    name: Arc<str>,
    /// By use: its slot, or `NONE`.
    slots: [u32; 6],
    /// The number of names that have used this entry before.
    generation: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Dictionary {
    seed: u64,
    names: HashMap<Arc<str>, u32, Seeded>,
    attributes: Vec<Named>,
    free_attributes: Vec<u32>,
    pub(crate) slots: Vec<Column>,
    /// By slot: the attribute and the use.
    owners: Vec<(u32, u8)>,
    /// The free slots without byte codes.
    free_slots: BinaryHeap<Reverse<u32>>,
    /// The codes of an event without attributes.
    blank: Line,
    /// Whether any filter needs wide codes.
    pub(crate) wide: bool,
}

impl Dictionary {
    pub(crate) fn new(seed: u64) -> Dictionary {
        Dictionary {
            seed,
            names: HashMap::with_hasher(Seeded(seed)),
            attributes: Vec::new(),
            free_attributes: Vec::new(),
            slots: Vec::new(),
            owners: Vec::new(),
            free_slots: BinaryHeap::new(),
            blank: Line([NULL8; 64]),
            wide: false,
        }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<Attribute> {
        let at = *self.names.get(name)?;
        Some(Attribute { at, generation: self.attributes[at as usize].generation })
    }

    /// The slot for a use of a name, if a filter needs it.
    pub(crate) fn slot(&self, name: &str, wanted: Use) -> Option<u32> {
        let attribute = *self.names.get(name)?;
        Some(self.attributes[attribute as usize].slots[wanted.at()]).filter(|slot| *slot != NONE)
    }

    /// Assigns a slot for a use of a name.
    pub(crate) fn add_slot(&mut self, name: &str, wanted: Use) -> u32 {
        let attribute = match self.names.get(name) {
            Some(attribute) => *attribute,
            None => self.add_name(name.into()),
        };
        let slot = self.free_slot(wanted);
        self.attributes[attribute as usize].slots[wanted.at()] = slot as u32;
        self.owners[slot] = (attribute, wanted.at() as u8);
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

    fn add_name(&mut self, name: Arc<str>) -> u32 {
        let attribute = match self.free_attributes.pop() {
            Some(free) => {
                self.attributes[free as usize].name = Arc::clone(&name);
                free
            }
            None => {
                let named = Named { name: Arc::clone(&name), slots: [NONE; 6], generation: 0 };
                self.attributes.push(named);
                self.attributes.len() as u32 - 1
            }
        };
        self.names.insert(name, attribute);
        attribute
    }

    /// The next free byte slot from the front or the back, or else a wide slot.
    fn free_slot(&mut self, wanted: Use) -> usize {
        if matches!(wanted, Use::Order(_)) && self.slots.len() < NARROW_SLOTS {
            self.grow(NARROW_SLOTS);
        }
        let small = &self.slots[..self.slots.len().min(NARROW_SLOTS)];
        let is_free = |column: &Column| matches!(column, Column::Unused);
        let found = match wanted {
            Use::Order(_) => small.iter().rposition(is_free),
            _ => small.iter().position(is_free),
        };
        let found = found.or_else(|| Some(self.free_slots.pop()?.0 as usize));
        found.unwrap_or_else(|| {
            self.grow(self.slots.len() + 1);
            self.slots.len() - 1
        })
    }

    fn grow(&mut self, slots: usize) {
        self.slots.resize(slots, Column::Unused);
        self.owners.resize(slots, (NONE, 0));
    }

    /// Frees a slot that no condition reads, and its name if it has no other slot.
    pub(crate) fn remove_slot(&mut self, slot: u32) {
        let at = slot as usize;
        if matches!(self.slots[at], Column::Unused) {
            return;
        }
        self.slots[at] = Column::Unused;
        match self.blank.0.get_mut(at) {
            Some(code) => *code = NULL8,
            None => self.free_slots.push(Reverse(slot)),
        }
        let (attribute, used) = self.owners[at];
        let named = &mut self.attributes[attribute as usize];
        named.slots[usize::from(used)] = NONE;
        if named.slots == [NONE; 6] {
            self.names.remove(&named.name);
            named.name = Arc::default();
            named.generation = named.generation.wrapping_add(1);
            self.free_attributes.push(attribute);
        }
    }

    /// An event without attributes.
    pub(crate) fn blank(&self, version: u64) -> Event {
        Event::blank(self.blank, self.slots.len(), self.wide, version)
    }

    /// Codes one attribute of an event.
    pub(crate) fn set(&self, event: &mut Event, attribute: Attribute, value: Value<'_>) {
        let named = self.attributes.get(attribute.at as usize);
        let Some(Named { slots: uses, .. }) =
            named.filter(|named| named.generation == attribute.generation)
        else {
            return;
        };
        let numbers = [uses[2], uses[4]].iter().any(|slot| *slot != NONE);
        let number = if numbers { value.number() } else { None };
        for slot in uses.iter().filter(|slot| **slot != NONE) {
            let mut id = NONE;
            let (narrow, wide) = match &self.slots[*slot as usize] {
                Column::Unused => continue,
                Column::Presence => (1, 1),
                Column::Equal(column) => {
                    let code = match () {
                        () if *slot == uses[1] => value.boolean().map_or(NULL, u64::from),
                        () if *slot == uses[2] => column.number(number),
                        () => column.bytes(value.string()),
                    };
                    id = u32::try_from(code).unwrap_or(NONE);
                    let narrow = match code {
                        NULL => NULL8,
                        _ => u8::try_from(code).unwrap_or(OTHER8).min(OTHER8),
                    };
                    (narrow, code)
                }
                Column::Order(column) if *slot == uses[4] => column.number(number),
                Column::Order(column) => column.bytes(value.string()),
            };
            event.set(*slot, narrow, id, wide);
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

    #[test]
    fn slots_and_names_are_reused() {
        let mut dictionary = Dictionary::new(1);
        let equal = Use::Equal(Kind::Number);
        let slots: Vec<_> =
            (0..100).map(|n| dictionary.add_slot(&format!("a{n}"), equal)).collect();
        let old = dictionary.attribute("a7").unwrap();
        dictionary.add_slot("a8", Use::Presence);
        slots.iter().for_each(|slot| dictionary.remove_slot(*slot));
        assert!(dictionary.attribute("a7").is_none() && dictionary.attribute("a8").is_some());
        let reassigned: Vec<_> =
            (0..100).map(|n| dictionary.add_slot(&format!("b{n}"), equal)).collect();
        assert_eq!((reassigned, dictionary.attributes.len()), (slots, 101));
        // An attribute whose name was freed is not mistaken for the one that reuses its entry.
        let mut event = dictionary.blank(0);
        dictionary.set(&mut event, old, 5.into());
        assert_eq!(event.line, dictionary.blank);
    }
}
