//! Accepted connections that wait for a worker.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::{Condvar, Mutex, PoisonError};

/// A FIFO queue. Only the limit on open files bounds it.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<VecDeque<TcpStream>>,
    any: Condvar,
}

impl Queue {
    pub(super) fn push(&self, connection: TcpStream) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(connection);
        self.any.notify_one();
    }

    /// Waits for a connection.
    pub(super) fn pop(&self) -> TcpStream {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = waiting.pop_front() {
                return connection;
            }
            waiting = self.any.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
