//! The cancellation of a statement that takes too long. The server does not notice that a connection is closed before it
//! sends something.

use bytes::BytesMut;
use phalanx::net::IoTimeout;
use phalanx::timeout;
use postgres_protocol::message::frontend;

use super::wire;
use crate::config::Config;
use crate::error::Fault;

/// The key of a server process, with which another connection cancels its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CancelKey {
    process: i32,
    secret: i32,
}

impl CancelKey {
    /// The key in the body of a message. `None` for one of another protocol version.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let (process, rest) = body.split_first_chunk()?;
        let secret = rest.try_into().ok()?;
        Some(Self { process: i32::from_be_bytes(*process), secret: i32::from_be_bytes(secret) })
    }

    /// Cancels the statement. If the server cannot be reached, it continues.
    pub(super) async fn cancel(self, config: &Config) {
        let limit = config.connect_timeout;
        let _ = timeout(limit, Box::pin(self.send(config))).await;
    }

    async fn send(self, config: &Config) -> Result<(), Fault> {
        let wire = Box::pin(wire::open(config)).await?;
        let mut message = BytesMut::new();
        frontend::cancel_request(self.process, self.secret, &mut message);
        wire.write(Vec::from(message), IoTimeout::NONE).await?;
        // The server answers nothing, and closes the connection when it has processed the request.
        wire.read(&mut Vec::new(), IoTimeout::NONE).await?;
        Ok(())
    }
}
