//! Waiting stacks of threads whose own stacks are too small to contain them.

use crate::schedule::home::HOME_STACK_BYTES;
use crate::system::sys;
use crate::thread::Thread;

const READ_WRITE: usize = 3;
const PRIVATE_ANONYMOUS: usize = 0x22;

/// Maps a stack and returns its top; `None` if no memory is left.
pub(crate) fn map() -> Option<usize> {
    let arguments = [0, HOME_STACK_BYTES, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0];
    let mapped = sys::call(sys::SYS_MMAP, arguments);
    (mapped > 0).then_some(mapped as usize + HOME_STACK_BYTES)
}

/// Ends the use of the calling thread's waiting stack. The thread stays at home from now on.
pub(crate) fn end(thread: &Thread) {
    let top = thread.home_stack.replace(0);
    if thread.has_mapped_stack.replace(false) && top != 0 {
        sys::call(sys::SYS_MUNMAP, [top - HOME_STACK_BYTES, HOME_STACK_BYTES, 0, 0, 0, 0]);
    }
}
