//! Properties of the process that Rust's runtime changes before `main`: it ignores SIGPIPE, and opens `/dev/null` for
//! standard descriptors that are closed. `phalanx threads` restores them for the program that it executes.
//!
//! # Safety
//!
//! The entry in the table of initializers has the signature that is called, before `main`, when the process has one
//! thread.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::system::sys;

const SIGPIPE: usize = 13;
const SIG_IGN: usize = 1;
const F_GETFD: usize = 1;

static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);
/// By descriptor: input, output, errors.
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[used]
#[unsafe(link_section = ".init_array")]
static INSPECT: extern "C" fn() = inspect;

extern "C" fn inspect() {
    // The kernel's form: handler, flags, restorer, mask.
    let mut action = [0_usize; 4];
    sys::call(sys::SYS_RT_SIGACTION, [SIGPIPE, 0, action.as_mut_ptr() as usize, 8, 0, 0]);
    IGNORES_PIPE.store(action[0] == SIG_IGN, Ordering::Relaxed);
    for (descriptor, closed) in CLOSED.iter().enumerate() {
        let flags = sys::call(sys::SYS_FCNTL, [descriptor, F_GETFD, 0, 0, 0, 0]);
        closed.store(flags < 0, Ordering::Relaxed);
    }
}

/// Whether the process ignored SIGPIPE at first.
pub fn ignored_pipe_signal() -> bool {
    IGNORES_PIPE.load(Ordering::Relaxed)
}

/// Whether a standard descriptor was closed at first: 0, 1 or 2.
///
/// # Panics
///
/// Panics if `descriptor` is larger.
pub fn was_closed(descriptor: usize) -> bool {
    CLOSED[descriptor].load(Ordering::Relaxed)
}
