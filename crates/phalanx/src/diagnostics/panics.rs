//! Reports of panics that ended an operation: on stderr, to `tracing`, and to the program's hook.

use std::fmt;
use std::sync::Arc;

use phalanx_core::{PanicReport, catch_panic};

use super::tracing_events;

type Hook = Arc<dyn Fn(&PanicReport) + Send + Sync>;

/// The program's hook, if any.
#[derive(Clone, Default)]
pub(crate) struct PanicHook(Option<Hook>);

impl PanicHook {
    pub(crate) fn new(hook: impl Fn(&PanicReport) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Reports a panic to all three. Subscribers and the hook are foreign code; a panic in one does not affect the
    /// other.
    pub(crate) fn report(&self, report: &PanicReport) {
        super::report(report);
        tracing_events::panicked(report);
        if let Some(hook) = &self.0 {
            catch_panic(|| hook(report));
        }
    }
}

impl fmt::Debug for PanicHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "PanicHook(..)" } else { "PanicHook(none)" })
    }
}
