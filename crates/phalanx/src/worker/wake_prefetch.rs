//! Prefetching after a long sleep.
//!
//! While a processor sleeps, other programs and other virtual machines replace the contents of its caches. A request
//! that wakes it then waits for one cache line after the other: about a thousand for a message of the broker, which took
//! 90 µs instead of 2 µs. A processor that has slept long starts the loads of these lines together, so that the waits
//! overlap.

use std::ops::Range;
use std::ptr::{from_ref, without_provenance};
use std::time::Duration;

use phalanx_core::start_load;

use super::hot_code;

/// The sleep after which the caches are assumed to be cold. After 5 ms a prefetch gained on a busy machine only.
const MIN_SLEEP: Duration = Duration::from_millis(10);
/// The size of the stack that a request uses, in bytes.
const STACK_BYTES: usize = 9 << 10;
const LINE: usize = 64;

/// The memory to prefetch, apart from the stack; `None` if the program does not ask for it.
pub(super) struct WakePrefetch(Option<Vec<Range<usize>>>);

impl WakePrefetch {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self(is_wanted.then(|| vec![hot_code::addresses()]))
    }

    /// Adds the memory of `value`, which need not outlive this object: loads of other memory have no effect.
    pub(super) fn add<T>(&mut self, value: &T) {
        let begin = from_ref(value).addr();
        if let Some(memory) = &mut self.0 {
            memory.push(begin..begin + size_of::<T>());
        }
    }

    /// Prefetches if that is due after a sleep, whose length `sleep_time` returns.
    #[inline]
    pub(super) fn prefetch_after(
        &self,
        sleep_time: impl FnOnce() -> Duration,
        timeout: Option<Duration>,
    ) {
        if let Some(memory) = &self.0
            && is_due(sleep_time(), timeout)
        {
            load_all(memory);
        }
    }
}

/// Starts the loads of the stack and of `memory`.
#[inline(never)]
fn load_all(memory: &[Range<usize>]) {
    let here = from_ref(&memory).addr();
    load(&(here.saturating_sub(STACK_BYTES)..here));
    memory.iter().for_each(load);
}

/// Whether the sleep was long and ended before its timeout, so that there probably is a request.
#[inline]
fn is_due(sleep_time: Duration, timeout: Option<Duration>) -> bool {
    sleep_time >= MIN_SLEEP && timeout.is_none_or(|timeout| sleep_time < timeout)
}

/// Starts the loads of the cache lines of a range.
fn load(range: &Range<usize>) {
    let aligned = range.start & !(LINE - 1)..range.end;
    aligned.step_by(LINE).for_each(|line| start_load(without_provenance(line)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_after_a_long_sleep_is_worth_a_prefetch() {
        let (short, long, longer) = (MIN_SLEEP / 2, MIN_SLEEP, 2 * MIN_SLEEP);
        assert!(is_due(long, None) && is_due(long, Some(longer)));
        assert!(!is_due(short, None) && !is_due(short, Some(long)));
        assert!(!is_due(longer, Some(long)), "a timer has ended the sleep");
    }

    #[test]
    fn addresses_need_not_be_valid() {
        let mut prefetch = WakePrefetch::new(true);
        prefetch.add(&[0u8; 1000]);
        prefetch.0.as_mut().unwrap().push(0..4096);
        prefetch.prefetch_after(|| MIN_SLEEP, None);
    }

    #[test]
    fn a_program_that_does_not_ask_for_it_reads_no_clock() {
        let mut prefetch = WakePrefetch::new(false);
        prefetch.add(&[0u8; 1000]);
        prefetch.prefetch_after(|| panic!("the clock is read"), None);
    }
}
