//! Descriptors that connections may not take: a server whose last one went to a client has nothing to show it, and could
//! turn away nobody: whoever came then would wait in the kernel's queue without a word.

use rustix::process::{Resource, getrlimit};

use crate::RuntimeConfig;

/// What every program has open; and what a processor needs beside its connections: its driver, its listeners, files that
/// are just being opened, connections that are being turned away.
const PROGRAM: u64 = 64;
const PROCESSOR: u64 = 256;

impl RuntimeConfig {
    /// How many connections there may be at a time, one at least: `wanted`, or as many as the process may have open less a
    /// reserve, in which there is room for `files` that are kept open.
    pub fn room_for_connections(&self, wanted: usize, files: usize) -> usize {
        let Some(limit) = getrlimit(Resource::Nofile).current else { return wanted };
        let left = limit - reserved(limit, files as u64, self.workers as u64);
        wanted.min(usize::try_from(left).unwrap_or(usize::MAX).max(1))
    }
}

/// Of so many descriptors, those that no connection gets; half at most.
fn reserved(limit: u64, files: u64, processors: u64) -> u64 {
    (PROGRAM + files + PROCESSOR * processors).min(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_connection_has_its_share() {
        assert_eq!(reserved(20_000, 256, 2), 832);
        assert_eq!(reserved(20_000, 0, 2), 576);
        assert_eq!(reserved(1024, 256, 4), 512, "half of what is there");
        assert_eq!(reserved(64, 256, 2), 32);
        assert_eq!(reserved(0, 256, 2), 0);
        let runtime = RuntimeConfig::default();
        assert_eq!(runtime.room_for_connections(3, 256), 3, "as asked for, where that is less");
        assert!(runtime.room_for_connections(usize::MAX, 256) < usize::MAX);
    }
}
