//! The settings that `phalanx threads` passes in the environment.
//!
//! # Safety
//!
//! The process has one thread. The list of libraries has the layout that the dynamic linker declares for debuggers.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::lifecycle::environment::variable;
use crate::lifecycle::{activation, environment};
use crate::schedule::run_queue;
use crate::system::sys::Timespec;
use crate::system::{real, sys};
use crate::{admin, options};

/// The variables of `phalanx threads`, which are hidden from the program.
const OWN_VARIABLES: [&CStr; 6] = [
    c"PHALANX_THREADS_CARRIERS",
    c"PHALANX_THREADS_LIBRARY",
    c"PHALANX_THREADS_ORDER",
    c"PHALANX_THREADS_LARGE_IO",
    c"PHALANX_THREADS_ADMIN",
    c"PHALANX_THREADS_SIGNALS",
];

/// Whether the environment has been read.
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    static program_invocation_short_name: *const i8;
}

/// Reads the settings when the program is loaded, or earlier if the constructor of a library creates a thread. Restores
/// the environment, so that programs executed by this one run natively.
pub(crate) fn read() {
    if IS_INITIALIZED.swap(true, Ordering::Relaxed) {
        return;
    }
    // The first line of many scripts is `#!/usr/bin/env PROGRAM`.
    if unsafe { CStr::from_ptr(program_invocation_short_name) } == c"env" {
        activation::run_natively();
        return;
    }
    let Some(number) = variable(c"PHALANX_THREADS_CARRIERS").and_then(|text| text.parse().ok())
    else {
        activation::run_natively();
        return;
    };
    real::look_up_all();
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
    if let Some(signals) = variable(c"PHALANX_THREADS_SIGNALS") {
        restore_signals(signals);
    }
    unsafe {
        rename();
    }
    environment::restore(c"LD_PRELOAD");
    environment::restore(c"GLIBC_TUNABLES");
    OWN_VARIABLES.iter().for_each(|name| environment::remove(name));
}

/// Restores the signal state with which `phalanx threads` was started: it may have ignored SIGPIPE, and no SIGCHLD was
/// pending.
fn restore_signals(signals: &str) {
    const SIGPIPE: usize = 13;
    const SIG_IGN: usize = 1;
    if signals.contains("ignore-pipe") {
        // The kernel's form: handler, flags, restorer, mask.
        let action = [SIG_IGN, 0, 0, 0];
        sys::call(sys::SYS_RT_SIGACTION, [SIGPIPE, action.as_ptr() as usize, 0, 8, 0, 0]);
    }
    if signals.contains("take-child") {
        let set = sys::bit(17);
        let at_once = Timespec { seconds: 0, nanoseconds: 0 };
        let (set, at_once) = (&raw const set as usize, &raw const at_once as usize);
        sys::call(sys::SYS_RT_SIGTIMEDWAIT, [set, 0, at_once, 8, 0, 0]);
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
