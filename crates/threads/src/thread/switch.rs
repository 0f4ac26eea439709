//! Switches of stacks.
//!
//! # Safety
//!
//! A saved stack pointer is used once, by one kernel thread: the state of its thread hands it over. The saved frame has
//! the same layout for both functions, so a thread that left its home can continue on a carrier and the reverse.

use core::arch::naked_asm;

use crate::thread::Thread;

/// Saves the registers that a call preserves on the stack, stores the stack pointer in `save`, loads the FS base, and
/// continues on the stack `sp`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn switch(save: *mut usize, sp: usize, fs: usize) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "wrfsbase rdx",
        "mov rsp, rsi",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Saves the registers likewise, and makes the kernel thread execute `wait` on the stack `park` until the thread
/// comes home. Then continues it there, with the stack pointer that `wait` returns.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn leave(
    save: *mut usize,
    park: usize,
    thread: *const Thread,
    wait: unsafe extern "C" fn(*const Thread) -> usize,
) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "mov rdi, rdx",
        "call rcx",
        "mov rsp, rax",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
