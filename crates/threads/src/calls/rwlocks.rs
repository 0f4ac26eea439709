//! Read-write locks. glibc's words are the truth; waiters that do not find the lock free park.
//!
//! # Safety
//!
//! A read-write lock has the layout of glibc for x86-64: the tid of the writer at byte 24, whether processes share it at
//! byte 28, flags at byte 48.

use core::sync::atomic::{Ordering, fence};

use crate::home::obey;
use crate::park::park;
use crate::real::{self, Object};
use crate::sys;
use crate::table;
use crate::thread::current;

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

/// Whether a thread that waits to write has precedence over readers.
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

fn acquire(
    lock: Object,
    interest: u32,
    attempt: fn(Object) -> i32,
    native: unsafe fn(Object) -> i32,
) -> i32 {
    let result = attempt(lock);
    if result != sys::EBUSY {
        return result;
    }
    let thread = current();
    obey(thread);
    if is_shared(lock) || thread.is_separate.get() || writer(lock) == thread.home_tid() {
        // The kernel wakes threads by their priority. The last returns EDEADLK at once.
        return unsafe { native(lock) };
    }
    let key = lock as usize;
    loop {
        table::insert(thread, key, interest, |_| true);
        fence(Ordering::SeqCst);
        let result = attempt(lock);
        if result == sys::EBUSY {
            park(thread, None);
        }
        // Each release wakes all waiters, so none is lost here.
        table::remove(thread, key);
        if result != sys::EBUSY {
            return result;
        }
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_rdlock(lock: Object) -> i32 {
    acquire(lock, READER, try_to_read, real::pthread_rwlock_rdlock)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_wrlock(lock: Object) -> i32 {
    acquire(lock, WRITER, try_to_write, real::pthread_rwlock_wrlock)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_unlock(lock: Object) -> i32 {
    let result = unsafe { real::pthread_rwlock_unlock(lock) };
    table::wake(lock as usize, usize::MAX);
    result
}
