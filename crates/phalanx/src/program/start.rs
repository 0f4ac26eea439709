//! The arguments of a program's start function.

use phalanx_core::Control;
use phalanx_driver::DriverKind;

use super::error::StartError;
use crate::cores::ActiveProcessors;

/// A program's `start`, which each processor calls.
pub(crate) type StartFn<'a> = dyn Fn(&StartContext) -> Result<(), StartError> + Send + Sync + 'a;

/// The argument of a program's `start`, which identifies the processor and gives access to the program.
pub struct StartContext {
    index: usize,
    control: Control,
    active: ActiveProcessors,
}

impl StartContext {
    pub(crate) fn new(index: usize, control: Control, active: ActiveProcessors) -> Self {
        Self { index, control, active }
    }

    /// The processor's number, from zero.
    pub fn processor(&self) -> usize {
        self.index
    }

    /// Controls the program.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// The number of active processors.
    pub fn active(&self) -> ActiveProcessors {
        self.active.clone()
    }
}

/// A program whose processors have all started.
pub struct Started {
    /// Controls the program.
    pub control: Control,
    /// The number of active processors.
    pub active: ActiveProcessors,
    /// The driver of all processors.
    pub driver: DriverKind,
    /// The reason why the preferred driver is not used, as one line for the log.
    pub fallback: Option<String>,
    /// The address of the admin pages.
    #[cfg(feature = "admin")]
    pub admin: Option<std::net::SocketAddr>,
}
