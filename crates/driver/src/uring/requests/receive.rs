//! Receiving: one multishot operation per connection, which may receive a little more than was requested. It takes no
//! more CPU time than one operation per request.

use std::rc::Rc;

use crate::uring::operation::inflight::Receive;
use crate::uring::ring::queues::Event;
use crate::uring::sockets::RECEIVE_AHEAD;
use crate::uring::{Pending, Uring};
use crate::{Chunk, Done, Socket, Token};

impl Uring {
    pub(crate) fn receive(&mut self, token: Token, socket: Socket, max: usize) {
        let Some(state) = self.sockets.get_mut(socket) else {
            return self.completions.reject(token, libc::EBADF);
        };
        let receiving = &mut state.receiving;
        if receiving.waiting.is_some() {
            return self.completions.reject(token, libc::EBUSY);
        }
        if let Some(result) = receiving.take_ahead(max) {
            return self.completions.complete(token, result.map(Done::Received));
        }
        receiving.waiting = Some(token);
        receiving.max = u32::try_from(max).unwrap_or(u32::MAX);
        let is_armed = receiving.armed.is_some();
        self.completions.pending.insert(token, Pending::Receive(socket));
        if !is_armed {
            self.arm(socket);
        }
    }

    /// Starts the multishot receive of `socket`, if a request waits and the receive is neither running nor
    /// starved.
    pub(crate) fn arm(&mut self, socket: Socket) {
        let Some(state) = self.sockets.get_mut(socket) else { return };
        let receiving = &state.receiving;
        if receiving.waiting.is_none() || receiving.armed.is_some() || receiving.starved {
            return;
        }
        let fd = Rc::clone(&state.fd);
        let user_data =
            self.launch_receive(Receive { socket, fd, multishot_limit: self.multishot_limit });
        self.sockets.get_mut(socket).expect("found above").receiving.armed = Some(user_data);
    }

