//! Prefetch instructions.
//!
//! # Safety
//! A prefetch is a hint: it reads nothing and never faults, whatever the address. The instruction changes no
//! register and no flag of the program.

#![allow(unsafe_code)]

use crate::index::code::event::Line;

/// Starts to load a line. Does nothing on CPUs without a prefetch instruction.
#[inline(always)]
pub(crate) fn prefetch(line: &Line) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, see the top of the file.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(std::ptr::from_ref(line).cast(), _MM_HINT_T0);
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a hint, see the top of the file.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{line}]",
            line = in(reg) std::ptr::from_ref(line),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = line;
}
