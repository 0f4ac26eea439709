//! The [`World`] of a real processor: its driver and the monotonic clock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use phalanx_core::{Control, PanicReport, Phase, World};

use super::coalescing::Coalescing;
use super::sleep_cost::SleepCost;
use super::wake_prefetch::WakePrefetch;
use crate::cores::ActiveProcessors;
use crate::diagnostics::PanicHook;
use crate::diagnostics::tracing_events;
use crate::io::{Io, SaturationProbe};
use crate::supervisor::{Event, SupervisorIdle};

/// The minimum wait of coalescing that counts as idle. In a shorter wait, the driver only took completions that had
/// already arrived.
const MIN_IDLE: Duration = Duration::from_micros(10);

pub(crate) struct DriverWorld {
    io: Rc<Io>,
    epoch: Instant,
    /// The latest reading of the clock, since `epoch`.
    latest: Cell<Duration>,
    control: Control,
    /// The driver's number of system calls, published for the metrics.
    system_calls: Arc<AtomicU64>,
    supervisor: SupervisorLink,
    /// Contains the limits of idle time.
    active: ActiveProcessors,
    coalescing: RefCell<Coalescing>,
    sleep_cost: SleepCost,
    prefetch: WakePrefetch,
}

/// Sends a processor's events to the supervisor.
pub(crate) struct SupervisorLink {
    pub(crate) processor: usize,
    pub(crate) events: Sender<Event>,
    pub(crate) idle: Option<Arc<SupervisorIdle>>,
    pub(crate) panics: PanicHook,
    /// None without automatic placement.
    pub(crate) saturation: Option<SaturationProbe>,
}

impl SupervisorLink {
    fn send(&self, event: Event) {
        // Fails only if the supervisor has panicked.
        let _ = self.events.send(event);
    }

    fn record_park(&self) {
        self.idle.iter().for_each(|idle| idle.parked(self.processor));
    }

    fn turn(&self, now: Duration) {
        let cpu_time = crate::machine::thread_cpu_time;
        if self.saturation.as_ref().is_some_and(|probe| probe.turn(now, cpu_time)) {
            self.send(Event::Saturated);
        }
    }

    fn note_idle(&self) {
        self.saturation.iter().for_each(SaturationProbe::idle);
    }

    fn note_awake(&self) {
        if self.idle.as_ref().is_some_and(|idle| idle.note_awake(self.processor)) {
            self.send(Event::Awake);
        }
    }
}

impl Drop for SupervisorLink {
    /// Records a park, so that the supervisor does not wait for an exited processor.
    fn drop(&mut self) {
        self.record_park();
    }
}

impl DriverWorld {
    pub(crate) fn new(
        io: Rc<Io>,
        epoch: Instant,
        control: Control,
        system_calls: Arc<AtomicU64>,
        supervisor: SupervisorLink,
        active: ActiveProcessors,
        prefetch: WakePrefetch,
    ) -> Self {
        let coalescing = RefCell::new(Coalescing::new(Duration::from_nanos(active.coalesce_ns())));
        let sleep_cost = SleepCost::default();
        let latest = Cell::new(Duration::ZERO);
        Self {
            io,
            epoch,
            latest,
            control,
            system_calls,
            supervisor,
            active,
            coalescing,
            sleep_cost,
            prefetch,
        }
    }

    fn submit_requests(&self, has_backlog: bool) {
        let calls = self.io.submit(has_backlog).unwrap_or_else(|error| fail("submit", &error));
        self.system_calls.store(calls, Ordering::Relaxed);
    }
}

impl World for DriverWorld {
    fn now(&self) -> u64 {
        self.latest.set(self.epoch.elapsed());
        self.latest.get().as_nanos() as u64
    }

    /// Completions are processed before requests expire, so that an operation sees I/O that arrived in time, even after
    /// a long stall.
    fn reap(&self) -> bool {
        let completions = self.io.reap().unwrap_or_else(|error| fail("reap", &error));
        if self.control.phase() > Phase::Running && self.io.announce_drain() {
            self.supervisor.send(Event::Draining);
        }
        self.io.expire(phalanx_core::now());
        self.supervisor.turn(phalanx_core::now());
        let limit = self.active.coalesce_ns();
        if limit > 0 {
            let mut coalescing = self.coalescing.borrow_mut();
            coalescing.set_limit(Duration::from_nanos(limit));
            coalescing.record(completions, phalanx_core::now());
        }
        completions > 0
    }

