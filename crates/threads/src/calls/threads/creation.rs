//! Creation and end of threads.
//!
//! # Safety
//!
//! A packet is accessed by the creator that has taken its place, and then by the new thread.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::calls::threads::{attributes, home_calls};
use crate::carriers::monitor;
use crate::lifecycle::{activation, threads, waiting_stack};
use crate::schedule::home::{HOME_STACK_BYTES, go_home, handle_requests, stay_home};
use crate::schedule::{acceptors, all};
use crate::system::real::{self, Start};
use crate::system::sys;
use crate::thread::masked::Masked;
use crate::thread::{AT_HOME, Thread, current};

/// Threads with smaller stacks stay at home.
const MIN_STACK_BYTES: usize = 64 * 1024;
/// In a stack of at least this size, the waiting stack is a part of the stack; otherwise it is a separate mapping.
const LARGE_STACK_BYTES: usize = 1024 * 1024;

/// The arguments of a new thread.
struct Packet {
    start: Start,
    argument: *mut u8,
    mask: Option<u64>,
    /// The size of its stack, or more.
    stack_bytes: usize,
    /// See [`Thread::is_separate`](crate::thread::Thread::is_separate).
    is_separate: bool,
    is_detached: bool,
}

/// A place for the arguments of a thread that has not started, so that the creator need not wait for it.
struct Place {
    is_taken: AtomicBool,
    packet: UnsafeCell<MaybeUninit<Packet>>,
}

unsafe impl Sync for Place {}

/// Threads that are about to start. A creator waits while all places are taken.
static PLACES: [Place; 64] = [const {
    Place { is_taken: AtomicBool::new(false), packet: UnsafeCell::new(MaybeUninit::uninit()) }
}; 64];

/// Puts a packet into a free place.
fn put(packet: Packet) -> &'static Place {
    loop {
        let free = PLACES.iter().find(|place| !place.is_taken.swap(true, Ordering::Acquire));
        if let Some(place) = free {
            unsafe { (*place.packet.get()).write(packet) };
            return place;
        }
        sys::call(sys::SYS_SCHED_YIELD, [0; 6]);
    }
}

/// Takes the packet out, and frees the place.
fn take(place: &Place) -> Packet {
    let packet = unsafe { (*place.packet.get()).assume_init_read() };
    place.is_taken.store(false, Ordering::Release);
    packet
}

/// Whether a thread has not started.
pub(super) fn is_pending() -> bool {
    PLACES.iter().any(|place| place.is_taken.load(Ordering::SeqCst))
}

/// Frees all places, in a child process.
pub(crate) fn reset() {
    PLACES.iter().for_each(|place| place.is_taken.store(false, Ordering::Relaxed));
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_create(
    out: *mut usize,
    attributes: *const u8,
    start: Start,
    argument: *mut u8,
) -> i32 {
    if !activation::activate() {
        return unsafe { real::pthread_create(out, attributes, start, argument) };
    }
    let creator = current();
    handle_requests(creator);
    let (mut bytes, mut detached) = (usize::MAX, 0);
    if !attributes.is_null() {
        unsafe { real::pthread_attr_getdetachstate(attributes, &raw mut detached) };
        unsafe { real::pthread_attr_getstacksize(attributes, &raw mut bytes) };
    }
    // The new kernel thread inherits its creator's name, and only the creator's home may have the right one.
    if home_calls::may_have_names() {
        go_home(creator);
    }
    // If the creator is hollow, its kernel thread has the mask of the carrier.
    let inherits = attributes.is_null() || !unsafe { attributes::have_mask(attributes) };
    let mask = (creator.is_hollow() && inherits).then(|| creator.mask.get());
    let is_separate = creator.is_separate.load(Ordering::Relaxed)
        || !(attributes.is_null() || unsafe { attributes::is_plain(attributes) });
    let is_detached = detached != 0;
    threads::count_new();
    let stack_bytes = bytes;
    let place = put(Packet { start, argument, mask, stack_bytes, is_separate, is_detached });
    let argument = core::ptr::from_ref(place).cast_mut().cast();
    let error = unsafe { real::pthread_create(out, attributes, run, argument) };
    if error != 0 {
        take(place);
        threads::discount();
    }
    error
}

extern "C" fn run(place: *mut u8) -> *mut u8 {
    let thread = current();
    // Done before the place is freed: until then the thread counts as not started.
    threads::observe_end();
    let packet = take(unsafe { &*place.cast::<Place>() });
    // The creator may have sent a request to the thread already.
    thread.requests.fetch_or(AT_HOME, Ordering::AcqRel);
    thread.is_detached.store(packet.is_detached, Ordering::SeqCst);
    if let Some(mask) = packet.mask {
        sys::set_signal_mask(mask);
    }
    let Packet { start, argument, stack_bytes, .. } = packet;
    let is_separate = packet.is_separate || !attributes::is_scheduled_fairly();
    // Another thread may have made it separate already.
    if is_separate {
        thread.is_separate.store(true, Ordering::Relaxed);
    }
    if is_separate || stack_bytes < MIN_STACK_BYTES {
        stay_home(thread);
        return start(argument);
    }
    if stack_bytes >= LARGE_STACK_BYTES {
        return run_on_large_stack(start, argument);
    }
    let Some(top) = waiting_stack::map() else {
        stay_home(thread);
        return start(argument);
    };
    // It is unmapped when the thread ends in any way.
    thread.has_mapped_stack.set(true);
    run_convertible(start, argument, top)
}

#[inline(never)]
fn run_on_large_stack(start: Start, argument: *mut u8) -> *mut u8 {
    let mut waiting_stack = MaybeUninit::<[u8; HOME_STACK_BYTES]>::uninit();
    let top = waiting_stack.as_mut_ptr() as usize + HOME_STACK_BYTES;
    let result = run_convertible(start, argument, top & !15);
    core::hint::black_box(&waiting_stack);
    result
}

/// Runs a thread: at home until it first waits, so a thread that never waits costs no switch. `top` is the top of the
/// waiting stack.
fn run_convertible(start: Start, argument: *mut u8, top: usize) -> *mut u8 {
    let thread = current();
    thread.fs.set(real::fs_base());
    thread.home_stack.set(top);
    begin(thread);
    handle_requests(thread);
    let result = start(argument);
    stay_home(thread);
    handle_requests(thread);
    waiting_stack::end(thread);
    result
}

/// Adds a thread to the list of those that may run on carriers.
fn begin(thread: &Thread) {
    // Other threads find it by its identity.
    thread.home_tid();
    let masked = Masked::new();
    acceptors::start(thread, masked.old().unwrap_or_default());
    all::add(thread);
    drop(masked);
    if acceptors::has_unrepresented() {
        monitor::wake_up();
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_exit(value: *mut u8) {
    stay_home(current());
    unsafe { real::pthread_exit(value) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn gettid() -> i32 {
    let thread = current();
    if thread.is_hollow() { thread.tid.get() as i32 } else { unsafe { real::gettid() } }
}
