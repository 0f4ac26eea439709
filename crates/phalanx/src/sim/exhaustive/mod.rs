//! Exhaustive simulation of small programs: all schedules up to a bound.
//!
//! | file | content |
//! |---|---|
//! | `coverage` | bounds, and counts of the schedules |
//! | `choices` | the depth-first search over choices |
//! | `order` | schedules that are equal up to independent steps |
//! | `enumerated_run` | one run, whose steps are choices |
//! | `actions` | the steps that are possible, and taking one |

mod actions;
mod choices;
mod coverage;
mod enumerated_run;
mod order;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub use self::coverage::{Bounds, Coverage};

use self::choices::Choices;
use self::enumerated_run::Outcome;
use super::World;

/// The states that were reached, with the numbers of deviations and steps of the runs that reached them.
type VisitedStates = HashMap<u64, (usize, u64)>;

/// Simulates a small program under every schedule within `bounds`, instead of under schedules drawn from seeds.
///
/// The choices are the processor that runs next, the stage it runs, the operation of the stage's queue, the size of the
/// cohort, when a processor receives its messages, and the order of clients and of calls of blocking stages. The world
/// has two processors unless [`World::set_processors`] changes it. Other choices are not enumerated: network and disk
/// behave as with seed 0 and without faults, [`fault_point`](super::fault_point)s do not panic, direct calls happen as
/// declared, and the program drains when nothing else can happen. A processor without work sleeps immediately, unless
/// the graph has [migrating](crate::stage::StageOptions::migrating) stages: then falling asleep and waking up are
/// choices.
///
/// A run that reaches a state of an earlier run is not continued. Two states are the same if their schedules differ
/// only in the order of independent steps. Steps that run operations always count as dependent, because operations may
/// share any data.
///
/// The number of schedules grows exponentially with the number of steps. A few operations with a few suspensions each
/// are feasible on two processors. Set the environment variable `PHALANX_SCHEDULE` to repeat one run.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use phalanx::sim::{self, Bounds};
/// use phalanx::{Graph, yield_now};
///
/// // Two operations run interleaved in any order, so either may end first.
/// let coverage = sim::explore_all(Bounds::default(), |world| {
///     world.set_processors(1);
///     let mut graph = Graph::new();
///     let stage = graph.shared("stage", ());
///     let ended = Rc::new(Cell::new(0));
///     let counts = ended.clone();
///     world.program(graph, move |_| {
///         for _ in 0..2 {
///             let counts = counts.clone();
///             stage.dispatch(move |_| async move {
///                 yield_now().await;
///                 counts.set(counts.get() + 1);
///             })?;
///         }
///         Ok(())
///     });
///     world.after_shutdown(move || assert_eq!(ended.get(), 2));
/// });
/// assert!(coverage.is_complete(), "{coverage}");
/// ```
///
/// # Panics
/// Like [`run`](super::run), for the first schedule that fails; the schedule is printed. Also if the program is
/// not reproducible.
#[track_caller]
pub fn explore_all(bounds: Bounds, build: impl Fn(&mut World)) -> Coverage {
    super::assert_no_simulation();
    let schedule = std::env::var("PHALANX_SCHEDULE").ok();
    let mut choices = match &schedule {
        None => Choices::new(bounds.deviations),
        Some(text) => Choices::of(text.split('.').map(|word| {
            word.parse()
                .unwrap_or_else(|_| panic!("PHALANX_SCHEDULE={text}: {word:?} is not a number"))
        })),
    };
    let bounds = Bounds { merges: bounds.merges && schedule.is_none(), ..bounds };
    let mut visited = VisitedStates::new();
    let mut coverage = Coverage::default();
    loop {
        let outcome = run(&bounds, &mut choices, &mut visited, &build);
        coverage.runs += 1;
        coverage.merged += u64::from(outcome == Outcome::Merged);
        coverage.cut += u64::from(outcome == Outcome::StepLimit);
        coverage.deepest = coverage.deepest.max(choices.depth());
        // If a schedule is repeated, the search consists of that run only.
        coverage.ended = schedule.is_some() || !choices.advance();
        if coverage.ended || coverage.runs >= bounds.runs {
            break;
        }
    }
    coverage.states = visited.len() as u64;
    Coverage { skipped: choices.skipped, ..coverage }
}

/// Runs once, and reports a failure with its schedule.
#[track_caller]
fn run(
    bounds: &Bounds,
    choices: &mut Choices,
    visited: &mut VisitedStates,
    build: impl FnOnce(&mut World),
) -> Outcome {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::exhaustive();
        build(&mut world);
        enumerated_run::run(world, bounds, choices, visited)
    }));
    let schedule = match &result {
        Ok(Ok(outcome)) => return *outcome,
        _ => choices.schedule(),
    };
    let replay = format!("PHALANX_SCHEDULE={schedule} repeats it");
    match result {
        Ok(Err(failure)) => panic!("the simulation failed; {replay}\n{failure}"),
        Err(panic) => {
            eprintln!("the simulation failed; {replay}");
            resume_unwind(panic)
        }
        Ok(Ok(_)) => unreachable!("returned above"),
    }
}
