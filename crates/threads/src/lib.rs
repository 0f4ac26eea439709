//! N-to-M threads for unmodified programs: a library that `phalanx threads` preloads.
//!
//! Each thread of the program remains a thread of the C library with its own stack, thread-local storage and kernel
//! thread, its *home*. While a thread is *hollow*, its home waits, and a *carrier* runs its code: the carrier loads the
//! thread's FS base and stack pointer. A hollow thread that would block leaves its carrier, which runs another one.
//!
//! 1. Every thread can go home and run natively. The monitor sends threads home that wait for a blocked carrier, so the
//!    worst case is one kernel thread per thread.
//! 2. The scheduler runs on stacks of carriers or on waiting stacks of homes.
//! 3. The state of mutexes, semaphores and read-write locks stays in glibc's words; the parking table contains only
//!    waiters.
//! 4. The flags of descriptors do not change.
//! 5. Nothing changes until the program creates its first thread.
//!
//! The crate replaces functions of the C library only when compiled with `--cfg phalanx_shim`, as `phalanx-cli` does.
//!
//! # Safety
//!
//! The entry in the table of initializers has the signature that the dynamic linker calls.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::undocumented_unsafe_blocks, reason = "each file has its safety argument")]
#![allow(clippy::missing_safety_doc, reason = "the functions have the contracts of the C library")]
#![cfg_attr(not(phalanx_shim), allow(dead_code, reason = "the exported functions are the users"))]

mod admin;
mod calls;
mod carriers;
mod fork;
#[cfg(not(phalanx_shim))]
pub mod inherited;
mod lifecycle;
mod limits;
mod options;
mod preload;
mod readiness;
mod schedule;
mod stats;
mod system;
mod thread;
mod waiting;

/// Executes when the program has been loaded.
#[cfg(phalanx_shim)]
#[used]
#[unsafe(link_section = ".init_array")]
static INITIALIZE: extern "C" fn() = preload::initialize;
