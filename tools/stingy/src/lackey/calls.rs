//! The calls that have not returned.
//!
//! The trace contains no registers, but a call stores its return address, and the return loads it from the same place.

use super::trace::Event;

/// Maximum distance of the stack's accesses below and above the return address of the last call.
const STACK_BELOW: u64 = 1 << 20;
const STACK_ABOVE: u64 = 64 << 10;

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Where its return address is.
    pub(crate) slot: u64,
    /// The return address: the end of the calling instruction.
    pub(crate) back: u64,
}

/// The calls of the one thread that the program is assumed to have.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The last one is at the end.
    pub(crate) open: Vec<Call>,
    last: Option<Event>,
    /// The last instruction and its end.
    current: u64,
    next: u64,
}

impl Calls {
    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Loaded { .. } => return,
            Event::Instruction { at, bytes } => self.instruction(at, bytes),
            Event::Load { at, bytes: 8 } if self.last_slot() == Some(at) => {
                self.open.pop();
            }
            Event::Load { .. } | Event::Store { .. } => (),
        }
        self.last = Some(event);
    }

    fn instruction(&mut self, at: u64, bytes: u64) {
        // An instruction such as `rep stos` repeats itself.
        if let Some(Event::Store { at: slot, bytes: 8 }) = self.last
            && at != self.next
            && at != self.current
        {
            // Calls that were left without a return, as by an exception, are below the new one.
            while self.last_slot().is_some_and(|top| top <= slot && slot - top < STACK_BELOW) {
                self.open.pop();
            }
            self.open.push(Call { slot, back: self.next });
        }
        (self.current, self.next) = (at, at + bytes);
    }

    /// Where the return address of the last call is.
    pub(crate) fn last_slot(&self) -> Option<u64> {
        self.open.last().map(|call| call.slot)
    }

    /// Whether an address is of the stack.
    pub(crate) fn is_stack(&self, at: u64) -> bool {
        self.last_slot().is_some_and(|slot| {
            (slot.saturating_sub(STACK_BELOW)..slot + STACK_ABOVE).contains(&at)
        })
    }
}
