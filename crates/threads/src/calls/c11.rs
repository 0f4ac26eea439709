//! The threads, mutexes and condition variables of C11. In glibc they have the layout of those of POSIX, but other
//! error codes.
//!
//! # Safety
//!
//! The caller passes what the C library accepts.

use core::mem::transmute;

use crate::calls::locks::{conditions, mutexes};
use crate::calls::threads::{creation, joins, sleeps};
use crate::system::real::{Object, Start};
use crate::system::sys::{self, Timespec};

/// A thread's function and its result.
type Function = unsafe extern "C" fn(*mut u8) -> i32;

const BUSY: i32 = 1;
const ERROR: i32 = 2;
const NO_MEMORY: i32 = 3;
const TIMED_OUT: i32 = 4;

fn code(error: i32) -> i32 {
    match error {
        0 => 0,
        sys::EBUSY => BUSY,
        sys::ENOMEM => NO_MEMORY,
        sys::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn thrd_create(out: *mut usize, start: Function, argument: *mut u8) -> i32 {
    // Both return in one register, whose upper half `thrd_join` ignores.
    let start = unsafe { transmute::<Function, Start>(start) };
    code(unsafe { creation::pthread_create(out, core::ptr::null(), start, argument) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn thrd_join(thread: usize, result: *mut i32) -> i32 {
    let mut value = core::ptr::null_mut::<u8>();
    let error = unsafe { joins::pthread_join(thread, &raw mut value) };
    if error == 0 && !result.is_null() {
        unsafe { *result = value.addr() as i32 };
    }
    code(error)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn thrd_exit(result: i32) {
    unsafe { creation::pthread_exit(core::ptr::without_provenance_mut(result as usize)) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn thrd_detach(thread: usize) -> i32 {
    code(unsafe { joins::pthread_detach(thread) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn thrd_sleep(time: *const Timespec, rest: *mut Timespec) -> i32 {
    match unsafe { sleeps::clock_nanosleep(sleeps::REALTIME, 0, time, rest) } {
        0 => 0,
        sys::EINTR => -1,
        _ => -2,
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn thrd_yield() {
    unsafe { sleeps::sched_yield() };
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn mtx_lock(mutex: Object) -> i32 {
    code(unsafe { mutexes::pthread_mutex_lock(mutex) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn mtx_trylock(mutex: Object) -> i32 {
    code(unsafe { mutexes::pthread_mutex_trylock(mutex) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn mtx_timedlock(mutex: Object, time: *const Timespec) -> i32 {
    code(unsafe { mutexes::pthread_mutex_timedlock(mutex, time) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn mtx_unlock(mutex: Object) -> i32 {
    code(unsafe { mutexes::pthread_mutex_unlock(mutex) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn cnd_wait(condition: Object, mutex: Object) -> i32 {
    code(unsafe { conditions::pthread_cond_wait(condition, mutex) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn cnd_timedwait(condition: Object, mutex: Object, time: *const Timespec) -> i32 {
    code(unsafe { conditions::pthread_cond_timedwait(condition, mutex, time) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn cnd_signal(condition: Object) -> i32 {
    code(unsafe { conditions::pthread_cond_signal(condition) })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn cnd_broadcast(condition: Object) -> i32 {
    code(unsafe { conditions::pthread_cond_broadcast(condition) })
}
