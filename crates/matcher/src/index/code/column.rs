//! A column: the constants that filters compare with one slot, and their codes.
//!
//! An *equality* slot [numbers](super::numbering) its constants. Equality needs no order, so a constant keeps its
//! number as long as a filter names it. An *order* slot holds cuts with labels. The labels have the order of the cuts,
//! and an event's code is the label of the greatest cut at or below its value, so a comparison of values becomes a
//! comparison of integers. Labels leave gaps, and a new cut takes the middle of a gap. The first cuts get labels of one
//! byte. Cuts for which these do not suffice get wide labels, which are ordered separately.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::hashing::{Seeded, SeededNumbers};
use super::numbering::Numbering;
use crate::constant::{Constant, Cut, Kind};
use crate::number::Number;

/// The code of a missing value, as a byte and as a word.
pub(crate) const NULL8: u8 = u8::MAX;
pub(crate) const NULL: u64 = u64::MAX;
/// The code of a value that no filter names, in an equality slot.
pub(crate) const OTHER8: u8 = NULL8 - 1;
pub(crate) const OTHER: u64 = NULL - 1;
/// The number of a value that equals no constant.
pub(crate) const NONE: u32 = u32::MAX;

/// Maximum number of cuts with labels of one byte: labels 1 to 254.
pub(crate) const NARROW_CUTS: usize = 254;

#[derive(Clone, Debug)]
pub(crate) enum Column {
    /// An unassigned slot.
    Unused,
    /// Whether the attribute is present: 1 or 0.
    Presence,
    Equal(Equal),
    Order(Order),
}

impl Column {
    /// The number of constants and cuts.
    pub(crate) fn constants(&self) -> usize {
        match self {
            Column::Unused | Column::Presence | Column::Equal(Equal::Boolean) => 0,
            Column::Equal(Equal::Number(all)) => all.len(),
            Column::Equal(Equal::Bytes(all)) => all.len(),
            Column::Order(order) => order.narrow.len() + order.wide.len(),
        }
    }
}

/// Numbered constants of one type.
#[derive(Clone, Debug)]
pub(crate) enum Equal {
    Boolean,
    Number(Numbering<Number, SeededNumbers>),
    Bytes(Numbering<Arc<[u8]>, Seeded>),
}

impl Equal {
    pub(crate) fn new(kind: Kind, seed: u64) -> Equal {
        match kind {
            Kind::Boolean => Equal::Boolean,
            Kind::Number => Equal::Number(Numbering::new(SeededNumbers(seed))),
            Kind::Bytes => Equal::Bytes(Numbering::new(Seeded(seed))),
        }
    }

    /// The number of a constant, if it has one.
    pub(crate) fn id(&self, constant: &Constant) -> Option<u32> {
        match (self, constant) {
            (Equal::Boolean, Constant::Boolean(value)) => Some(u32::from(*value)),
            (Equal::Number(all), Constant::Number(number)) => all.get(number),
            (Equal::Bytes(all), Constant::Bytes(bytes)) => all.get(&**bytes),
            _ => None,
        }
    }

    /// Assigns a number to a constant that has none.
    pub(crate) fn add(&mut self, constant: &Constant) -> u32 {
        match (self, constant) {
            (Equal::Number(all), Constant::Number(number)) => all.add(*number),
            (Equal::Bytes(all), Constant::Bytes(bytes)) => all.add(Arc::clone(bytes)),
            _ => u32::from(*constant == Constant::Boolean(true)),
        }
    }

    /// Forgets the constant with this number.
    pub(crate) fn remove(&mut self, id: u32) {
        match self {
            Equal::Boolean => {}
            Equal::Number(all) => all.remove(id),
            Equal::Bytes(all) => all.remove(id),
        }
    }

    pub(crate) fn number(&self, number: Option<Number>) -> u64 {
        let Some(number) = number else { return NULL };
        match self {
            Equal::Number(all) => all.get(&number).map_or(OTHER, u64::from),
            _ => NULL,
        }
    }

    pub(crate) fn bytes(&self, text: Option<&str>) -> u64 {
        let Some(text) = text else { return NULL };
        match self {
            Equal::Bytes(all) => all.get(text.as_bytes()).map_or(OTHER, u64::from),
            _ => NULL,
        }
    }
}

/// Cuts of one type in order, with labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    narrow: Vec<(Cut, u8)>,
    /// The narrow cuts as integers, if they are cuts of numbers. Searching integers is much faster.
    places: Vec<Number>,
    wide: BTreeMap<Cut, u64>,
    /// The cuts of the wide labels.
    wide_cuts: BTreeMap<u64, Cut>,
}

/// Distance of a wide label from the lowest or the highest one. Cuts that arrive in rising or falling order must not
/// halve the remaining space each time.
const STEP: u64 = 1 << 32;

