//! The world of a processor that runs for real: its driver and the monotonic clock.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use phalanx_core::{Control, PanicReport, Phase, World};

use crate::coalescing::Coalescing;
use crate::io::Io;
use crate::panics::PanicHook;
use crate::sleep_cost::SleepCost;
use crate::supervisor::Event;
use crate::supervisor_idle::SupervisorIdle;
use crate::tracing_events;

pub(crate) struct DriverWorld {
    io: Rc<Io>,
    epoch: Instant,
    control: Control,
    /// Where others read how many system calls the driver has made.
    system_calls: Arc<AtomicU64>,
    caller: Caller,
    /// None where nothing is waited for.
    coalescing: Option<RefCell<Coalescing>>,
    sleep_cost: SleepCost,
}

/// A processor's way to its supervisor.
pub(crate) struct Caller {
    pub(crate) processor: usize,
    pub(crate) events: Sender<Event>,
    pub(crate) rest: Option<Arc<SupervisorIdle>>,
    pub(crate) panics: PanicHook,
}

impl Caller {
    fn say(&self, event: Event) {
        // The supervisor outlives its processors, but for its own panic.
        let _ = self.events.send(event);
    }

    fn sleeps(&self) {
        self.rest.iter().for_each(|rest| rest.sleeps(self.processor));
    }

    fn is_awake(&self) {
        if self.rest.as_ref().is_some_and(|rest| rest.is_awake(self.processor)) {
            self.say(Event::Awake);
        }
    }
}

impl Drop for Caller {
    /// A processor that is gone is not waited for.
    fn drop(&mut self) {
        self.sleeps();
    }
}

impl DriverWorld {
    pub(crate) fn new(
        io: Rc<Io>,
        epoch: Instant,
        control: Control,
        system_calls: Arc<AtomicU64>,
        caller: Caller,
        gather: Duration,
    ) -> Self {
        let coalescing = (!gather.is_zero()).then(|| RefCell::new(Coalescing::new(gather)));
        let sleep_cost = SleepCost::default();
        Self { io, epoch, control, system_calls, caller, coalescing, sleep_cost }
    }
}

impl World for DriverWorld {
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// What has come is taken in before any wait is given up: whoever stood still for longer than a limit finds what came
    /// in time.
    fn reap(&self) -> bool {
        let completions = self.io.reap().unwrap_or_else(|error| fail("reap", &error));
        if self.control.phase() > Phase::Running && self.io.announce_drain() {
            self.caller.say(Event::Drains);
        }
        self.io.expire(phalanx_core::now());
        if let Some(coalescing) = &self.coalescing {
            coalescing.borrow_mut().came(completions, phalanx_core::now());
        }
        completions > 0
    }

    fn submit(&self) {
        self.io.driver(|driver| {
            driver.submit().unwrap_or_else(|error| fail("submit", &error));
            self.system_calls.store(driver.system_calls(), Ordering::Relaxed);
        });
    }

    fn hand_over(&self) {
        self.io.driver(|driver| {
            driver.submit_backlogged().unwrap_or_else(|error| fail("submit", &error));
            self.system_calls.store(driver.system_calls(), Ordering::Relaxed);
        });
    }

    #[inline]
    fn gather(&self, timeout: Option<u64>) {
        let Some(coalescing) = &self.coalescing else { return };
        let Some((wanted, limit)) = coalescing.borrow_mut().wish(self.epoch.elapsed()) else {
            return;
        };
        let expiry = self.io.next_expiry().map(|at| at.saturating_sub(self.epoch.elapsed()));
        let ends = [timeout.map(Duration::from_nanos), expiry];
        let limit = ends.into_iter().flatten().fold(limit, Duration::min);
        self.io.driver(|driver| {
            driver.coalesce(wanted, limit).unwrap_or_else(|error| fail("coalesce", &error));
        });
    }

    fn worked(&self) -> u64 {
        crate::clock::worked()
    }

    fn wide(&self, stage: &'static str, operation: &'static str, bytes: usize) {
        self.caller.say(Event::Wide { stage, operation, bytes });
    }

    fn waited(&self) -> u64 {
        self.io.driver(|driver| driver.queue_delay()).as_nanos() as u64
    }

    fn panicked(&self, report: &PanicReport) {
        self.caller.panics.report(report);
    }

    #[inline]
    fn cohort(&self, stage: &'static str, operations: usize, ns: u64) {
        tracing_events::cohort(stage, operations, ns);
    }

    #[inline]
    fn sleep_cost(&self) -> u64 {
        self.sleep_cost.ns()
    }

    fn park(&self, timeout: Option<u64>) {
        let expiry = self.io.next_expiry().map(|at| at.saturating_sub(self.epoch.elapsed()));
        let timeout = timeout.map(Duration::from_nanos);
        let timeout = match (timeout, expiry) {
            (Some(timeout), Some(expiry)) => Some(timeout.min(expiry)),
            (timeout, expiry) => timeout.or(expiry),
        };
        self.caller.sleeps();
        let park = || {
            self.io
                .driver(|driver| driver.park(timeout).unwrap_or_else(|error| fail("park", &error)));
        };
        self.sleep_cost.measured(park);
        self.caller.is_awake();
    }
}

/// A driver that fails as a whole leaves a processor deaf: the program cannot go on.
fn fail(what: &str, error: &std::io::Error) -> ! {
    panic!("the driver cannot {what} any more: {error}")
}
