//! Mutexes. glibc's word holds the state; threads that do not find it free park.
//!
//! # Safety
//!
//! A mutex has the layout of glibc for x86-64: the word at byte 0, the owner's tid at byte 8, the number of users at byte
//! 12, the kind at byte 16. The thread that holds the lock accesses the owner and the number of users.

use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::schedule::home::{go_home, handle_requests, stay_home};
use crate::system::deadline;
use crate::system::real::{self, Object};
use crate::system::sys::{self, Timespec};
use crate::thread::wait::Wait;
use crate::thread::{Thread, current};
use crate::waiting::park::park;
use crate::waiting::table;

/// The kind of most mutexes, whose only state is the word.
const NORMAL: i32 = 0;
/// Kinds of mutexes: normal, recursive, error-checking, adaptive.
const PLAIN_KINDS: i32 = 3;
const ERROR_CHECKING: i32 = 2;
/// Flag of a mutex whose kind was set to normal explicitly, as C11 does. It disables lock elision in the C library.
const NO_ELISION: i32 = 512;
/// Flag of a mutex that other processes share.
const SHARED: i32 = 128;

/// Offsets of the owner and of the number of users.
const OWNER: usize = 8;
const USERS: usize = 12;

/// 0 free, 1 locked, 2 locked and perhaps with waiters in the kernel.
fn word<'m>(mutex: Object) -> &'m AtomicU32 {
    unsafe { AtomicU32::from_ptr(mutex.cast()) }
}

fn kind(mutex: Object) -> i32 {
    unsafe { mutex.add(16).cast::<i32>().read_volatile() & !NO_ELISION }
}

/// Whether threads of other processes may use the mutex.
pub(crate) fn is_shared(mutex: Object) -> bool {
    kind(mutex) & SHARED != 0
}

fn owner(mutex: Object) -> u32 {
    unsafe { mutex.add(OWNER).cast::<u32>().read_volatile() }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_mutex_lock(mutex: Object) -> i32 {
    lock(current(), mutex)
}

#[inline]
pub(crate) fn lock(thread: &Thread, mutex: Object) -> i32 {
    let kind = kind(mutex);
    if kind == NORMAL {
        if word(mutex).compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return wait(thread, mutex, kind, None);
        }
        unsafe {
            *mutex.add(OWNER).cast::<u32>() = thread.home_tid();
            *mutex.add(USERS).cast::<u32>() += 1;
        }
        return 0;
    }
    if kind & !PLAIN_KINDS != 0 {
        prepare_native(thread, kind);
        return unsafe { real::pthread_mutex_lock(mutex) };
    }
    match unsafe { real::pthread_mutex_trylock(mutex) } {
        sys::EBUSY => wait(thread, mutex, kind, None),
        result => result,
    }
}

/// The kernel identifies the owner of robust and priority-inheriting mutexes by its kernel thread. For other
/// process-shared mutexes the thread waits at home.
#[cold]
fn prepare_native(thread: &Thread, kind: i32) {
    match kind & !(PLAIN_KINDS | SHARED) == 0 {
        true => go_home(thread),
        false => stay_home(thread),
    }
}

/// Waits for a mutex, at most until a deadline.
#[cold]
fn wait(
    thread: &Thread,
    mutex: Object,
    kind: i32,
    deadline: Option<(i32, *const Timespec)>,
) -> i32 {
    if kind == ERROR_CHECKING && owner(mutex) == thread.home_tid() {
        return sys::EDEADLK;
    }
    // The kernel wakes threads by their priority.
    if thread.is_separate.load(Ordering::Relaxed) {
        stay_home(thread);
        return match deadline {
            None => unsafe { real::pthread_mutex_lock(mutex) },
            Some((clock, time)) => unsafe { real::pthread_mutex_clocklock(mutex, clock, time) },
        };
    }
    let deadline = match deadline {
        None => None,
        Some((clock, time)) => match deadline::deadline(clock, time) {
            None => return sys::EINVAL,
            deadline => deadline,
        },
    };
    let key = mutex as usize;
    handle_requests(thread);
    loop {
        let wait = Wait::begin(thread);
        table::insert(thread, key, 0, |_| true);
        fence(Ordering::SeqCst);
        let mut result = unsafe { real::pthread_mutex_trylock(mutex) };
        if result == sys::EBUSY && deadline.is_some_and(|at| sys::now() >= at) {
            result = sys::ETIMEDOUT;
        }
        if result != sys::EBUSY {
            if table::remove(thread, key) {
                // A release that was meant for this waiter must not be lost.
                table::wake(key, 1);
            }
            return result;
        }
        park(thread, wait, deadline);
        // A waiter that was woken after its deadline passes the release on, above.
        if table::remove(thread, key) && deadline.is_some_and(|at| sys::now() >= at) {
            let result = unsafe { real::pthread_mutex_trylock(mutex) };
            if result != sys::EBUSY {
                return result;
            }
            table::wake(key, 1);
            return sys::ETIMEDOUT;
        }
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_mutex_trylock(mutex: Object) -> i32 {
    let kind = kind(mutex);
    if kind & !(PLAIN_KINDS | SHARED) != 0 {
        stay_home(current());
    }
    unsafe { real::pthread_mutex_trylock(mutex) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_mutex_timedlock(
    mutex: Object,
    time: *const Timespec,
) -> i32 {
    unsafe { pthread_mutex_clocklock(mutex, 0, time) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: Object,
    clock: i32,
    time: *const Timespec,
) -> i32 {
    let (thread, kind) = (current(), kind(mutex));
    if kind & !PLAIN_KINDS != 0 || !(0..=1).contains(&clock) {
        prepare_native(thread, kind);
        return unsafe { real::pthread_mutex_clocklock(mutex, clock, time) };
    }
    match unsafe { real::pthread_mutex_trylock(mutex) } {
        sys::EBUSY => wait(thread, mutex, kind, Some((clock, time))),
        result => result,
    }
}

/// As the C library does it.
#[inline]
fn unlock_normal(mutex: Object) -> i32 {
    unsafe {
        *mutex.add(OWNER).cast::<u32>() = 0;
        let users = mutex.add(USERS).cast::<u32>();
        *users = (*users).wrapping_sub(1);
    }
    if word(mutex).swap(0, Ordering::Release) > 1 {
        sys::futex_wake(mutex.cast(), 1);
    }
    0
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_mutex_unlock(mutex: Object) -> i32 {
    // The mutex may be freed as soon as it is unlocked.
    let result = match kind(mutex) {
        NORMAL => unlock_normal(mutex),
        _ => unsafe { real::pthread_mutex_unlock(mutex) },
    };
    table::wake(mutex as usize, 1);
    result
}

aliases! {
    __pthread_mutex_lock = pthread_mutex_lock;
    __pthread_mutex_trylock = pthread_mutex_trylock;
    __pthread_mutex_unlock = pthread_mutex_unlock;
}
