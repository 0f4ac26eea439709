//! The valid ranges of numeric options.

use super::Runtime;
use crate::program::RunError;

// The crates core and driver enforce the same bounds.
const MAX_PROCESSORS: u64 = 1024;
const MAX_BUFFERS: u64 = 32_768;
const MAX_BUFFER_SIZE: u64 = 1 << 24;

impl Runtime {
    /// Checks all options that have a range.
    pub(super) fn check_ranges(&self) -> Result<(), RunError> {
        let config = &self.worker.config;
        let values = [
            ("processors", self.processors as u64, MAX_PROCESSORS),
            ("receive_buffers(count)", config.buffers.into(), MAX_BUFFERS),
            ("receive_buffers(bytes)", config.buffer_size.into(), MAX_BUFFER_SIZE),
        ];
        let wrong = values.into_iter().find(|(_, value, most)| !(1..=*most).contains(value));
        match wrong {
            None => Ok(()),
            Some((option, value, most)) => Err(RunError::OutOfRange { option, value, most }),
        }
    }
}
