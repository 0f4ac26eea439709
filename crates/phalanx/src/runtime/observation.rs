//! Options of a runtime for observing a program: reports of stalls and panics, the admin pages, and the program's own
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
    /// Enables reports of operations that run for longer than `limit` without suspending. A line on stderr names the
    /// processor, the stage and the operation, once while the operation is running and once when it has ended.
    /// Snapshots count such operations as `stalled`. The default is
    /// [`DEFAULT_STALL_THRESHOLD`](super::DEFAULT_STALL_THRESHOLD). Detection takes at most 1.5 times the limit, and up
    /// to a second longer for the first operation after all processors were asleep.
    ///
    /// This also enables reports of operations that [wait for each other](crate::metrics::WaitCycle) in a cycle. The
    /// runtime looks for such cycles when no cohort has run for a second, and when a drain has reached its time limit.
    /// [`Duration::ZERO`] disables both.
    ///
    /// ```
    /// use std::time::Duration;
    /// use phalanx::Runtime;
    ///
    /// // A server that must answer within 10 ms reports longer operations.
    /// let runtime = Runtime::new().processors(1).stall_threshold(Duration::from_millis(10));
    /// # runtime.block_on(|_| (), async |()| ()).unwrap();
    /// ```
    #[must_use]
    pub fn stall_threshold(mut self, limit: Duration) -> Self {
        self.stall_threshold = limit;
        self
    }

    /// Calls `hook` for each panic that ended an operation, a cohort handler or a stage's hook. The call is made on the
    /// processor's thread after the cohort. A line on stderr and a `tracing` event report the same panic. The hook must
    /// not block; a panic in it is caught.
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

    /// Serves the admin pages at this address: a live view at `/`, `/snapshot.json`, `/metrics`, `/graph.dot` and
    /// `/trace.json`. Every client that can connect can see the program's load, so use a loopback address.
    #[cfg(feature = "admin")]
    #[must_use]
    pub fn admin(mut self, address: Option<SocketAddr>) -> Self {
        self.admin = address;
        self
    }

    /// Sets the host names that the admin pages accept in addition to IP addresses and `localhost`, without ports, such
    /// as the name that a Prometheus server uses. Requests for other hosts get the status 403; otherwise a web page
    /// could read the admin pages by resolving its own name to their address (DNS rebinding). The default is none.
    #[cfg(feature = "admin")]
    #[must_use]
    pub fn admin_hosts<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.admin_hosts = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds the program's own pages to the admin pages: `handler` answers requests for `prefix`, such as `/kv`, and for
    /// paths below it. The handler runs as an operation on one processor. The same hosts and origins are accepted as
    /// for the other pages. The handler must authenticate clients itself.
    ///
    /// ```
    /// use phalanx::Runtime;
    /// use phalanx::runtime::{AdminRequest, AdminResponse};
    ///
    /// /// `GET /kv/size`
    /// async fn page(request: AdminRequest) -> AdminResponse {
    ///     match (&*request.method, &*request.path) {
    ///         ("GET", "/size") => AdminResponse::new("200 OK", "text/plain", "17\n"),
    ///         _ => AdminResponse::new("404 Not Found", "text/plain", "no such page\n"),
    ///     }
    /// }
    ///
    /// let runtime = Runtime::new().admin("127.0.0.1:8081".parse().ok()).admin_pages("/kv", page);
    /// # let _ = runtime;
    /// ```
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
    /// If a metric with the same name is already registered.
    #[must_use]
    pub fn register_times(mut self, times: &Times) -> Self {
        self.metrics.add_times(times);
        self
    }

    /// Adds the counters of `family`, including those that are created later, to `/snapshot.json` and `/metrics`.
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

    /// Adds the gauges of `family`, including those that are created later, to `/snapshot.json` and `/metrics`.
    ///
    /// # Panics
    /// If a metric of another type has the same name.
    #[must_use]
    pub fn register_gauges(mut self, family: &Family<Gauge>) -> Self {
        self.metrics.add_gauges(family);
        self
    }
}
