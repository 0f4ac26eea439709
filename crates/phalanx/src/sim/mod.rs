//! Deterministic simulation of a whole program, in virtual time on one thread, controlled by a seed.
//!
//! [`run`] creates a program's processors over a simulated network and disk ([`phalanx_driver::sim`]) and
//! drives them step by step. The seed determines every choice:
//!
//! - which processor runs next, which stage it runs, which operations and how many
//! - when completions arrive, and in which order
//! - when time advances, and when a sleeping processor wakes: early, late or spuriously
//! - faults of the network and the disk
//! - which [`fault_point`] panics
//!
//! The same seed repeats the same run, so a failure can be reproduced. Calls of blocking stages run on the
//! same thread, in virtual time.
//!
//! [`explore_all`] enumerates all schedules of a small program instead.
//!
//! When all clients have finished, the program drains. An oracle then checks that it is at rest, that is, that no
//! operation runs, waits or is queued and no resource is open on any processor. Otherwise the program is *stuck*, and
//! the report lists the waiting operations.
//!
//! ```
//! use phalanx::net::{IoTimeout, Payload, Stream};
//! use phalanx::{Graph, sim};
//!
//! async fn echo(stream: Stream) {
//!     let mut bytes = Vec::new();
//!     while let Ok(1..) = stream.read(&mut bytes, IoTimeout::NONE.until_shutdown()).await {
//!         let head = std::mem::take(&mut bytes);
//!         let sent = stream.write(Payload { head, ..Payload::default() }, IoTimeout::NONE);
//!         if sent.await.is_err() {
//!             break;
//!         }
//!     }
//! }
//!
//! sim::explore(20, |world| {
//!     let address = "10.0.0.1:7".parse().unwrap();
//!     let mut graph = Graph::new();
//!     let stage = graph.shared("echo", ());
//!     let listeners = world.listen(address);
//!     world.program(graph, move |start| {
//!         let listener = listeners.listener(start)?;
//!         stage.dispatch(move |_| listener.accept_each(move |stream| {
//!             let _ = stage.dispatch(move |_| echo(stream));
//!         }))?;
//!         Ok(())
//!     });
//!     let net = world.net();
//!     world.client(async move {
//!         let mut client = net.connect(address).await.unwrap();
//!         client.write_all(b"over and over").await.unwrap();
//!         let mut answer = Vec::new();
//!         while answer.len() < 13 {
//!             assert!(client.read(&mut answer).await.unwrap() > 0);
//!         }
//!         assert_eq!(answer, b"over and over");
//!     });
//! });
//! ```

mod block_on;
mod calls;
mod client;
mod exhaustive;
mod fault;
mod listeners;
mod oracle;
mod programs;
mod schedule_bias;
mod scheduler;
mod sim_processor;
mod trace;
mod world;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

pub use block_on::block_on;
pub use calls::unobserved_calls;
pub use client::{Client, Net, UdpClient};
pub use exhaustive::{Bounds, Coverage, explore_all};
pub use fault::{busy_for, fault_point};
pub use listeners::Listeners;
pub use phalanx_driver::sim::Faults;
pub use programs::Program;
pub use world::World;

use crate::blocking::workers;
use crate::io;

/// The result of a simulated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The number of steps until the program was at rest.
    pub steps: u64,
    /// Virtual time that has passed.
    pub time: Duration,
    /// A hash of all choices, which is equal for equal runs.
    pub trace: u64,
}

