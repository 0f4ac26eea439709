//! Interruption of threads that compute on a carrier and must receive a signal at home.
//!
//! Carriers block the signals of the program, and the C library uses signal 33 for itself. The monitor sends it to a
//! carrier with a special value. The handler runs on the stack of the interrupted thread, brings the thread home, and
//! returns there to the interrupted code. Signals 33 without this value are passed to the handler of the C library.
//!
//! # Safety
//!
//! The handler does nothing while the thread executes code of this library, or holds a lock of it, so it interrupts the
//! thread only where the program, or the C library, would be interrupted by a signal natively. The frame of the handler is
//! on the stack of the thread, and the kernel uses nothing else when the handler returns, on whatever kernel thread. The
//! record of a carrier is read on that carrier.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::limits::MAX_LANES;
use crate::schedule::home::handle_requests;
use crate::schedule::{acceptors, run_queue};
use crate::system::{real, sys};
use crate::thread::current;
use crate::thread::site::is_own;

/// The signal with which the C library changes the credentials of all threads.
const SIGNAL: usize = 33;
const SA_SIGINFO: usize = 4;
const SA_NODEFER: usize = 0x4000_0000;
const SA_RESTORER: usize = 0x0400_0000;
const SA_RESTART: usize = 0x1000_0000;
const SIG_IGN: usize = 1;
/// The code of a signal with a value (`SI_QUEUE`), and the value.
const QUEUED: i32 = -1;
const VALUE: usize = 0x7068_616c_616e_7821;

/// The beginning of `siginfo_t`.
#[repr(C)]
struct Info {
    signal: i32,
    error: i32,
    code: i32,
    padding: i32,
    process: u32,
    user: u32,
    value: usize,
    rest: [usize; 12],
}

/// The part of `ucontext_t` that is read or changed.
#[repr(C)]
struct Context {
    flags: usize,
    link: usize,
    signal_stack: [usize; 3],
    registers: [usize; 16],
    instruction: usize,
    other: [usize; 15],
    mask: u64,
}

const _: () = assert!(core::mem::offset_of!(Context, instruction) == 168);
const _: () = assert!(core::mem::offset_of!(Context, mask) == 296);

/// The handler of the C library; 0 if the signal is not handled, and nothing is interrupted.
static LIBRARY: AtomicUsize = AtomicUsize::new(0);
/// The kernel threads of the carriers.
static CARRIERS: [AtomicU32; MAX_LANES] = [const { AtomicU32::new(0) }; MAX_LANES];
/// The carriers whose thread may have to return home.
static REQUESTED: [AtomicBool; MAX_LANES] = [const { AtomicBool::new(false) }; MAX_LANES];

/// Installs the handler, after the C library has installed its own.
pub(crate) fn prepare() {
    // The kernel's form: handler, flags, restorer, mask.
    let mut action = [0_usize; 4];
    sys::call(sys::SYS_RT_SIGACTION, [SIGNAL, 0, action.as_mut_ptr() as usize, 8, 0, 0]);
    let [old, flags, restorer, _] = action;
    if old <= SIG_IGN || old == handle as *const () as usize || flags & SA_RESTORER == 0 {
        return;
    }
    LIBRARY.store(old, Ordering::SeqCst);
    let flags = SA_SIGINFO | SA_NODEFER | SA_RESTORER | SA_RESTART;
    let action = [handle as *const () as usize, flags, restorer, 0];
    sys::call(sys::SYS_RT_SIGACTION, [SIGNAL, action.as_ptr() as usize, 0, 8, 0, 0]);
}

/// Registers the calling kernel thread as a carrier.
pub(super) fn register(lane: usize) {
    CARRIERS[lane].store(sys::call(sys::SYS_GETTID, [0; 6]) as u32, Ordering::SeqCst);
}

