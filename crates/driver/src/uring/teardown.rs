//! Dropping a driver, without freeing memory that the kernel may still write to.
//!
//! # Safety
//! `inflight` and `buffers` own all memory that the kernel may write to. They are dropped only if no
//! operation is left; otherwise they are leaked. The descriptors in `inflight` keep their files open.

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use io_uring::{opcode, types};

use crate::sockets::socket_table::SocketTable;
use crate::uring::Uring;
use crate::uring::operation::inflight::IGNORED;

/// The maximum time that a drop waits for the kernel. Operations on sockets end immediately; a read from a disk may
/// not.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

impl Uring {
    /// Cancels all operations and waits for them. Returns true if all have completed.
    fn quiesce(&mut self) -> bool {
        let all = types::CancelBuilder::any();
        let submission = opcode::AsyncCancel2::new(all).build().user_data(IGNORED);
        // SAFETY: a cancellation points to nothing.
        unsafe { self.ring.push(submission) };
        self.inflight.cancel_all();
        // Without sockets, completions start no further operations.
        self.sockets = SocketTable::new();
        self.drop_files();
        let deadline = Instant::now() + DROP_TIMEOUT;
        while self.inflight.len() > 0 {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() || self.ring.wait(1, Some(remaining)).is_err() {
                return false;
            }
            self.complete();
        }
        true
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.quiesce() {
            // SAFETY: neither is used after this. No operation is in flight, so the kernel refers to nothing
            // that is freed here.
            unsafe {
                ManuallyDrop::drop(&mut self.inflight);
                ManuallyDrop::drop(&mut self.buffers);
            }
        }
        // Otherwise both are leaked, because the kernel may still write to the memory that they own.
    }
}
