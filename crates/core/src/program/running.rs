//! What the processors of a program run at the moment.

use std::fmt;
use std::panic::Location;

use crate::metrics::watch::Watch;
use crate::program::program::Control;

/// What one processor was running at the moment of the look; see [`Control::running`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// The stage's name.
    pub stage: &'static str,
    /// The type name of the operation's future: the path of the function whose `async` block or
    /// body it is. `None` between two operations. Good for people, not for comparing over versions
    /// of the compiler.
    pub operation: Option<&'static str>,
    /// Where the program invoked it: the file and line of the `call` or `dispatch`. `None` between
    /// two operations. For a cohort's handler that of one of its items.
    pub site: Option<&'static Location<'static>>,
    /// Counts the cohorts of this processor: the same number in two looks means that the processor
    /// has been in this one cohort all the while.
    pub cohort: u64,
}

/// `stage "work": program::busy (src/main.rs:12:9)`
impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, operation, site, .. } = self;
        write!(f, "stage \"{stage}\": {}", operation.unwrap_or("an operation"))?;
        site.map_or(Ok(()), |site| write!(f, " ({site})"))
    }
}

impl Control {
    /// What each processor runs just now; `None` where no cohort runs. By processor.
    ///
    /// A look from outside at counters that are written without waiting for anyone: good enough to
    /// find an operation that does not come to an end, and no more.
    pub fn running(&self) -> Vec<Option<Running>> {
        let look = |watch: &Watch| {
            let (stage, cohort, operation) = watch.look()?;
            let (operation, site) = operation.unzip();
            Some(Running { stage: self.0.stages[stage].name, operation, site, cohort })
        };
        self.0.counters.iter().map(|counters| look(&counters.watch)).collect()
    }
}
