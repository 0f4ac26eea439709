//! Large transfers: while a thread waits to send the rest of a large message, the kernel thread that polls sends it part
//! by part. The thread continues when everything is sent, or when a part fails.
//!
//! The data belongs to a blocking call, which does not return while its transfer is set. Signals are blocked on
//! carriers, so no handler can jump out of the call. A thread that returns home stops its transfer before it accepts
//! signals.

use core::ptr::null;

use crate::options::has_large_io;
use crate::stats;
use crate::system::sys;
use crate::thread::masked::Masked;
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

/// Lets the polling thread send `length` bytes of `data` while the calling thread waits. Returns false if the calling
/// thread is not on a carrier.
pub(crate) fn begin(thread: &Thread, data: *const u8, length: usize, flags: usize) -> bool {
    let begins = has_large_io() && thread.is_hollow();
    if begins {
        // Errors and signals are left to the thread.
        let flags = flags | MSG_DONTWAIT | MSG_NOSIGNAL;
        *thread.transfer.lock() = Transfer { data, left: length, flags };
        thread.has_transfer.set(true);
    }
    begins
}

/// Sends the next part of a transfer whose thread waits for `key`, and requests the next event with `arm`. Returns false
/// if the threads that wait for the descriptor are to be woken.
pub(super) fn continue_transfer(
    key: usize,
    descriptor: i32,
    arm: impl FnOnce(u32) -> bool,
) -> bool {
    let sends =
        |thread: &Thread, interest| thread.transfer.lock().send_part(descriptor) && arm(interest);
    table::with_only_waiter(key, sends) == Some(true)
}

/// Ends a transfer that has begun, after the wait. Returns the bytes that are left.
pub(crate) fn end(thread: &Thread) -> usize {
    let _masked = Masked::new();
    thread.has_transfer.set(false);
    let mut transfer = thread.transfer.lock();
    transfer.data = null();
    transfer.left
}
