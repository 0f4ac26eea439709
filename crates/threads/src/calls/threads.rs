//! Creation and end of threads.
//!
//! # Safety
//!
//! The packet is on the creator's stack until the new thread has copied it.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};

use super::attributes;
use crate::home::{HOME_STACK_BYTES, go_home, leave_home, obey, stay_home};
use crate::real::{self, Start};
use crate::thread::{AT_HOME, Action, current};
use crate::{activation, sys};

/// Threads with smaller stacks stay at home: the waiting stack is part of the thread's stack.
const MIN_STACK_BYTES: usize = 4 * HOME_STACK_BYTES;

/// The arguments of a new thread. Its fields are copied before `taken` is set.
struct Packet {
    start: Start,
    argument: *mut u8,
    mask: Option<u64>,
    converts: bool,
    /// See [`Thread::is_separate`](crate::thread::Thread::is_separate).
    is_separate: bool,
    taken: AtomicU32,
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_create(
    out: *mut usize,
    attributes: *const u8,
    start: Start,
    argument: *mut u8,
) -> i32 {
    if !activation::activate() {
        return unsafe { real::pthread_create(out, attributes, start, argument) };
    }
    let creator = current();
    obey(creator);
    let mut bytes = usize::MAX;
    if !attributes.is_null() {
        unsafe { real::pthread_attr_getstacksize(attributes, &raw mut bytes) };
    }
    // The kernel thread of a hollow creator has the mask of its carrier.
    let mask = creator.is_hollow().then(|| creator.mask.get());
    let converts = bytes >= MIN_STACK_BYTES;
    let is_separate = creator.is_separate.get()
        || !(attributes.is_null() || unsafe { attributes::is_plain(attributes) });
    let packet = Packet { start, argument, mask, converts, is_separate, taken: AtomicU32::new(0) };
    let error = unsafe {
        real::pthread_create(out, attributes, run, (&raw const packet).cast_mut().cast())
    };
    while error == 0 && packet.taken.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&packet.taken, 0, None);
    }
    error
}

extern "C" fn run(packet: *mut u8) -> *mut u8 {
    let thread = current();
    let packet = packet.cast::<Packet>();
    let (start, argument, mask, converts, is_separate) = unsafe {
        (
            (*packet).start,
            (*packet).argument,
            (*packet).mask,
            (*packet).converts,
            (*packet).is_separate,
        )
    };
    activation::count_this_thread();
    thread.summons.store(AT_HOME, Ordering::Release);
    let taken = unsafe { &raw const (*packet).taken };
    unsafe { (*taken).store(1, Ordering::Release) };
    sys::futex_wake(taken, 1);
    if let Some(mask) = mask {
        sys::set_signal_mask(mask);
    }
    thread.is_separate.set(is_separate || !attributes::is_scheduled_fairly());
    if !converts || thread.is_separate.get() {
        stay_home(thread);
        return start(argument);
    }
    run_hollow(start, argument)
}

#[inline(never)]
fn run_hollow(start: Start, argument: *mut u8) -> *mut u8 {
    let thread = current();
    let mut waiting_stack = MaybeUninit::<[u8; HOME_STACK_BYTES]>::uninit();
    let top = waiting_stack.as_mut_ptr() as usize + HOME_STACK_BYTES;
    thread.fs.set(real::fs_base());
    thread.home_stack.set(top & !15);
    leave_home(thread, Action::Yield);
    obey(thread);
    let result = start(argument);
    stay_home(thread);
    obey(thread);
    thread.home_stack.set(0);
    core::hint::black_box(&waiting_stack);
    result
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_exit(value: *mut u8) {
    stay_home(current());
    unsafe { real::pthread_exit(value) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn gettid() -> i32 {
    let thread = current();
    if thread.is_hollow() { thread.tid.get() as i32 } else { unsafe { real::gettid() } }
}

/// System calls by number: most depend on the kernel thread in some way, so they run at home.
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
    if thread.is_hollow() {
        match number as usize {
            sys::SYS_GETTID => return thread.tid.get() as isize,
            // Blocks the carrier; the monitor sends other threads home.
            sys::SYS_FUTEX => {}
            _ => go_home(thread),
        }
    }
    unsafe { real::syscall(number, a, b, c, d, e, f) }
}
