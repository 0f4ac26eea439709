//! The configuration of a driver.

use std::io;

/// The sizes of one driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Submission queue entries (uring), or events per wait (poll). It bounds one system call; the number of
    /// requests in flight may be larger.
    pub entries: u32,
    /// Receive buffers, at most 32,768. When all are in use, receives wait.
    pub buffers: u16,
    /// Bytes in a receive buffer, and thus the maximum size of one receive.
    pub buffer_size: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { entries: 256, buffers: 512, buffer_size: 8192 }
    }
}

impl Config {
    /// # Errors
    /// `InvalidInput` for a size outside its range.
    pub(crate) fn check(&self) -> io::Result<()> {
        let sizes = [
            ("entries", self.entries, 32_768),
            ("buffers", self.buffers.into(), 32_768),
            ("buffer_size", self.buffer_size, 1 << 24),
        ];
        match sizes.into_iter().find(|(_, size, max)| !(1..=*max).contains(size)) {
            None => Ok(()),
            Some((name, size, max)) => {
                let message =
                    format!("Config::{name} is {size}, but must be in the range 1 to {max}");
                Err(io::Error::new(io::ErrorKind::InvalidInput, message))
            }
        }
    }
}
