//! Descriptors reserved for purposes other than connections. Without a reserve, connections could use up all
//! descriptors; the server could then neither open files nor accept a connection in order to reject it.

use rustix::process::{Resource, getrlimit};

use crate::runtime::RuntimeConfig;

/// Descriptors reserved for the process, and for each worker: its driver, its listeners, files being opened,
/// and connections being rejected.
const RESERVED_PER_PROCESS: u64 = 64;
const RESERVED_PER_WORKER: u64 = 256;

impl RuntimeConfig {
    /// The largest possible connection limit up to `configured`, at least 1: the process's descriptor limit minus
    /// a reserve that includes `files` kept open.
    pub fn connection_limit(&self, configured: usize, files: usize) -> usize {
        let Some(limit) = getrlimit(Resource::Nofile).current else { return configured };
        let available = limit - reserved(limit, files as u64, self.workers as u64);
        configured.min(usize::try_from(available).unwrap_or(usize::MAX).max(1))
    }
}

/// The maximum number of files to keep open, of at most `configured`: a quarter of the process's descriptor limit.
pub fn file_limit(configured: usize) -> usize {
    getrlimit(Resource::Nofile).current.map_or(configured, |limit| files(limit, configured))
}

/// The same for this `limit`.
fn files(limit: u64, configured: usize) -> usize {
    configured.min(usize::try_from(limit / 4).unwrap_or(usize::MAX))
}

/// Descriptors out of `limit` that connections must not use; at most half.
fn reserved(limit: u64, files: u64, workers: u64) -> u64 {
    (RESERVED_PER_PROCESS + files + RESERVED_PER_WORKER * workers).min(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_reserved() {
        assert_eq!([files(20_000, 4096), files(1024, 4096), files(1024, 7)], [4096, 256, 7]);
        assert_eq!(reserved(20_000, 256, 2), 832);
        assert_eq!(reserved(20_000, 0, 2), 576);
        assert_eq!(reserved(1024, 256, 4), 512, "at most half of the limit");
        assert_eq!(reserved(64, 256, 2), 32);
        assert_eq!(reserved(0, 256, 2), 0);
        let runtime = RuntimeConfig::default();
        assert_eq!(runtime.connection_limit(3, 256), 3, "the wanted limit, if it is lower");
        assert!(runtime.connection_limit(usize::MAX, 256) < usize::MAX);
    }
}
