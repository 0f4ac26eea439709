//! Simulation: a whole program, servers included, on one thread, in virtual time, chosen by a seed.
//!
//! [`run`] builds a program's processors over a simulated network and disk
//! ([`phalanx_driver::sim`]) and drives them step by step. A seed decides which processor goes on,
//! which stage it runs, which of its operations and how many, when completions arrive and in which
//! order, when time jumps, when a sleeping processor is woken, early, late or for no reason, what
//! the network and the disk do, and which [`fault_point`] panics. The same seed decides the same
//! again, so what failed once can be looked at as often as need be.
//!
//! The calls of blocking stages are made on the one thread too, in virtual time.
//!
//! When everybody's clients have gone the program is asked to finish, and an oracle looks whether
//! it has come to rest: nothing runs, waits, is queued, held or open any more, on any processor.
//! A program that does not come to rest is *stuck*, and the report says what waits for what.
//!
//! ```
//! use std::cell::RefCell;
//! use phalanx::net::{IoTimeout, Listener, Payload, Stream};
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
//!     let listeners = RefCell::new(world.listen(address));
//!     world.program(graph, move |_| {
//!         let listener = Listener::new(listeners.borrow_mut().pop().expect("one for each"))?;
//!         stage.dispatch(move |_| async move {
//!             while let Ok(stream) = listener.accept().await {
//!                 let _ = stage.dispatch(move |_| echo(stream));
//!             }
//!         })?;
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
mod client;
mod fault;
mod oracle;
mod schedule_bias;
mod scheduler;
mod sim_processor;
mod trace;
pub(crate) mod workers;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

pub use block_on::block_on;
pub use client::{Client, Net, UdpClient};
pub use fault::{fault_point, spend};
pub use phalanx_driver::sim::Faults;
pub use world::World;

use crate::io;

/// What a simulated run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Steps until rest.
    pub steps: u64,
    /// How much time has passed in the simulated world.
    pub time: Duration,
    /// A hash over all that was chosen: equal for two runs that went the same way.
    pub trace: u64,
}

/// Simulates once: `build` says what there is in the world, then it runs until it is at rest.
///
/// # Panics
/// When the program fails to start, is stuck, or leaves something behind; when a client panics; when
/// `build` does. What went wrong is printed with the seed. Also when it is called by an operation or a
/// start of a program, a client of another simulation, or in their destructors.
#[track_caller]
pub fn run(seed: u64, build: impl FnOnce(&mut World)) -> Report {
    assert!(
        !io::is_entered() && !workers::are_simulated(),
        "a simulation is run within a program, whose I/O it would replace; \
         run it on a thread of its own, such as a blocking stage's"
    );
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed);
        build(&mut world);
        scheduler::run(world)
    }));
    let replay = format!("PHALANX_SEED={seed} repeats it");
    match result {
        Ok(Ok(report)) => report,
        Ok(Err(failure)) => panic!("the simulation failed with seed {seed}; {replay}\n{failure}"),
        Err(panic) => {
            eprintln!("the simulation failed with seed {seed}; {replay}");
            resume_unwind(panic)
        }
    }
}

/// Simulates with each of `seeds` seeds. `PHALANX_SEED=n` in the environment simulates seed n alone,
/// `PHALANX_SEEDS=n` the first n seeds in place of `seeds`.
///
/// # Panics
/// As [`run`], at the first seed that fails.
pub fn explore(seeds: u64, build: impl Fn(&mut World)) {
    explore_each(seeds, |seed| _ = run(seed, &build));
}

/// Calls `test` with the seeds that [`explore`] takes: for tests that look at what a run came to.
///
/// # Panics
/// When `test` does; the seed is printed.
pub fn explore_each(seeds: u64, test: impl Fn(u64)) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let all = match number("PHALANX_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PHALANX_SEEDS").unwrap_or(seeds),
    };
    for seed in all {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            eprintln!("failed with seed {seed}; PHALANX_SEED={seed} repeats it");
            resume_unwind(panic);
        }
    }
}
