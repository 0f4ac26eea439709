//! Reports of panics in the program's code that a processor has contained.

use std::any::Any;
use std::fmt;
use std::panic::Location;

use crate::error::CallError;
use crate::handle::migration::Forwarded;
use crate::metrics::watch::Site;
use crate::processor::processor::Processor;
use crate::processor::remote::call::panicked;

/// The report of a panic in an operation, a cohort's handler or a hook of a stage:
/// [`World::panicked`](crate::World::panicked) gets it. Rust's own panic hook has the line of the
/// `panic!`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicReport {
    /// The stage's name.
    pub stage: &'static str,
    /// The type name of the operation: the path of the function whose `async` block or body it is;
    /// of a cohort's handler the items' type. Good for people, not for comparing.
    pub operation: &'static str,
    /// Where the program invoked it: the file and line of the `call` or `dispatch`, for a cohort's
    /// handler that of the last item, for a hook that of its declaration.
    pub site: &'static Location<'static>,
    /// The panic's message; a fixed text if its payload is not text.
    pub message: Box<str>,
}

/// `stage "work": program::parse (src/main.rs:12:9) panicked: no such field`
impl fmt::Display for PanicReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, operation, site, message } = self;
        write!(f, "stage \"{stage}\": {operation} ({site}) panicked: {message}")
    }
}

impl Processor {
    /// Keeps a report until the end of the cohort, which passes it to the world. Returns the error for
    /// the caller. The panic of an operation elsewhere is reported by its own processor.
    #[cold]
    pub(crate) fn note_panic(
        &self,
        stage: u8,
        operation: &'static str,
        site: Site,
        panic: &(dyn Any + Send),
    ) -> CallError {
        let error = panicked(self, stage, panic);
        if let CallError::Panicked { stage, message } = &error
            && !panic.is::<Forwarded>()
        {
            let report = PanicReport { stage, operation, site, message: message.clone() };
            self.direct.panics.borrow_mut().push(report);
        }
        error
    }
}
