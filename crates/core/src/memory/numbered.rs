//! Numbered records: a table that reuses free numbers, the most recently freed first.

use std::cell::RefCell;

/// Records by number.
pub(crate) struct Numbered<T> {
    pub(crate) records: RefCell<Vec<Option<T>>>,
    free: RefCell<Vec<u32>>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { records: RefCell::default(), free: RefCell::default() }
    }
}

impl<T> Numbered<T> {
    /// Adds a record. Returns its number.
    pub(crate) fn add(&self, record: T) -> u32 {
        let mut records = self.records.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            records.push(None);
            (records.len() - 1) as u32
        });
        records[number as usize] = Some(record);
        number
    }

    /// Removes the record with this number, which must exist.
    pub(crate) fn remove(&self, number: u32) -> T {
        let record = self.records.borrow_mut()[number as usize].take();
        self.free.borrow_mut().push(number);
        record.expect("a record with this number")
    }
}
