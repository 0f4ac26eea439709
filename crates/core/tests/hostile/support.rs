//! Guards that count, guards that panic, and a world that panics on request.
#![allow(dead_code, reason = "each module uses its part")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Once;
use std::task::{Context, Poll, Waker};

use phalanx_core::{Graph, Processor, World};

/// The beginning of each panic message that a test causes on purpose.
pub(crate) const EXPECTED_PANIC: &str = "hostile";

/// Silences the panics that tests cause on purpose, and no others.
pub(crate) fn silence_expected_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<&str>();
            if !text.is_some_and(|text| text.starts_with(EXPECTED_PANIC)) {
                previous_hook(info);
            }
        }));
    });
}

/// Panics when it is dropped, but not while another panic unwinds: that would abort the process.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("hostile destructor");
        }
    }
}

/// Runs a closure when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Counts how many of its tokens are alive.
#[derive(Clone, Default)]
pub(crate) struct Count(Rc<()>);

impl Count {
    pub(crate) fn token(&self) -> Rc<()> {
        self.0.clone()
    }

    pub(crate) fn alive(&self) -> usize {
        Rc::strong_count(&self.0) - 1
    }
}

/// A world with a clock that is moved by hand, whose callbacks panic on request.
#[derive(Default)]
pub(crate) struct HostileWorld {
    pub(crate) now: Cell<u64>,
    /// The clock panics when it has been read this many more times.
    pub(crate) clock: Cell<Option<u32>>,
    /// `panicked`, `on_large_operation`, `on_undeclared_object` and `cohort` panic, as a subscriber of events may.
    pub(crate) subscriber: Cell<bool>,
    /// The arguments of `panicked`, noted before it panics.
    pub(crate) panics: RefCell<Vec<String>>,
}

impl HostileWorld {
    fn panic_if_hostile(&self) {
        if self.subscriber.get() {
            panic!("hostile subscriber");
        }
    }
}

impl World for HostileWorld {
    fn now(&self) -> u64 {
        match self.clock.get() {
            Some(0) => {
                self.clock.set(None);
                panic!("hostile clock");
            }
            Some(left) => self.clock.set(Some(left - 1)),
            None => (),
        }
        self.now.get()
    }

    fn reap(&self) -> bool {
        false
    }

    fn submit(&self) {}

    fn park(&self, timeout: Option<u64>) {
        let timeout = timeout.expect("asleep for ever with nobody to wake it");
        self.now.set(self.now.get() + timeout);
    }

    fn on_panic(&self, report: &phalanx_core::PanicReport) {
        self.panics.borrow_mut().push(format!("{}: {}", report.stage, report.message));
        self.panic_if_hostile();
    }

    fn on_large_operation(&self, _: &'static str, _: &'static str, _: usize) {
        self.panic_if_hostile();
    }

    fn on_undeclared_object(&self, _: &'static str, _: &'static str, _: usize, _: usize) {
        self.panic_if_hostile();
    }

    fn on_cohort(&self, _: &'static str, _: usize, _: u64) {
        self.panic_if_hostile();
    }
}

/// The processors of a program of `N`, all on this thread.
pub(crate) fn build<const N: usize>(graph: Graph) -> [Processor; N] {
    let processors = graph.build(N).into_iter().map(|builder| builder.build(Box::new(|| ())));
    processors.collect::<Vec<_>>().try_into().ok().expect("a processor for each builder")
}

/// Turns all processors until none has done anything three times in a row, a thousand times at most.
pub(crate) fn settle(processors: &[Processor], world: &HostileWorld) {
    let mut idle_turns = 0;
    for _ in 0..1_000 {
        let turns: Vec<_> = processors.iter().map(|processor| processor.turn(world)).collect();
        let is_idle = turns.iter().all(|turn| turn.ran == 0 && !turn.received);
        idle_turns = if is_idle { idle_turns + 1 } else { 0 };
        if idle_turns == 3 {
            return;
        }
    }
    panic!("never at rest");
}

pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}
