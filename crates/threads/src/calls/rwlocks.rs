//! Read-write locks. glibc's words are the truth; waiters that do not find the lock free park.
//!
//! # Safety
//!
//! A read-write lock has the layout of glibc for x86-64: the tid of the writer at byte 24.

use core::sync::atomic::{Ordering, fence};

use crate::home::obey;
use crate::park::park;
use crate::real::{self, Object};
use crate::sys;
use crate::table;
use crate::thread::current;

fn writer(lock: Object) -> u32 {
    unsafe { lock.add(24).cast::<u32>().read_volatile() }
}

/// Flag of a lock that other processes share.
fn is_shared(lock: Object) -> bool {
    unsafe { lock.add(28).cast::<i32>().read_volatile() != 0 }
}

fn acquire(
    lock: Object,
    attempt: unsafe fn(Object) -> i32,
    native: unsafe fn(Object) -> i32,
) -> i32 {
    let result = unsafe { attempt(lock) };
    if result != sys::EBUSY {
        return result;
    }
    let thread = current();
    obey(thread);
    if is_shared(lock) || writer(lock) == thread.home_tid() {
        // The second returns EDEADLK at once.
        return unsafe { native(lock) };
    }
    let key = lock as usize;
    loop {
        table::insert(thread, key, 0, |_| true);
        fence(Ordering::SeqCst);
        let result = unsafe { attempt(lock) };
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
    acquire(lock, real::pthread_rwlock_tryrdlock, real::pthread_rwlock_rdlock)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_wrlock(lock: Object) -> i32 {
    acquire(lock, real::pthread_rwlock_trywrlock, real::pthread_rwlock_wrlock)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_unlock(lock: Object) -> i32 {
    let result = unsafe { real::pthread_rwlock_unlock(lock) };
    table::wake(lock as usize, usize::MAX);
    result
}
