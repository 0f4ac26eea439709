//! How large a driver is.

use std::io;

/// The sizes of one driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Submission queue entries (uring) or events taken at a time (poll). More requests than this
    /// may be in flight; it bounds what one system call carries.
    pub entries: u32,
    /// Receive buffers. When all are in use, receives wait. At most 32768.
    pub buffers: u16,
    /// Bytes in a receive buffer, so also the most that one receive gives.
    pub buffer_size: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { entries: 256, buffers: 512, buffer_size: 8192 }
    }
}

impl Config {
    /// # Errors
    /// `InvalidInput` for sizes that no driver can have.
    pub(crate) fn check(&self) -> io::Result<()> {
        let fits = (1..=32768).contains(&self.entries)
            && (1..=32768).contains(&self.buffers)
            && (1..=1 << 24).contains(&self.buffer_size);
        if fits {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("impossible {self:?}")))
        }
    }
}
