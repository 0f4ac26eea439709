//! Numbers of constants. They are dense, and reused once no filter names the constant any more.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, Hash};

/// Capacity of a table that is not worth shrinking.
const SMALL: usize = 1024;

/// Numbered constants of type `K`. The largest number is below the maximum number of constants that have existed at one
/// time. That maximum also bounds the memory of free numbers: an empty constant and a word each.
#[derive(Clone, Debug)]
pub(crate) struct Numbering<K, S> {
    numbers: HashMap<K, u32, S>,
    /// By number. The constants of free numbers are empty.
    constants: Vec<K>,
    /// The lowest number is reused first, because numbers below 254 fit into a byte.
    free: BinaryHeap<Reverse<u32>>,
}

impl<K: Clone + Default + Eq + Hash, S: BuildHasher> Numbering<K, S> {
    pub(crate) fn new(hasher: S) -> Self {
        let numbers = HashMap::with_hasher(hasher);
        Numbering { numbers, constants: Vec::new(), free: BinaryHeap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    #[inline]
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, constant: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        self.numbers.get(constant).copied()
    }

    /// Assigns a number to a constant that has none.
    pub(crate) fn add(&mut self, constant: K) -> u32 {
        let number = match self.free.pop() {
            Some(Reverse(number)) => {
                self.constants[number as usize] = constant.clone();
                number
            }
            None => {
                self.constants.push(constant.clone());
                self.constants.len() as u32 - 1
            }
        };
        self.numbers.insert(constant, number);
        number
    }

    /// Frees a number and its constant.
    pub(crate) fn remove(&mut self, number: u32) {
        let constant = std::mem::take(&mut self.constants[number as usize]);
        if self.numbers.remove(&constant).is_some() {
            self.free.push(Reverse(number));
        }
        let (used, capacity) = (self.numbers.len(), self.numbers.capacity());
        if capacity > SMALL && used < capacity / 4 {
            self.numbers.shrink_to(2 * used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::code::hashing::Seeded;

    #[test]
    fn the_lowest_free_number_is_reused() {
        let mut all: Numbering<Box<str>, Seeded> = Numbering::new(Seeded(1));
        for number in 0..5000 {
            assert_eq!(all.add(number.to_string().into()), number);
        }
        (0..4999).rev().for_each(|number| all.remove(number));
        assert_eq!((all.get("7"), all.get("4999")), (None, Some(4999)));
        assert!(all.numbers.capacity() < 2 * SMALL, "{}", all.numbers.capacity());
        assert_eq!(["x", "7", "y"].map(|text| all.add(text.into())), [0, 1, 2]);
        assert_eq!((all.get("7"), all.get("x")), (Some(1), Some(0)));
    }
}
