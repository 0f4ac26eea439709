//! Options of a runtime that make it observable: reports of stalls and panics, the admin pages, and the program's own
//! metrics.

#[cfg(feature = "admin")]
use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::PanicReport;

use super::Runtime;
#[cfg(feature = "admin")]
use super::{AdminRequest, AdminResponse};
use crate::diagnostics::PanicHook;
use crate::metrics::{Counter, Family, Gauge, Times};

impl Runtime {
    /// Reports operations that run for longer than `limit` without suspending. A line on stderr names the
    /// processor, the stage and the operation, once while the operation runs and once when it has ended; the
    /// snapshot counts them (`stalled`). The default is [`DEFAULT_STALL_THRESHOLD`](super::DEFAULT_STALL_THRESHOLD). Detection takes at most
    /// one and a half times the limit, and up to a second longer for the first operation after a pause in which all
    /// processors slept.
    ///
    /// Also reports operations that [wait for each other](crate::metrics::WaitCycle) in a cycle: when no cohort has
    /// run for a second, and when a drain has reached its limit. [`Duration::ZERO`] disables both.
    ///
    /// ```
    /// use std::time::Duration;
    /// use phalanx::Runtime;
    ///
    /// // A server that must answer within 10 ms wants to know of longer operations.
    /// let runtime = Runtime::new().processors(1).stall_threshold(Duration::from_millis(10));
    /// # runtime.block_on(|_| (), async |()| ()).unwrap();
    /// ```
    #[must_use]
    pub fn stall_threshold(mut self, limit: Duration) -> Self {
        self.stall_threshold = limit;
        self
    }

    /// Calls `hook` for each panic that ended an operation, a cohort's handler or a stage's hook, on the
    /// processor's thread after the cohort. A line on stderr and a `tracing` event report the same panic. The
    /// hook must not block; a panic in the hook is caught.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use phalanx::{Graph, Runtime};
    ///
    /// static PANICS: AtomicU64 = AtomicU64::new(0);
    /// let mut graph = Graph::new();
    /// let work = graph.shared("work", ());
    /// let runtime = Runtime::new().processors(1).on_panic(|report| {
    ///     assert_eq!((report.stage, &*report.message), ("work", "by intent"));
    ///     PANICS.fetch_add(1, Ordering::Relaxed);
    /// });
    /// runtime.run(graph, move |start| {
    ///     let control = start.control();
    ///     work.dispatch(move |_| async move {
    ///         control.drain();
    ///         panic!("by intent"); // nobody waits for it
    ///     })?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(PANICS.load(Ordering::Relaxed), 1);
    /// # Ok::<(), phalanx::runtime::RunError>(())
    /// ```
    #[must_use]
    pub fn on_panic(mut self, hook: impl Fn(&PanicReport) + Send + Sync + 'static) -> Self {
        self.worker.panics = PanicHook::new(hook);
        self
    }

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

    /// Adds `counter` to `/snapshot.json` and `/metrics`, unless one with its name and label is registered already.
    ///
    /// # Panics
    /// If a metric of another type has the same name.
    #[must_use]
    pub fn register_counter(mut self, counter: &Counter) -> Self {
        self.metrics.add_counter(counter);
        self
    }

    /// Adds `gauge` to `/snapshot.json` and `/metrics`, unless one with its name and label is registered already.
    ///
    /// # Panics
    /// If a metric of another type has the same name.
    #[must_use]
    pub fn register_gauge(mut self, gauge: &Gauge) -> Self {
        self.metrics.add_gauge(gauge);
        self
    }

    /// Adds `times` to `/snapshot.json` and `/metrics`.
    ///
    /// # Panics
    /// If a metric of another type has the same name, or if the name is taken.
    #[must_use]
    pub fn register_times(mut self, times: &Times) -> Self {
        self.metrics.add_times(times);
        self
    }

    /// Adds the counters of `family`, also those that are added later, to `/snapshot.json` and `/metrics`.
    ///
    /// # Panics
    /// If a metric of another type has the same name.
    #[must_use]
    pub fn register_counters(mut self, family: &Family<Counter>) -> Self {
        self.metrics.add_counters(family);
        self
    }

    /// Adds the series of `recorder` to `/metrics`. See [`Recorder`](crate::metrics::Recorder).
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn recorder(mut self, recorder: &crate::metrics::Recorder) -> Self {
        self.metrics.set_recorder(recorder);
        self
    }

    /// Adds the gauges of `family`, also those that are added later, to `/snapshot.json` and `/metrics`.
    ///
    /// # Panics
    /// If a metric of another type has the same name.
    #[must_use]
    pub fn register_gauges(mut self, family: &Family<Gauge>) -> Self {
        self.metrics.add_gauges(family);
        self
    }
}