    fn submit(&self) {
        self.submit_requests(false);
    }

    fn submit_backlogged(&self) {
        self.submit_requests(true);
    }

    #[inline]
    fn coalesce(&self, timeout: Option<u64>) -> u64 {
        if self.active.coalesce_ns() == 0 {
            return 0;
        }
        let start = self.epoch.elapsed();
        let plan = self.coalescing.borrow_mut().plan(start);
        let Some((wanted, limit)) = plan else { return 0 };
        let expiry = self.io.next_expiry().map(|at| at.saturating_sub(self.epoch.elapsed()));
        let limits = [timeout.map(Duration::from_nanos), expiry];
        let limit = limits.into_iter().flatten().fold(limit, Duration::min);
        // The kernel processes completions and submits requests within the call, and that time is not idle.
        let cpu_before = self.thread_cpu_time();
        self.io.driver(|driver| {
            driver.coalesce(wanted, limit).unwrap_or_else(|error| fail("coalesce", &error));
        });
        let used = Duration::from_nanos(self.thread_cpu_time().saturating_sub(cpu_before));
        let waited = self.epoch.elapsed().saturating_sub(start).saturating_sub(used);
        if waited < MIN_IDLE {
            return 0;
        }
        self.supervisor.note_idle();
        waited.as_nanos() as u64
    }

    fn spin(&self, _: u64) -> u64 {
        self.active.spin_ns()
    }

    fn thread_cpu_time(&self) -> u64 {
        crate::machine::thread_cpu_time()
    }

    fn on_large_operation(&self, stage: &'static str, operation: &'static str, bytes: usize) {
        self.supervisor.send(Event::LargeOperation { stage, operation, bytes });
    }

    fn on_undeclared_object(
        &self,
        stage: &'static str,
        object: &'static str,
        bytes: usize,
        declared: usize,
    ) {
        self.supervisor.send(Event::UndeclaredObject { stage, object, bytes, declared });
    }

    fn external_queue_delay(&self) -> u64 {
        self.io.driver(|driver| driver.queue_delay()).as_nanos() as u64
    }

    fn on_panic(&self, report: &PanicReport) {
        self.supervisor.panics.report(report);
    }

    #[inline]
    fn on_cohort(&self, stage: &'static str, operations: usize, ns: u64) {
        tracing_events::cohort(stage, operations, ns);
    }

    #[inline]
    fn sleep_cost(&self) -> u64 {
        self.sleep_cost.ns()
    }

    fn relax(&self) {
        self.supervisor.note_idle();
        std::hint::spin_loop();
    }

    fn yield_core(&self) {
        self.supervisor.note_idle();
        std::thread::yield_now();
    }

    fn park(&self, timeout: Option<u64>) {
        // The timeout counts from the latest reading as well.
        let expiry = self.io.next_expiry().map(|at| at.saturating_sub(self.latest.get()));
        let timeout = timeout.map(Duration::from_nanos);
        let timeout = match (timeout, expiry) {
            (Some(timeout), Some(expiry)) => Some(timeout.min(expiry)),
            (timeout, expiry) => timeout.or(expiry),
        };
        self.supervisor.record_park();
        self.supervisor.note_idle();
        let park = || {
            self.io
                .driver(|driver| driver.park(timeout).unwrap_or_else(|error| fail("park", &error)));
        };
        self.sleep_cost.measured(park);
        let sleep_time = || self.epoch.elapsed().saturating_sub(self.latest.get());
        self.prefetch.prefetch_after(sleep_time, timeout);
        self.supervisor.note_awake();
    }
}

/// Panics because the driver has failed as a whole, so that the processor can no longer receive events.
fn fail(action: &str, error: &std::io::Error) -> ! {
    panic!("the driver failed to {action}: {error}")
}
