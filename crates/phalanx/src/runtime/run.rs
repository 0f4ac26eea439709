//! Running a graph: starts the threads, and supervises them to their end.

#[cfg(feature = "admin")]
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::time::Instant;

use phalanx_core::{Graph, ProcessorBuilder};
use phalanx_driver::choose_for;

use super::{PlacementMode, Runtime};
#[cfg(feature = "admin")]
use crate::admin;
use crate::admin::Admin;
use crate::cores::{ActiveProcessors, Seats};
use crate::diagnostics::{DeadlockDetector, StallCounts, StallDetector};
use crate::io::{Loads, Placement, active_changed};
use crate::machine::declare_machine;
use crate::program::{ExitReport, RunError, StartContext, StartError, StartFn, Started};
use crate::scaling::{Automatic, Scaler};
use crate::supervisor::{Signals, Supervised, SupervisorIdle, supervise};
use crate::worker::WorkerThread;

impl Runtime {
    /// Runs `graph`. Calls `start` on each processor, which should start the first operations. Returns when every
    /// operation has ended, the kernel has returned all buffers, and the threads of blocking stages have exited. The
    /// [`ExitReport`] lists leaks; normally there are none.
    ///
    /// # Errors
    /// [`RunError`] lists the errors. Among others, running fails if no driver is available or can be opened, an option
    /// is out of range, the admin address is in use, or `start` fails or panics on a processor, which also ends the
    /// other processors. [`RunError::Nested`] if called on a processor's thread, which the call would block.
    ///
    /// # Panics
    /// If the declaration of `graph` is incomplete; [`Graph::build`] lists the cases.
    pub fn run<F>(self, graph: Graph, start: F) -> Result<ExitReport, RunError>
    where
        F: Fn(&StartContext) -> Result<(), StartError> + Send + Sync,
    {
        self.run_with_ready(graph, start, |_| ())
    }

    /// Like [`run`](Self::run), but calls `ready` when every processor has started.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    ///
    /// # Panics
    /// Like [`run`](Self::run). If `ready` panics, the panic propagates after the program has ended.
    pub fn run_with_ready<F>(
        self,
        graph: Graph,
        start: F,
        ready: impl FnOnce(&Started),
    ) -> Result<ExitReport, RunError>
    where
        F: Fn(&StartContext) -> Result<(), StartError> + Send + Sync,
    {
        self.run_graph(graph, &start, Box::new(ready))
    }

    /// [`run_with_ready`](Self::run_with_ready) without type parameters, so that only this crate compiles the loop of a
    /// processor.
    fn run_graph(
        self,
        mut graph: Graph,
        start: &StartFn<'_>,
        ready: Box<dyn FnOnce(&Started) + '_>,
    ) -> Result<ExitReport, RunError> {
        if crate::io::is_entered() {
            return Err(RunError::Nested);
        }
        self.check_ranges()?;
        let profiled = self.profiling_setting()?;
        let mode = if profiled.is_some() { PlacementMode::Off } else { self.placement };
        let chosen = choose_for(self.driver, &self.worker.config, self.processors);
        let (kind, fallback) = chosen.map_err(RunError::Driver)?;
        let profile = self.read_profile(kind)?;
        #[cfg(feature = "admin")]
        let admin = self.admin.map(|address| Admin::declare(&mut graph, address)).transpose()?;
        #[cfg(not(feature = "admin"))]
        let admin: Option<Admin> = None;
        let cores = declare_machine(&mut graph, self.cache_bytes);
        let builders = graph.build(self.processors);
        let control = builders[0].control();
        // The admin stage is identified by its position, which is the last, because a stage of the program may have the
        // same name.
        let admin_stage = admin.as_ref().map(|_| control.stages().count() - 1);
        let calls: Vec<_> = builders.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
        let ids = || builders.iter().map(ProcessorBuilder::id);
        let started = Started {
            control: control.clone(),
            active: ActiveProcessors::new(
                ids(),
                Some(Seats::new(self.processors, self.pin)),
                self.worker.idle_limits(),
                active_changed,
            ),
            driver: kind,
            fallback,
            #[cfg(feature = "admin")]
            admin: admin.as_ref().map(Admin::address),
        };
        let (active, loads) = (started.active.clone(), Loads::Measured(control.clone()));
        let placement = Placement::new(ids(), cores, active.clone(), loads);
        let epoch = Instant::now();
        let stalls = StallCounts::new(&control);
        let watch = (!self.stall_threshold.is_zero())
            .then(|| StallDetector::new(self.stall_threshold, &control, stalls.clone()));
        let deadlocks = watch.is_some().then(DeadlockDetector::default);
        let automatic = Automatic::new(mode, self.min_active, placement.saturated(), profile);
        let is_polled = watch.is_some() || automatic.is_some();
        let idle = is_polled.then(|| SupervisorIdle::new(self.processors));
        #[cfg(feature = "admin")]
        if let (Some(admin), Some(stage)) = (&admin, admin_stage) {
            admin.describe(admin::Source {
                stage,
                control: control.clone(),
                driver: kind,
                epoch,
                run: RandomState::new().hash_one(epoch),
                system_calls: calls.clone(),
                stalls,
                pages: self.admin_pages.clone(),
                metrics: Automatic::register(
                    automatic.as_deref(),
                    placement.register(self.metrics.clone()),
                ),
                active: active.clone(),
                placement: placement.clone(),
                automatic: automatic.clone(),
                hosts: admin::Hosts::new(self.admin_hosts.clone()),
            });
        }
        let (events, inbox) = channel();
        let _signals = if self.signals {
            Some(Signals::listen(events.clone()).map_err(RunError::Signals)?)
        } else {
            None
        };
        std::thread::scope(|scope| {
            let (mut running, mut spawned) = (0, Ok(()));
            for (builder, calls) in builders.into_iter().zip(calls) {
                let (events, admin) = (events.clone(), admin.as_ref());
                let thread =
                    std::thread::Builder::new().name(format!("processor-{}", builder.index()));
                let idle = idle.clone();
                let saturation =
                    automatic.as_ref().map(|automatic| automatic.probe(builder.index()));
                let (placement, active) = (placement.clone(), active.clone());
                let options = &self.worker;
                let worker = WorkerThread {
                    builder,
                    kind,
                    epoch,
                    calls,
                    idle,
                    saturation,
                    placement,
                    active,
                    options,
                };
                match thread.spawn_scoped(scope, move || worker.run(&events, admin, start)) {
                    Ok(_) => running += 1,
                    Err(error) => {
                        control.end();
                        spawned = Err(RunError::Thread(error));
                        break;
                    }
                }
            }
            drop(events);
            let starting = self.processors;
            let scaler = automatic.map(|automatic| {
                Scaler::new(automatic, &control, active, placement, epoch, admin_stage)
            });
            let supervised = Supervised {
                starting,
                running,
                drain: self.shutdown_timeout,
                stalls: watch,
                deadlocks,
                scaler,
                idle,
                exits: self.signals,
            };
            let result = supervise(supervised, &inbox, &control, || {
                if let Some(setting) = profiled.and_then(|profiled| profiled.setting) {
                    started.active.apply(setting);
                }
                ready(&started);
            });
            spawned.and(result)
        })
    }
}
