//! Lets a session send directly through its connection, without waking an operation.

/// The sender of a connection, while it waits for output of its session.
pub(crate) trait WaitingSender {
    /// Sends `bytes` if no other output is pending and the socket accepts at least part of them immediately. Returns
    /// false if nothing was sent.
    fn send_now(&self, bytes: &[u8]) -> bool;
}
