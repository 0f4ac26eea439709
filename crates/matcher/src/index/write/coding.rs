//! Coding: assigning slots, numbers and labels to the conditions of a filter.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::index::Index;
use crate::condition::{Conjunction, Plain};
use crate::constant::{Constant, Cut, Range};
use crate::index::code::coded::{Coded, narrow};
use crate::index::code::column::{Column, LabelSpace, NULL, NULL8, Order};
use crate::index::code::dictionary::{Dictionary, NARROW_SLOTS, Use};
use crate::index::code::residual::{self, Residual};
use crate::index::rows::cluster::{Cluster, residuals};
use crate::index::rows::snapshot::State;

/// Number of rows whose relabelling each insertion pays for, so that relabelling takes constant time per insertion on
/// average.
const CREDIT: u64 = 1024;

impl Index {
    /// Codes a conjunction into `coded`.
    pub(crate) fn code(&mut self, conjunction: Conjunction<'_>, coded: &mut Coded) {
        self.credit = self.credit.saturating_add(CREDIT);
        let before = coded.rest.len();
        // Usually all labels exist, and one lookup suffices.
        if !self.code_ranges(conjunction, true, &mut coded.rest) {
            coded.rest.truncate(before);
            // A new label may move others, so all labels are assigned before any is read.
            for (name, plain) in conjunction.conditions() {
                if let Plain::Inside(range) | Plain::Outside(range) = plain {
                    self.make_labels(name, range);
                }
            }
            self.code_ranges(conjunction, false, &mut coded.rest);
        }
        for (name, plain) in conjunction.conditions() {
            match plain {
                Plain::Present(present) => {
                    let slot = self.slot(name, Use::Presence);
                    coded.rest.push(residual::presence(slot, *present));
                }
                Plain::Equal(constant) => {
                    coded.equals.push(self.number(name, constant));
                }
                Plain::Differs(constant) => {
                    let (slot, id) = self.number(name, constant);
                    let two = match narrow(slot, id) {
                        Some((slot, code)) => [
                            residual::known8(slot),
                            residual::range8(slot, code.wrapping_add(1), code),
                        ],
                        None => {
                            let id = u64::from(id);
                            [residual::known(slot), residual::range(slot, id + 1, id)]
                        }
                    };
                    coded.rest.extend(two);
                }
                Plain::Inside(_) | Plain::Outside(_) => {}
            }
        }
    }

    /// Codes the ranges of a conjunction. Returns false after coding only some if `narrow` labels are
    /// required and one is missing.
    fn code_ranges(
        &self,
        conjunction: Conjunction<'_>,
        narrow: bool,
        out: &mut Vec<Residual>,
    ) -> bool {
        conjunction.conditions().all(|(name, plain)| match plain {
            Plain::Inside(range) => self.range(name, range, true, narrow, out),
            Plain::Outside(range) => self.range(name, range, false, narrow, out),
            _ => true,
        })
    }

    pub(crate) fn dictionary(&mut self) -> &mut Dictionary {
        Arc::make_mut(&mut self.state_mut().dictionary)
    }

    fn slot(&mut self, name: &str, wanted: Use) -> u32 {
        match self.state().dictionary.slot(name, wanted) {
            Some(slot) => slot,
            None => self.dictionary().add_slot(name, wanted),
        }
    }

    /// The slot and number of a constant that is compared for equality.
    pub(crate) fn number(&mut self, name: &str, constant: &Constant) -> (u32, u32) {
        let slot = self.slot(name, Use::Equal(constant.kind()));
        let Column::Equal(column) = &self.state().dictionary.slots[slot as usize] else {
            unreachable!("the slot is for equality")
        };
        if let Some(id) = column.id(constant) {
            return (slot, id);
        }
        let Column::Equal(column) = &mut self.dictionary().slots[slot as usize] else {
            unreachable!("the slot is for equality")
        };
        (slot, column.add(constant))
    }

    /// Assigns labels to a range's cuts: narrow ones if all cuts can have one.
    fn make_labels(&mut self, name: &str, range: &Range) {
        let slot = self.slot(name, Use::Order(range.kind));
        let narrow = (slot as usize) < NARROW_SLOTS
            && range.low.iter().chain(&range.high).all(|cut| self.make_label(slot, cut));
        if !narrow {
            range.low.iter().chain(&range.high).for_each(|cut| self.make_wide_label(slot, cut));
        }
    }

