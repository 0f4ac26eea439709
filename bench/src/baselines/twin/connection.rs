//! A connection with blocking calls, of a thread or of a fibre.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use phalanx::fibre::net::Stream;
use phalanx::net::IoTimeout;

pub(super) trait Connection: Read + Write {
    /// Sends small packets at once, and limits each read and each write.
    fn prepare(&self, timeout: Duration) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn prepare(&self, timeout: Duration) -> io::Result<()> {
        self.set_nodelay(true)?;
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

/// Its listeners set `TCP_NODELAY`.
impl Connection for Stream {
    fn prepare(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(IoTimeout::after(timeout));
        self.set_write_timeout(IoTimeout::after(timeout));
        Ok(())
    }
}
