//! Listening sockets inherited from the parent process: systemd socket activation (sd_listen_fds(3)).
//!
//! The sockets exist before the server does. Clients that connect while it starts or restarts wait instead of
//! being refused, and the server needs no privilege to bind low ports.

use std::env;
use std::io;
use std::net::TcpListener;

use listenfd::ListenFd;
use socket2::SockRef;

use crate::address::ListenAddress;
use crate::listen::{Listen, Scheme, scheme};

/// Inherited listening sockets.
#[derive(Debug)]
pub struct Inherited<S>(Vec<(Listen<S>, TcpListener)>);

impl<S> Default for Inherited<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Scheme> Inherited<S> {
    /// Takes the sockets passed to this process in `LISTEN_FDS` and `LISTEN_PID`, with their names in
    /// `LISTEN_FDNAMES`. The name of a socket is a scheme, such as `https`; any other name means the first
    /// scheme. Without these variables there are none.
    ///
    /// # Errors
    /// If one of them is not a listening TCP socket; the error names it.
    pub fn of_environment() -> io::Result<Self> {
        let mut fds = ListenFd::from_env();
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let sockets = (0..fds.len()).map(|n| {
            let name = names.next().unwrap_or_default();
            let invalid = |reason: String| {
                let message = format!("inherited socket {n} ({name:?}): {reason}");
                io::Error::new(io::ErrorKind::InvalidInput, message)
            };
            let expected = || invalid("expected a listening TCP socket".to_owned());
            let socket = fds.take_tcp_listener(n).map_err(|error| invalid(error.to_string()))?;
            let socket = socket.ok_or_else(expected)?;
            if !SockRef::from(&socket).is_listener()? {
                return Err(expected());
            }
            let address = socket.local_addr().map_err(|error| invalid(error.to_string()))?;
            // Same as for the server's own sockets; accepted connections inherit the option.
            SockRef::from(&socket).set_tcp_nodelay(true)?;
            let (scheme, proxied) = scheme(name).unwrap_or((S::ALL[0].1, false));
            Ok((Listen { address: address.into(), scheme, proxied }, socket))
        });
        Ok(Self(sockets.collect::<io::Result<_>>()?))
    }

    /// The configuration's list of addresses, if there are inherited sockets.
    pub fn listen(&self) -> Option<Vec<Listen<S>>> {
        (!self.0.is_empty()).then(|| self.0.iter().map(|(listen, _)| *listen).collect())
    }

    /// One duplicate per processor of the socket bound to `address`, if there is one. All processors then accept from one
    /// queue.
    pub(super) fn duplicates(
        &self,
        address: ListenAddress,
        processors: usize,
    ) -> Option<io::Result<Vec<TcpListener>>> {
        let (_, socket) = self.0.iter().find(|(listen, _)| listen.address == address)?;
        Some((0..processors).map(|_| socket.try_clone()).collect())
    }

    /// Closes the socket bound to `address`, if there is one.
    pub(super) fn close(&mut self, address: ListenAddress) {
        self.0.retain(|(listen, _)| listen.address != address);
    }

    #[cfg(test)]
    pub(super) fn of(sockets: Vec<(Listen<S>, TcpListener)>) -> Self {
        Self(sockets)
    }
}
