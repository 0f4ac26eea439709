//! Listening sockets that whoever started the process has opened for it: systemd's socket activation
//! (sd_listen_fds(3)).
//!
//! They are there before the server is, so who connects while it starts, or starts again, waits and is
//! not refused; and the server needs no right to bind their ports.

use std::env;
use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;
use socket2::SockRef;

use crate::config::Listen;

/// Sockets to listen on, open already.
#[derive(Debug, Default)]
pub struct Inherited(Vec<(Listen, TcpListener)>);

impl Inherited {
    /// Those that the environment says are for this process: `LISTEN_FDS` and `LISTEN_PID`, and their
    /// names in `LISTEN_FDNAMES`. A socket by the name of `tls` is for TLS, one by the name of `redirect-https`
    /// to send clients there; all others are for HTTP. None where the environment says nothing.
    ///
    /// # Errors
    /// When one of them is no TCP socket that listens: the error names it.
    pub fn of_environment() -> io::Result<Self> {
        let mut handed = ListenFd::from_env();
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let sockets = (0..handed.len()).map(|n| {
            let name = names.next().unwrap_or_default();
            let wrong = |why: String| {
                let what = format!("the socket {n} ({name:?}) that was handed over: {why}");
                io::Error::new(io::ErrorKind::InvalidInput, what)
            };
            let expected = || wrong("expected one of TCP that listens".to_owned());
            let socket = handed.take_tcp_listener(n).map_err(|error| wrong(error.to_string()))?;
            let socket = socket.ok_or_else(expected)?;
            if !SockRef::from(&socket).is_listener()? {
                return Err(expected());
            }
            let address = socket.local_addr().map_err(|error| wrong(error.to_string()))?;
            // As of our own: accepted connections inherit it.
            SockRef::from(&socket).set_tcp_nodelay(true)?;
            let listen = match name {
                "tls" => Listen::tls(address),
                "redirect-https" => Listen::redirect_https(address),
                _ => Listen::plain(address),
            };
            Ok((listen, socket))
        });
        Ok(Self(sockets.collect::<io::Result<_>>()?))
    }

    /// What a configuration is to have for [`Config::listen`](crate::Config::listen), if there are any.
    pub fn listen(&self) -> Option<Vec<Listen>> {
        (!self.0.is_empty()).then(|| self.0.iter().map(|(listen, _)| *listen).collect())
    }

    /// Takes the socket that listens at `address` out, once for each of `processors`: they accept from
    /// one queue.
    pub(crate) fn take(
        &mut self,
        address: SocketAddr,
        processors: usize,
    ) -> Option<io::Result<Vec<TcpListener>>> {
        let at = self.0.iter().position(|(listen, _)| listen.address == address)?;
        let (_, socket) = self.0.remove(at);
        let others = (1..processors).map(|_| socket.try_clone());
        let mut sockets = match others.collect::<io::Result<Vec<_>>>() {
            Ok(sockets) => sockets,
            Err(error) => return Some(Err(error)),
        };
        sockets.push(socket);
        Some(Ok(sockets))
    }
}
