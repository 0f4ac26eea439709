//! The leaks of a program that has ended.

use std::time::Duration;

/// The result of [`Runtime::run`](crate::Runtime::run).
///
/// ```
/// use phalanx::{Graph, Runtime};
///
/// let mut graph = Graph::new();
/// let stage = graph.shared("stage", ());
/// let report = Runtime::new().processors(2).run(graph, move |start| {
///     start.control().drain();
///     stage.dispatch(|_| async {})?;
///     Ok(())
/// })?;
/// assert_eq!(report.processors.len(), 2);
/// assert!(report.is_clean(), "{:?}", report.processors);
/// # Ok::<(), phalanx::runtime::RunError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExitReport {
    /// Leaks by processor.
    pub processors: Vec<Leaks>,
}

/// The resources that a processor had not released when it ended. All counts are zero unless the runtime has a bug or a
/// device did not complete cancelled requests within two seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaks {
    /// Operations in the slab.
    pub operations: usize,
    /// Armed timers.
    pub timers: usize,
    /// Requests that the driver has not completed.
    pub requests: usize,
    /// Operations that wait for the drain.
    pub draining: usize,
    /// Receive buffers that were not returned.
    pub buffers: usize,
}

impl ExitReport {
    /// Whether there are no leaks on any processor.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.processors.iter().all(|left| *left == Leaks::default())
    }
}

/// The time for which the runtime waits for the kernel to complete cancelled requests.
pub(crate) const SETTLING: Duration = Duration::from_secs(2);
