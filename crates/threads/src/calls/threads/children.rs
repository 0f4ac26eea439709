//! Children that are created without the handlers of `fork`: by `_Fork`, `clone` and system calls. A child with its own
//! memory and descriptors resets this library itself.
//!
//! # Safety
//!
//! The caller passes arguments for the C library. A child without the memory of its parent has a copy of the parent's
//! stack, so what the parent's frame contains is valid there. A child of `vfork` returns first, to the same frame.

use core::arch::naked_asm;

use crate::lifecycle::forks::{end_in_parent, reset_in_child};
use crate::lifecycle::threads;
use crate::readiness::records;
use crate::schedule::home::{go_home, handle_requests, stay_home};
use crate::system::{real, sys};
use crate::thread::current;

/// The child shares the memory of its parent.
const CLONE_VM: usize = 0x100;
/// The child shares the descriptors of its parent, including those of this library, so it must not close any.
const CLONE_FILES: usize = 0x400;
/// The child has thread-local storage that this library does not know.
const CLONE_SETTLS: usize = 0x80000;

pub(crate) const SYS_CLONE: usize = 56;
pub(crate) const SYS_FORK: usize = 57;
pub(crate) const SYS_CLONE3: usize = 435;

/// Prepares for a child that the calling thread is about to create. The thread stays at home, so a child that shares its
/// memory does not leave.
pub(crate) fn prepare() {
    let thread = current();
    records::share_all();
    handle_requests(thread);
    stay_home(thread);
}

/// Whether a system call creates a child with its own memory and descriptors.
pub(crate) fn creates_process(number: usize, first: usize) -> bool {
    match number {
        SYS_FORK => true,
        SYS_CLONE => owns_all(first),
        // The first member of the arguments.
        SYS_CLONE3 => first != 0 && owns_all(unsafe { *(first as *const usize) }),
        _ => false,
    }
}

fn owns_all(flags: usize) -> bool {
    flags & (CLONE_VM | CLONE_FILES | CLONE_SETTLS) == 0
}

/// Ends the creation of such a child, in both processes.
pub(crate) fn finish(result: isize) {
    if result == 0 { reset_in_child() } else { end_in_parent() }
}

#[allow(non_snake_case, reason = "the name of the C library")]
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn _Fork() -> i32 {
    prepare();
    let child = unsafe { real::_Fork() };
    finish(child as isize);
    child
}

pub(crate) const SYS_VFORK: usize = 58;

/// Prepares for a child that runs on the stack of the calling thread, with its memory, until it ends or executes a
/// program. The child is a kernel thread of another process and must not leave it, so the thread stays at home until
/// then.
extern "C" fn begin_vfork() {
    let thread = current();
    records::share_all();
    handle_requests(thread);
    go_home(thread);
    thread.stayed_home_before_vfork.set(thread.stays_home.replace(true));
}

/// Ends the preparation in the parent.
extern "C" fn end_vfork(result: isize) -> i32 {
    let thread = current();
    thread.stays_home.set(thread.stayed_home_before_vfork.get());
    end_in_parent();
    sys::result(result) as i32
}

/// The child overwrites the stack below the frame of the caller, so the return address is in a register during the call.
#[unsafe(naked)]
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn vfork() -> i32 {
    naked_asm!(
        "sub rsp, 8",
        "call {begin}",
        "add rsp, 8",
        "pop rdx",
        "mov eax, {number}",
        "syscall",
        "push rdx",
        "test rax, rax",
        "jz 2f",
        "mov rdi, rax",
        "jmp {end}",
        "2: ret",
        begin = sym begin_vfork,
        end = sym end_vfork,
        number = const SYS_VFORK,
    )
}

type Run = unsafe extern "C" fn(*mut u8) -> i32;

/// The function that a child executes, and its argument.
struct Start {
    run: Run,
    argument: *mut u8,
}

unsafe extern "C" fn run_in_child(start: *mut u8) -> i32 {
    let Start { run, argument } = unsafe { start.cast::<Start>().read() };
    reset_in_child();
    let code = unsafe { run(argument) };
    // The C library now ends this kernel thread, and the process only if it has no others.
    if threads::end_last() {
        sys::call(sys::SYS_EXIT_GROUP, [code as usize, 0, 0, 0, 0, 0]);
    }
    code
}

/// The arguments after the fourth are optional. If they are missing, `clone` ignores the values in their places.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn clone(
    run: Run,
    stack: *mut u8,
    flags: i32,
    argument: *mut u8,
    parent: usize,
    storage: usize,
    child: usize,
) -> i32 {
    prepare();
    if !owns_all(flags as usize) {
        return unsafe { real::clone(run, stack, flags, argument, parent, storage, child) };
    }
    let mut start = Start { run, argument };
    let start = (&raw mut start).cast();
    let result = unsafe { real::clone(run_in_child, stack, flags, start, parent, storage, child) };
    end_in_parent();
    result
}

aliases! { __vfork = vfork; __clone = clone; }
