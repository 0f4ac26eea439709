//! The replaced functions of the C library.
//!
//! # Safety
//!
//! A second name jumps to the function, which has the same contract.

/// Exports functions under the second names that the C library has for them.
macro_rules! aliases {
    ($($alias:ident = $name:path;)*) => {
        $(
            #[unsafe(naked)]
            #[allow(non_snake_case, reason = "the name of the C library")]
            #[cfg_attr(phalanx_shim, unsafe(no_mangle))]
            unsafe extern "C" fn $alias() {
                core::arch::naked_asm!("jmp {}", sym $name)
            }
        )*
    };
}

mod c11;
pub(crate) mod descriptors;
pub(crate) mod locks;
mod syscalls;
pub(crate) mod threads;