    /// Handles a completion of the multishot receive of `socket`.
    pub(crate) fn received(
        &mut self,
        user_data: u64,
        socket: Socket,
        multishot_limit: u32,
        event: Event,
    ) {
        let outcome = event.outcome();
        // Always claim the buffer, so that it returns to the pool even if it is not needed.
        let chunk = event.buffer().map(|id| {
            let length = outcome.as_ref().map_or(0, |length| *length as usize);
            self.buffers.received(id, length)
        });
        if !event.more() {
            self.inflight.remove_receive(user_data);
        }
        let Some(state) = self.sockets.get_mut(socket) else { return };
        let receiving = &mut state.receiving;
        if !event.more() {
            receiving.armed = None;
        }
        let mut starved = false;
        let result = match outcome {
            Ok(_) => Some(Ok(chunk.unwrap_or_else(Chunk::empty))),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => {
                    starved = true;
                    self.buffers.was_starved();
                    None
                }
                // Older kernels do not support a limit on consecutive bytes.
                Some(libc::EINVAL) if multishot_limit != 0 => {
                    self.multishot_limit = 0;
                    None
                }
                // The driver cancelled the receive because it was too far ahead of the requests.
                Some(libc::ECANCELED | libc::EAGAIN | libc::EINTR) => None,
                _ => Some(Err(error)),
            },
        };
        if let Some(result) = result {
            if let Some(token) = receiving.waiting.take() {
                let result = match result {
                    Ok(mut chunk) if chunk.len() > receiving.max as usize => {
                        let first = chunk.split_to(receiving.max as usize);
                        receiving.ahead.push_back(Ok(chunk));
                        self.has_pooled_ahead = true;
                        Ok(first)
                    }
                    result => result,
                };
                return self.completions.finish(token, result.map(Done::Received));
            }
            receiving.ahead.push_back(result);
            self.has_pooled_ahead = true;
            if receiving.ahead.len() >= RECEIVE_AHEAD
                && let Some(user_data) = receiving.armed
            {
                self.abort(user_data);
            }
            return;
        }
        if receiving.waiting.is_some() && receiving.armed.is_none() {
            if starved {
                receiving.starved = true;
                self.starved.push_back(socket);
            } else {
                self.arm(socket);
            }
        }
    }

    /// Provides returned buffers to the kernel, and restarts receives that found none: as many as there are buffers, or
    /// all of them before the thread sleeps. (All are restarted then, because a restarted receive that gets no bytes
    /// must not prevent another one that would get some.)
    pub(crate) fn replenish(&mut self, all: bool) {
        self.buffers.give();
        if self.starved.is_empty() {
            return;
        }
        if self.buffers.pool().with_driver() == 0 {
            self.relinquish();
            self.buffers.give();
        }
        let free = self.buffers.pool().with_driver();
        let count = if all && free > 0 { self.starved.len() } else { free.min(self.starved.len()) };
        for _ in 0..count {
            let socket = self.starved.pop_front().expect("counted");
            if let Some(state) = self.sockets.get_mut(socket) {
                state.receiving.starved = false;
            }
            self.arm(socket);
        }
    }

    /// Copies bytes that nothing has requested yet out of the pool, so that they do not block receives that requests
    /// wait for. It checks the sockets only if there may be such bytes, because each submission calls this while all
    /// buffers are lent.
    fn relinquish(&mut self) {
        if !std::mem::take(&mut self.has_pooled_ahead) {
            return;
        }
        for state in self.sockets.values_mut() {
            for chunk in state.receiving.ahead.iter_mut().flatten() {
                chunk.detach();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use crate::uring::Uring;
    use crate::{Config, Driver, Request, Token};

    /// A sender can fill only a bounded amount of memory before the bytes are requested.
    #[test]
    fn running_ahead_is_bounded() {
        let Ok(mut uring) = Uring::open(&Config::default()) else {
            return println!("skipped: no io_uring");
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = uring.adopt(listener.accept().unwrap().0.into()).unwrap();
        uring.start(Token(1), Request::Receive { socket, max: usize::MAX });
        uring.submit().unwrap();
        let writer = std::thread::spawn(move || peer.write_all(&vec![1; 1 << 20]));
        let mut max_chunks = 0;
        for _ in 0..50 {
            uring.park(Some(Duration::from_millis(2))).unwrap();
            uring.reap(&mut Vec::new()).unwrap();
            max_chunks = max_chunks.max(uring.sockets.get(socket).unwrap().receiving.ahead.len());
        }
        // The limit and one more run, if the kernel limits runs; otherwise twice the kernel's 32 receives in a row.
        assert!((1..=4 + 2 * 32).contains(&max_chunks), "{max_chunks} chunks");
        drop(uring);
        let _ = writer.join();
    }

    /// While all buffers are lent, a submission checks all sockets only if unrequested bytes have arrived since.
    #[test]
    fn unrequested_bytes_are_searched_for_once() {
        let Ok(mut uring) = Uring::open(&Config { buffers: 2, ..Config::default() }) else {
            return println!("skipped: no io_uring");
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut pair = |token| {
            let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let socket = uring.adopt(listener.accept().unwrap().0.into()).unwrap();
            uring.start(Token(token), Request::Receive { socket, max: usize::MAX });
            peer
        };
        let (mut first, mut second) = (pair(1), pair(2));
        let mut chunks = Vec::new();
        let mut turn = |uring: &mut Uring| {
            uring.park(Some(Duration::from_millis(1))).unwrap();
            uring.reap(&mut chunks).unwrap();
            chunks.len()
        };
        first.write_all(b"a").unwrap();
        while turn(&mut uring) < 1 {}
        // Nothing has requested this byte.
        first.write_all(b"b").unwrap();
        while !uring.has_pooled_ahead {
            turn(&mut uring);
        }
        second.write_all(b"c").unwrap();
        while turn(&mut uring) < 2 {}
        assert_eq!((uring.buffers_lent(), uring.has_pooled_ahead), (2, false));
    }
}
