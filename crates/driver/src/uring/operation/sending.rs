//! A send in flight.
//!
//! # Safety
//! The only unsafe line makes a message header of zeros, which is valid, as C programs use it. `inflight`
//! explains why the memory that the submission points to stays valid.

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

use io_uring::{opcode, squeue, types};

use crate::user_bytes::{MAX_PARTS, Outgoing};
use crate::{Socket, Token};

const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;

/// The maximum size of a plain send: the length has to fit in 32 bits.
const MAX_BYTES: usize = 1 << 30;

/// A payload that is being sent, and the message header that points into it.
pub(crate) struct Sending {
    pub(crate) token: Token,
    pub(crate) socket: Socket,
    pub(crate) fd: Rc<OwnedFd>,
    pub(crate) payload: Outgoing,
    pub(crate) sent: usize,
    pub(crate) message: Option<Box<Message>>,
}

/// The header of a `sendmsg` with several parts.
#[repr(C)]
pub(crate) struct Message {
    /// Before the parts, next to the first two, because most sends have two.
    header: libc::msghdr,
    parts: [libc::iovec; MAX_PARTS],
}

impl Default for Message {
    fn default() -> Message {
        // SAFETY: a msghdr of zeros is an empty message, an iovec of zeros an empty part.
        unsafe { std::mem::zeroed() }
    }
}

impl Sending {
    /// Whether everything has been sent.
    pub(crate) fn is_done(&self) -> bool {
        self.sent == self.payload.len()
    }

    /// The submission that sends the rest. It points to the payload and, if more than one part is left, to
    /// `message`, which is taken from `spare`.
    #[expect(clippy::vec_box, reason = "a header must keep its address while it is in use")]
    pub(crate) fn submission(&mut self, spare: &mut Vec<Box<Message>>) -> squeue::Entry {
        let fd = types::Fd(self.fd.as_raw_fd());
        if let Some(rest) = self.payload.only_head(self.sent) {
            return send(fd, rest);
        }
        let mut rest = self.payload.rest(self.sent);
        let first = rest.next().unwrap_or_default();
        let Some(second) = rest.next() else {
            return send(fd, first);
        };
        let message = self.message.get_or_insert_with(|| spare.pop().unwrap_or_default());
        let parts = message.parts.iter_mut().zip([first, second].into_iter().chain(rest));
        let mut count = 0;
        for (slot, part) in parts {
            // The kernel only reads the bytes, although the pointer is mutable.
            slot.iov_base = part.as_ptr().cast_mut().cast();
            slot.iov_len = part.len();
            count += 1;
        }
        message.header.msg_iov = message.parts.as_mut_ptr();
        message.header.msg_iovlen = count;
        opcode::SendMsg::new(fd, ptr::from_ref(&message.header)).flags(FLAGS as u32).build()
    }
}

fn send(fd: types::Fd, bytes: &[u8]) -> squeue::Entry {
    let length = bytes.len().min(MAX_BYTES) as u32;
    opcode::Send::new(fd, bytes.as_ptr(), length).flags(FLAGS).build()
}
