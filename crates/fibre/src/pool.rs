//! The stacks of a thread: one pool for each size, last in, first out.
//!
//! The last free stack is likely to be in the cache. The first ones have not been used for a long time; when there are
//! more free stacks than a decayed maximum of recent use needs, the memory of the first ones returns to the kernel.

use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll};

use crate::overflow::AlternateStack;
use crate::stack::{Stack, StackSize, Undivided};
use crate::wait_queue::{QueuePosition, WaitQueue};

/// The default limit on the address space of a thread's stacks.
const DEFAULT_LIMIT: usize = 16 << 30;

/// One in this many fibres starts on an empty stack, whose memory use is measured when the fibre ends. The first fibres of
/// each stack size are measured more often: fibres 0, 1, 2, 4, 8, and so on. A measurement takes 30 times as long as the
/// rest of a short fibre.
const MEASURED_EVERY: u32 = 1024;

/// The maximum of recent use decays by a sixteenth each time this many fibres have ended.
const DECAYS_EVERY: u32 = 256;

/// The number of free stacks per size that always keep their memory.
const MIN_WARM: usize = 64;

/// The maximum number of stacks in one mapping.
const MAX_CHUNK: usize = 4096;

/// Limits the address space of the calling thread's stacks, in bytes, including 20 KiB for the guard of each. The
/// default is 16 GiB, enough for 199,000 stacks of the default size. Existing stacks are kept.
///
/// A mapping contains several stacks of one size: up to 4,096, and at most half of those that still fit within the
/// limit. At the limit, new fibres wait in order of arrival until others with the same stack size end; the only fibre
/// of a size never waits. If fibres wait for fibres that have not started, choose a limit that leaves room for the
/// latter.
///
/// Call this on each processor, from the `start` of the program or from an operation.
///
/// ```
/// use phalanx_core::{CallError, SharedStage};
/// use phalanx_fibre::{LocalFibres, set_stack_limit};
///
/// async fn within_a_gibibyte(stage: SharedStage<()>) -> Result<u32, CallError> {
///     set_stack_limit(1 << 30);
///     stage.fibre(|_, _| 7).await
/// }
/// # let _ = within_a_gibibyte;
/// ```
pub fn set_stack_limit(bytes: usize) {
    POOL.with(|pool| {
        pool.limit.set(bytes);
        pool.waiting.iter().for_each(WaitQueue::notify_all);
    });
}

/// The stacks of one size.
#[derive(Default)]
struct Class {
    /// The free stacks. The first `cold` of them use no memory.
    free: Vec<Stack>,
    cold: usize,
    in_use: usize,
    /// A decayed maximum of `in_use`.
    mark: usize,
    undivided: Option<Undivided>,
    /// The number of stacks in all mappings of this size.
    mapped: usize,
    started: u32,
    finished: u32,
}

struct Pool {
    classes: [RefCell<Class>; StackSize::ALL.len()],
    limit: Cell<usize>,
    /// The size of all mappings, in bytes.
    mapped: Cell<usize>,
    waiting: [WaitQueue; StackSize::ALL.len()],
    _handler_stack: AlternateStack,
}

thread_local! {
    static POOL: Pool = Pool::new();
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

/// Removes a fibre from the queue for a stack.
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
    fn new() -> Self {
        Self {
            classes: Default::default(),
            limit: Cell::new(DEFAULT_LIMIT),
            mapped: Cell::new(0),
            waiting: Default::default(),
            _handler_stack: AlternateStack::install(),
        }
    }

    /// Takes a stack; `None` at the limit.
    fn take(&self, size: StackSize) -> io::Result<Option<Stack>> {
        let class = &mut *self.classes[size as usize].borrow_mut();
        if let Some(stack) = class.free.pop() {
            return Ok(Some(class.begin(stack)));
        }
        let stack = match class.undivided.as_mut().and_then(Undivided::next) {
            Some(stack) => stack?,
            None => {
                let stride = size.layout().stride();
                let room = self.limit.get().saturating_sub(self.mapped.get()) / stride;
                if room == 0 && class.in_use > 0 {
                    return Ok(None);
                }
                let before = class.mapped;
                let stack = class.map(size, room)?;
                self.mapped.update(|mapped| mapped + (class.mapped - before) * stride);
                stack
            }
        };
        Ok(Some(class.begin(stack)))
    }
}

impl Class {
    /// The first stack of a new mapping. `room` more stacks are allowed, of which the mapping contains at most half.
    fn map(&mut self, size: StackSize, room: usize) -> io::Result<Stack> {
        let count = self.mapped.clamp(16, MAX_CHUNK).min(room / 2).max(1);
        let first = self.mapped;
        let (chunk, count) = largest(count, |count| Undivided::map(size, count, first))?;
        self.mapped += count;
        self.undivided.insert(chunk).next().expect("a new chunk has stacks")
    }

