//! The implementation of [`Driver`].

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::files::sendfile::FileSend;
use crate::sockets::datagrams::receive_now;
use crate::sockets::idle::is_idle;
use crate::sockets::send::{send_now, would_block};
use crate::uring::operation::files::{Opening, Reading, Syncing, Writing};
use crate::uring::operation::inflight::{Connecting, Operation};
use crate::uring::requests::accept::note_unrequested;
use crate::uring::sockets::State;
use crate::uring::{Pending, Uring};
use crate::{
    Completion, DatagramBatch, Done, Driver, Endpoint, Request, Socket, SymlinkPolicy, Token,
    Unpark,
};

impl Driver for Uring {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn adopt(&mut self, endpoint: Endpoint) -> io::Result<Socket> {
        let fd = endpoint.into_fd()?;
        self.calls += 1;
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(self.sockets.insert(State::new(fd)))
    }

    fn fd(&self, socket: Socket) -> Option<BorrowedFd<'_>> {
        Some(self.sockets.get(socket).expect("an open socket").fd.as_fd())
    }

    fn close(&mut self, socket: Socket) {
        let Some(state) = self.sockets.remove(socket) else { return };
        if let Some(token) = state.receiving.waiting {
            self.completions.cancel(token);
        }
        let accepting = state.accepting.map(|accepting| *accepting).unwrap_or_default();
        for token in accepting.waiting {
            self.completions.cancel(token);
        }
        for connection in accepting.ahead {
            self.close(connection);
        }
        for token in state.queued.iter().flat_map(|queued| queued.tokens()) {
            self.completions.cancel(token);
        }
        if let Some(key) = state.sending_file {
            self.end_file(key as usize);
        }
        for user_data in
            [state.sending, state.receiving.armed, accepting.armed].into_iter().flatten()
        {
            self.abort(user_data);
        }
        self.abort_datagrams(socket);
        // The descriptor is closed with the last operation that owns it; see `inflight`.
        self.calls += u64::from(Rc::strong_count(&state.fd) == 1);
    }

    fn detach(&mut self, connection: Socket) -> Option<Endpoint> {
        if !self.sockets.get(connection)?.is_unused() {
            return None;
        }
        let state = self.sockets.remove(connection)?;
        Rc::into_inner(state.fd).map(Endpoint::from)
    }

    fn share(&mut self, listener: Socket) {
        self.share_listener(listener);
    }

    fn stop_ahead(&mut self, connection: Socket) {
        let Some(state) = self.sockets.get(connection) else { return };
        if state.receiving.waiting.is_none()
            && let Some(user_data) = state.receiving.armed
        {
            self.abort(user_data);
        }
    }

    fn attach(&mut self, listener: Socket, connection: Endpoint) -> io::Result<Socket> {
        self.accept_detached(listener, connection.into_fd()?)
    }

    fn is_idle(&mut self, connection: Socket) -> bool {
        self.calls += 1;
        let state = self.sockets.get(connection).expect("an open socket");
        if !is_idle(state.fd.as_fd()) {
            return false;
        }
        // Bytes that the kernel has received in advance of requests are no longer in the socket.
        self.complete();
        // Some of these receives are in the kernel's list if the queue was full.
        while self.ring.overflows() {
            if self.ring.submit().is_err() || !self.ring.has_events() {
                return false;
            }
            self.complete();
        }
        self.sockets.get(connection).is_some_and(|state| state.receiving.ahead.is_empty())
    }

    fn shutdown(&mut self, socket: Socket, how: Shutdown) -> io::Result<()> {
        let state = self.sockets.open(socket)?;
        self.calls += 1;
        socket2::SockRef::from(&*state.fd).shutdown(how)
    }

    fn shares_calls(&self) -> bool {
        true
    }

    fn send_now(&mut self, socket: Socket, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let state = self.sockets.open(socket)?;
        if state.is_sending() {
            return Ok(0);
        }
        self.calls += 1;
        let sent = send_now(&state.fd, parts);
        if would_block(&sent) { Ok(0) } else { sent }
    }

    fn receive_datagrams_now(
        &mut self,
        socket: Socket,
        batch: &mut DatagramBatch,
    ) -> io::Result<()> {
        let state = self.sockets.open(socket)?;
        batch.clear();
        self.calls += 1;
        receive_now(state.fd.as_fd(), batch)
    }

    fn accept_now(&mut self, listener: Socket) -> io::Result<Option<Socket>> {
        let accepting = &mut self.sockets.open_mut(listener)?.accepting;
        let free = accepting.as_mut().filter(|accepting| accepting.waiting.is_empty());
        Ok(free.and_then(|accepting| accepting.ahead.pop_front()))
    }

    fn start(&mut self, token: Token, request: Request) {
        match request {
            Request::Accept { listener } => self.accept(token, listener),
            // A multishot receive cannot use the flags of a single request, so a skip is a receive.
            Request::Receive { socket, max } => self.receive(token, socket, max),
            Request::Skip { socket, .. } => self.receive(token, socket, usize::MAX),
            Request::Send { socket, payload } => self.send(token, socket, payload.into()),
            Request::SendVectored { socket, parts } => self.send(token, socket, parts.into()),
            Request::SendTo { socket, datagram, to, segment } => {
                self.send_datagram(token, socket, datagram, (to, segment));
            }
            Request::ReceiveFrom { socket, buffer, max } => {
                self.receive_datagram(token, socket, buffer, max);
            }
            Request::SendFile { socket, head, file, offset, length, transfer } => {
                let file = FileSend::new(head, &file, (offset, length), transfer);
                self.send_file(token, socket, file);
            }
            Request::Connect { address } => {
                self.calls += 1;
                let connecting = Connecting::new(token, &address).map(Operation::Connect);
                self.start_or_fail(token, connecting);
            }
            Request::Open { directory, path, how } if how.links == SymlinkPolicy::OwnerMatches => {
                self.open_checking_owners(token, directory, path, how);
            }
            Request::Open { directory, path, how } => {
                let opening = Opening::new(token, &directory, path, how);
                self.start_or_fail(token, opening.map(Operation::Open));
            }
            Request::ReadAt { file, buffer, offset, length } => {
                let reading = Reading::new(token, &file, buffer, offset, length);
                self.start_or_fail(token, reading.map(Operation::Read));
            }
            Request::WriteAt { file, bytes, offset } => {
                let is_empty = bytes.is_empty();
                match Writing::new(token, &file, bytes.into(), offset) {
                    Ok(_) if is_empty => self.completions.complete(token, Ok(Done::Written)),
                    writing => self.start_or_fail(token, writing.map(Operation::Write)),
                }
            }
            Request::Sync { file, data_only } => {
                let syncing = Syncing::new(token, &file, data_only);
                self.start_or_fail(token, syncing.map(Operation::Sync));
            }
        }
    }

    fn cancel(&mut self, token: Token) {
        match self.completions.pending.get(token) {
            None => {}
            Some(Pending::Operation(user_data)) => self.abort(user_data),
            Some(Pending::File(key)) => self.end_file(key),
            Some(Pending::OwnerCheck(job)) => self.cancel_owner_check(token, job),
            Some(Pending::Queued(socket)) => self.cancel_queued(token, socket),
            // The multishot operation continues; its results are for the next request. An accept ends with the next
            // submission, unless there is another request.
            Some(Pending::Receive(socket)) => {
                let state = self.sockets.get_mut(socket).expect("a request keeps no closed socket");
                state.receiving.waiting = None;
                self.completions.cancel(token);
            }
            Some(Pending::Accept(listener)) => {
                let state = self.sockets.get_mut(listener);
                let accepting = state.and_then(|state| state.accepting.as_mut());
                let waiting = &mut accepting.expect("a request keeps no closed socket").waiting;
                waiting.retain(|other| *other != token);
                if waiting.is_empty() {
                    note_unrequested(&mut self.unrequested, listener);
                }
                self.completions.cancel(token);
            }
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        self.prepare_submission(false);
        if self.ring.has_submissions() || self.ring.holds_back() {
            self.ring.submit()?;
        }
        self.continue_files();
        Ok(())
    }

    fn submit_backlogged(&mut self) -> io::Result<()> {
        self.queue_delay.reaping_skipped();
        self.prepare_submission(false);
        if self.ring.has_submissions() {
            self.ring.submit_backlogged()?;
        }
        self.continue_files();
        Ok(())
    }

    fn reap(&mut self, into: &mut Vec<Completion>) -> io::Result<usize> {
        self.complete();
        if self.completions.done.is_empty() && self.ring.holds_back() {
            self.ring.submit()?;
            self.complete();
        }
        Ok(self.completions.take(into))
    }

    fn park(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.prepare_submission(true);
        // Files continue in the next turn, so the thread must not sleep.
        let some =
            !self.completions.done.is_empty() || self.ring.has_events() || self.files.is_ready();
        let ready = self.unparker.take() || some;
        if ready || timeout.is_some_and(|timeout| timeout.is_zero()) {
            return self.submit();
        }
        self.queue_delay.parks();
        self.ring.wait(1, timeout)?;
        self.unparker.take();
        Ok(())
    }

    fn coalesce(&mut self, completions: usize, limit: Duration) -> io::Result<()> {
        self.prepare_submission(true);
        if self.files.is_ready() {
            return self.submit();
        }
        match completions.saturating_sub(self.completions.done.len()) {
            0 => self.submit(),
            wanted => self.ring.wait(wanted as u32, Some(limit)),
        }
    }

    fn queue_delay(&mut self) -> Duration {
        self.files.queue_delay() + self.queue_delay.take(&self.unparker.wake)
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.unparker) as Arc<dyn Unpark>
    }

    fn buffers_lent(&self) -> usize {
        self.buffers.pool().lent()
    }

    fn system_calls(&self) -> u64 {
        self.calls + self.ring.system_calls()
    }
}
