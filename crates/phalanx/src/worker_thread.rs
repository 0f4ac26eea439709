//! The thread of one processor, from opening its driver to releasing its last buffer.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use std::time::Instant;

use phalanx_core::{Control, ProcessorBuilder};
use phalanx_driver::DriverKind;

use crate::active::ActiveProcessors;
use crate::admin::Admin;
use crate::error::{RunError, StartError};
use crate::exit_report::{Leaks, SETTLING};
use crate::io::{Io, Placement};
use crate::region;
use crate::runtime::Runtime;
use crate::scaling::SaturationProbe;
use crate::supervisor::Event;
use crate::supervisor_idle::SupervisorIdle;
use crate::world::{DriverWorld, SupervisorLink};

/// Argument of a program's `start`: the processor, and a handle to the program.
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
    /// Why the preferred driver is not used, as one line for the log.
    pub fallback: Option<String>,
    /// Address of the admin pages.
    #[cfg(feature = "admin")]
    pub admin: Option<std::net::SocketAddr>,
}

/// The parameters of one processor's thread.
pub(crate) struct WorkerThread<'a> {
    pub(crate) seed: ProcessorBuilder,
    pub(crate) kind: DriverKind,
    pub(crate) epoch: Instant,
    pub(crate) calls: Arc<AtomicU64>,
    pub(crate) idle: Option<Arc<SupervisorIdle>>,
    pub(crate) saturation: Option<SaturationProbe>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) active: ActiveProcessors,
    pub(crate) runtime: &'a Runtime,
}

impl WorkerThread<'_> {
    pub(crate) fn run<F>(self, events: &Sender<Event>, admin: Option<&Admin>, start: &F)
    where
        F: Fn(&StartContext) -> Result<(), StartError>,
    {
        let (index, scope) = (self.seed.index(), &self.runtime.thread_scope);
        let (mut worker, mut outcome) = (Some(self), None);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scope.enter(&mut || {
                outcome = worker.take().map(|worker| worker.serve(events, admin, start));
            });
        }));
        // If the scope did not call its argument, no processor has started.
        let outcome = caught.ok().and(outcome).unwrap_or(Err(RunError::Processor(index)));
        let _ = events.send(Event::Exited(index, outcome));
    }

    fn serve<F>(
        self,
        events: &Sender<Event>,
        admin: Option<&Admin>,
        start: &F,
    ) -> Result<Leaks, RunError>
    where
        F: Fn(&StartContext) -> Result<(), StartError>,
    {
        let Self { seed, kind, epoch, calls, idle, saturation, placement, active, runtime } = self;
        let (index, control) = (seed.index(), seed.control());
        let _seated = active.sit(index);
        let driver = phalanx_driver::open(kind, &runtime.config).map_err(RunError::Driver)?;
        let unparker = driver.unparker();
        let io = Io::new(placement, index, driver);
        let _entered = io.enter();
        let seed = region::with_region(runtime.region, seed);
        let processor = seed.build(Box::new(move || unparker.unpark()));
        let panics = runtime.panics.clone();
        let supervisor =
            SupervisorLink { processor: index, events: events.clone(), idle, panics, saturation };
        let world =
            DriverWorld::new(io.clone(), epoch, control.clone(), calls, supervisor, runtime.gather);
        let begin = || {
            if let (0, Some(admin)) = (index, admin) {
                admin.start()?;
            }
            start(&StartContext::new(index, control.clone(), active.clone()))
        };
        let started = processor.enter(begin).map_err(RunError::from);
        if started.is_ok() {
            let _ = events.send(Event::Started);
            processor.run(&world, runtime.spin.as_nanos() as u64);
        }
        let (operations, timers) = (processor.live(), processor.timers());
        // Drop order: the processor's operations, their requests, the driver.
        drop(processor);
        let settled = io.settle(SETTLING).map_err(RunError::Driver);
        let left = Leaks { operations, timers, ..io.left() };
        started.and(settled).map(|()| left)
    }
}
