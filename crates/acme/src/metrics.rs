//! Metrics.

use std::time::Duration;

use phalanx::metrics::{Counter, Gauge};

/// Metrics of the certificates. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) issued: Counter,
    pub(crate) failed: Counter,
    pub(crate) managed: Gauge,
    pub(crate) missing: Gauge,
    pub(crate) expiry: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let orders = |result| {
            let help = "Orders of certificates at the ACME authority, by result.";
            Counter::with_label("acme_orders", help, ("result", result))
        };
        Self {
            issued: orders("issued"),
            failed: orders("failed"),
            managed: Gauge::new(
                "acme_certificates",
                "Certificates that come from an ACME authority.",
            ),
            missing: Gauge::new(
                "acme_certificates_missing",
                "Certificates that come from an ACME authority and are missing, expired, or lack a name.",
            ),
            expiry: Gauge::new(
                "acme_certificates_expiry_timestamp_seconds",
                "End of validity of the first of these certificates to expire, in seconds since 1970; 0 if there is none.",
            ),
        }
    }

    /// Sets the gauges: the numbers of certificates and of unusable ones, and when the first one expires, as a time
    /// since 1970.
    pub(crate) fn set_certificates(&self, managed: usize, missing: usize, expiry: Duration) {
        self.managed.set(managed as i64);
        self.missing.set(missing as i64);
        self.expiry.set(expiry.as_secs() as i64);
    }

    /// All counters.
    pub fn counters(&self) -> [&Counter; 2] {
        [&self.issued, &self.failed]
    }

    /// All gauges.
    pub fn gauges(&self) -> [&Gauge; 3] {
        [&self.managed, &self.missing, &self.expiry]
    }
}
