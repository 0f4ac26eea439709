//! The byte stream of a connection: plain or TLS.

use std::io;
use std::net::SocketAddr;

use phalanx::net::{IoTimeout, Stream};
use phalanx::time::now;
use phalanx_tls as tls;

use super::tls::Tls;

/// A connection to the server.
pub(crate) struct Wire(tls::Wire);

impl Wire {
    /// Connects and performs the handshake, if any; `timeout` covers both.
    pub(crate) async fn connect(
        address: SocketAddr,
        tls: Option<&Tls>,
        timeout: IoTimeout,
    ) -> io::Result<Self> {
        let begun = now();
        let stream = Stream::connect(address, timeout).await?;
        let Some(tls) = tls else { return Ok(Self(stream.into())) };
        let sealed = tls.connect(stream, timeout.remaining(now() - begun)).await?;
        Ok(Self(tls::Wire::Tls(Box::new(sealed))))
    }

    /// Whether the handshake has resumed an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        matches!(&self.0, tls::Wire::Tls(sealed) if sealed.is_resumed())
    }

    /// Waits for bytes and appends them to `buffer`. Returns their number; zero is the end of the stream.
    pub(crate) async fn read(
        &mut self,
        buffer: &mut Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<usize> {
        match self.0.read(buffer, timeout).await {
            // The end of TCP without that of TLS. The load detects the truncation of answers of known length; others end
            // with the connection.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }

    /// Waits for bytes, discards the first `skip` of them and returns their number; later bytes may be appended
    /// to `buffer`. Zero is the end of the stream.
    pub(crate) async fn skip(
        &mut self,
        skip: u64,
        buffer: &mut Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<u64> {
        if let tls::Wire::Plain(stream) = &self.0 {
            return stream.skip(skip, buffer, timeout).await;
        }
        let before = buffer.len();
        let came = self.read(buffer, timeout).await?;
        let skipped = usize::try_from(skip).map_or(came, |skip| skip.min(came));
        buffer.drain(before..before + skipped);
        Ok(skipped as u64)
    }

    /// Sends all of `bytes` and returns the empty buffer.
    pub(crate) async fn write(
        &mut self,
        bytes: Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<Vec<u8>> {
        self.0.write(bytes, timeout).await
    }
}
