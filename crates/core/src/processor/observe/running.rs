//! The operations that the processors of a program currently run.

use std::fmt;
use std::panic::Location;

use crate::brief::Brief;
use crate::metrics::watch::Watch;
use crate::processor::{self, processor::Processor};
use crate::program::control::Control;
use crate::program::processor_id::ProcessorId;

/// A snapshot of the operation that a processor is running; see [`Control::running`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// The stage's name.
    pub stage: &'static str,
    /// The type name of the operation's future, which is the path of the function that contains the `async` block.
    /// `None` between two operations. It depends on the compiler version and is meant for display only.
    pub operation: Option<&'static str>,
    /// The location of the `call` or `dispatch` that invoked the operation. `None` between two operations. For a cohort
    /// handler, the location of one of its items.
    pub site: Option<&'static Location<'static>>,
    /// The number of cohorts that this processor has begun. If two snapshots have the same number, the processor has
    /// not left this cohort in between.
    pub cohort: u64,
}

/// `stage "work": program::busy (src/main.rs:12:9)`
impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, operation, site, .. } = self;
        write!(f, "stage \"{stage}\": {}", Brief(operation.unwrap_or("an operation")))?;
        site.map_or(Ok(()), |site| write!(f, " ({site})"))
    }
}

impl ProcessorId {
    /// The processor that this thread currently runs, if any.
    ///
    /// ```
    /// # let processor = phalanx_core::Graph::new().build(1).remove(0).build(Box::new(|| ()));
    /// use phalanx_core::ProcessorId;
    ///
    /// assert_eq!(ProcessorId::current(), None);
    /// processor.enter(|| assert_eq!(ProcessorId::current(), Some(processor.id())));
    /// ```
    #[inline]
    pub fn current() -> Option<Self> {
        processor::try_current(Processor::id)
    }
}

impl Control {
    /// The operation that each processor is running, by processor index; `None` if it runs no cohort.
    ///
    /// The values are read without synchronisation and may be inconsistent. They are good enough to find an operation
    /// that runs too long.
    pub fn running(&self) -> impl Iterator<Item = Option<Running>> + '_ {
        let read = |watch: &Watch| {
            let (stage, cohort, operation) = watch.read()?;
            let (operation, site) = operation.unzip();
            Some(Running { stage: self.0.stages[stage].name, operation, site, cohort })
        };
        self.0.counters.iter().map(move |counters| read(&counters.watch))
    }
}