thread_local! {
    /// The seed of the last failure that [`run`] has reported on this thread.
    static REPORTED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Simulates one run: `build` describes the world, which then runs until it is at rest.
///
/// # Panics
/// If the program fails to start, is stuck or leaks, or if an operation, a client or `build` panics. The reason is
/// printed with the seed. Also if called on a thread that runs a processor or another simulation.
#[track_caller]
pub fn run(seed: u64, build: impl FnOnce(&mut World)) -> Report {
    assert_no_simulation();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed);
        build(&mut world);
        scheduler::run(world)
    }));
    let replay = format!("PHALANX_SEED={seed} repeats it");
    match result {
        Ok(Ok(report)) => report,
        Ok(Err(failure)) => {
            REPORTED.set(Some(seed));
            panic!("the simulation failed with seed {seed}; {replay}\n{failure}")
        }
        Err(panic) => {
            eprintln!("the simulation failed with seed {seed}; {replay}");
            REPORTED.set(Some(seed));
            resume_unwind(panic)
        }
    }
}

#[track_caller]
fn assert_no_simulation() {
    assert!(
        !io::is_entered() && !workers::are_simulated(),
        "a simulation was started on a thread that runs a processor or another simulation; start it on \
         another thread, such as one of a blocking stage"
    );
}

/// Simulates with the seeds from 0 to `seeds` - 1. The environment variable `PHALANX_SEED=n` selects only the seed n.
/// `PHALANX_SEEDS=n` replaces `seeds`, `PHALANX_SEEDS_TIMES=n` multiplies it, and `PHALANX_MAX_SEEDS=n` bounds the
/// result.
///
/// # Panics
/// Like [`run`], for the first seed that fails. Also if a variable is not a number.
pub fn explore(seeds: u64, build: impl Fn(&mut World)) {
    explore_each(seeds, |seed| _ = run(seed, &build));
}

/// Calls `test` with each seed that [`explore`] would use, for tests that examine the result of a run.
///
/// # Panics
/// If `test` panics; the seed is printed. Also if a variable is not a number.
pub fn explore_each(seeds: u64, test: impl Fn(u64)) {
    let all = match number("PHALANX_SEED") {
        Some(seed) => seed..=seed,
        None => match seeds_of_environment(seeds, number) {
            0 => return,
            seeds => 0..=seeds - 1,
        },
    };
    for seed in all {
        REPORTED.set(None);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            if REPORTED.get() != Some(seed) {
                eprintln!("failed with seed {seed}; PHALANX_SEED={seed} repeats it");
            }
            resume_unwind(panic);
        }
    }
}

/// The number of seeds, computed from the number in the test and the environment variables.
fn seeds_of_environment(seeds: u64, number: impl Fn(&str) -> Option<u64>) -> u64 {
    let seeds = number("PHALANX_SEEDS").unwrap_or(seeds);
    let times = number("PHALANX_SEEDS_TIMES").unwrap_or(1);
    seeds.saturating_mul(times).min(number("PHALANX_MAX_SEEDS").unwrap_or(u64::MAX))
}

/// The number in an environment variable, if it is set.
///
/// # Panics
/// If it is not a number.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var_os(variable)?;
    match text.to_str().and_then(|text| text.parse().ok()) {
        Some(number) => Some(number),
        None => panic!("{variable}={} is not a number below 2⁶⁴", text.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::seeds_of_environment;

    #[test]
    fn variables_change_the_number_of_seeds() {
        let seeds = |variables: &[(&str, u64)]| {
            let value = |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, n)| *n);
            seeds_of_environment(6, value)
        };
        assert_eq!(seeds(&[]), 6);
        assert_eq!(seeds(&[("PHALANX_SEEDS", 9)]), 9);
        assert_eq!(seeds(&[("PHALANX_SEEDS_TIMES", 100)]), 600);
        assert_eq!(seeds(&[("PHALANX_SEEDS", 2), ("PHALANX_SEEDS_TIMES", 3)]), 6);
        assert_eq!(seeds(&[("PHALANX_MAX_SEEDS", 4)]), 4);
        assert_eq!(seeds(&[("PHALANX_MAX_SEEDS", 20)]), 6);
        assert_eq!(seeds(&[("PHALANX_SEEDS_TIMES", u64::MAX), ("PHALANX_MAX_SEEDS", 8)]), 8);
    }
}
