//! Reporting the overflow of a fibre's stack.
//!
//! An access to the guard of a stack raises `SIGSEGV`, or `SIGBUS` on some systems. The handler names the fibre's stage
//! and the size of its stack, and ends the process. It passes other faults on to the earlier handler.
//!
//! # Safety
//! The handler runs on the thread that has faulted. It reads that thread's current fibre, which is a plain word without
//! a destructor, and calls only functions that are safe in signal handlers: `write`, `abort`, `sigaction`, `raise`, and
//! formatting into a buffer on its own stack. [`PREVIOUS_ACTIONS`] is written once, before the handler is installed.
//!
//! A handler cannot run on a stack that has overflowed, so each thread needs an alternate one. Rust's runtime installs
//! one for its threads. [`AlternateStack`] installs another if there is none, and removes it before it is unmapped.

use std::fmt::Write;
use std::mem::zeroed;
use std::ptr;
use std::sync::OnceLock;

use libc::{c_int, c_void, sigaction, siginfo_t};

use crate::control_block::try_current;

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The handlers that were installed before this one.
static PREVIOUS_ACTIONS: OnceLock<[sigaction; 2]> = OnceLock::new();

/// The size of an alternate stack, in bytes.
const ALTERNATE_BYTES: usize = 64 << 10;

/// The alternate stack of a thread that had none.
pub(crate) struct AlternateStack(*mut c_void);

impl AlternateStack {
    /// Prepares the thread. The first call also installs the handlers of the process.
    pub(crate) fn install() -> Self {
        PREVIOUS_ACTIONS.get_or_init(|| SIGNALS.map(action_of));
        static INSTALLED: OnceLock<()> = OnceLock::new();
        INSTALLED.get_or_init(|| SIGNALS.into_iter().for_each(install));
        // SAFETY: a query into a local, then a new mapping that becomes the alternate stack until it is dropped.
        unsafe {
            let mut before: libc::stack_t = zeroed();
            libc::sigaltstack(ptr::null(), &raw mut before);
            if before.ss_flags & libc::SS_DISABLE == 0 {
                return Self(ptr::null_mut());
            }
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
            let base = libc::mmap(ptr::null_mut(), ALTERNATE_BYTES, protection, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return Self(ptr::null_mut());
            }
            let stack = libc::stack_t { ss_sp: base, ss_flags: 0, ss_size: ALTERNATE_BYTES };
            libc::sigaltstack(&raw const stack, ptr::null_mut());
            Self(base)
        }
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: disabled before it is unmapped; the thread is not in a handler, since it runs destructors.
        unsafe {
            let mut disable: libc::stack_t = zeroed();
            disable.ss_flags = libc::SS_DISABLE;
            libc::sigaltstack(&raw const disable, ptr::null_mut());
            libc::munmap(self.0, ALTERNATE_BYTES);
        }
    }
}

/// The current action of a signal.
fn action_of(signal: c_int) -> sigaction {
    // SAFETY: a query into a local.
    unsafe {
        let mut action: sigaction = zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut action);
        action
    }
}

fn install(signal: c_int) {
    // SAFETY: the handler does only what is allowed in a signal handler (top of the file).
    unsafe {
        let mut action: sigaction = zeroed();
        action.sa_sigaction = handle as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid structure for these signals.
    let address = unsafe { (*info).si_addr() }.addr();
    try_current(|block| {
        if block.overflows_at(address) {
            let mut text = Text::default();
            _ = writeln!(
                text,
                "phalanx: a fibre of stage \"{}\" has overflowed its stack of {} KiB; start it with a larger StackSize \
                 (its body is {})",
                block.stage_name,
                block.size.bytes() >> 10,
                block.body,
            );
            text.print();
            std::process::abort();
        }
    });
    call_previous(signal, info, context);
}

/// Calls the earlier handler. If the earlier action was the default, or the handler restores the default, that action
/// follows when the faulting instruction is repeated. A signal that was sent repeats no instruction, so it is raised
/// again.
fn call_previous(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let previous =
        PREVIOUS_ACTIONS.get().and_then(|all| all.get(usize::from(signal != SIGNALS[0])));
    let Some(previous) = previous else { std::process::abort() };
    // SAFETY: the process had installed this action, which is called as its flags say.
    unsafe {
        match previous.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::sigaction(signal, previous, ptr::null_mut());
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
        let is_sent = (*info).si_code <= 0;
        if is_sent && action_of(signal).sa_sigaction == libc::SIG_DFL {
            libc::raise(signal);
        }
    }
}

/// A buffer for a message, formatted without allocation. A message that does not fit is cut off.
struct Text {
    bytes: [u8; 512],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; 512], length: 0 }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.length..];
        let count = room.len().min(text.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

impl Text {
    fn print(&self) {
        // SAFETY: the bytes are initialized and live for the call.
        unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast(), self.length) };
    }
}
