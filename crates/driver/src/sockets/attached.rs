//! Connections that another driver has accepted, until an accept returns them.

use std::collections::VecDeque;

use crate::Socket;

/// Attached connections in order of their arrival, each with the listener whose accept returns it.
#[derive(Default)]
pub(crate) struct Attached(VecDeque<(Socket, Socket)>);

impl Attached {
    pub(crate) fn push(&mut self, listener: Socket, connection: Socket) {
        self.0.push_back((listener, connection));
    }

    /// Takes the oldest connection of `listener`.
    pub(crate) fn take(&mut self, listener: Socket) -> Option<Socket> {
        let at = self.0.iter().position(|(waits_for, _)| *waits_for == listener)?;
        self.0.remove(at).map(|(_, connection)| connection)
    }
}
