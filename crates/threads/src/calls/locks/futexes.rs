//! System calls by number. Private futexes, with which other languages build their locks, wait in the parking table.
//!
//! # Safety
//!
//! The caller passes arguments that the kernel may use. The word of a futex is read as the kernel reads it.

use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::calls::descriptors::close;
use crate::calls::threads::children;
use crate::calls::threads::home_calls;
use crate::calls::threads::signals::{self, must_return};
use crate::readiness::{records, watch};
use crate::schedule::home::{go_home, obey};
use crate::system::deadline;
use crate::system::real;
use crate::system::sys::{self, Timespec};
use crate::thread::{Thread, current};
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

/// Restartable sequences are registered for a kernel thread.
const SYS_RSEQ: usize = 334;
const SYS_TKILL: usize = 200;
const SYS_TGKILL: usize = 234;
/// Calls that depend neither on the kernel thread nor wait: clocks, random numbers, memory, the current processor.
const ANYWHERE: [usize; 5] = [228, 309, 318, 319, 324];
/// Calls that give the kernel thread attributes of its own: identities, scheduling, namespaces, filters, keyrings. Those of
/// `SYS_ARCH_PRCTL` depend on its code.
const SEPARATES: [usize; 22] = [
    105, 106, 113, 114, 116, 117, 119, 122, 123, 126, 141, 142, 144, 157, 203, 238, 250, 251, 272,
    308, 314, 317,
];

const SYS_ARCH_PRCTL: usize = 158;
const SYS_PKEY_ALLOC: usize = 330;

/// Calls that may change the flags of a descriptor, or give its file another one: ioctl, dup, setsockopt, fcntl.
const CHANGES_ONE: [usize; 4] = [16, 32, 54, 72];
/// Calls that may do this to any descriptor, or create a process: dup2, dup3, sendmsg, sendmmsg, clone, fork, vfork, clone3,
/// close_range, io_uring.
const SHARES_ALL: [usize; 12] = [33, 292, 46, 307, 56, 57, 58, 435, 436, 425, 426, 427];

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn syscall(
    number: isize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    let thread = current();
    match number as usize {
        sys::SYS_FUTEX => {
            if let Some(result) = futex(thread, [a, b, c, d, e, f]) {
                return sys::result(result);
            }
        }
        sys::SYS_GETTID if thread.is_hollow() => return thread.tid.get() as isize,
        SYS_RSEQ => return sys::fail(sys::ENOSYS),
        sys::SYS_CLOSE => return unsafe { close(a as i32) } as isize,
        number if ANYWHERE.contains(&number) => {}
        SYS_ARCH_PRCTL if home_calls::is_attribute(a as u32) => home_calls::separate(thread),
        number if SEPARATES.contains(&number) => home_calls::separate(thread),
        number => {
            if CHANGES_ONE.contains(&number) {
                watch::share(a as i32);
            }
            if SHARES_ALL.contains(&number) {
                records::share_all();
            }
            obey(thread);
            go_home(thread);
            if [children::SYS_CLONE, children::SYS_FORK, children::SYS_CLONE3].contains(&number) {
                children::prepare();
            }
        }
    }
    let creates_process = children::creates_process(number as usize, a);
    let result = unsafe { real::syscall(number, a, b, c, d, e, f) };
    match number as usize {
        _ if creates_process => children::finish(result),
        SYS_TGKILL if result == 0 && a as u32 == sys::process() => {
            signals::call_home_by_tid(b as u32, c as i32);
        }
        SYS_PKEY_ALLOC if result >= 0 => home_calls::separate(thread),
        SYS_TKILL if result == 0 => signals::call_home_by_tid(a as u32, b as i32),
        _ => {}
    }
    result
}

/// Executes an operation on a futex of this process. `None` if the kernel is to execute it.
fn futex(thread: &Thread, arguments: [usize; 6]) -> Option<isize> {
    let [address, operation, value, other, second, mask] = arguments;
    if operation & PRIVATE == 0 || address % 4 != 0 || address < 4096 {
        if matches!(operation & OPERATION, WAIT | WAIT_BITSET) {
            go_home(thread);
        }
        return None;
    }
    let wake = |address, count| table::wake(address, count) as isize;
    match operation & OPERATION {
        WAIT | WAIT_BITSET => wait(thread, arguments),
        // Futexes return early at times, so waiters for other bits may be woken too.
        WAKE_BITSET if mask != ANY_BIT => {
            wake(address, usize::MAX);
            None
        }
        WAKE | WAKE_BITSET => {
            let woken = wake(address, value);
            // Other waiters of this process have called the kernel directly.
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

fn wait(thread: &Thread, [address, operation, value, time, ..]: [usize; 6]) -> Option<isize> {
    obey(thread);
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
    let mut woken = Woken::Normally;
    let differs = word.load(Ordering::SeqCst) != value as u32;
    while !differs
        && !thread.is_woken()
        && deadline.is_none_or(|at| sys::now() < at)
        && (woken == Woken::Normally || !must_return(thread, deadline.is_none()))
    {
        woken = park(thread, deadline);
    }
    let notified = table::remove(thread);
    Some(match () {
        // A waiter that finds another value has consumed a wake-up; its caller looks at the value again.
        () if notified => 0,
        () if differs => -(sys::EAGAIN as isize),
        () if woken != Woken::Normally => -(sys::EINTR as isize),
        () => -(sys::ETIMEDOUT as isize),
    })
}
