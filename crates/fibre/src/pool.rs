//! The stacks of a thread: one pool for each size, last in, first out.
//!
//! The last stack is likely to be in the cache. The first ones have not been used for long; when there are more of them
//! than a decayed maximum of recent use, their memory returns to the kernel.

use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll};

use crate::overflow::AlternateStack;
use crate::stack::{Stack, StackSize, Undivided};
use crate::wait_queue::{QueuePosition, WaitQueue};

/// The default limit on the address space of a thread's stacks.
const DEFAULT_LIMIT: usize = 16 << 30;

/// One fibre in so many starts on an empty stack, and is measured when it ends.
const MEASURED_EVERY: u32 = 64;

/// The maximum of recent use decays by a sixteenth each time that so many fibres have ended.
const DECAYS_EVERY: u32 = 256;

/// Free stacks per size that always keep their memory.
const MIN_WARM: usize = 64;

/// The largest number of stacks in one mapping.
const MAX_CHUNK: usize = 4096;

/// Limits the address space of the calling thread's stacks, in bytes, including 20 KiB for the guard of each. The
/// default is 16 GiB, enough for 200,000 stacks of the default size. Stacks that exist are kept.
///
/// At the limit, a new fibre waits until another one with the same size of stack ends, in the order of arrival; a fibre
/// that is alone with its size never waits. If fibres wait for fibres that have not started, leave room for those.
///
/// Call it on each processor, from the `start` of the program or from an operation.
pub fn set_stack_limit(bytes: usize) {
    POOL.with(|pool| {
        pool.limit.set(bytes);
        pool.waiting.iter().for_each(WaitQueue::notify_all);
    });
}

/// The stacks of one size.
#[derive(Default)]
struct Class {
    /// The first `cold` of them take no memory.
    free: Vec<Stack>,
    cold: usize,
    in_use: usize,
    /// A decayed maximum of `in_use`.
    mark: usize,
    undivided: Option<Undivided>,
    /// The number of stacks in its mappings.
    mapped: usize,
    started: u32,
    ended: u32,
}

struct Pool {
    classes: [RefCell<Class>; StackSize::ALL.len()],
    limit: Cell<usize>,
    mapped: Cell<usize>,
    waiting: [WaitQueue; StackSize::ALL.len()],
    _handler_stack: AlternateStack,
}

thread_local! {
    static POOL: Pool = Pool {
        classes: Default::default(),
        limit: Cell::new(DEFAULT_LIMIT),
        mapped: Cell::new(0),
        waiting: Default::default(),
        _handler_stack: AlternateStack::install(),
    };
}

/// Takes a stack, or waits for one.
pub(crate) fn poll_take(
    size: StackSize,
    position: &mut QueuePosition,
    context: &mut Context<'_>,
) -> Poll<io::Result<Stack>> {
    POOL.with(|pool| {
        pool.waiting[size as usize].poll(position, context, |_| pool.take(size).transpose())
    })
}

/// Gives up the place of a fibre that waits for a stack.
pub(crate) fn stop_waiting(size: StackSize, position: &mut QueuePosition) {
    _ = POOL.try_with(|pool| pool.waiting[size as usize].leave(position));
}

/// Returns a stack. If it was measured, returns the bytes that its fibre has used.
pub(crate) fn give(mut stack: Stack) -> Option<usize> {
    let used = if std::mem::take(&mut stack.measured) { stack.used() } else { None };
    // After the end of the thread's pool, the stack is unmapped.
    _ = POOL.try_with(move |pool| {
        let class = stack.size as usize;
        pool.classes[class].borrow_mut().give(stack);
        pool.waiting[class].notify_one();
    });
    used
}

impl Pool {
    /// A stack; none at the limit.
    fn take(&self, size: StackSize) -> io::Result<Option<Stack>> {
        let class = &mut *self.classes[size as usize].borrow_mut();
        let stack = match class.free.pop() {
            Some(stack) => Some(stack),
            None if class.in_use > 0
                && self.mapped.get() + size.layout().stride() > self.limit.get() =>
            {
                None
            }
            None => {
                let stack = class.map(size)?;
                self.mapped.set(self.mapped.get() + size.layout().stride());
                Some(stack)
            }
        };
        Ok(stack.map(|stack| class.begin(stack)))
    }
}

impl Class {
    /// A new stack.
    fn map(&mut self, size: StackSize) -> io::Result<Stack> {
        if let Some(stack) = self.undivided.as_mut().and_then(Undivided::next) {
            return stack;
        }
        let count = self.mapped.clamp(16, MAX_CHUNK);
        let chunk = self.undivided.insert(Undivided::map(size, count, self.mapped)?);
        self.mapped += count;
        chunk.next().expect("a new chunk has stacks")
    }

    fn begin(&mut self, mut stack: Stack) -> Stack {
        self.cold = self.cold.min(self.free.len());
        self.in_use += 1;
        self.mark = self.mark.max(self.in_use);
        stack.measured = self.started.is_multiple_of(MEASURED_EVERY);
        self.started = self.started.wrapping_add(1);
        if stack.measured {
            stack.empty();
        }
        stack
    }

    fn give(&mut self, stack: Stack) {
        self.in_use -= 1;
        self.free.push(stack);
        self.ended = self.ended.wrapping_add(1);
        if self.ended.is_multiple_of(DECAYS_EVERY) {
            // Rounded up, so that it reaches `in_use`.
            self.mark -= (self.mark - self.in_use).div_ceil(16);
        }
        // Two at a time, so that the memory of a burst is returned while its fibres end.
        for _ in 0..2 {
            if self.free.len() - self.cold > (self.mark - self.in_use).max(MIN_WARM) {
                self.free[self.cold].empty();
                self.cold += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use corosensei::stack::Stack as _;

    use super::*;

    #[test]
    fn successive_stacks_of_several_mappings_share_few_sets_of_a_cache() {
        let mut class = Class::default();
        let stacks: Vec<_> = (0..96).map(|_| class.map(StackSize::KiB16).unwrap()).collect();
        let mut tops = [0; 64];
        stacks.iter().for_each(|stack| tops[stack.base().get() % 4096 / 64] += 1);
        assert_eq!(tops.iter().max(), Some(&2), "{tops:?}");
    }

    #[test]
    fn stacks_are_reused_last_in_first_out_and_cold_ones_are_emptied() {
        let mut class = Class::default();
        let take = |class: &mut Class| {
            let stack = class.free.pop();
            let stack = stack.unwrap_or_else(|| class.map(StackSize::KiB16).unwrap());
            class.begin(stack)
        };
        let (first, second) = (take(&mut class), take(&mut class));
        let limits = (first.limit(), second.limit());
        class.give(first);
        class.give(second);
        let again = (take(&mut class), take(&mut class));
        assert_eq!((again.1.limit(), again.0.limit()), limits);
        let mut many: Vec<_> = (0..1000).map(|_| take(&mut class)).collect();
        many.drain(..).for_each(|stack| class.give(stack));
        assert!(class.cold < 500, "{} of a burst that may come again", class.cold);
        for _ in 0..50_000 {
            let stack = take(&mut class);
            class.give(stack);
        }
        assert!(class.free.len() - class.cold <= MIN_WARM + 1, "{} cold", class.cold);
    }
}
