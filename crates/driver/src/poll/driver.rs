//! The implementation of [`Driver`].

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{accept, is_transient};
use super::datagrams::OutgoingDatagram;
use super::{Pending, Poll};
use crate::blocking::pool::Work;
use crate::files::sendfile::FileSend;
use crate::sockets::datagrams::receive_now;
use crate::sockets::send::{send_now, would_block};
use crate::{Completion, DatagramBatch, Done, Driver, Endpoint, Request, Socket, Token, Unpark};

impl Driver for Poll {
    fn name(&self) -> &'static str {
        "poll"
    }

    fn adopt(&mut self, endpoint: Endpoint) -> io::Result<Socket> {
        let fd = endpoint.into_fd()?;
        self.calls += 1;
        rustix::io::ioctl_fionbio(&fd, true)?;
        #[cfg(target_vendor = "apple")]
        socket2::SockRef::from(&fd).set_nosigpipe(true)?;
        let socket = self.register_any(fd)?;
        self.sockets.open_mut(socket)?.is_adopted = true;
        Ok(socket)
    }

    fn fd(&self, socket: Socket) -> Option<BorrowedFd<'_>> {
        Some(self.sockets.get(socket).expect("an open socket").fd.as_fd())
    }

    fn close(&mut self, socket: Socket) {
        let Some(state) = self.sockets.remove(socket) else { return };
        while let Some(connection) = self.attached.take(socket) {
            self.close(connection);
        }
        let sending = state.sending.map(|sending| sending.token);
        let file = state.sending_file.map(|file| file.token);
        let waiting =
            sending.into_iter().chain(file).chain(state.receiving).chain(state.connecting);
        let datagrams = state.datagrams.map(|datagrams| datagrams.tokens()).unwrap_or_default();
        for token in waiting.chain(state.accepting).chain(datagrams) {
            self.completions.cancel(token);
        }
        // No system call is in progress, so the descriptor can be closed immediately.
        self.calls += 1;
        if state.is_adopted {
            self.deregister(&state.fd);
        }
    }

    fn detach(&mut self, connection: Socket) -> Option<Endpoint> {
        if self.sockets.get(connection)?.has_requests() {
            return None;
        }
        let state = self.sockets.remove(connection)?;
        self.deregister(&state.fd);
        Some(state.fd.into())
    }

    fn attach(&mut self, listener: Socket, connection: Endpoint) -> io::Result<Socket> {
        self.sockets.open(listener)?;
        let connection = self.register_any(connection.into_fd()?)?;
        let state = self.sockets.get_mut(listener).expect("found above");
        match state.accepting.pop_front() {
            Some(token) => self.completions.finish(token, Ok(Done::Accepted(connection))),
            None => self.attached.push(listener, connection),
        }
        Ok(connection)
    }

    fn share(&mut self, listener: Socket) {
        self.sockets.get_mut(listener).expect("an open socket").is_shared = true;
    }

    fn shutdown(&mut self, socket: Socket, how: Shutdown) -> io::Result<()> {
        let state = self.sockets.open(socket)?;
        self.calls += 1;
        socket2::SockRef::from(&state.fd).shutdown(how)
    }

    fn send_now(&mut self, socket: Socket, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let state = self.sockets.open_mut(socket)?;
        if state.is_sending() || !state.writable {
            return Ok(0);
        }
        self.calls += 1;
        let sent = send_now(&state.fd, parts);
        // An event reports when there is room again.
        state.writable = !would_block(&sent);
        if state.writable { sent } else { Ok(0) }
    }

    fn receive_datagrams_now(
        &mut self,
        socket: Socket,
        batch: &mut DatagramBatch,
    ) -> io::Result<()> {
        let state = self.sockets.open_mut(socket)?;
        batch.clear();
        if !state.readable {
            return Ok(());
        }
        self.calls += 1;
        // After an error there may still be datagrams, for which no further edge will come.
        receive_now(state.fd.as_fd(), batch)?;
        // The next datagram makes the socket ready again.
        state.readable = batch.is_full();
        Ok(())
    }

    fn accept_now(&mut self, listener: Socket) -> io::Result<Option<Socket>> {
        let state = self.sockets.open_mut(listener)?;
        if !state.accepting.is_empty() {
            return Ok(None);
        }
        if let Some(connection) = self.attached.take(listener) {
            return Ok(Some(connection));
        }
        if !state.readable || state.is_shared {
            return Ok(None);
        }
        self.calls += 1;
        let accepted = accept(&state.fd);
        state.readable = !would_block(&accepted);
        let is_split = state.is_split;
        match accepted {
            Ok(fd) => self.register(fd, is_split).map(Some),
            Err(error) if is_transient(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn start(&mut self, token: Token, request: Request) {
        match request {
            Request::Accept { listener } => self.accept(token, listener),
            Request::Receive { socket, max } => self.receive(token, socket, max as u64, false),
            Request::Skip { socket, max } => self.receive(token, socket, max, true),
            Request::Send { socket, payload } => self.send(token, socket, payload.into()),
            Request::SendVectored { socket, parts } => self.send(token, socket, parts.into()),
            Request::SendTo { socket, datagram, to, segment } => {
                let outgoing = OutgoingDatagram::new(token, datagram, to, segment);
                self.send_datagram(token, socket, outgoing);
            }
            Request::ReceiveFrom { socket, buffer, max } => {
                self.receive_datagram(token, socket, buffer, max);
            }
            Request::SendFile { socket, head, file, offset, length, transfer } => {
                let file = FileSend::new(head, &file, (offset, length), transfer);
                self.send_file(token, socket, file);
            }
            Request::Connect { address } => {
                self.completions.pending.insert(token, Pending::Connect);
                self.connects.push((token, address));
            }
            Request::Open { directory, path, how } => {
                self.run_blocking(token, Work::Open { directory, path, how });
            }
            Request::ReadAt { file, buffer, offset, length } => {
                self.run_blocking(token, Work::ReadAt { file, buffer, offset, length });
            }
            Request::WriteAt { file, bytes, offset } => {
                self.run_blocking(token, Work::WriteAt { file, bytes: bytes.into(), offset });
            }
            Request::Sync { file, data_only } => {
                self.run_blocking(token, Work::Sync { file, data_only });
            }
        }
    }

    fn cancel(&mut self, token: Token) {
        let Some(pending) = self.completions.pending.get(token) else { return };
        match pending {
            Pending::Connect => self.connects.retain(|(other, _)| *other != token),
            // The caller has not received the socket yet.
            Pending::Connecting(socket) => return self.close(socket),
            Pending::Job { job, changes_file } => {
                // A lasting job that has started completes with its result. Otherwise its change could take effect
                // after the caller's next steps.
                if !self.jobs.cancel(job, changes_file) {
                    return;
                }
            }
            Pending::Accept(socket)
            | Pending::Receive(socket)
            | Pending::Send(socket)
            | Pending::Datagram(socket) => {
                let state = self.sockets.get_mut(socket).expect("a request keeps no closed socket");
                match pending {
                    Pending::Accept(_) => state.accepting.retain(|other| *other != token),
                    Pending::Receive(_) => state.receiving = None,
                    Pending::Datagram(_) => state.datagrams_mut().remove(token),
                    _ => (state.sending, state.sending_file) = (None, None),
                }
            }
        }
        self.completions.cancel(token);
    }

    fn submit(&mut self) -> io::Result<()> {
        self.attempt();
        Ok(())
    }

    fn submit_backlogged(&mut self) -> io::Result<()> {
        self.queue_delay.reaping_skipped();
        self.submit()
    }

    fn reap(&mut self, into: &mut Vec<Completion>) -> io::Result<usize> {
        if !std::mem::take(&mut self.polled) {
            self.take_events(Some(Duration::ZERO))?;
        }
        self.attempt();
        self.take_blocking_results();
        Ok(self.completions.take(into))
    }

    fn park(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.attempt();
        self.take_blocking_results();
        // A queued socket has work left, and no further event will report it.
        let more = !self.completions.done.is_empty() || !self.queue.is_empty();
        let ready = self.unparker.take() || more;
        if !ready {
            self.queue_delay.parks();
        }
        self.take_events(if ready { Some(Duration::ZERO) } else { timeout })?;
        self.polled = true;
        self.unparker.take();
        Ok(())
    }

    /// epoll cannot wait for a number of events, so this sleeps for all of `limit`.
    fn coalesce(&mut self, completions: usize, limit: Duration) -> io::Result<()> {
        self.attempt();
        self.take_blocking_results();
        if self.completions.done.len() < completions && self.queue.is_empty() {
            self.calls += 1;
            std::thread::sleep(limit);
        }
        Ok(())
    }

    fn queue_delay(&mut self) -> Duration {
        self.waits.take() + self.queue_delay.take(&self.unparker.wake)
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.unparker) as Arc<dyn Unpark>
    }

    fn buffers_lent(&self) -> usize {
        self.pool.lent()
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }
}
