//! Keys that can change while the server runs.

use phalanx_config::differences;

use crate::config::Config;

/// Keys that a reload applies; all others keep their values until a restart. A new key is not reloadable
/// until it is added here.
const CHANGE: [&str; 9] = [
    "listen",
    "h2c",
    "unknown-host",
    "max-connections",
    "health",
    "limits",
    "timeouts",
    "per-address",
    "host",
];

impl Config {
    /// Keys that differ from the `running` configuration and require a restart.
    pub(crate) fn needs_restart(&self, running: &Self) -> Vec<String> {
        let mut keys = differences(&self.to_table(), &running.to_table());
        keys.retain(|key| !CHANGE.contains(&key.split('.').next().unwrap_or_default()));
        keys
    }

    /// This configuration, with the values of `running` for keys that require a restart.
    pub(crate) fn over(self, running: &Self) -> Self {
        Self {
            listen: self.listen,
            h2c: self.h2c,
            unknown_host: self.unknown_host,
            max_connections: self.max_connections,
            health: self.health,
            limits: self.limits,
            timeouts: self.timeouts,
            per_address: self.per_address,
            hosts: self.hosts,
            ..running.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchangeable_keys_are_reported() {
        let running = Config::new();
        let mut new = Config::of("elsewhere");
        new.timeouts.idle *= 2;
        assert!(new.needs_restart(&running).is_empty());
        (new.cache_bytes, new.runtime.workers) = (7, 3);
        new.access_log = Some(Default::default());
        let mut keys = new.needs_restart(&running);
        keys.sort();
        assert_eq!(keys, ["access-log", "cache", "runtime.workers"]);
        let over = new.clone().over(&running);
        assert_eq!((over.cache_bytes, &over.runtime), (running.cache_bytes, &running.runtime));
        assert_eq!((&over.hosts, over.timeouts), (&new.hosts, new.timeouts));
    }

    /// Each key is either reloadable or reported.
    #[test]
    fn every_key_is_reloadable_or_reported() {
        let mut keys = Config::keys();
        keys.retain(|key| CHANGE.contains(&key.split('.').next().unwrap_or_default()));
        for known in CHANGE {
            assert!(keys.iter().any(|key| key.split('.').next() == Some(known)), "{known}");
        }
    }
}
