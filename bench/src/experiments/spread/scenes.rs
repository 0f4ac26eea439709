//! The programs, each on two processors.

use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::time::{Duration, Instant};

use phalanx::stage::MoveError;
use phalanx::{Call, CallError, Graph, Runtime, SharedStage, join};

use crate::error::Error;
use crate::measure::{Stretch, minimum};

const PROCESSORS: usize = 2;
/// Operations of a burst.
const BURST: usize = 256;
/// Clients of each processor, which each await one operation after the other.
const CLIENTS: usize = 16;
/// Partitions, of which each processor owns every second one, and those that are moved.
const PARTITIONS: usize = 8;
const MOVED: [usize; 2] = [0, 2];
/// Length of an operation on a partition, in microseconds.
const PARTITION_US: f64 = 10.0;
/// Words of a cache line.
const LINE: usize = 8;

/// A program with and without a mechanism.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scene {
    /// Bursts on one processor, of operations of this many microseconds.
    Balanced(f64),
    /// Operations of both processors on a state of this many KiB.
    Affinity(usize),
    /// Operations on partitions; this share is on those of the first processor.
    Moved(f64),
}

pub(super) fn all() -> Vec<Scene> {
    let balanced = [1.0, 3.0, 10.0, 30.0, 100.0].map(Scene::Balanced);
    let affinity = [4, 32, 256, 1024].map(Scene::Affinity);
    let moved = [0.5, 0.7, 0.9, 1.0].map(Scene::Moved);
    balanced.into_iter().chain(affinity).chain(moved).collect()
}

impl Scene {
    /// Its name, and the value on which the gain depends.
    pub(super) fn setting(self) -> (&'static str, f64) {
        match self {
            Self::Balanced(us) => ("balanced", us),
            Self::Affinity(kib) => ("affinity", kib as f64),
            Self::Moved(share) => ("moved", share),
        }
    }

    /// Microseconds per operation, without the mechanism or `with` it.
    pub(super) fn run(self, with: bool, work: Work, slice: Duration) -> Result<f64, Error> {
        let stretch = Stretch::begin();
        let (elapsed, count) = self.operations(with, work, slice)?;
        let mechanism = if with { "with" } else { "without" };
        stretch.end().of(format_args!("{self}, {mechanism}"), count);
        Ok(elapsed.as_secs_f64() * 1e6 / count as f64)
    }

    /// The time and number of the operations.
    fn operations(
        self,
        with: bool,
        work: Work,
        slice: Duration,
    ) -> Result<(Duration, usize), Error> {
        match (self, with) {
            (Self::Balanced(us), false) => program(
                |graph| graph.stage("work").shared(()),
                move |stage| {
                    bursts(slice, move || stage.call(move |_| async move { work.run(us) }))
                },
            ),
            (Self::Balanced(us), true) => program(
                |graph| graph.stage("work").max_cohort(8).balanced(()),
                move |stage| {
                    bursts(slice, move || stage.call(move |_| async move { work.run(us) }))
                },
            ),
            (Self::Affinity(kib), false) => program(
                |graph| (clients(graph), graph.stage("state").exclusive(lines(kib))),
                move |(clients, stage)| {
                    let call = move |_: &mut fastrand::Rng| {
                        stage.call(|state| async move { state.with(|state| touch(state)) })
                    };
                    both(clients, slice, call)
                },
            ),
            (Self::Affinity(kib), true) => program(
                |graph| {
                    let stage = graph.stage("state").cache_affinity(kib << 10);
                    let stage = stage.exclusive(lines(kib));
                    (clients(graph), stage)
                },
                move |(clients, stage)| {
                    let call = move |_: &mut fastrand::Rng| {
                        stage.call(|state| async move { state.with(|state| touch(state)) })
                    };
                    both(clients, slice, call)
                },
            ),
            (Self::Moved(share), _) => program(
                |graph| {
                    let stage = graph.stage("table").partitions(PARTITIONS).partitioned(|_| ());
                    (clients(graph), stage)
                },
                move |(clients, stage)| async move {
                    for partition in MOVED.into_iter().filter(|_| with) {
                        let moved = stage.move_partition(partition, 1).await;
                        assert_eq!(moved, Ok(()), "nothing runs in the partition");
                    }
                    let call = move |random: &mut fastrand::Rng| {
                        let first = random.f64() < share;
                        let partition = 2 * random.usize(..PARTITIONS / 2) + usize::from(!first);
                        stage.call_partition(partition, move |_| async move {
                            work.run(PARTITION_US);
                        })
                    };
                    both(clients, slice, call).await
                },
            ),
        }
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, setting) = self.setting();
        write!(f, "{name} {setting}")
    }
}

