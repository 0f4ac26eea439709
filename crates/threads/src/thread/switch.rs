//! Switches of stacks.
//!
//! # Safety
//!
//! A saved stack pointer is used once, by one kernel thread, which the state of its thread determines. The saved frame
//! has the same layout for both functions, so a thread that left its home can continue on a carrier and the reverse.

use core::arch::naked_asm;

use crate::thread::Thread;

/// Saves the registers that a call preserves on the stack, and stores the stack pointer where the first argument points.
macro_rules! save {
    () => {
        concat!(
            "push rbp\n",
            "push rbx\n",
            "push r12\n",
            "push r13\n",
            "push r14\n",
            "push r15\n",
            "sub rsp, 8\n",
            "stmxcsr [rsp]\n",
            "fnstcw [rsp + 4]\n",
            "mov [rdi], rsp\n",
        )
    };
}

/// Loads the registers that [`save`] has saved, and returns to where they were saved.
macro_rules! restore {
    () => {
        concat!(
            "ldmxcsr [rsp]\n",
            "fldcw [rsp + 4]\n",
            "add rsp, 8\n",
            "pop r15\n",
            "pop r14\n",
            "pop r13\n",
            "pop r12\n",
            "pop rbx\n",
            "pop rbp\n",
            "ret\n",
        )
    };
}

/// Saves the registers that a call preserves on the stack, stores the stack pointer in `save`, loads the FS base, and
/// continues on the stack `sp`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn switch(save: *mut usize, sp: usize, fs: usize) {
    naked_asm!(save!(), "wrfsbase rdx", "mov rsp, rsi", restore!(),)
}

/// Saves the registers in the same way, and makes the kernel thread execute `wait` on the stack `park` until the thread
/// returns home. Then continues the thread, with the stack pointer that `wait` returns.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn leave(
    save: *mut usize,
    park: usize,
    thread: *const Thread,
    wait: unsafe extern "C" fn(*const Thread) -> usize,
) {
    naked_asm!(save!(), "mov rsp, rsi", "mov rdi, rdx", "call rcx", "mov rsp, rax", restore!(),)
}