/// Asks the monitor to interrupt the threads on carriers that have to go home.
pub(crate) fn request() {
    if LIBRARY.load(Ordering::SeqCst) != 0 {
        for requested in &REQUESTED[..run_queue::count()] {
            requested.store(true, Ordering::SeqCst);
        }
    }
}

/// Whether a carrier must be interrupted.
pub(super) fn is_requested() -> bool {
    REQUESTED[..run_queue::count()].iter().any(|requested| requested.load(Ordering::SeqCst))
}

/// Interrupts the carriers for which this was requested. Threads that cannot be interrupted are tried again.
pub(super) fn send() {
    for lane in (0..run_queue::count()).filter(|lane| REQUESTED[*lane].load(Ordering::SeqCst)) {
        let process = sys::process();
        let info = Info {
            signal: SIGNAL as i32,
            error: 0,
            code: QUEUED,
            padding: 0,
            process,
            user: 0,
            value: VALUE,
            rest: [0; 12],
        };
        let carrier = CARRIERS[lane].load(Ordering::SeqCst) as usize;
        let info = &raw const info as usize;
        sys::call(sys::SYS_RT_TGSIGQUEUEINFO, [process as usize, carrier, SIGNAL, info, 0, 0]);
    }
}

unsafe extern "C" fn handle(signal: i32, info: *const Info, context: *mut Context) {
    let (code, value) = unsafe { ((*info).code, (*info).value) };
    if code != QUEUED || value != VALUE {
        return unsafe { handle_in_library(signal, info, context) };
    }
    let context = unsafe { &mut *context };
    if is_own(context.instruction) {
        return note_idle();
    }
    let thread = current();
    let Some(lane) = run_queue::own_lane() else { return };
    if thread.locks.get() != 0 {
        return;
    }
    REQUESTED[lane].store(false, Ordering::SeqCst);
    if !thread.is_hollow() {
        return;
    }
    let mask = thread.mask.get();
    // A thread that returns home to represent a signal may find no pending one.
    let _ = handle_requests(thread) || acceptors::replace(thread);
    if !thread.is_hollow() {
        // At home, where the handler of the program has run, between two calls.
        thread.signals.store(0, Ordering::Release);
        context.mask = mask;
        sys::signal_stack(&mut context.signal_stack);
    }
}

/// Calls the handler of the C library. That handler records that the kernel thread has the new credentials in a record
/// found by the FS base. So on a carrier, the carrier's FS base must be loaded instead of the thread's.
unsafe fn handle_in_library(signal: i32, info: *const Info, context: *mut Context) {
    let library = LIBRARY.load(Ordering::SeqCst);
    let library: unsafe extern "C" fn(i32, *const Info, *mut Context) =
        unsafe { core::mem::transmute(library) };
    let thread = current();
    // For a waiting thread whose home executes this, `carrier` is the one that ran it last.
    let is_on_carrier =
        thread.is_hollow() && sys::call(sys::SYS_GETTID, [0; 6]) as u32 != thread.tid.get();
    if !is_on_carrier {
        return unsafe { library(signal, info, context) };
    }
    let mask = sys::set_signal_mask(u64::MAX);
    let base = real::fs_base();
    unsafe {
        real::set_fs_base((*thread.carrier.get()).fs.get());
        library(signal, info, context);
        real::set_fs_base(base);
    }
    sys::set_signal_mask(mask);
}

/// Clears the request if the carrier executes the scheduler and thus runs no thread. A thread that executes this
/// library is interrupted later, or notices its requests.
fn note_idle() {
    // The FS base is changed within a switch, but a carrier's own is not that of a thread.
    let lane = usize::from(current().own_lane.get());
    if let Some(lane) = lane.checked_sub(1) {
        REQUESTED[lane].store(false, Ordering::SeqCst);
    }
}

/// Removes the carriers of the parent in a child process.
pub(crate) fn reset() {
    REQUESTED.iter().for_each(|requested| requested.store(false, Ordering::Relaxed));
}
