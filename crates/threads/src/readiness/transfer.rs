//! Large transfers: while a thread waits to send the rest of a large message, the kernel thread that polls sends it part
//! by part. The thread continues when everything is sent, or when a part fails.
//!
//! # Safety
//!
//! The data is that of a blocking call, which does not return while its transfer is set. The transfer is accessed by its
//! thread while the thread is in no list of the parking table, and otherwise under the lock of the thread's bucket.

use core::ptr::null;

use crate::options::has_large_io;
use crate::stats;
use crate::system::sys;
use crate::thread::{Thread, Transfer};
use crate::waiting::table;

/// Maximum number of bytes that are sent under the lock.
const MAX_PART_BYTES: usize = 256 * 1024;

const MSG_DONTWAIT: usize = 0x40;
const MSG_NOSIGNAL: usize = 0x4000;

impl Transfer {
    /// Sends a part. Returns whether there is more to send, without an error.
    fn send_part(&mut self, descriptor: i32) -> bool {
        if self.data.is_null() {
            return false;
        }
        let (bytes, flags) = (self.left.min(MAX_PART_BYTES), self.flags);
        let sent = sys::call(
            sys::SYS_SENDTO,
            [descriptor as usize, self.data as usize, bytes, flags, 0, 0],
        );
        if sent > 0 {
            stats::count(&stats::LARGE_PARTS);
            self.data = self.data.wrapping_add(sent as usize);
            self.left -= sent as usize;
        }
        self.left > 0 && (sent > 0 || sent == -(sys::EAGAIN as isize))
    }
}

/// Lets the polling thread send `length` bytes of `data` while the calling thread waits.
pub(crate) fn begin(thread: &Thread, data: *const u8, length: usize, flags: usize) {
    if has_large_io() && thread.is_convertible() {
        // Errors and signals are left to the thread.
        let flags = flags | MSG_DONTWAIT | MSG_NOSIGNAL;
        unsafe { *thread.transfer.get() = Transfer { data, left: length, flags } };
    }
}

/// Sends the next part of a transfer whose thread waits for `key`, and requests the next event with `arm`. Returns false
/// if the threads that wait for the descriptor are to be woken.
pub(super) fn proceed(key: usize, descriptor: i32, arm: impl FnOnce(u32) -> bool) -> bool {
    let sends = |thread: &Thread, interest| {
        // The thread accesses its transfer only while it is not in the table.
        unsafe { &mut *thread.transfer.get() }.send_part(descriptor) && arm(interest)
    };
    table::with_only_waiter(key, sends) == Some(true)
}

/// Ends a transfer after the wait. Returns the bytes that are left of `length`.
pub(crate) fn end(thread: &Thread, length: usize) -> usize {
    let transfer = unsafe { &mut *thread.transfer.get() };
    let left = if transfer.data.is_null() { length } else { transfer.left };
    *transfer = Transfer { data: null(), left: 0, flags: 0 };
    left
}
