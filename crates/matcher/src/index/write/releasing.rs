//! Freeing the slots and constants of the dictionary that no row uses any more.
//!
//! Constants are freed with their last row. A slot is freed only between two reorganizations, because their plans
//! contain slots. The schemas that contain the slot are empty and are freed with it.

use super::index::Index;
use super::progress::Reorganization;
use crate::index::code::coded::Coded;
use crate::index::code::column::Column;
use crate::index::code::named::Code;

impl Index {
    /// Subtracts a removed row from the statistics, and frees the constants of which it was the last user.
    pub(crate) fn release(&mut self, coded: &Coded) {
        let (mut unused, slots) = (Vec::new(), &mut self.unused_slots);
        let dictionary = &self.now.0.dictionary;
        self.statistics.uncount(coded, dictionary, |slot, code| match code {
            Some(code) => unused.push((slot, code)),
            None => slots.push(slot),
        });
        if unused.is_empty() {
            return;
        }
        let dictionary = self.dictionary();
        for (slot, code) in unused {
            match (&mut dictionary.slots[slot as usize], code) {
                (Column::Equal(column), Code::Id(id)) => column.remove(id),
                (Column::Order(column), Code::Narrow(label)) => column.remove_narrow(label),
                (Column::Order(column), Code::Wide(label)) => column.remove_wide(label),
                _ => unreachable!("a code has the kind of its column"),
            }
        }
    }

    /// Frees a constant of an equality slot, and the slot, if no row uses them.
    pub(crate) fn free_if_unused(&mut self, slot: u32, id: u32) {
        if !self.statistics.has(slot, Code::Id(id))
            && let Column::Equal(column) = &mut self.dictionary().slots[slot as usize]
        {
            column.remove(id);
            self.unused_slots.push(slot);
            self.free_slots();
        }
    }

    /// Frees the slots that no row uses, unless a reorganization is in progress.
    pub(crate) fn free_slots(&mut self) {
        if self.unused_slots.is_empty() || !matches!(self.reorganization, Reorganization::Not) {
            return;
        }
        for slot in std::mem::take(&mut self.unused_slots) {
            // Another row may use it by now.
            if self.statistics.is_unused(slot) {
                self.state_mut().drop_schemas_with(slot);
                self.dictionary().remove_slot(slot);
                self.statistics.forget(slot);
            }
        }
    }

    /// Frees the labels of cuts that were added for a row but not used. This happens if one cut of a range has no
    /// narrow label: both cuts then need wide labels.
    pub(crate) fn free_unplaced(&mut self) {
        for (slot, cut) in std::mem::take(&mut self.unplaced) {
            let Column::Order(column) = &self.state().dictionary.slots[slot as usize] else {
                continue;
            };
            if let Some(label) = column.narrow(&cut)
                && !self.statistics.has(slot, Code::Narrow(label))
                && let Column::Order(column) = &mut self.dictionary().slots[slot as usize]
            {
                column.remove_narrow(label);
            }
        }
    }

    /// Frees all narrow labels that no row uses.
    pub(crate) fn free_labels(&mut self) {
        let statistics = std::mem::take(&mut self.statistics);
        for (slot, column) in self.dictionary().slots.iter_mut().enumerate() {
            if let Column::Order(order) = column {
                order.retain_narrow(|label| statistics.has(slot as u32, Code::Narrow(label)));
            }
        }
        self.statistics = statistics;
    }
}
