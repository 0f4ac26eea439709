//! Locations of rows, which the writer needs to remove subscriptions.

use std::collections::HashMap;

use crate::index::code::hashing::BuildMixHasher;

/// Flag in the number of a row whose subscription has several rows, and may match an event twice.
pub(crate) const MULTIPLE_ROWS: u32 = 1 << 31;

/// Piece, cluster, group and row in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location(u64);

/// Location of a subscription without rows.
const NO_ROWS: Location = Location(u64::MAX);
/// Location of an unassigned number.
const FREE: Location = Location(u64::MAX - 1);

impl Location {
    pub(crate) fn new(piece: usize, cluster: usize, group: usize, row: usize) -> Location {
        debug_assert!(cluster < 1 << 17 && group < 1 << 8 && row < 1 << 18);
        Location((piece as u64) << 43 | (cluster as u64) << 26 | (group as u64) << 18 | row as u64)
    }

    pub(crate) fn piece(self) -> usize {
        (self.0 >> 43) as usize
    }
    pub(crate) fn cluster(self) -> usize {
        (self.0 >> 26) as usize & ((1 << 17) - 1)
    }
    pub(crate) fn group(self) -> usize {
        (self.0 >> 18) as usize & 255
    }
    pub(crate) fn row(self) -> usize {
        self.0 as usize & ((1 << 18) - 1)
    }
}

/// Locations by subscription.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    one: Vec<Location>,
    /// Locations of subscriptions with several rows.
    multiple: HashMap<u128, Vec<Location>, BuildMixHasher>,
}

impl Locations {
    /// How many numbers have been assigned so far, including those that are free again.
    pub(crate) fn len(&self) -> usize {
        self.one.len()
    }

    pub(crate) fn is_live(&self, id: u32) -> bool {
        self.one.get(id as usize).is_some_and(|location| *location != FREE)
    }

    /// Marks a number as assigned, without rows.
    pub(crate) fn start(&mut self, id: u32) {
        if self.one.len() == id as usize {
            if self.one.len() == self.one.capacity() {
                self.one.reserve_exact(1024 + self.one.len() / 8);
            }
            self.one.push(NO_ROWS);
        }
        self.one[id as usize] = NO_ROWS;
    }

    pub(crate) fn free(&mut self, id: u32) {
        self.one[id as usize] = FREE;
    }

    /// Adds a row; `id` includes its flag.
    pub(crate) fn add(&mut self, id: u32, location: Location) {
        match id & MULTIPLE_ROWS {
            0 => self.one[id as usize] = location,
            _ => self.multiple.entry(u128::from(id & !MULTIPLE_ROWS)).or_default().push(location),
        }
    }

    /// Records that a row moved.
    pub(crate) fn relocate(&mut self, id: u32, old: Location, new: Location) {
        if id & MULTIPLE_ROWS == 0 {
            self.one[id as usize] = new;
        } else if let Some(all) = self.multiple.get_mut(&u128::from(id & !MULTIPLE_ROWS))
            && let Some(location) = all.iter_mut().find(|location| **location == old)
        {
            *location = new;
        }
    }

    /// One row of a subscription: its number, including the flag, and its location, which stays recorded.
    pub(crate) fn some(&self, id: u32) -> Option<(u32, Location)> {
        if let Some(all) = self.multiple.get(&u128::from(id)) {
            return all.last().map(|location| (id | MULTIPLE_ROWS, *location));
        }
        Some((id, self.one[id as usize])).filter(|(_, location)| *location != NO_ROWS)
    }

    /// Removes the location that [`some`](Locations::some) returned.
    pub(crate) fn forget(&mut self, id: u32) {
        if let Some(all) = self.multiple.get_mut(&u128::from(id)) {
            all.pop();
            if all.is_empty() {
                self.multiple.remove(&u128::from(id));
            }
        } else {
            self.one[id as usize] = NO_ROWS;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let multiple: usize = self.multiple.values().map(|all| 64 + 8 * all.capacity()).sum();
        8 * self.one.capacity() + multiple
    }
}
