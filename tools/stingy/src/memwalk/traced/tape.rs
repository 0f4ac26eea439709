//! The allocations in a trace: stores of the preloaded library to known addresses. `preload.c` writes them.

/// Where the stores are.
const TAPE: u64 = 0x8_5716_0000;
/// Offsets below this are digits of the current number, the lowest first.
const DIGITS: u64 = 16;
/// Offset at the end of the address of memory that was allocated; its size follows.
const ADDRESS: u64 = 16;
/// Offset at the end of its size.
const ALLOCATED: u64 = 17;
/// Offset at the end of the address of memory that is freed.
const FREED: u64 = 18;

/// An allocation or a deallocation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Change {
    Allocated { at: u64, bytes: u64 },
    Freed { at: u64 },
}

/// The numbers of a change that is not complete.
#[derive(Debug, Default)]
pub(super) struct Tape {
    value: u64,
    digits: u32,
    address: u64,
}

impl Tape {
    /// Regards a store. Returns the change that it completes.
    pub(super) fn store(&mut self, at: u64) -> Option<Change> {
        let offset = at.checked_sub(TAPE).filter(|offset| *offset <= FREED)?;
        if offset < DIGITS {
            self.value |= offset.checked_shl(4 * self.digits).unwrap_or(0);
            self.digits += 1;
            return None;
        }
        self.digits = 0;
        let value = std::mem::take(&mut self.value);
        match offset {
            ADDRESS => {
                self.address = value;
                None
            }
            ALLOCATED => Some(Change::Allocated { at: self.address, bytes: value }),
            _ => Some(Change::Freed { at: value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_by_digits() {
        let mut tape = Tape::default();
        let mut changes = Vec::new();
        // Other stores are between them, such as that of the lock.
        for offset in [0xf, 0, 4096, 1, ADDRESS, 2, 0xa, ALLOCATED, 0xf, 0, 1, FREED, 7] {
            changes.extend(tape.store(TAPE + offset));
            changes.extend(tape.store(TAPE - 8));
        }
        assert_eq!(
            changes,
            [Change::Allocated { at: 0x10f, bytes: 0xa2 }, Change::Freed { at: 0x10f }]
        );
    }
}
