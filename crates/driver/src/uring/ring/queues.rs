//! The two queues shared with the kernel, and their system call.
//!
//! # Safety
//! The kernel reads and writes the memory that a submission points to until that operation's final completion. So
//! [`Ring::push`] is unsafe, and its caller must keep the memory valid. The only other unsafe call is `io_uring_enter`,
//! whose argument lives until the call returns.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, squeue};

/// A completion, copied from the queue.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) data: u64,
    pub(crate) result: i32,
    pub(crate) flags: u32,
}

impl Event {
    /// Whether the same operation will complete again.
    pub(crate) fn more(self) -> bool {
        cqueue::more(self.flags)
    }

    /// The provided buffer that was used.
    pub(crate) fn buffer(self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }

    /// The return value of the operation.
    pub(crate) fn outcome(self) -> io::Result<u32> {
        u32::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(-self.result))
    }
}

/// A ring, and the submissions that did not fit into its queue.
pub(crate) struct Ring {
    ring: IoUring,
    backlog: VecDeque<squeue::Entry>,
    flags: u32,
    calls: u64,
}

/// A processor that sleeps in `io_uring_enter` is idle. Without this flag (Linux 6.15), the kernel accounts
/// the sleep as waiting for a disk, and tools show a busy core.
const NO_IOWAIT: u32 = 1 << 7;

/// The longest sleep (136 years). The kernel's seconds are signed: a sleep of 2⁶³ seconds would end immediately.
const MAX_SLEEP: Duration = Duration::from_secs(u32::MAX as u64);

impl Ring {
    pub(crate) fn new(ring: IoUring, calls: u64) -> Ring {
        // GETEVENTS even without waiting: deferred task work runs only with this flag. It also makes a system
        // call for a reap after a submit unnecessary.
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        let no_iowait = if ring.params().is_feature_no_iowait() { NO_IOWAIT } else { 0 };
        Ring { ring, backlog: VecDeque::new(), flags: flags.bits() | no_iowait, calls }
    }

    pub(crate) fn system_calls(&self) -> u64 {
        self.calls
    }

    /// Queues `entry` after all earlier ones. Makes no system call.
    ///
    /// # Safety
    /// The memory that `entry` points to stays valid, in place and otherwise untouched until the operation's
    /// final completion was taken from this ring.
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: the caller's obligation.
        let full =
            !self.backlog.is_empty() || unsafe { self.ring.submission().push(&entry) }.is_err();
        if full {
            self.backlog.push_back(entry);
        }
    }

    /// Registers the buffer ring at `address` as group `group`.
    ///
    /// # Safety
    /// `address` starts a page-aligned mapping of `capacity` entries, on which the only further call is
    /// `munmap`.
    pub(crate) unsafe fn register_buffers(
        &mut self,
        address: u64,
        capacity: u16,
        group: u16,
    ) -> io::Result<()> {
        self.calls += 1;
        // SAFETY: the caller's obligation.
        unsafe { self.ring.submitter().register_buf_ring_with_flags(address, capacity, group, 0) }
    }

    /// Whether there are submissions for the kernel.
    pub(crate) fn has_submissions(&mut self) -> bool {
        !self.backlog.is_empty() || !self.ring.submission().is_empty()
    }

    /// Whether the kernel holds back completions that a system call would make available.
    pub(crate) fn holds_back(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Whether the kernel has completions that did not fit into the queue.
    pub(crate) fn overflows(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Whether completions are available without a system call.
    pub(crate) fn has_events(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Moves the available completions to `into`.
    pub(crate) fn take_events(&mut self, into: &mut Vec<Event>) {
        into.extend(self.ring.completion().map(|entry| Event {
            data: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
        }));
    }

    /// Passes all submissions to the kernel and lets it complete operations. This takes one system call
    /// unless they exceed the submission queue.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        while !self.backlog.is_empty() {
            if !self.enter(0, None)? {
                return Ok(()); // The kernel is out of a resource: the next call submits the rest.
            }
            self.refill();
        }
        self.enter(0, None).map(drop)
    }

    /// Like [`submit`](Self::submit), but only operations that finish during the call complete. Other
    /// completions stay in the kernel.
    pub(crate) fn submit_backlogged(&mut self) -> io::Result<()> {
        let flags = self.flags;
        self.flags &= !EnterFlags::GETEVENTS.bits();
        let done = self.submit();
        self.flags = flags;
        done
    }

    /// Like [`submit`](Self::submit), but then sleeps until `wanted` completions are available or `timeout` has
    /// passed.
    pub(crate) fn wait(&mut self, wanted: u32, timeout: Option<Duration>) -> io::Result<()> {
        while !self.backlog.is_empty() {
            if !self.enter(0, None)? {
                return Ok(());
            }
            self.refill();
        }
        self.enter(wanted, timeout).map(drop)
    }

    fn refill(&mut self) {
        let mut queue = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the obligation of the caller of `push`, which put it into the backlog.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
        }
    }

    /// Calls `io_uring_enter` once. Returns true if the kernel took all submissions in the queue.
    fn enter(&mut self, wanted: u32, timeout: Option<Duration>) -> io::Result<bool> {
        let length = self.ring.submission().len() as u32;
        let limit = timeout.map(|timeout| Timespec::from(timeout.min(MAX_SLEEP)));
        let mut args = SubmitArgs::new();
        if let Some(limit) = &limit {
            args = args.timespec(limit);
        }
        self.calls += 1;
        // SAFETY: `args` and the timespec it refers to live until the call returns. The `length` entries were
        // pushed under the conditions of `push`.
        let result =
            unsafe { self.ring.submitter().enter(length, wanted, self.flags, Some(&args)) };
        match result {
            Ok(submitted) => Ok(submitted == length as usize),
            Err(error) => match error.raw_os_error() {
                // A timeout or a signal, or completions must be taken first. The caller continues in each
                // case.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {
                    Ok(self.ring.submission().is_empty())
                }
                _ => Err(error),
            },
        }
    }
}

/// Whether an operation that failed with `error` should be repeated.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use crate::uring::Uring;
    use crate::{Config, Done, Driver, Payload, Request, Token};

    /// A backlogged submit completes its own operations, and leaves other completions in the kernel.
    #[test]
    fn a_backlogged_submit_leaves_completions_in_the_kernel() {
        let Ok(mut uring) = Uring::open(&Config::default()) else {
            return println!("skipped: no io_uring");
        };
        if !uring.ring.ring.params().is_setup_single_issuer() {
            return println!("skipped: this kernel completes operations in every call");
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = uring.adopt(listener.accept().unwrap().0.into()).unwrap();
        uring.start(Token(1), Request::Receive { socket, max: usize::MAX });
        uring.submit().unwrap();
        peer.write_all(b"x").unwrap();
        let payload = Payload { head: b"y".to_vec(), body: Default::default() };
        uring.start(Token(2), Request::Send { socket, payload });
        uring.submit_backlogged().unwrap();
        let mut completed = Vec::new();
        uring.complete();
        completed.append(&mut uring.completions.done);
        assert!(matches!(&completed[..], [sent] if matches!(sent.result, Ok(Done::Sent(_)))));
        uring.submit().unwrap();
        uring.reap(&mut completed).unwrap();
        assert!(matches!(&completed[1].result, Ok(Done::Received(chunk)) if chunk[..] == *b"x"));
    }
}