/// Runs `main` on the first of two processors.
fn program<S, F>(
    declare: impl FnOnce(&mut Graph) -> S,
    main: impl FnOnce(S) -> F + Send + 'static,
) -> Result<F::Output, Error>
where
    S: Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let runtime = Runtime::new().processors(PROCESSORS).pin(true).signals(false);
    runtime.block_on(declare, main).map_err(Error::process)
}

/// Awaits bursts of operations for the length of a slice. Their time and number.
async fn bursts(slice: Duration, call: impl Fn() -> Call<()>) -> (Duration, usize) {
    let mut count = 0;
    let start = Instant::now();
    while start.elapsed() < slice {
        for done in join((0..BURST).map(|_| call()).collect::<Vec<_>>()).await {
            done.expect("below the limit");
        }
        count += BURST;
    }
    (start.elapsed(), count)
}

fn clients(graph: &mut Graph) -> SharedStage<()> {
    graph.stage("clients").shared(())
}

/// Runs the clients of both processors for the length of a slice. The time and number of all operations.
async fn both(
    clients: SharedStage<()>,
    slice: Duration,
    call: impl Fn(&mut fastrand::Rng) -> Call<()> + Copy + Send + 'static,
) -> (Duration, usize) {
    let start = Instant::now();
    let client = |number: usize| {
        clients.call_on(number % PROCESSORS, move |_| async move {
            let mut random = fastrand::Rng::with_seed(number as u64);
            let mut count = 0;
            while start.elapsed() < slice || count == 0 {
                call(&mut random).await?;
                count += 1;
            }
            Ok::<usize, CallError>(count)
        })
    };
    let mut count = 0;
    for client in join((0..PROCESSORS * CLIENTS).map(client).collect::<Vec<_>>()).await {
        count += client.and_then(|counted| counted).expect("below the limit");
    }
    (start.elapsed(), count)
}

fn lines(kib: usize) -> Vec<u64> {
    vec![0; (kib << 10) / size_of::<u64>()]
}

/// Writes a word of each cache line.
fn touch(state: &mut [u64]) {
    for word in state.iter_mut().step_by(LINE) {
        *word += 1;
    }
}

/// Microseconds of a move, and of an operation that touches the whole state: before it, and as the first after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) move_us: f64,
    pub(super) before_us: f64,
    pub(super) after_us: f64,
}

/// Moves a partition to and fro for the length of a slice.
pub(super) fn moves(kib: usize, slice: Duration) -> Result<Moved, Error> {
    program(
        |graph| graph.stage("table").partitions(PROCESSORS).partitioned(move |_| lines(kib)),
        move |stage| async move {
            // Timed at the partition, without the call.
            let operation = async move || {
                let touched = stage.call_partition(0, |state| async move {
                    let start = Instant::now();
                    state.with(|state| touch(state));
                    start.elapsed()
                });
                touched.await.map_err(|error| error.to_string())
            };
            let (mut moving, mut count) = (Duration::ZERO, 0);
            let (mut before, mut after) = (Duration::ZERO, Duration::ZERO);
            let begun = Instant::now();
            while begun.elapsed() < slice || count < 2 {
                operation().await?;
                before += operation().await?;
                let start = Instant::now();
                match stage.move_partition(0, 1 - stage.owner(0)).await {
                    Ok(()) => (),
                    // Another program used the core of the owner.
                    Err(MoveError::Busy) => continue,
                    Err(error) => return Err(error.to_string()),
                }
                moving += start.elapsed();
                after += operation().await?;
                count += 1;
            }
            let us = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(count);
            Ok(Moved { move_us: us(moving), before_us: us(before), after_us: us(after) })
        },
    )?
    .map_err(Error::Process)
}

/// The number of steps that take a microsecond on an undisturbed core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    steps_per_us: f64,
}

/// Steps of a calibration, and calibrations of which the fastest counts.
const STEPS: u64 = 200_000;
const CALIBRATIONS: usize = 9;

impl Work {
    pub(super) fn calibrate() -> Self {
        let time = |_| {
            let start = Instant::now();
            steps(STEPS);
            start.elapsed().as_secs_f64() * 1e6
        };
        let fastest = minimum(&(0..CALIBRATIONS).map(time).collect::<Vec<_>>());
        Self { steps_per_us: STEPS as f64 / fastest }
    }

    /// Works for this many microseconds, without memory.
    fn run(self, us: f64) {
        steps((us * self.steps_per_us) as u64);
    }
}

fn steps(count: u64) {
    let mut value = count;
    for _ in 0..count {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
