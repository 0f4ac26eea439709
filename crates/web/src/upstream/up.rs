//! The results of health checks in the metrics.
//!
//! Several rules may check the same server. Its gauge is 1 if all of these checks succeed, and disappears with the last
//! rule.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use phalanx::metrics::{Family, Gauge};

use crate::config::Upstream;

/// The gauges of all checked servers. Clones share them.
#[derive(Clone)]
pub(super) struct UpGauges {
    pub(super) family: Family<Gauge>,
    checks: Arc<Mutex<HashMap<String, Checks>>>,
}

/// Number of checks of one server that have a result, and number of those that have failed.
#[derive(Default)]
struct Checks {
    all: usize,
    failed: usize,
}

impl UpGauges {
    pub(super) fn new() -> Self {
        let help = "Whether all health checks of a server succeed, by server.";
        Self { family: Family::gauges("http_upstream_up", help, "server"), checks: Arc::default() }
    }

    /// Another check of a server, without a result yet.
    pub(super) fn check(&self, server: &Upstream) -> CheckGauge {
        CheckGauge { gauges: self.clone(), server: server.to_string(), is_up: None }
    }

    /// Replaces the result of one check in the gauge.
    fn change(&self, server: &str, before: Option<bool>, after: Option<bool>) {
        let mut all = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let checks = all.entry(server.to_owned()).or_default();
        checks.all = checks.all + usize::from(after.is_some()) - usize::from(before.is_some());
        checks.failed =
            checks.failed + usize::from(after == Some(false)) - usize::from(before == Some(false));
        if checks.all == 0 {
            all.remove(server);
            self.family.remove(server);
        } else {
            self.family.member(server).set((checks.failed == 0).into());
        }
    }
}

/// The result of one check. Dropping it removes the result.
pub(super) struct CheckGauge {
    gauges: UpGauges,
    server: String,
    is_up: Option<bool>,
}

impl CheckGauge {
    pub(super) fn set(&mut self, is_up: bool) {
        let before = self.is_up.replace(is_up);
        self.gauges.change(&self.server, before, self.is_up);
    }
}

impl Drop for CheckGauge {
    fn drop(&mut self) {
        if self.is_up.is_some() {
            self.gauges.change(&self.server, self.is_up, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_checks_of_a_server() {
        let gauges = UpGauges::new();
        let server: Upstream = "http://a".parse().unwrap();
        let found = || -> Vec<i64> { gauges.family.members().iter().map(Gauge::get).collect() };
        let (mut one, mut other) = (gauges.check(&server), gauges.check(&server));
        assert!(found().is_empty(), "no result");
        one.set(true);
        assert_eq!(found(), [1]);
        other.set(false);
        one.set(true);
        assert_eq!(found(), [0], "one has failed");
        drop(other);
        assert_eq!(found(), [1], "its rule is removed");
        drop(one);
        assert!(found().is_empty(), "so is the last one");
    }
}
