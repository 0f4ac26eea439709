//! A slab of sockets by handle. Its slots count generations, so a stale handle finds nothing. The table's number is
//! part of each handle, so a handle of another driver finds nothing either.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Socket;

fn not_open() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

/// Values by [`Socket`].
pub(crate) struct SocketTable<T> {
    /// Unique among all tables of the process.
    number: u32,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> SocketTable<T> {
    pub(crate) fn new() -> SocketTable<T> {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| last.checked_add(1))
            .expect("fewer than 2³² drivers in the life of a process");
        SocketTable { number, slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Socket {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            u32::try_from(self.slots.len() - 1).expect("fewer sockets than descriptors")
        });
        let slot = &mut self.slots[index as usize];
        assert!(slot.value.is_none());
        slot.value = Some(value);
        Socket { index, generation: slot.generation, table: self.number }
    }

    /// Removes the value. `socket` and its copies are stale afterwards.
    pub(crate) fn remove(&mut self, socket: Socket) -> Option<T> {
        let slot = self.slots.get_mut(socket.index as usize)?;
        if slot.generation != socket.generation || self.number != socket.table {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(socket.index);
        Some(value)
    }

    pub(crate) fn get(&self, socket: Socket) -> Option<&T> {
        let slot = self.slots.get(socket.index as usize)?;
        let same = slot.generation == socket.generation && self.number == socket.table;
        slot.value.as_ref().filter(|_| same)
    }

    pub(crate) fn get_mut(&mut self, socket: Socket) -> Option<&mut T> {
        let slot = self.slots.get_mut(socket.index as usize)?;
        let same = slot.generation == socket.generation && self.number == socket.table;
        slot.value.as_mut().filter(|_| same)
    }

    /// The value of an open socket.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    pub(crate) fn open(&self, socket: Socket) -> io::Result<&T> {
        self.get(socket).ok_or_else(not_open)
    }

    /// Like [`open`](Self::open).
    pub(crate) fn open_mut(&mut self, socket: Socket) -> io::Result<&mut T> {
        self.get_mut(socket).ok_or_else(not_open)
    }

    /// Removes all values. All handles are stale afterwards.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        let all: Vec<_> = (0..self.slots.len()).filter_map(|index| self.at(index as u32)).collect();
        all.into_iter().filter_map(|socket| self.remove(socket)).collect()
    }

    /// The current handle of slot `index`.
    pub(crate) fn at(&self, index: u32) -> Option<Socket> {
        let slot = self.slots.get(index as usize)?;
        slot.value.as_ref()?;
        Some(Socket { index, generation: slot.generation, table: self.number })
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing() {
        let mut table = SocketTable::new();
        let first = table.insert('a');
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b');
        assert_eq!(first.index, second.index);
        assert_eq!(table.get(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!((table.get(second), table.at(second.index)), (Some(&'b'), Some(second)));
    }

    #[test]
    fn a_handle_of_another_table_finds_nothing() {
        let (mut table, mut other) = (SocketTable::new(), SocketTable::new());
        let (own, foreign) = (table.insert('a'), other.insert('b'));
        assert_eq!((own.index, own.generation), (foreign.index, foreign.generation));
        assert_eq!(table.get(foreign), None);
        assert_eq!(table.get_mut(foreign), None);
        assert_eq!(table.remove(foreign), None);
        assert_eq!(table.get(own), Some(&'a'));
    }
}
