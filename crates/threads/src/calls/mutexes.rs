//! Mutexes. glibc's word is the truth; waiters that do not find it free park.
//!
//! # Safety
//!
//! A mutex has the layout of glibc for x86-64: the owner's tid at byte 8, the kind at byte 16.

use core::sync::atomic::{Ordering, fence};

use crate::home::{obey, stay_home};
use crate::park::park;
use crate::real::{self, Object};
use crate::thread::{Thread, current};
use crate::{sys, table};

/// Kinds of mutexes: normal, recursive, error-checking, adaptive.
const PLAIN_KINDS: i32 = 3;
const ERROR_CHECKING: i32 = 2;
/// Flag of a mutex that other processes share.
const SHARED: i32 = 128;

fn kind(mutex: Object) -> i32 {
    unsafe { mutex.add(16).cast::<i32>().read_volatile() }
}

/// Whether threads of other processes may use the mutex.
pub(crate) fn is_shared(mutex: Object) -> bool {
    kind(mutex) & SHARED != 0
}

fn owner(mutex: Object) -> u32 {
    unsafe { mutex.add(8).cast::<u32>().read_volatile() }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_mutex_lock(mutex: Object) -> i32 {
    lock(current(), mutex)
}

#[inline]
pub(crate) fn lock(thread: &Thread, mutex: Object) -> i32 {
    let kind = kind(mutex);
    if kind & !PLAIN_KINDS != 0 {
        return lock_natively(thread, mutex, kind);
    }
    match unsafe { real::pthread_mutex_trylock(mutex) } {
        sys::EBUSY => wait(thread, mutex, kind),
        result => result,
    }
}

/// The kernel knows the owner of robust and priority-inheriting mutexes by its kernel thread.
#[cold]
fn lock_natively(thread: &Thread, mutex: Object, kind: i32) -> i32 {
    if thread.is_hollow() && kind & !(PLAIN_KINDS | SHARED) != 0 {
        stay_home(thread);
    }
    unsafe { real::pthread_mutex_lock(mutex) }
}

#[cold]
fn wait(thread: &Thread, mutex: Object, kind: i32) -> i32 {
    // The kernel wakes threads by their priority.
    if thread.is_separate.get() {
        return unsafe { real::pthread_mutex_lock(mutex) };
    }
    if kind == ERROR_CHECKING && owner(mutex) == thread.home_tid() {
        return sys::EDEADLK;
    }
    let key = mutex as usize;
    obey(thread);
    loop {
        table::insert(thread, key, 0, |_| true);
        fence(Ordering::SeqCst);
        let result = unsafe { real::pthread_mutex_trylock(mutex) };
        if result != sys::EBUSY {
            if table::remove(thread, key) {
                // A release that was meant for this waiter must not be lost.
                table::wake(key, 1);
            }
            return result;
        }
        park(thread, None);
        table::remove(thread, key);
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_mutex_unlock(mutex: Object) -> i32 {
    unlock(mutex)
}

#[inline]
pub(crate) fn unlock(mutex: Object) -> i32 {
    // The mutex may be freed as soon as it is unlocked.
    let result = unsafe { real::pthread_mutex_unlock(mutex) };
    table::wake(mutex as usize, 1);
    result
}