/// Result of a request for a narrow label.
#[derive(Debug, PartialEq)]
pub(crate) enum LabelSpace {
    Label(u8),
    /// The gap is used up, but other labels could be moved.
    Crowded,
    Full,
}

impl Order {
    /// Whether another cut could have a narrow label.
    pub(crate) fn has_room(&self) -> bool {
        self.narrow.len() < NARROW_CUTS
    }

    /// The wide label of a cut, if it has one.
    pub(crate) fn wide_label(&self, cut: &Cut) -> Option<u64> {
        self.wide.get(cut).copied()
    }

    pub(crate) fn has_wide(&self) -> bool {
        !self.wide.is_empty()
    }

    /// The narrow label of a cut, if it has one.
    #[inline]
    pub(crate) fn narrow(&self, cut: &Cut) -> Option<u8> {
        Some(self.narrow[self.find(cut).ok()?].1)
    }

    /// The index of a narrow cut, or the index where it would be inserted.
    #[inline]
    fn find(&self, cut: &Cut) -> Result<usize, usize> {
        match &cut.at {
            Constant::Number(number) => self.places.binary_search(&number.cut(cut.after)),
            _ => self.narrow.binary_search_by(|(other, _)| other.cmp(cut)),
        }
    }

    /// Inserts a narrow cut at this index.
    fn put(&mut self, at: usize, cut: Cut, label: u8) {
        if let Constant::Number(number) = &cut.at {
            self.places.insert(at, number.cut(cut.after));
        }
        self.narrow.insert(at, (cut, label));
    }

    /// Gives a new cut a narrow label in the middle of its gap.
    pub(crate) fn add_narrow(&mut self, cut: &Cut) -> LabelSpace {
        let Err(at) = self.find(cut) else {
            return LabelSpace::Full;
        };
        if self.narrow.len() == NARROW_CUTS {
            return LabelSpace::Full;
        }
        let below = if at == 0 { 0 } else { self.narrow[at - 1].1 };
        let above = self.narrow.get(at).map_or(NULL8, |(_, label)| *label);
        if above - below < 2 {
            return LabelSpace::Crowded;
        }
        let label = below + (above - below) / 2;
        self.put(at, cut.clone(), label);
        LabelSpace::Label(label)
    }

    /// Spreads the narrow labels evenly after inserting the cuts `more`. Returns the new label of each old
    /// one; the bounds 0 and 255 do not change.
    pub(crate) fn spread(&mut self, more: Vec<Cut>) -> [u8; 256] {
        let mut old: Vec<u8> = self.narrow.iter().map(|(_, label)| *label).collect();
        for cut in more {
            if self.narrow.len() < NARROW_CUTS
                && let Err(at) = self.find(&cut)
            {
                self.put(at, cut, 0);
                // No cut has the label 0, and 0 maps to itself.
                old.insert(at, 0);
            }
        }
        let mut moved = [0; 256];
        moved[255] = 255;
        let parts = self.narrow.len() + 1;
        for (at, ((_, label), old)) in self.narrow.iter_mut().zip(old).enumerate() {
            *label = ((at + 1) * 255 / parts) as u8;
            if old > 0 {
                moved[usize::from(old)] = *label;
            }
        }
        moved
    }

    /// Forgets the cut with this narrow label.
    pub(crate) fn remove_narrow(&mut self, label: u8) {
        let Ok(at) = self.narrow.binary_search_by_key(&label, |(_, label)| *label) else { return };
        let (cut, _) = self.narrow.remove(at);
        if let Constant::Number(_) = cut.at {
            self.places.remove(at);
        }
    }

    /// Forgets the cut with this wide label.
    pub(crate) fn remove_wide(&mut self, label: u64) {
        if let Some(cut) = self.wide_cuts.remove(&label) {
            self.wide.remove(&cut);
        }
    }

    /// Forgets the narrow cuts that are not used.
    pub(crate) fn retain_narrow(&mut self, is_used: impl Fn(u8) -> bool) {
        for at in (0..self.narrow.len()).rev() {
            let label = self.narrow[at].1;
            if !is_used(label) {
                self.remove_narrow(label);
            }
        }
    }

    /// The wide label of a cut; assigns one if necessary. `None` if its gap is used up.
    pub(crate) fn wide(&mut self, cut: &Cut) -> Option<u64> {
        if let Some(label) = self.wide.get(cut) {
            return Some(*label);
        }
        let below = self.wide.range(..cut).next_back().map(|(_, label)| *label);
        let above = self.wide.range(cut..).next().map(|(_, label)| *label);
        let label = match (below, above) {
            (Some(below), None) if below < OTHER - 2 * STEP => below + STEP,
            (None, Some(above)) if above > 2 * STEP => above - STEP,
            (below, above) => {
                let (below, above) = (below.unwrap_or(0), above.unwrap_or(OTHER));
                Some(below + (above - below) / 2).filter(|label| *label != below)?
            }
        };
        self.wide.insert(cut.clone(), label);
        self.wide_cuts.insert(label, cut.clone());
        Some(label)
    }

