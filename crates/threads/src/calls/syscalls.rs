//! System calls by number.
//!
//! # Safety
//!
//! The caller passes arguments that the kernel may use.

use crate::calls::descriptors::{close, close_range};
use crate::calls::locks::futexes;
use crate::calls::threads::home_calls::is_attribute;
use crate::calls::threads::{attributes, children, signals};
use crate::readiness::{records, watch};
use crate::schedule::home::{go_home, handle_requests, stay_home};
use crate::system::{real, sys};
use crate::thread::current;

/// Restartable sequences are registered for a kernel thread.
const SYS_RSEQ: usize = 334;
const SYS_TKILL: usize = 200;
const SYS_TGKILL: usize = 234;
const SYS_CLOSE_RANGE: usize = 436;
const SYS_FUTEX_WAKE: usize = 454;
const SYS_FUTEX_REQUEUE: usize = 456;
/// Calls that neither wait nor depend on the kernel thread: clocks, random numbers, memory, the current processor.
const ALLOWED_ON_CARRIERS: [usize; 5] = [228, 309, 318, 319, 324];
/// Calls that set attributes of the kernel thread: identities, personality, ports, namespaces, filters, keyrings,
/// Landlock. Whether `SYS_ARCH_PRCTL` does depends on its code.
const SEPARATES: [usize; 21] = [
    105, 106, 113, 114, 116, 117, 119, 122, 123, 126, 135, 157, 172, 173, 238, 250, 251, 272, 308,
    317, 446,
];
/// Calls that set attributes, such as scheduling, of the kernel thread in their first argument.
const SEPARATES_TID: [usize; 4] = [142, 144, 203, 314];
const SYS_SETPRIORITY: usize = 141;
/// The tracer of a process is the kernel thread that has attached to it.
const SYS_PTRACE: usize = 101;

const SYS_ARCH_PRCTL: usize = 158;
const SYS_PKEY_ALLOC: usize = 330;

/// Calls that may change the flags of a descriptor, or give its file another one: ioctl, dup, setsockopt, fcntl.
const CHANGES_ONE: [usize; 4] = [16, 32, 54, 72];
/// Calls that may affect any descriptor in this way, or create a process: dup2, dup3, sendmsg, sendmmsg, clone, fork,
/// vfork, clone3, io_uring.
const SHARES_ALL: [usize; 11] = [33, 292, 46, 307, 56, 57, 58, 435, 425, 426, 427];

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn syscall(
    number: isize,
    a: usize,
    b: usize,
    mut c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    let thread = current();
    match number as usize {
        sys::SYS_FUTEX => {
            if let Some(result) = futexes::futex(thread, [a, b, c, d, e, f]) {
                return sys::result(result);
            }
        }
        SYS_FUTEX_WAKE => {
            let wanted = c;
            c = futexes::wake_before([a, b, c, d]);
            if c == 0 && wanted != 0 {
                return wanted as isize;
            }
            let woken = unsafe { real::syscall(number, a, b, c, d, e, f) };
            return if woken < 0 { woken } else { woken + (wanted - c) as isize };
        }
        SYS_FUTEX_REQUEUE => unsafe { futexes::wake_moved(a) },
        sys::SYS_GETTID if thread.is_hollow() => return thread.tid.get() as isize,
        SYS_RSEQ => return sys::fail(sys::ENOSYS),
        sys::SYS_CLOSE => return unsafe { close(a as i32) } as isize,
        SYS_CLOSE_RANGE => return unsafe { close_range(a as u32, b as u32, c as i32) } as isize,
        number if ALLOWED_ON_CARRIERS.contains(&number) => {}
        SYS_ARCH_PRCTL if is_attribute(a as u32) => attributes::separate(thread),
        SYS_SETPRIORITY => attributes::separate_prioritized(a as u32, b as u32),
        SYS_PTRACE => stay_home(thread),
        number if SEPARATES_TID.contains(&number) => attributes::separate_tid(a as u32),
        number if SEPARATES.contains(&number) => attributes::separate(thread),
        number => {
            if CHANGES_ONE.contains(&number) {
                watch::share(a as i32);
            }
            if SHARES_ALL.contains(&number) {
                records::share_all();
            }
            handle_requests(thread);
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
        SYS_PKEY_ALLOC if result >= 0 => attributes::separate(thread),
        SYS_TKILL if result == 0 => signals::call_home_by_tid(a as u32, b as i32),
        _ => {}
    }
    result
}
