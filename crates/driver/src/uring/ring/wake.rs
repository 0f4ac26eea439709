//! Wakes a driver that sleeps in the ring: an eventfd with a multishot poll.
//!
//! The eventfd is never read: each write triggers the poll again, and its 64-bit counter cannot overflow in
//! practice.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};

use crate::unpark::Wake;

/// The eventfd.
pub(crate) struct WakeEvent(OwnedFd);

impl WakeEvent {
    pub(crate) fn new() -> io::Result<WakeEvent> {
        Ok(WakeEvent(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// The submission of the multishot poll.
    pub(crate) fn poll_submission(&self) -> squeue::Entry {
        let wake_event = types::Fd(self.0.as_raw_fd());
        opcode::PollAdd::new(wake_event, libc::POLLIN as u32).multi(true).build()
    }
}

impl Wake for WakeEvent {
    fn wake(&self) -> io::Result<()> {
        rustix::io::write(&self.0, &1_u64.to_ne_bytes())?;
        Ok(())
    }
}
