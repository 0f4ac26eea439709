//! Descriptors that connections may not take: a broker whose last one went to a client could turn nobody away, and whoever came
//! then would wait in the kernel's queue without a word.

use rustix::process::{Resource, getrlimit};

use crate::config::Config;

/// What every broker has open, its journal included; and what a processor needs: its driver, its listeners, and
/// connections that are being told that there is no place.
const PROGRAM: u64 = 64;
const PROCESSOR: u64 = 256;

/// Lowers `max-connections` to what the process may have open, less a reserve.
pub(crate) fn reserve(config: &mut Config) {
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        let most = left(limit, config.runtime.processors as u64);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        config.limits.connections = config.limits.connections.min(most.max(1));
    }
}

/// Of so many descriptors, those that are for connections; half at least.
fn left(limit: u64, processors: u64) -> u64 {
    limit - (PROGRAM + PROCESSOR * processors).min(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_connection_has_its_share() {
        assert_eq!(left(20_000, 2), 20_000 - 576);
        assert_eq!(left(1024, 4), 512, "half of what is there");
        assert_eq!(left(0, 2), 0);
        let mut config = Config::new();
        config.limits.connections = 3;
        reserve(&mut config);
        assert_eq!(config.limits.connections, 3, "as asked for, where that is less");
        config.limits.connections = usize::MAX;
        reserve(&mut config);
        assert!(config.limits.connections < usize::MAX);
    }
}
