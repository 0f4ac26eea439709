//! The way from a session to its connection without an operation in between.

/// The sender of a connection, while it waits for output of its session.
pub(crate) trait WaitingSender {
    /// Sends `bytes` if nothing has to be sent before them and the connection takes the first of them at once. Returns false
    /// if none was sent.
    fn send_now(&self, bytes: &[u8]) -> bool;
}