    fn begin(&mut self, mut stack: Stack) -> Stack {
        self.cold = self.cold.min(self.free.len());
        self.in_use += 1;
        self.mark = self.mark.max(self.in_use);
        stack.measured =
            self.started.is_power_of_two() || self.started.is_multiple_of(MEASURED_EVERY);
        self.started = self.started.wrapping_add(1);
        if stack.measured {
            stack.empty();
        }
        stack
    }

    fn give(&mut self, stack: Stack) {
        self.in_use -= 1;
        self.free.push(stack);
        self.finished = self.finished.wrapping_add(1);
        if self.finished.is_multiple_of(DECAYS_EVERY) {
            // Rounded up, so that it reaches `in_use`.
            self.mark -= (self.mark - self.in_use).div_ceil(16);
        }
        // Empties two at a time, so that the memory of a burst is returned while its fibres end.
        for _ in 0..2 {
            if self.free.len() - self.cold > (self.mark - self.in_use).max(MIN_WARM) {
                self.free[self.cold].empty();
                self.cold += 1;
            }
        }
    }
}

/// Calls `make` with `count`, and then with ever smaller numbers until it succeeds.
fn largest<T>(
    mut count: usize,
    mut make: impl FnMut(usize) -> io::Result<T>,
) -> io::Result<(T, usize)> {
    loop {
        match make(count) {
            Ok(value) => return Ok((value, count)),
            Err(error) if count == 1 => return Err(error),
            Err(_) => count /= 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use corosensei::stack::Stack as _;

    use super::*;

    #[test]
    fn successive_stacks_of_several_mappings_share_few_sets_of_a_cache() {
        let pool = Pool::new();
        let stacks: Vec<_> =
            (0..96).map(|_| pool.take(StackSize::KiB16).unwrap().unwrap()).collect();
        let mut tops = [0; 64];
        stacks.iter().for_each(|stack| tops[stack.base().get() % 4096 / 64] += 1);
        assert_eq!(tops.iter().max(), Some(&2), "{tops:?}");
    }

    #[test]
    fn stacks_are_measured_early_and_later_rarely() {
        let pool = Pool::new();
        let is_measured = |_: &u32| {
            let stack = pool.take(StackSize::KiB16).unwrap().unwrap();
            let measured = stack.measured;
            pool.classes[StackSize::KiB16 as usize].borrow_mut().give(stack);
            measured
        };
        assert_eq!((0..1024).filter(is_measured).count(), 11);
        assert_eq!((0..10 * MEASURED_EVERY).filter(is_measured).count(), 10);
    }

    #[test]
    fn mappings_stay_within_the_limit_and_use_all_of_it() {
        let pool = Pool::new();
        for (size, limit) in [(StackSize::MiB1, 100 << 20), (StackSize::KiB16, 5 << 20)] {
            let before = pool.mapped.get();
            pool.limit.set(before + limit);
            let count = std::iter::from_fn(|| pool.take(size).unwrap()).count();
            let stride = size.layout().stride();
            assert_eq!(count, limit / stride);
            let class = pool.classes[size as usize].borrow();
            assert_eq!((class.mapped, pool.mapped.get() - before), (count, count * stride));
        }
    }

    #[test]
    fn a_mapping_that_the_kernel_refuses_is_tried_with_fewer_stacks() {
        let up_to =
            |max| move |n| if n > max { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(n) };
        assert_eq!(largest(100, up_to(20)).unwrap(), (12, 12));
        assert_eq!(largest(1, up_to(1)).unwrap(), (1, 1));
        assert!(largest(100, up_to(0)).is_err());
    }

    #[test]
    fn stacks_are_reused_last_in_first_out_and_cold_ones_are_emptied() {
        let pool = Pool::new();
        let take = || pool.take(StackSize::KiB16).unwrap().unwrap();
        let class = || pool.classes[StackSize::KiB16 as usize].borrow_mut();
        let give = |stack| class().give(stack);
        let (first, second) = (take(), take());
        let limits = (first.limit(), second.limit());
        give(first);
        give(second);
        let reused = (take(), take());
        assert_eq!((reused.1.limit(), reused.0.limit()), limits);
        let mut many: Vec<_> = (0..1000).map(|_| take()).collect();
        many.drain(..).for_each(give);
        let cold = class().cold;
        assert!(cold < 500, "{cold} of a burst that may come again");
        (0..50_000).for_each(|_| give(take()));
        let class = class();
        assert!(class.free.len() - class.cold <= MIN_WARM + 1, "{} cold", class.cold);
    }
}