    /// Spreads the wide labels evenly; returns pairs of old and new labels in rising order.
    pub(crate) fn spread_wide(&mut self) -> Vec<(u64, u64)> {
        let step = OTHER / (self.wide.len() as u64 + 1);
        let labels = self.wide.values_mut().zip(1..);
        let moved = labels
            .map(|(label, at): (_, u64)| (std::mem::replace(label, at * step), at * step))
            .collect();
        self.wide_cuts = self.wide.iter().map(|(cut, label)| (*label, cut.clone())).collect();
        moved
    }

    /// The codes of a number, narrow and wide.
    pub(crate) fn number(&self, number: Option<Number>) -> (u8, u64) {
        let Some(number) = number else { return (NULL8, NULL) };
        let at = self.places.partition_point(|place| *place <= number);
        self.codes(at, || Constant::Number(number))
    }

    /// The codes of a text, narrow and wide.
    pub(crate) fn bytes(&self, text: Option<&str>) -> (u8, u64) {
        let Some(text) = text else { return (NULL8, NULL) };
        let below = |cut: &Cut| matches!(&cut.at, Constant::Bytes(at) if **at < *text.as_bytes() || **at == *text.as_bytes() && !cut.after);
        let at = self.narrow.partition_point(|(cut, _)| below(cut));
        self.codes(at, || Constant::Bytes(text.as_bytes().into()))
    }

    /// The codes of a value above the first `at` narrow cuts.
    fn codes(&self, at: usize, value: impl FnOnce() -> Constant) -> (u8, u64) {
        let narrow = if at == 0 { 0 } else { self.narrow[at - 1].1 };
        let wide = match self.has_wide() {
            false => 0,
            true => {
                let end = Cut { at: value(), after: false };
                self.wide.range(..=end).next_back().map_or(0, |(_, label)| *label)
            }
        };
        (narrow, wide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(number: i64, after: bool) -> Cut {
        Cut { at: Constant::Number(number.into()), after }
    }

    #[test]
    fn a_number_has_the_label_of_the_last_cut_that_it_lies_beyond() {
        let mut order = Order::default();
        let cuts = [(7, true), (3, false), (7, false), (9, true), (3, true)];
        for (number, after) in cuts {
            assert!(matches!(order.add_narrow(&cut(number, after)), LabelSpace::Label(_)));
        }
        let moved = order.spread(vec![cut(5, false), cut(7, true), cut(5, false)]);
        assert_eq!((moved[0], moved[255]), (0, 255));
        let rising = [(3, false), (3, true), (5, false), (7, false), (7, true), (9, true)];
        let label = |(number, after): (i64, bool)| order.narrow(&cut(number, after)).unwrap();
        let labels = rising.map(label);
        assert!(labels.is_sorted_by(|a, b| a < b), "{labels:?}");
        let code = |number: i64| order.number(Some(number.into())).0;
        assert_eq!([2, 3, 4].map(code), [0, labels[0], labels[1]]);
        assert_eq!([5, 6, 7].map(code), [labels[2], labels[2], labels[3]]);
        assert_eq!([8, 9, 10].map(code), [labels[4], labels[4], labels[5]]);
        // The cut after a number and the cut before its successor are the same place.
        let next = Number::parse("7.000000000000000001").unwrap();
        let next = Cut { at: Constant::Number(next), after: false };
        assert_eq!(order.narrow(&next), Some(labels[4]));
        let code = |order: &Order, numbers: &[i64]| -> Vec<u8> {
            numbers.iter().map(|number| order.number(Some((*number).into())).0).collect()
        };
        order.remove_narrow(labels[2]);
        assert_eq!(order.narrow(&cut(5, false)), None);
        assert_eq!(code(&order, &[4, 5, 6, 7, 8]), [1, 1, 1, 3, 4].map(|at| labels[at]));
        order.retain_narrow(|label| label == labels[4]);
        assert_eq!(code(&order, &[6, 7, 8]), [0, 0, labels[4]]);
    }

    #[test]
    fn rising_and_falling_cuts_share_the_wide_labels() {
        for sign in [1, -1] {
            let mut order = Order::default();
            let labels = (0..10_000).map(|n| order.wide(&cut(sign * n, false)));
            let labels: Option<Vec<u64>> = labels.collect();
            let mut labels = labels.expect("no gap is used up");
            if sign < 0 {
                labels.reverse();
            }
            assert!(labels.is_sorted_by(|a, b| a < b));
            labels.iter().for_each(|label| order.remove_wide(*label));
            assert!(!order.has_wide() && order.wide_cuts.is_empty());
        }
    }
}
