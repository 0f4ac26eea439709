//! Read-write locks. glibc's words hold the state; threads that do not find the lock free park.
//!
//! A waiter remains in the parking table until it has the lock. So readers see a writer that has precedence even
//! between a release and the writer's next attempt.
//!
//! # Safety
//!
//! A read-write lock has the layout of glibc for x86-64: the tid of the writer at byte 24, whether processes share it at
//! byte 28, flags at byte 48.

use core::sync::atomic::{Ordering, fence};

use crate::schedule::home::{go_home, handle_requests};
use crate::system::deadline::deadline;
use crate::system::real::{self, Object};
use crate::system::sys::{self, Timespec};
use crate::thread::current;
use crate::thread::wait::Wait;
use crate::waiting::park::park;
use crate::waiting::table;

/// Interests of waiters.
const READER: u32 = 0;
const WRITER: u32 = 1;

/// A value of the flags.
const PREFER_WRITER_NONRECURSIVE: u32 = 2;

fn writer(lock: Object) -> u32 {
    unsafe { lock.add(24).cast::<u32>().read_volatile() }
}

/// Flag of a lock that other processes share.
fn is_shared(lock: Object) -> bool {
    unsafe { lock.add(28).cast::<i32>().read_volatile() != 0 }
}

/// Whether waiting writers have precedence over readers.
fn prefers_writers(lock: Object) -> bool {
    unsafe { lock.add(48).cast::<u32>().read_volatile() == PREFER_WRITER_NONRECURSIVE }
}

fn try_to_read(lock: Object) -> i32 {
    if prefers_writers(lock) && table::has_waiter(lock as usize, WRITER) {
        return sys::EBUSY;
    }
    unsafe { real::pthread_rwlock_tryrdlock(lock) }
}

fn try_to_write(lock: Object) -> i32 {
    unsafe { real::pthread_rwlock_trywrlock(lock) }
}

/// A wait without an end, or until a time of a clock.
type Limit = Option<(i32, *const Timespec)>;

fn acquire(
    lock: Object,
    interest: u32,
    attempt: fn(Object) -> i32,
    limit: Limit,
    native: impl FnOnce() -> i32,
) -> i32 {
    let result = attempt(lock);
    if result != sys::EBUSY {
        return result;
    }
    let thread = current();
    handle_requests(thread);
    let is_separate = thread.is_separate.load(Ordering::Relaxed);
    if is_shared(lock) || is_separate || writer(lock) == thread.home_tid() {
        // The kernel wakes threads by their priority. The last returns EDEADLK at once.
        go_home(thread);
        return native();
    }
    let deadline = match limit {
        None => None,
        Some((clock, time)) => match deadline(clock, time) {
            None => return sys::EINVAL,
            deadline => deadline,
        },
    };
    let (key, mut is_inserted) = (lock as usize, false);
    loop {
        let wait = Wait::begin(thread);
        // Insert again if a handler that has interrupted the wait has waited, too.
        if !is_inserted || !thread.has_node(key) {
            table::insert(thread, key, interest, |_| true);
            is_inserted = true;
        }
        fence(Ordering::SeqCst);
        let mut result = attempt(lock);
        if result == sys::EBUSY && deadline.is_some_and(|at| sys::now() >= at) {
            result = sys::ETIMEDOUT;
        }
        if result == sys::EBUSY {
            park(thread, wait, deadline);
            continue;
        }
        // Each release notifies all waiters, so none is lost here.
        table::remove(thread, key);
        if result == sys::ETIMEDOUT && interest == WRITER && prefers_writers(lock) {
            // Readers waited for this writer.
            table::notify(key);
        }
        return result;
    }
}

fn read(lock: Object, limit: Limit, native: impl FnOnce() -> i32) -> i32 {
    acquire(lock, READER, try_to_read, limit, native)
}

fn write(lock: Object, limit: Limit, native: impl FnOnce() -> i32) -> i32 {
    acquire(lock, WRITER, try_to_write, limit, native)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_rdlock(lock: Object) -> i32 {
    read(lock, None, || unsafe { real::pthread_rwlock_rdlock(lock) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_wrlock(lock: Object) -> i32 {
    write(lock, None, || unsafe { real::pthread_rwlock_wrlock(lock) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_timedrdlock(lock: Object, time: *const Timespec) -> i32 {
    unsafe { pthread_rwlock_clockrdlock(lock, 0, time) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_timedwrlock(lock: Object, time: *const Timespec) -> i32 {
    unsafe { pthread_rwlock_clockwrlock(lock, 0, time) }
}

/// Whether the C library accepts a limit. It reports others at once.
fn is_valid(clock: i32, time: *const Timespec) -> bool {
    (0..=1).contains(&clock) && deadline(clock, time).is_some()
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_clockrdlock(
    lock: Object,
    clock: i32,
    time: *const Timespec,
) -> i32 {
    let native = || unsafe { real::pthread_rwlock_clockrdlock(lock, clock, time) };
    if is_valid(clock, time) { read(lock, Some((clock, time)), native) } else { native() }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_clockwrlock(
    lock: Object,
    clock: i32,
    time: *const Timespec,
) -> i32 {
    let native = || unsafe { real::pthread_rwlock_clockwrlock(lock, clock, time) };
    if is_valid(clock, time) { write(lock, Some((clock, time)), native) } else { native() }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_unlock(lock: Object) -> i32 {
    let result = unsafe { real::pthread_rwlock_unlock(lock) };
    table::notify(lock as usize);
    result
}

/// The C library does not know about a writer that waits in the table.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_tryrdlock(lock: Object) -> i32 {
    try_to_read(lock)
}

aliases! {
    __pthread_rwlock_rdlock = pthread_rwlock_rdlock;
    __pthread_rwlock_tryrdlock = pthread_rwlock_tryrdlock;
    __pthread_rwlock_unlock = pthread_rwlock_unlock;
    __pthread_rwlock_wrlock = pthread_rwlock_wrlock;
}
