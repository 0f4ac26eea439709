//! Driver calls by destructors while the driver is borrowed.
//!
//! The driver may drop a payload, whose destructor may drop a stream or a request. The driver cannot be called again at
//! that moment, so the call is stored and made after the next reap.

use std::net::Shutdown;

use phalanx_driver::{Socket, Token};

use super::Io;

/// A call of the driver that was deferred.
pub(super) enum Deferred {
    Close(Socket),
    ShutdownWrite(Socket),
    Cancel(usize),
}

impl Io {
    /// Closes a socket.
    pub(super) fn close(&self, socket: Socket) {
        self.call(Deferred::Close(socket));
    }

    /// Shuts down the write direction of a socket. Errors are ignored, because the connection may already have ended.
    pub(super) fn shutdown_write(&self, socket: Socket) {
        self.call(Deferred::ShutdownWrite(socket));
    }

    /// Cancels a request. It stays in flight until it completes.
    pub(super) fn cancel(&self, key: usize) {
        self.call(Deferred::Cancel(key));
    }

    /// Makes the deferred calls.
    pub(super) fn run_deferred(&self) {
        while !self.deferred.borrow().is_empty() {
            self.deferred.take().into_iter().for_each(|call| self.call(call));
        }
    }

    fn call(&self, call: Deferred) {
        match (self.driver.try_borrow_mut(), call) {
            (Ok(mut driver), Deferred::Close(socket)) => driver.close(socket),
            (Ok(mut driver), Deferred::ShutdownWrite(socket)) => {
                let _ = driver.shutdown(socket, Shutdown::Write);
            }
            (Ok(mut driver), Deferred::Cancel(key)) => driver.cancel(Token(key as u64)),
            (Err(_), call) => self.deferred.borrow_mut().push(call),
        }
    }
}
