//! Private futexes, with which other languages build their locks, by the number of the system call. Their waiters are in the
//! parking table.
//!
//! # Safety
//!
//! The caller passes arguments that the kernel may use. The word of a futex is read as the kernel reads it.

use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::calls::threads::signals::must_return;
use crate::schedule::home::{go_home, handle_requests};
use crate::system::deadline;
use crate::system::sys::{self, Timespec};
use crate::thread::Thread;
use crate::thread::wait::Wait;
use crate::waiting::park::{Woken, park};
use crate::waiting::table;

const WAIT: usize = 0;
const WAKE: usize = 1;
const REQUEUE: usize = 3;
const CMP_REQUEUE: usize = 4;
const WAKE_OP: usize = 5;
const WAIT_BITSET: usize = 9;
const WAKE_BITSET: usize = 10;
const OPERATION: usize = 127;
const PRIVATE: usize = 128;
const CLOCK_REALTIME: usize = 256;
const ANY_BIT: usize = u32::MAX as usize;

/// Executes an operation on a futex of this process. Returns `None` if the kernel must execute it.
pub(in crate::calls) fn futex(thread: &Thread, arguments: [usize; 6]) -> Option<isize> {
    let [address, operation, value, other, second, mask] = arguments;
    if operation & PRIVATE == 0 || address % 4 != 0 || address < 4096 {
        if matches!(operation & OPERATION, WAIT | WAIT_BITSET) {
            go_home(thread);
        }
        return None;
    }
    let wake = |address, count| table::wake(address, count) as isize;
    match operation & OPERATION {
        // The kernel reports an error.
        WAIT_BITSET if mask as u32 == 0 => None,
        WAIT | WAIT_BITSET => wait(thread, arguments),
        // Futex waits may return early, so waiters for other bits may be woken, too.
        WAKE_BITSET if mask != ANY_BIT => {
            wake(address, usize::MAX);
            None
        }
        WAKE | WAKE_BITSET => {
            let woken = wake(address, value);
            // The remaining waiters may have called the kernel directly.
            let left = value.saturating_sub(woken as usize);
            let rest = [address, WAKE | PRIVATE, left, 0, 0, 0];
            Some(if left == 0 { woken } else { woken + sys::call(sys::SYS_FUTEX, rest).max(0) })
        }
        REQUEUE | CMP_REQUEUE | WAKE_OP => {
            let result =
                sys::call(sys::SYS_FUTEX, [address, operation, value, other, second, mask]);
            if result < 0 {
                return Some(result);
            }
            let also = if operation & OPERATION == WAKE_OP { wake(second, usize::MAX) } else { 0 };
            Some(result + wake(address, usize::MAX) + also)
        }
        _ => {
            go_home(thread);
            None
        }
    }
}

/// Wakes waiters before the kernel's call with its later interface (`futex_wake`). Returns how many are left to wake.
pub(in crate::calls) fn wake_before([address, mask, count, flags]: [usize; 4]) -> usize {
    match flags & PRIVATE {
        0 => count,
        _ if mask as u32 == u32::MAX => count.saturating_sub(table::wake(address, count)),
        // Futex waits may return early, so waiters for other bits may be woken, too.
        _ => {
            table::wake(address, usize::MAX);
            count
        }
    }
}

/// Wakes waiters that the kernel would move to another futex (`futex_requeue`); they return early.
pub(in crate::calls) unsafe fn wake_moved(waiters: usize) {
    // The second member of the first of two waiters is its address.
    if let Some([_, address, ..]) = unsafe { (waiters as *const [usize; 3]).as_ref() } {
        table::wake(*address, usize::MAX);
    }
}

fn wait(thread: &Thread, [address, operation, value, time, ..]: [usize; 6]) -> Option<isize> {
    handle_requests(thread);
    let time = unsafe { (time as *const Timespec).as_ref() };
    let deadline = match time {
        None => None,
        Some(time) if operation & OPERATION == WAIT_BITSET => {
            let clock = i32::from(operation & CLOCK_REALTIME == 0);
            Some(deadline::deadline(clock, time).filter(|_| time.seconds >= 0)?)
        }
        Some(time) => {
            let length = deadline::deadline(1, time).filter(|_| time.seconds >= 0)?;
            Some(sys::now().saturating_add(length))
        }
    };
    let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
    table::insert(thread, address, 0, |_| true);
    fence(Ordering::SeqCst);
    let (mut interrupted, mut wait) = (false, Wait::begin(thread));
    let differs = word.load(Ordering::SeqCst) != value as u32;
    while !differs
        && !thread.is_woken(address)
        && deadline.is_none_or(|at| sys::now() < at)
        && !interrupted
    {
        interrupted = match park(thread, wait, deadline) {
            Woken::Normally => false,
            Woken::Requested => must_return(thread, deadline.is_none()),
            Woken::BySignal => true,
        };
        wait = Wait::begin(thread);
    }
    let is_own = thread.has_node(address);
    let notified = table::remove(thread, address);
    if notified && !is_own && interrupted {
        // The handler that has interrupted the wait has replaced the node, which may have been woken.
        table::wake(address, 1);
    }
    Some(match () {
        // A waiter that finds another value reports a wake-up, because it may have consumed one; its caller checks the
        // value again.
        () if notified && (is_own || !interrupted) => 0,
        () if differs => -(sys::EAGAIN as isize),
        () if interrupted => -(sys::EINTR as isize),
        () => -(sys::ETIMEDOUT as isize),
    })
}
