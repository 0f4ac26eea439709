//! Options of a runtime that make it observable: the admin pages, and the program's own metrics.

#[cfg(feature = "admin")]
use std::net::SocketAddr;

use super::Runtime;
#[cfg(feature = "admin")]
use super::{AdminRequest, AdminResponse};
use crate::metrics::{Counter, Family, Gauge};

impl Runtime {
    /// Serves the admin pages at this address: a live view at `/`, `/snapshot.json`, `/metrics`, `/graph.dot`
    /// and `/trace.json`. They show the program's load to every client that can connect, so use a loopback
    /// address.
    #[cfg(feature = "admin")]
    #[must_use]
    pub fn admin(mut self, address: Option<SocketAddr>) -> Self {
        self.admin = address;
        self
    }

    /// Host names that the admin pages accept in addition to IP addresses and `localhost`: names without
    /// ports, such as the one that a Prometheus server uses. Requests for another host get 403: otherwise a
    /// web page could read the admin pages by resolving its own name to them (DNS rebinding). The default is
    /// none.
    #[cfg(feature = "admin")]
    #[must_use]
    pub fn admin_hosts<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.admin_hosts = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds pages of the program to the admin pages: requests for `prefix`, such as `/kv`, and for paths below it are
    /// answered by `handler`. It runs as an operation on one processor, and the same hosts and origins are accepted as
    /// for the other pages. It has to authenticate clients itself.
    #[cfg(feature = "admin")]
    #[must_use]
    pub fn admin_pages<F: Future<Output = AdminResponse> + 'static>(
        mut self,
        prefix: &'static str,
        handler: impl Fn(AdminRequest) -> F + Send + Sync + 'static,
    ) -> Self {
        self.admin_pages.add(prefix, handler);
        self
    }

    /// Adds `counter` to `/snapshot.json` and `/metrics`.
    #[must_use]
    pub fn register_counter(mut self, counter: &Counter) -> Self {
        self.metrics.add_counter(counter);
        self
    }

    /// Adds `gauge` to `/snapshot.json` and `/metrics`.
    #[must_use]
    pub fn register_gauge(mut self, gauge: &Gauge) -> Self {
        self.metrics.add_gauge(gauge);
        self
    }

    /// Adds the counters of `family`, also those that are added later, to `/snapshot.json` and `/metrics`.
    #[must_use]
    pub fn register_counters(mut self, family: &Family<Counter>) -> Self {
        self.metrics.add_counters(family);
        self
    }

    /// Adds the gauges of `family`, also those that are added later, to `/snapshot.json` and `/metrics`.
    #[must_use]
    pub fn register_gauges(mut self, family: &Family<Gauge>) -> Self {
        self.metrics.add_gauges(family);
        self
    }
}
