//! The start of the carriers, at the first thread of the program, and the reset in child processes.
//!
//! # Safety
//!
//! Activation happens while the process has one thread, which executes it. A child process has one thread as well.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::calls::{barriers, joins};
use crate::{
    admin, carrier, monitor, options, poller, real, run_queue, sys, table, thread, timers, wake,
};

/// 0: not yet decided, 1: active, 2: this process runs natively.
static STATE: AtomicU32 = AtomicU32::new(0);
/// Threads of the program, without those of this library.
static LIVE: AtomicU32 = AtomicU32::new(1);
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// The variables of `phalanx threads` that the program does not see.
const OWN_VARIABLES: [&CStr; 5] = [
    c"PHALANX_THREADS_CARRIERS",
    c"PHALANX_THREADS_LIBRARY",
    c"PHALANX_THREADS_ORDER",
    c"PHALANX_THREADS_LARGE_IO",
    c"PHALANX_THREADS_ADMIN",
];

/// Bit of `AT_HWCAP2` (26): user code may set its FS base.
const FSGSBASE: u64 = 2;

/// Rounds of destructors that the C library executes (`PTHREAD_DESTRUCTOR_ITERATIONS`).
const DESTRUCTOR_ROUNDS: usize = 4;

/// Starts the carriers if this program is to run on them. Returns whether it does.
pub(crate) fn activate() -> bool {
    if STATE.load(Ordering::Acquire) == 0 {
        let state = if start() { 1 } else { 2 };
        STATE.store(state, Ordering::Release);
    }
    STATE.load(Ordering::Acquire) == 1
}

fn start() -> bool {
    let has_fsgsbase = unsafe { real::getauxval(26) } & FSGSBASE != 0;
    if !has_fsgsbase || !poller::open() {
        return false;
    }
    if KEY.load(Ordering::Relaxed) == u32::MAX {
        let mut key = 0;
        if unsafe { real::pthread_key_create(&raw mut key, count_end) } != 0 {
            return false;
        }
        KEY.store(key, Ordering::Relaxed);
    }
    observe_end();
    thread::current().summons.fetch_or(thread::AT_HOME, Ordering::SeqCst);
    LIVE.store(1, Ordering::SeqCst);
    // Without a monitor, threads could wait for a blocked carrier.
    monitor::start()
        && (0..run_queue::count()).filter(|&lane| carrier::start(lane)).count() > 0
        && admin::start()
}

/// Counts a thread that the calling one is about to create.
pub(crate) fn count_new() {
    LIVE.fetch_add(1, Ordering::SeqCst);
}

/// Counts out a thread that could not be created.
pub(crate) fn discount() {
    LIVE.fetch_sub(1, Ordering::SeqCst);
}

/// Counts out the calling thread at its end.
pub(crate) fn observe_end() {
    unsafe {
        real::pthread_setspecific(KEY.load(Ordering::Relaxed), core::ptr::without_provenance(1))
    };
}

/// Executes in the last round of a thread's destructors. The end of the last thread ends the process, as without
/// this library, whose threads do not end.
extern "C" fn count_end(round: *mut u8) {
    let round = round as usize;
    if round < DESTRUCTOR_ROUNDS {
        unsafe {
            real::pthread_setspecific(
                KEY.load(Ordering::Relaxed),
                core::ptr::without_provenance(round + 1),
            )
        };
        return;
    }
    joins::announce_end(thread::current());
    if LIVE.fetch_sub(1, Ordering::SeqCst) == 1 {
        unsafe { real::exit(0) }
    }
}

/// Executes when the program is loaded: takes what `phalanx threads` has passed in the environment, and restores the
/// environment, so programs that this one executes run natively.
pub(crate) extern "C" fn initialize() {
    let Some(number) = variable(c"PHALANX_THREADS_CARRIERS").and_then(|text| text.parse().ok())
    else {
        STATE.store(2, Ordering::Release);
        return;
    };
    run_queue::set_count(number);
    let is = |name, value| variable(name) == Some(value);
    options::set(is(c"PHALANX_THREADS_ORDER", "fifo"), is(c"PHALANX_THREADS_LARGE_IO", "no"));
    if let Some(listener) = variable(c"PHALANX_THREADS_ADMIN").and_then(|text| text.parse().ok()) {
        admin::prepare(listener);
    }
    if let Some(library) =
        variable(c"PHALANX_THREADS_LIBRARY").and_then(|text| text.parse::<usize>().ok())
    {
        sys::call(sys::SYS_CLOSE, [library, 0, 0, 0, 0, 0]);
    }
    unsafe {
        rename();
        restore(c"LD_PRELOAD", c"PHALANX_THREADS_PRELOAD");
        restore(c"GLIBC_TUNABLES", c"PHALANX_THREADS_TUNABLES");
        for name in OWN_VARIABLES {
            real::unsetenv(name.as_ptr().cast());
        }
        real::pthread_atfork(None, None, Some(reset_in_child));
    }
}

/// The beginning of the name under which the library was loaded, and the name that debuggers are to see: they would open
/// a descriptor of their own. The new name is not longer.
const LOADED_AS: &[u8] = b"/proc/self/fd/";
const NAME: &[u8] = b"phalanx-thread\0";

/// An entry of the dynamic linker's list of libraries (`struct link_map`).
#[repr(C)]
struct Library {
    address: usize,
    name: *mut u8,
    dynamic: usize,
    next: *const Library,
}

/// The beginning of `struct r_debug`.
#[repr(C)]
struct Libraries {
    version: i32,
    first: *const Library,
}

unsafe extern "C" {
    static _r_debug: Libraries;
}

/// Renames the library in the list of the dynamic linker.
unsafe fn rename() {
    let mut at = unsafe { _r_debug.first };
    while let Some(library) = unsafe { at.as_ref() } {
        let name = library.name;
        if unsafe { CStr::from_ptr(name.cast()) }.to_bytes().starts_with(LOADED_AS) {
            unsafe { name.copy_from_nonoverlapping(NAME.as_ptr(), NAME.len()) };
        }
        at = library.next;
    }
}

fn variable(name: &CStr) -> Option<&'static str> {
    let text = unsafe { real::getenv(name.as_ptr().cast()) };
    if text.is_null() { None } else { unsafe { CStr::from_ptr(text.cast()) }.to_str().ok() }
}

/// Gives a variable the value of another, which is removed.
unsafe fn restore(name: &CStr, saved: &CStr) {
    let (name, saved) = (name.as_ptr().cast(), saved.as_ptr().cast());
    unsafe {
        let value = real::getenv(saved);
        match value.is_null() {
            true => real::unsetenv(name),
            false => real::setenv(name, value, 1),
        };
        real::unsetenv(saved);
    }
}

/// The child has one thread, which is at home, and no carriers until it creates a thread.
extern "C" fn reset_in_child() {
    thread::current().tid.set(0);
    if STATE.load(Ordering::Acquire) != 1 {
        return;
    }
    unsafe {
        run_queue::reset();
        table::reset();
        timers::reset();
        barriers::reset();
    }
    poller::reset();
    wake::reset();
    monitor::reset();
    crate::calls::reset();
    admin::reset();
    thread::current().reset_in_child();
    STATE.store(0, Ordering::Release);
}
