//! Connecting: `connect(2)` is called at the next attempt, and the first writable event completes the request.

use std::io;

use socket2::Type;

use super::{Pending, Poll};
use crate::{Address, Done, Driver, Socket};

impl Poll {
    pub(super) fn begin_connects(&mut self) {
        for (token, address) in std::mem::take(&mut self.connects) {
            self.completions.pending.remove(token);
            match self.begin_connect(&address) {
                Ok(socket) => {
                    let state = self.sockets.get_mut(socket).expect("it is new");
                    state.writable = false;
                    state.connecting = Some(token);
                    self.completions.pending.insert(token, Pending::Connecting(socket));
                }
                Err(error) => self.completions.finish(token, Err(error)),
            }
        }
    }

    /// Starts connecting a new socket. The socket is registered after `connect(2)`, because the kernel
    /// reports a socket that is neither connected nor connecting as closed.
    fn begin_connect(&mut self, address: &Address) -> io::Result<Socket> {
        self.calls += 3;
        let kernel_address = address.to_kernel()?;
        let domain = kernel_address.domain();
        let socket = socket2::Socket::new(domain, Type::STREAM, address.protocol())?;
        socket.set_nonblocking(true)?;
        #[cfg(target_vendor = "apple")]
        socket.set_nosigpipe(true)?;
        match socket.connect(&kernel_address) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        self.register(socket.into(), matches!(address, Address::Unix(_)))
    }

    /// Handles the first writable event of `socket`: the connection is established or has failed.
    pub(super) fn end_connect(&mut self, socket: Socket) {
        let state = self.sockets.get_mut(socket).expect("the caller looked");
        let token = state.connecting.expect("the caller looked");
        self.calls += 2;
        let peer = socket2::SockRef::from(&state.fd);
        let failure = match (peer.take_error(), peer.peer_addr()) {
            (Ok(Some(error)), _) | (Err(error), _) => error,
            (Ok(None), Ok(_)) => {
                state.connecting = None;
                return self.completions.finish(token, Ok(Done::Connected(socket)));
            }
            // A spurious event: the connection is still in progress.
            (Ok(None), Err(error)) if error.raw_os_error() == Some(libc::ENOTCONN) => {
                state.writable = false;
                return;
            }
            (Ok(None), Err(error)) => error,
        };
        state.connecting = None;
        self.close(socket);
        self.completions.finish(token, Err(failure));
    }
}
