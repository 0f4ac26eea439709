//! Socket options of streams.

use std::io;

use phalanx_driver::Keepalive;

use super::Stream;

impl Stream {
    /// Enables or disables `TCP_NODELAY`, with which each write is sent immediately. It is enabled by default for
    /// connections of [`connect`](Self::connect) and for those accepted from sockets of [`bind`](super::bind()).
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`; a Unix stream does not have the option.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.set_nodelay(socket, nodelay))
    }

    /// Enables or disables `TCP_CORK`: bytes that do not fill a segment wait for more, for the end of the stream, or
    /// for 200 ms. If it is enabled before the last write, the end of the stream is sent in the same segment as the
    /// last bytes. Only Linux supports it; elsewhere this has no effect.
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`; a Unix stream does not have the option.
    pub fn set_cork(&self, cork: bool) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.set_cork(socket, cork))
    }

    /// Enables or disables TCP keepalive, which is disabled by default.
    ///
    /// ```
    /// use phalanx::net::{IoTimeout, Keepalive, Listener, Stream, bind};
    /// use std::time::Duration;
    ///
    /// #[phalanx::main(processors = 1)]
    /// async fn main() -> std::io::Result<()> {
    ///     # let listener = Listener::new(bind("127.0.0.1:0".parse().unwrap(), 1)?.remove(0))?;
    ///     # let address = listener.local_addr()?;
    ///     let stream = Stream::connect(address, IoTimeout::after(Duration::from_secs(5))).await?;
    ///     // Detects within 90 s that the peer is gone, even if nothing is sent.
    ///     let (idle, interval) = (Duration::from_secs(60), Duration::from_secs(10));
    ///     stream.set_keepalive(Some(Keepalive { idle, interval, count: 3 }))?;
    ///     stream.set_nodelay(false)?; // small writes may wait for the acknowledgement of earlier ones
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`; a Unix stream does not have the option.
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.set_keepalive(socket, keepalive))
    }

    /// Lets the end of the connection be a reset: when the stream is dropped, bytes that the peer has not acknowledged
    /// are discarded. Otherwise the kernel keeps them, for minutes if the peer does not read.
    ///
    /// # Errors
    /// The errors of `setsockopt(2)`.
    pub fn reset_on_close(&self) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.reset_on_close(socket))
    }
}