    /// The conditions for values inside or outside a range. Returns false without conditions if a cut has no
    /// label, or no narrow label although `narrow` is set.
    fn range(
        &self,
        name: &str,
        range: &Range,
        inside: bool,
        narrow: bool,
        out: &mut Vec<Residual>,
    ) -> bool {
        let dictionary = &self.state().dictionary;
        let Some(slot) = dictionary.slot(name, Use::Order(range.kind)) else { return false };
        let order = self.order(slot);
        let label = |cut: &Option<Cut>, none| match cut {
            Some(cut) => order.narrow(cut),
            None => Some(none),
        };
        let small = u8::try_from(slot).ok().filter(|slot| usize::from(*slot) < NARROW_SLOTS);
        if let Some(slot) = small
            && let (Some(low), Some(high)) = (label(&range.low, 0), label(&range.high, NULL8))
        {
            match inside {
                true => out.push(residual::range8(slot, low, high)),
                false => out.extend([residual::known8(slot), residual::range8(slot, high, low)]),
            }
            return true;
        }
        if narrow {
            return false;
        }
        let label = |cut: &Option<Cut>, none| {
            cut.as_ref().and_then(|cut| order.wide_label(cut)).unwrap_or(none)
        };
        let (low, high) = (label(&range.low, 0), label(&range.high, NULL));
        match inside {
            true => out.push(residual::range(slot, low, high)),
            false => out.extend([residual::known(slot), residual::range(slot, high, low)]),
        }
        true
    }

    fn order(&self, slot: u32) -> &Order {
        match &self.state().dictionary.slots[slot as usize] {
            Column::Order(column) => column,
            _ => unreachable!("the slot is for order"),
        }
    }

    fn order_mut(&mut self, slot: u32) -> &mut Order {
        match &mut self.dictionary().slots[slot as usize] {
            Column::Order(column) => column,
            _ => unreachable!("the slot is for order"),
        }
    }

    /// Assigns a narrow label to a cut, if possible. Other labels may move if the credit pays for it. Returns
    /// whether the cut has one.
    fn make_label(&mut self, slot: u32, cut: &Cut) -> bool {
        if self.order(slot).narrow(cut).is_some() {
            return true;
        }
        if !self.order(slot).has_room() {
            return false;
        }
        match self.order_mut(slot).add_narrow(cut) {
            LabelSpace::Label(_) => {}
            LabelSpace::Full => return false,
            LabelSpace::Crowded => {
                let Some(left) = self.credit.checked_sub(self.rows as u64) else { return false };
                self.credit = left;
                self.spread(slot, vec![cut.clone()]);
            }
        }
        self.unplaced.push((slot, cut.clone()));
        true
    }

    /// Spreads the narrow labels of a slot after adding the cuts `more`.
    fn spread(&mut self, slot: u32, more: Vec<Cut>) {
        let moved = self.order_mut(slot).spread(more);
        self.statistics.relabel(slot, &moved);
        let Ok(slot) = u8::try_from(slot) else { return };
        self.each_cluster(|_| true, |cluster| cluster.relabel(slot, &moved));
    }

    fn make_wide_label(&mut self, slot: u32, cut: &Cut) {
        if self.order(slot).wide_label(cut).is_some() || self.order_mut(slot).wide(cut).is_some() {
            return;
        }
        let moved = self.order_mut(slot).spread_wide();
        self.statistics.relabel_wide(slot, &moved);
        let new = |label: u64| {
            let at = moved.binary_search_by_key(&label, |(old, _)| *old);
            at.map_or(label, |at| moved[at].1)
        };
        let reads =
            |residual| matches!(residual, Residual::Wide { slot: other, .. } if other == slot);
        let has =
            |cluster: &Cluster| cluster.records().any(|(_, words)| residuals(words).any(reads));
        self.each_cluster(has, |cluster| {
            cluster.rewrite_loose(|residual| match residual {
                Residual::Wide { slot: other, low, width } if other == slot => {
                    let high = low.wrapping_add(width).wrapping_add(1);
                    residual::range(slot, new(low), new(high))
                }
                other => other,
            });
        });
        self.order_mut(slot).wide(cut);
    }

    /// Changes the clusters that `has` selects. Pieces without such a cluster are not changed, so snapshots do not
    /// force a copy of them.
    fn each_cluster(
        &mut self,
        has: impl Fn(&Cluster) -> bool,
        mut change: impl FnMut(&mut Cluster),
    ) {
        let State { pieces, .. } = self.state_mut();
        for piece in pieces.iter_mut().filter(|piece| piece.clusters.iter().any(&has)) {
            let clusters = Arc::make_mut(piece).clusters.iter_mut();
            clusters.filter(|cluster| has(cluster)).for_each(&mut change);
        }
    }

    /// Assigns evenly spread labels to the cuts of many filters together, so that none moves later.
    pub(crate) fn label_all<'a>(&mut self, conditions: impl Iterator<Item = (&'a str, &'a Plain)>) {
        let mut cuts: BTreeMap<u32, HashSet<&Cut>> = BTreeMap::new();
        for (name, plain) in conditions {
            if let Plain::Inside(range) | Plain::Outside(range) = plain {
                let slot = self.slot(name, Use::Order(range.kind));
                let order = self.order(slot);
                if slot < NARROW_SLOTS as u32 && order.has_room() {
                    let new = |cut: &&Cut| order.narrow(cut).is_none();
                    let new = range.low.iter().chain(&range.high).filter(new);
                    new.for_each(|cut| _ = cuts.entry(slot).or_default().insert(cut));
                }
            }
        }
        for (slot, cuts) in cuts {
            let mut more: Vec<Cut> = cuts.into_iter().cloned().collect();
            more.sort_unstable();
            self.spread(slot, more);
        }
    }
}
