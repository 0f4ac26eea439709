//! Attempting the calls that may succeed, for all sockets of a sweep: connects, then sends (they free memory and let
//! the peer continue), then receives and accepts on sockets that are readable, and finally files, which take longer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::net::{RecvFlags, recv};

use super::Poll;
use super::sockets::SendingFile;
use crate::files::sendfile::{Step, TURN_BYTES};
use crate::sockets::send::send;
use crate::{Chunk, Done, Socket, Token};

/// The maximum number of accepts per listener and attempt, so that a flood of connections does not starve other
/// sockets.
const MAX_ACCEPTS: usize = 64;

/// The maximum number of bytes skipped in one call.
#[cfg(target_os = "linux")]
const SKIP_BYTES: usize = 1 << 20;

impl Poll {
    /// Attempts everything in the queue, which is usually empty.
    pub(super) fn attempt(&mut self) {
        if !(self.queue.is_empty() && self.connects.is_empty() && self.starved.is_empty()) {
            self.attempt_queued();
        }
    }

    fn attempt_queued(&mut self) {
        self.begin_connects();
        let mut queue = std::mem::take(&mut self.queue);
        let mut files = Vec::new();
        for socket in &queue {
            let Some(state) = self.sockets.get_mut(*socket) else { continue };
            state.queued = false;
            if !state.writable {
                continue;
            }
            if state.connecting.is_some() {
                self.end_connect(*socket);
            } else if state.sending.is_some() {
                self.try_send(*socket);
            } else if state.sending_file.is_some() {
                files.push(*socket);
            } else if state.datagrams.is_some() {
                self.try_send_datagrams(*socket);
            }
        }
        self.retry_starved();
        for socket in &queue {
            let Some(state) = self.sockets.get_mut(*socket) else { continue };
            if !state.readable || state.starved {
                continue;
            }
            if state.receiving.is_some() {
                self.try_receive(*socket);
            } else if !state.accepting.is_empty() {
                self.try_accept(*socket);
            } else if state.datagrams.is_some() {
                self.try_receive_datagram(*socket);
            }
        }
        queue.clear();
        if !files.is_empty() {
            self.send_files(&files, &mut queue);
        }
        // Sockets that were queued in the meantime, such as a listener with more connections, wait for the next
        // attempt.
        queue.append(&mut self.queue);
        self.queue = queue;
    }

    /// Sends `files` for one turn. Files that do not get a turn are put into `queue`, and come first in the next
    /// attempt.
    #[cold]
    fn send_files(&mut self, files: &[Socket], queue: &mut Vec<Socket>) {
        let (mut turn, now) = (TURN_BYTES, Instant::now());
        for (n, socket) in files.iter().enumerate() {
            let Some(state) = self.sockets.get_mut(*socket) else { continue };
            let Some(file) = &mut state.sending_file else { continue };
            if n == 0 {
                // The queue is in order, so the first one has waited longest.
                self.waits.add(now, file.waits.unwrap_or(now));
            }
            if turn > 0 {
                self.try_send_file(*socket, &mut turn);
            } else {
                file.waits.get_or_insert(now);
                // Otherwise the socket is in the queue already, for another request.
                if !state.queued {
                    state.queued = true;
                    queue.push(*socket);
                }
            }
        }
    }

    /// Repeats receives that found no buffer, now that buffers were returned.
    fn retry_starved(&mut self) {
        while self.pool.has_returned()
            && let Some(socket) = self.starved.pop_front()
        {
            let Some(state) = self.sockets.get_mut(socket) else { continue };
            state.starved = false;
            if state.readable && state.receiving.is_some() {
                self.try_receive(socket);
            }
        }
    }

