//! One simulated processor: the real one, its table of I/O, and its sleep.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx_core::{Control, Phase, Processor, Steps};
use phalanx_driver::sim::World;

use crate::io::Io;

const NEVER: u64 = u64::MAX;

/// A processor in the scheduler's hands.
pub(super) struct SimProcessor {
    /// There until it is dropped, within its I/O.
    processor: Option<Processor>,
    pub(super) io: Rc<Io>,
    pub(super) world: Outside,
    bell: Arc<Bell>,
    /// Until when it sleeps, if it does.
    pub(super) asleep: Option<u64>,
    /// Its loop would have returned.
    pub(super) over: bool,
}

/// The way in which others wake a processor: it rings after a while.
pub(super) struct Bell {
    world: World,
    rings: AtomicU64,
    delay: u64,
}

impl Bell {
    pub(super) fn new(world: World, delay: u64) -> Arc<Self> {
        Arc::new(Self { world, rings: AtomicU64::new(NEVER), delay })
    }

    pub(super) fn ring(&self) {
        let after = if self.delay > 0 { self.world.draw(self.delay) } else { 0 };
        self.rings.fetch_min(self.world.expect_after(after), Ordering::Relaxed);
    }
}

impl SimProcessor {
    pub(super) fn new(processor: Processor, io: Rc<Io>, world: World, bell: Arc<Bell>) -> Self {
        let outside = Outside { io: io.clone(), world, control: processor.control() };
        Self { processor: Some(processor), io, world: outside, bell, asleep: None, over: false }
    }

    pub(super) fn processor(&self) -> &Processor {
        self.processor.as_ref().expect("there until it is dropped")
    }

    /// Takes a step, as the thread that runs this processor.
    pub(super) fn step<R>(&self, f: impl FnOnce(Steps<'_>, &Outside) -> R) -> R {
        let _entered = self.io.enter();
        f(self.processor().stepping(), &self.world)
    }

    /// Whether somebody is about to wake it.
    pub(super) fn is_rung(&self) -> bool {
        self.bell.rings.load(Ordering::Relaxed) != NEVER
    }

    /// Why it would wake now, if it sleeps and would.
    pub(super) fn wakes(&self, now: u64) -> Option<&'static str> {
        let until = self.asleep?;
        if self.bell.rings.load(Ordering::Relaxed) <= now {
            Some("called")
        } else if until <= now {
            Some("timer")
        } else if self.io.driver(|driver| driver.is_ready()) {
            Some("completion")
        } else {
            None
        }
    }

    /// When it will wake by itself, or since it was called.
    pub(super) fn next(&self) -> u64 {
        self.asleep.unwrap_or(NEVER).min(self.bell.rings.load(Ordering::Relaxed))
    }

    /// Goes to sleep as the loop does: only when a whole turn has found nothing. True if it sleeps.
    pub(super) fn try_to_sleep(&mut self) -> bool {
        let expiry = self.io.next_expiry().map_or(NEVER, |at| at.as_nanos() as u64);
        let until = self.step(|steps, world| {
            use phalanx_core::World;
            world.submit();
            steps.sleep()
        });
        // A ring that came before the sleep is sticky, as an unpark is.
        self.asleep = until.map(|until| until.min(expiry));
        self.asleep.is_some()
    }

    pub(super) fn wake(&mut self) {
        self.bell.rings.store(NEVER, Ordering::Relaxed);
        self.asleep = None;
        self.step(|steps, _| steps.wake());
    }
}

impl Drop for SimProcessor {
    fn drop(&mut self) {
        // The processor's operations go before their driver does.
        let _entered = self.io.enter();
        self.processor = None;
    }
}

/// The world of a simulated processor.
pub(super) struct Outside {
    io: Rc<Io>,
    world: World,
    control: Control,
}

impl phalanx_core::World for Outside {
    /// Running takes time: a little, and now and then more.
    fn now(&self) -> u64 {
        let most = if self.world.chance(10) { 300_000 } else { 2_000 };
        self.world.advance_to(self.world.now() + self.world.draw(most));
        self.world.now()
    }

    fn reap(&self) -> bool {
        let came = self.io.reap().expect("a simulated driver does not fail as a whole") > 0;
        if self.control.phase() > Phase::Running {
            self.io.announce_drain();
        }
        self.io.expire(Duration::from_nanos(self.world.now()));
        came
    }

    fn submit(&self) {
        self.io.driver(|driver| driver.submit()).expect("as above");
    }

    fn park(&self, _: Option<u64>) {
        unreachable!("the scheduler puts processors to sleep")
    }
}
