//! The thread of one processor, from opening its driver to releasing its last buffer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use phalanx_core::{Phase, ProcessorBuilder};
use phalanx_driver::{Config, DriverKind};

use super::thread_scope::ThreadScope;
use super::wake_prefetch::WakePrefetch;
use super::world::{DriverWorld, SupervisorLink};
use crate::admin::Admin;
use crate::cores::ActiveProcessors;
use crate::diagnostics::PanicHook;
use crate::io::{Io, Placement, SaturationProbe};
use crate::machine::with_region;
use crate::nanoseconds::nanoseconds;
use crate::program::{Leaks, RunError, SETTLING, StartContext, StartFn};
use crate::supervisor::{Event, SupervisorIdle};

/// Options of the threads of all processors, which [`Runtime`](crate::Runtime) documents.
#[derive(Debug)]
pub(crate) struct WorkerOptions {
    pub(crate) config: Config,
    pub(crate) spin: Duration,
    pub(crate) coalesce: Duration,
    pub(crate) region: usize,
    pub(crate) panics: PanicHook,
    pub(crate) scope: ThreadScope,
    pub(crate) prefetches: bool,
}

impl WorkerOptions {
    pub(crate) fn new(spin: Duration, region: usize) -> Self {
        Self {
            config: Config::default(),
            spin,
            coalesce: Duration::ZERO,
            region,
            panics: PanicHook::default(),
            scope: ThreadScope::default(),
            prefetches: false,
        }
    }

    /// The maximum times of spinning and coalescing, in nanoseconds.
    pub(crate) fn idle_limits(&self) -> (u64, u64) {
        (nanoseconds(self.spin), nanoseconds(self.coalesce))
    }
}

/// The parameters of one processor's thread.
pub(crate) struct WorkerThread<'a> {
    pub(crate) builder: ProcessorBuilder,
    pub(crate) kind: DriverKind,
    pub(crate) epoch: Instant,
    pub(crate) calls: Arc<AtomicU64>,
    pub(crate) idle: Option<Arc<SupervisorIdle>>,
    pub(crate) saturation: Option<SaturationProbe>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) active: ActiveProcessors,
    pub(crate) options: &'a WorkerOptions,
}

impl WorkerThread<'_> {
    pub(crate) fn run(self, events: &Sender<Event>, admin: Option<&Admin>, start: &StartFn<'_>) {
        let (index, scope) = (self.builder.index(), &self.options.scope);
        let (mut worker, mut outcome) = (Some(self), None);
        let result = catch_unwind(AssertUnwindSafe(|| {
            scope.enter(&mut || {
                // A second call has no effect.
                if let Some(worker) = worker.take() {
                    outcome = Some(worker.serve(events, admin, start));
                }
            });
        }));
        let outcome = match (worker, outcome, result) {
            (Some(_), _, Err(_)) | (None, Some(Ok(_)), Err(_)) => {
                Err(RunError::ScopePanicked(index))
            }
            (Some(_), _, Ok(())) => Err(RunError::ScopeNotCalled(index)),
            (None, Some(outcome), _) => outcome,
            (None, None, _) => Err(RunError::Processor(index)),
        };
        let _ = events.send(Event::Exited(index, outcome));
    }

    fn serve(
        self,
        events: &Sender<Event>,
        admin: Option<&Admin>,
        start: &StartFn<'_>,
    ) -> Result<Leaks, RunError> {
        let Self { builder, kind, epoch, calls, idle, saturation, placement, active, options } =
            self;
        let (index, control) = (builder.index(), builder.control());
        let _seated = active.occupy(index);
        let driver = phalanx_driver::open(kind, &options.config)
            .map_err(|source| RunError::OpenDriver { processor: index, source })?;
        let unparker = driver.unparker();
        let io = Io::new(placement, index, driver, Some(epoch));
        let _entered = io.enter();
        let builder = with_region(options.region, builder);
        let processor = builder.build(Box::new(move || unparker.unpark()));
        let panics = options.panics.clone();
        let supervisor =
            SupervisorLink { processor: index, events: events.clone(), idle, panics, saturation };
        let mut prefetch = WakePrefetch::new(options.prefetches);
        prefetch.add(&processor);
        prefetch.add(&*io);
        let world = DriverWorld::new(
            io.clone(),
            epoch,
            control.clone(),
            calls,
            supervisor,
            active.clone(),
            prefetch,
        );
        let begin = || -> Result<(), RunError> {
            if let (0, Some(admin)) = (index, admin) {
                admin.start()?;
            }
            let context = StartContext::new(index, control.clone(), active.clone());
            let started = catch_unwind(AssertUnwindSafe(|| start(&context)));
            started.map_err(|_| RunError::StartPanicked(index))??;
            Ok(())
        };
        let started = processor.enter(begin);
        if started.is_ok() {
            let _ = events.send(Event::Started);
            processor.run(&world, options.idle_limits().0);
        }
        let (operations, timers) = (processor.live(), processor.timers());
        // Drop order: the processor's operations, their requests, the driver.
        drop(processor);
        let is_ending = || control.phase() == Phase::Ending;
        let settled = io.settle(is_ending, SETTLING);
        let settled = settled.map_err(|source| RunError::Settle { processor: index, source });
        let leaks = Leaks { operations, timers, ..io.leaks() };
        started.and(settled).map(|()| leaks)
    }
}
