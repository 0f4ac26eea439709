//! One processor's thread, from its driver to its end.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use std::time::Instant;

use phalanx_core::{Control, Seed};
use phalanx_driver::Kind;

use crate::admin::Admin;
use crate::error::{RunError, StartError};
use crate::io::Io;
use crate::runtime::Runtime;
use crate::supervisor::Event;
use crate::world::{DriverWorld, NoWorld};

/// What a program's start on one processor is told.
pub struct Start {
    index: usize,
    control: Control,
}

impl Start {
    /// The processor's number, from zero.
    pub fn processor(&self) -> usize {
        self.index
    }

    /// A handle on the whole program.
    pub fn control(&self) -> Control {
        self.control.clone()
    }
}

/// One processor's thread.
pub(crate) struct Launch<'a> {
    pub(crate) seed: Seed,
    pub(crate) kind: Kind,
    pub(crate) epoch: Instant,
    pub(crate) calls: Arc<AtomicU64>,
    pub(crate) runtime: &'a Runtime,
}

impl Launch<'_> {
    pub(crate) fn run<F>(self, events: &Sender<Event>, admin: Option<&Admin>, start: &F)
    where
        F: Fn(&Start) -> Result<(), StartError>,
    {
        let index = self.seed.index();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.serve(events, admin, start)
        }));
        let outcome = caught.unwrap_or(Err(RunError::Processor(index)));
        let _ = events.send(Event::Exited(outcome));
    }

    fn serve<F>(
        self,
        events: &Sender<Event>,
        admin: Option<&Admin>,
        start: &F,
    ) -> Result<(), RunError>
    where
        F: Fn(&Start) -> Result<(), StartError>,
    {
        let Self { seed, kind, epoch, calls, runtime } = self;
        let (index, control) = (seed.index(), seed.control());
        if runtime.pin {
            crate::pin::to_core(index, runtime.processors);
        }
        let driver = match phalanx_driver::open(kind, &runtime.config) {
            Ok(driver) => driver,
            Err(error) => {
                // The others wait until every processor has nothing left: this one too.
                control.end();
                seed.grow(Box::new(|| ())).run(&NoWorld, 0);
                return Err(RunError::Driver(error));
            }
        };
        let unparker = driver.unparker();
        let io = Io::new(driver);
        io.install();
        let processor = seed.grow(Box::new(move || unparker.unpark()));
        let world = DriverWorld::new(io, epoch, control.clone(), calls);
        let begin = || {
            if let (0, Some(admin)) = (index, admin) {
                admin.start()?;
            }
            start(&Start { index, control: control.clone() })
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            processor.enter(begin).map_err(RunError::from)
        }));
        let started = caught.unwrap_or(Err(RunError::Processor(index)));
        match &started {
            Ok(()) => drop(events.send(Event::Started)),
            Err(_) => control.end(),
        }
        // Also when it was ended before it began: the others wait for it to say that it has nothing left.
        processor.run(&world, runtime.spin.as_nanos() as u64);
        // The processor's operations go before their driver does.
        drop(processor);
        Io::uninstall();
        started
    }
}
