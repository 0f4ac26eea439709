//! A simulated processor: a real [`Processor`] with its I/O table, and its sleep state.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx_core::{Control, PanicReport, Phase, Processor, Steps};
use phalanx_driver::sim::World;

use super::fault;
use crate::io::Io;
use crate::nanoseconds::nanoseconds;
use crate::program::SETTLING;

const NEVER: u64 = u64::MAX;

/// A processor driven by the scheduler.
pub(super) struct SimProcessor {
    /// `None` only during the drop, which happens inside its I/O.
    processor: Option<Processor>,
    pub(super) io: Rc<Io>,
    pub(super) world: SimWorld,
    waker: Arc<DelayedWaker>,
    /// The end of its sleep, if it sleeps.
    pub(super) asleep: Option<u64>,
    /// Whether its loop has ended.
    pub(super) has_ended: bool,
    /// Whether it takes no steps.
    pub(super) is_stopped: bool,
    /// The number of its program; 0 for the world's first program.
    pub(super) program: usize,
}

/// Wakes a processor after a delay.
pub(super) struct DelayedWaker {
    world: World,
    wake_at: AtomicU64,
    delay: u64,
}

impl DelayedWaker {
    pub(super) fn new(world: World, delay: u64) -> Arc<Self> {
        Arc::new(Self { world, wake_at: AtomicU64::new(NEVER), delay })
    }

    pub(super) fn wake(&self) {
        let after = if self.delay > 0 { self.world.draw(self.delay) } else { 0 };
        self.wake_at.fetch_min(self.world.expect_after(after), Ordering::Relaxed);
    }
}

impl SimProcessor {
    pub(super) fn new(
        processor: Processor,
        io: Rc<Io>,
        world: World,
        waker: Arc<DelayedWaker>,
        (program, frozen): (usize, bool),
    ) -> Self {
        let (control, panic) = (processor.control(), RefCell::default());
        let outside = SimWorld { io: io.clone(), world, control, frozen, panic };
        let (processor, world) = (Some(processor), outside);
        let (asleep, has_ended, is_stopped) = (None, false, false);
        Self { processor, io, world, waker, asleep, has_ended, is_stopped, program }
    }

    /// Whether it could take a step if it were awake.
    pub(super) fn may_step(&self) -> bool {
        !self.has_ended && !self.is_stopped
    }

    pub(super) fn processor(&self) -> &Processor {
        self.processor.as_ref().expect("set until drop")
    }

    /// Runs `f` as the processor's thread.
    pub(super) fn step<R>(&self, f: impl FnOnce(Steps<'_>, &SimWorld) -> R) -> R {
        let _entered = self.io.enter();
        f(self.processor().stepping(), &self.world)
    }

    /// Whether a wake-up is on its way.
    pub(super) fn has_wakeup(&self) -> bool {
        self.waker.wake_at.load(Ordering::Relaxed) != NEVER
    }

    /// The reason for waking now, if the processor sleeps and there is one.
    pub(super) fn wakes(&self, now: u64) -> Option<&'static str> {
        let until = self.asleep?;
        if self.waker.wake_at.load(Ordering::Relaxed) <= now {
            Some("called")
        } else if until <= now {
            Some("timer")
        } else if self.io.driver(|driver| driver.is_ready()) {
            Some("completion")
        } else {
            None
        }
    }

    /// The time of its next wake-up.
    pub(super) fn next(&self) -> u64 {
        self.asleep.unwrap_or(NEVER).min(self.waker.wake_at.load(Ordering::Relaxed))
    }

    /// Tries to sleep, as the loop does after an idle turn. Returns whether it sleeps.
    pub(super) fn try_to_sleep(&mut self) -> bool {
        let expiry = self.io.next_expiry().map_or(NEVER, nanoseconds);
        let until = self.step(|steps, world| {
            use phalanx_core::World;
            world.submit();
            steps.sleep()
        });
        // A wake-up before the sleep is kept, as with `unpark`.
        self.asleep = until.map(|until| until.min(expiry));
        self.asleep.is_some()
    }

    pub(super) fn wake(&mut self) {
        self.waker.wake_at.store(NEVER, Ordering::Relaxed);
        self.asleep = None;
        self.step(|steps, _| steps.wake());
    }

    /// Whether its thread would wait for writes of dropped streams.
    pub(super) fn is_finishing(&self) -> bool {
        self.world.control.phase() != Phase::Ending && self.io.is_finishing()
    }

    /// Processes the completions that its loop has left, like a processor's thread. They belong to requests whose
    /// futures were dropped last.
    pub(super) fn reclaim(&self) {
        let _entered = self.io.enter();
        self.io.reclaim(SETTLING).expect("a simulated driver does not fail as a whole");
    }
}

impl Drop for SimProcessor {
    fn drop(&mut self) {
        // Drop order: the processor's operations, then their driver.
        let _entered = self.io.enter();
        self.processor = None;
    }
}

/// The [`World`](phalanx_core::World) of a simulated processor.
pub(super) struct SimWorld {
    io: Rc<Io>,
    world: World,
    control: Control,
    /// Whether readings do not advance the time.
    frozen: bool,
    /// The first panic that no fault point has injected.
    pub(super) panic: RefCell<Option<PanicReport>>,
}

impl phalanx_core::World for SimWorld {
    /// Each reading advances the time slightly, and occasionally more, unless time is `frozen`.
    fn now(&self) -> u64 {
        if self.frozen {
            return self.world.now();
        }
        let max = if self.world.chance(10) { 300_000 } else { 2_000 };
        self.world.advance_to(self.world.now() + self.world.draw(max));
        self.world.now()
    }

    fn reap(&self) -> bool {
        let any = self.io.reap().expect("a simulated driver does not fail as a whole") > 0;
        if self.control.phase() > Phase::Running {
            self.io.announce_drain();
        }
        self.io.expire(Duration::from_nanos(self.world.now()));
        any
    }

    fn submit(&self) {
        self.io.submit(false).expect("as above");
    }

    fn on_panic(&self, report: &PanicReport) {
        if !fault::has_injected(&report.message) {
            self.panic.borrow_mut().get_or_insert_with(|| report.clone());
        }
    }

    fn park(&self, _: Option<u64>) {
        unreachable!("the scheduler puts processors to sleep")
    }
}