    fn try_send(&mut self, socket: Socket) {
        let state = self.sockets.get_mut(socket).expect("the caller looked");
        let sending = state.sending.as_mut().expect("the caller looked");
        let result = loop {
            let rest = sending.payload.rest(sending.sent);
            let Some(sent) = send(&state.fd, rest) else { break Ok(()) };
            self.calls += 1;
            match sent {
                Ok(0) => break Err(io::Error::from(io::ErrorKind::WriteZero)),
                Ok(sent) => sending.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.writable = false;
                    return;
                }
                Err(error) => break Err(error),
            }
        };
        let sending = state.sending.take().expect("it was there");
        self.completions
            .finish(sending.token, result.map(|()| Done::Sent(sending.payload.into_head())));
    }

    /// Sends part of a file, within the `turn`.
    fn try_send_file(&mut self, socket: Socket, turn: &mut usize) {
        let state = self.sockets.get_mut(socket).expect("the caller looked");
        let file = state.sending_file.as_mut().expect("the caller looked");
        file.waits = None;
        let step = match file.sending.advance(state.fd.as_fd(), turn, &mut self.calls) {
            Ok(Step::Full) => return state.writable = false,
            Ok(Step::Paused) => {
                file.waits = Some(Instant::now());
                return self.enqueue(socket);
            }
            Ok(Step::Over) => Ok(()),
            Err(error) => Err(error),
        };
        let SendingFile { token, sending, .. } = *state.sending_file.take().expect("it was there");
        self.completions.finish(token, step.map(|()| sending.done()));
    }

    fn try_receive(&mut self, socket: Socket) {
        let state = self.sockets.get_mut(socket).expect("the caller looked");
        #[cfg(target_os = "linux")]
        if state.skips {
            return self.try_skip(socket);
        }
        // A skip by a receive may take more than its limit: the caller drops the surplus.
        let max = if state.skips { u64::MAX } else { state.max };
        let Some(mut chunk) = self.pool.take() else {
            state.starved = true;
            self.starved.push_back(socket);
            return;
        };
        let wanted = usize::try_from(max).unwrap_or(usize::MAX).min(self.pool.size());
        let result = loop {
            self.calls += 1;
            let space = &mut chunk.space()[..wanted];
            match recv(&state.fd, space, RecvFlags::empty()).map(|(length, _)| length) {
                Ok(0) => {
                    state.read_closed = true;
                    break Ok(Chunk::empty());
                }
                Ok(length) => {
                    state.received(length, wanted);
                    chunk.truncate(length);
                    break Ok(chunk);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    state.readable = false;
                    return;
                }
                Err(error) => break Err(io::Error::from(error)),
            }
        };
        let token = state.receiving.take().expect("the caller looked");
        self.completions.finish(token, result.map(Done::Received));
    }

    /// Lets the kernel discard the bytes: with `MSG_TRUNC`, TCP copies nothing (tcp(7)).
    #[cold]
    #[cfg(target_os = "linux")]
    fn try_skip(&mut self, socket: Socket) {
        let state = self.sockets.get_mut(socket).expect("the caller looked");
        // TCP never writes to it, so its pages are never allocated.
        if self.skip_buffer.is_empty() {
            self.skip_buffer = vec![0; SKIP_BYTES];
        }
        let max_bytes = usize::try_from(state.max).map_or(SKIP_BYTES, |max| max.min(SKIP_BYTES));
        let result = loop {
            self.calls += 1;
            match recv(&state.fd, &mut self.skip_buffer[..max_bytes], RecvFlags::TRUNC) {
                Ok((_, 0)) => {
                    state.read_closed = true;
                    break Ok(Done::Received(Chunk::empty()));
                }
                Ok((_, length)) => {
                    state.received(length, max_bytes);
                    break Ok(Done::Skipped(length as u64));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    state.readable = false;
                    return;
                }
                Err(error) => break Err(io::Error::from(error)),
            }
        };
        let token = state.receiving.take().expect("the caller looked");
        self.completions.finish(token, result);
    }

    fn try_accept(&mut self, listener: Socket) {
        for _ in 0..MAX_ACCEPTS {
            let state = self.sockets.get_mut(listener).expect("the caller looked");
            let Some(token) = state.accepting.front().copied() else { return };
            self.calls += 1;
            match accept(&state.fd) {
                Ok(fd) => self.accepted(listener, token, Ok(fd)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.readable = false;
                    return;
                }
                Err(error) if is_transient(&error) => {}
                Err(error) => self.accepted(listener, token, Err(error)),
            }
        }
        self.enqueue(listener);
    }

    fn accepted(&mut self, listener: Socket, token: Token, fd: io::Result<OwnedFd>) {
        let state = self.sockets.get_mut(listener).expect("the caller looked");
        state.accepting.pop_front();
        let is_split = state.is_split;
        let connection = fd.and_then(|fd| self.register(fd, is_split));
        self.completions.finish(token, connection.map(Done::Accepted));
    }
}

/// Whether an accept should be repeated: at once, or when another client has connected.
pub(super) fn is_transient(error: &io::Error) -> bool {
    // `ConnectionAborted`: the client has already disconnected.
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted)
}

/// Accepts a connection, non-blocking and close-on-exec.
#[cfg(not(target_vendor = "apple"))]
pub(super) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    use rustix::net::{SocketFlags, accept_with};
    Ok(accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
}

/// Accepts a connection, non-blocking, close-on-exec and without SIGPIPE.
#[cfg(target_vendor = "apple")]
pub(super) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let (socket, _) = socket2::SockRef::from(listener).accept()?;
    socket.set_nonblocking(true)?;
    socket.set_nosigpipe(true)?;
    Ok(socket.into())
}
