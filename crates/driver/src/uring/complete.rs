//! Translation of the kernel's completions to results.
//!
//! # Safety
//! A descriptor that the kernel has created appears in exactly one completion, and is owned from there on.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use io_uring::{opcode, squeue, types};
use socket2::Type;

use crate::completions::cancelled;
use crate::uring::Uring;
use crate::uring::operation::inflight::{Connecting, IGNORED, Operation, Receive};
use crate::uring::operation::sending::Sending;
use crate::uring::ring::queues::{Event, is_transient};
use crate::uring::sockets::State;
use crate::{Address, Done, Token};

/// The maximum number of message headers that are kept for reuse.
const SPARE_MESSAGES: usize = 64;

impl Connecting {
    pub(super) fn new(token: Token, address: &Address) -> io::Result<Connecting> {
        let kernel_address = Box::new(address.to_kernel()?);
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = socket2::Socket::new(kernel_address.domain(), kind, address.protocol())?;
        Ok(Connecting { token, fd: socket.into(), address: kernel_address })
    }

    pub(super) fn submission(&self) -> squeue::Entry {
        let fd = types::Fd(self.fd.as_raw_fd());
        opcode::Connect::new(fd, self.address.as_ptr().cast(), self.address.len()).build()
    }
}

impl Uring {
    /// Takes and handles all completions of the kernel.
    pub(super) fn complete(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        self.ring.take_events(&mut events);
        self.prefetch(&events);
        for event in events.drain(..) {
            self.handle_event(event);
        }
        self.events = events;
        self.take_owner_checks();
    }

    fn handle_event(&mut self, event: Event) {
        if event.data == IGNORED {
            return;
        }
        let user_data = event.data;
        if let Some(Receive { socket, multishot_limit, .. }) = self.inflight.receive(user_data) {
            let (socket, multishot_limit) = (*socket, *multishot_limit);
            return self.received(user_data, socket, multishot_limit, event);
        }
        match self.inflight.get_mut(user_data) {
            // The unparker's flag contains the information; the event only ended the sleep, or was the queue
            // delay probe.
            Operation::PollWakeEvent => {
                self.queue_delay.reaped();
                if !event.more() {
                    let is_cancelled = self.inflight.is_cancelled(user_data);
                    self.inflight.remove(user_data);
                    if !is_cancelled {
                        self.arm_wake_event();
                    }
                }
            }
            Operation::Accept { listener, .. } => {
                let listener = *listener;
                self.accepted(user_data, listener, event);
            }
            Operation::Send(_) => self.sent(user_data, event),
            Operation::SendDatagram(_) | Operation::ReceiveDatagram(_) => {
                self.datagram_completed(user_data, event);
            }
            Operation::WaitForSpace(_) => self.space_available(user_data),
            Operation::Connect(_)
            | Operation::Open(_)
            | Operation::Read(_)
            | Operation::Write(_)
            | Operation::Sync(_) => self.oneshot_completed(user_data, event),
        }
    }

    fn sent(&mut self, user_data: u64, event: Event) {
        let Operation::Send(sending) = self.inflight.get_mut(user_data) else { unreachable!() };
        let mut result = match event.outcome() {
            Ok(0) => Err(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(sent) => {
                sending.sent += sent as usize;
                if sending.is_done() { Ok(()) } else { Err(cancelled()) }
            }
            Err(error) => Err(error),
        };
        // A short send continues, unless it was cancelled.
        let short = event.result > 0 && result.is_err();
        if short || result.as_ref().is_err_and(is_transient) {
            if !self.inflight.is_cancelled(user_data) {
                return self.relaunch(user_data);
            }
            result = Err(cancelled());
        }
        let Operation::Send(sending) = self.inflight.remove(user_data) else { unreachable!() };
        let Sending { token, socket, payload, message, .. } = sending;
        let mut is_queued = false;
        if let Some(state) = self.sockets.get_mut(socket) {
            state.sending = None;
            is_queued = state.queued.is_some();
        }
        if let Some(message) = message
            && self.messages.len() < SPARE_MESSAGES
        {
            self.messages.push(message);
        }
        self.completions.finish(token, result.map(|()| Done::Sent(payload.into_head())));
        if is_queued {
            self.start_queued_send(socket);
        }
    }

    /// Handles a completion of an operation that completes once.
    fn oneshot_completed(&mut self, user_data: u64, event: Event) {
        let is_cancelled = self.inflight.is_cancelled(user_data);
        let mut outcome = event.outcome();
        let unfinished = match (self.inflight.get_mut(user_data), &outcome) {
            (Operation::Read(reading), Ok(read)) => !reading.advance(*read),
            // A write of nothing would be repeated forever.
            (Operation::Write(_), Ok(0)) => {
                outcome = Err(io::ErrorKind::WriteZero.into());
                false
            }
            (Operation::Write(writing), Ok(written)) => !writing.advance(*written),
            (_, Ok(_)) => false,
            // For a full backlog of a Unix socket, the caller retries.
            (Operation::Connect(_), Err(error)) => error.kind() == io::ErrorKind::Interrupted,
            (_, Err(error)) => is_transient(error),
        };
        if unfinished {
            if !is_cancelled {
                return self.relaunch(user_data);
            }
            // A blocking operation that was cancelled reports EINTR.
            outcome = Err(cancelled());
        }
        match self.inflight.remove(user_data) {
            Operation::Connect(Connecting { token, fd, .. }) => {
                let result = outcome.map(|_| self.sockets.insert(State::new(fd)));
                self.completions.finish(token, result.map(Done::Connected));
            }
            Operation::Open(opening) => {
                let result = outcome.map(|fd| {
                    // SAFETY: the kernel has just created this descriptor for us.
                    Done::Opened(unsafe { OwnedFd::from_raw_fd(fd as i32) }.into())
                });
                self.completions.finish(opening.token, result);
            }
            Operation::Read(reading) => {
                let token = reading.token;
                self.completions.finish(token, outcome.map(|_| Done::Read(reading.into_buffer())));
            }
            Operation::Write(writing) => {
                self.completions.finish(writing.token, outcome.map(|_| Done::Written));
            }
            Operation::Sync(syncing) => {
                self.completions.finish(syncing.token, outcome.map(|_| Done::Synced))
            }
            _ => unreachable!("the caller looked"),
        }
    }
}
