//! The start of a simulated program.

use phalanx_core::{Control, Graph};
use phalanx_driver::{Config, sim};

use crate::cores::ActiveProcessors;
use crate::io::{Io, Loads, Placement, active_changed};
use crate::program::{StartContext, StartError};
use crate::sim::sim_processor::{DelayedWaker, SimProcessor};

/// The `start` of a program.
pub(in crate::sim) type StartFn = Box<dyn Fn(&StartContext) -> Result<(), StartError>>;

/// A program to start.
pub(in crate::sim) struct NewProgram {
    /// 0 for the program of the world.
    pub(in crate::sim) number: usize,
    pub(in crate::sim) processors: usize,
    pub(in crate::sim) graph: Graph,
    pub(in crate::sim) start: StartFn,
}

/// How a program's processors run.
pub(in crate::sim) struct LaunchOptions<'a> {
    /// Maximum delay of a wake-up, in nanoseconds.
    pub(in crate::sim) wake_delay: u64,
    /// Whether readings of the clock do not advance the time.
    pub(in crate::sim) is_frozen: bool,
    /// Draws the sizes of a driver.
    pub(in crate::sim) sizes: &'a mut dyn FnMut() -> Config,
}

impl NewProgram {
    /// Starts the program on all its processors, one after the other.
    pub(in crate::sim) fn launch(
        self,
        outside: &sim::World,
        options: LaunchOptions<'_>,
    ) -> Result<(Control, Vec<SimProcessor>), String> {
        let Self { number, processors, graph, start } = self;
        let builders = graph.build(processors);
        let control = builders[0].control();
        let loads = Loads::Drawn(outside.clone());
        let ids = || builders.iter().map(|builder| builder.id());
        let active = ActiveProcessors::new(ids(), None, (0, 0), active_changed);
        let placement = Placement::new(ids(), processors, active.clone(), loads);
        let mut launched = Vec::new();
        for builder in builders {
            let index = builder.index();
            let driver = outside.driver(&(options.sizes)()).map_err(|error| error.to_string())?;
            let io = Io::new(placement.clone(), index, Box::new(driver), None);
            let waker = DelayedWaker::new(outside.clone(), options.wake_delay);
            let unpark = waker.clone();
            let entered = io.enter();
            let processor = builder.build(Box::new(move || unpark.wake()));
            let started = processor
                .enter(|| start(&StartContext::new(index, control.clone(), active.clone())));
            drop(entered);
            let of = (number, options.is_frozen);
            launched.push(SimProcessor::new(processor, io, outside.clone(), waker, of));
            started.map_err(|error| format!("the start on processor {index} failed: {error}"))?;
        }
        Ok((control, launched))
    }
}
