//! Starting the load of a cache line.
//!
//! # Safety
//! A prefetch is a hint that never faults, whatever the address. The instruction modifies no register and no flag.

/// Starts the load of the cache line of `address`, which may be invalid. Has no effect on processors other than x86-64 and
/// Arm.
#[inline(always)]
pub fn start_load(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: it is only a hint (top of the file), and every x86-64 CPU supports it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(address.cast(), _MM_HINT_T0);
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: it is only a hint (top of the file).
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(readonly, nostack, preserves_flags)
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
