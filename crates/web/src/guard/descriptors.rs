//! Descriptors that connections may not take, so that there are some for files: a server whose last
//! descriptor went to a client has nothing to show it.

use rustix::process::{Resource, getrlimit};

use crate::config::Config;

/// What every program has open, and what a processor needs beside its connections: its driver, its
/// listener, files that are just being opened, connections that are being turned away.
const PROGRAM: u64 = 64;
const PROCESSOR: u64 = 256;

/// Lowers `max_connections` to what the process may have open, less a reserve for files.
pub(crate) fn reserve(config: &mut Config) {
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        let reserve = reserved(limit, config.open_files as u64, config.runtime.processors as u64);
        let left = usize::try_from(limit - reserve).unwrap_or(usize::MAX);
        config.max_connections = config.max_connections.min(left.max(1));
    }
}

/// Of so many descriptors, those that no connection gets; half at most.
fn reserved(limit: u64, open_files: u64, processors: u64) -> u64 {
    (PROGRAM + open_files + PROCESSOR * processors).min(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_their_share() {
        assert_eq!(reserved(20_000, 256, 2), 832);
        assert_eq!(reserved(1024, 256, 4), 512, "half of what is there");
        assert_eq!(reserved(64, 256, 2), 32);
        assert_eq!(reserved(0, 256, 2), 0);
        let mut config = Config { max_connections: 3, ..Config::new() };
        reserve(&mut config);
        assert_eq!(config.max_connections, 3, "as asked for, where that is less");
        config.max_connections = usize::MAX;
        reserve(&mut config);
        assert!(config.max_connections < usize::MAX);
    }
}
