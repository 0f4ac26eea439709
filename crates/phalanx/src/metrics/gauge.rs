//! Gauges of the program, published with the metrics of the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::Counter;
use super::family::Member;

/// A gauge of the program: a current value, such as a number of connections, published in `/snapshot.json` and
/// `/metrics` after [`Runtime::register_gauge`](crate::Runtime::register_gauge). Clones share the value.
///
/// ```
/// use phalanx::metrics::Gauge;
/// use phalanx::Runtime;
///
/// let connections = Gauge::new("kv_connections", "Current connections.");
/// let runtime = Runtime::new().register_gauge(&connections);
/// connections.add(2);
/// connections.clone().add(-1);
/// assert_eq!(connections.get(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Shared>);

/// The shared data. It is behind one pointer, because operations store clones.
#[derive(Debug)]
struct Shared {
    name: &'static str,
    help: &'static str,
    label: Option<(&'static str, Arc<str>)>,
    value: AtomicI64,
}

impl Gauge {
    /// Creates a gauge at zero. `help` is one sentence.
    ///
    /// # Panics
    /// Like [`Counter::new`].
    pub fn new(name: &'static str, help: &'static str) -> Self {
        // The same rules apply to the name and the help of a counter.
        let _ = Counter::new(name, help);
        Self(Arc::new(Shared { name, help, label: None, value: AtomicI64::new(0) }))
    }

    /// Adds `more`, which may be negative. This is one atomic operation, so do not call it for each operation of a hot
    /// path.
    pub fn add(&self, more: i64) {
        self.0.value.fetch_add(more, Ordering::Relaxed);
    }

    /// Sets the value.
    pub fn set(&self, value: i64) {
        self.0.value.store(value, Ordering::Relaxed);
    }

    /// The current value. Concurrent updates may not be included.
    pub fn get(&self) -> i64 {
        self.0.value.load(Ordering::Relaxed)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.name
    }

    pub(crate) fn label(&self) -> Option<(&'static str, &str)> {
        self.0.label.as_ref().map(|(name, value)| (*name, &**value))
    }

    pub(crate) fn help(&self) -> &'static str {
        self.0.help
    }
}

impl Member for Gauge {
    fn labelled(&self, label: &'static str, value: Arc<str>) -> Self {
        let Shared { name, help, .. } = *self.0;
        let label = Some((label, value));
        Self(Arc::new(Shared { name, help, label, value: AtomicI64::new(0) }))
    }
}
