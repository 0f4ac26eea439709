//! Simulated threads of blocking stages. The scheduler starts a call, lets a virtual time pass that depends on the
//! seed, and then runs the call. Calls thus overtake each other as they do on real threads, and a cancelled call may or
//! may not have started.

use std::cell::RefCell;
use std::sync::Arc;

use fastrand::Rng;
use phalanx_core::catch_panic;

use super::pool::{Job, Pool};

/// The simulated threads of one stage.
struct WorkerPool {
    pool: Arc<Pool>,
    /// The calls in progress, and the times at which they end.
    running: Vec<(u64, Job)>,
}

thread_local! {
    /// Set while a simulation runs on this thread.
    static POOLS: RefCell<Option<Vec<WorkerPool>>> = const { RefCell::new(None) };
}

/// A step of a simulated thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WorkerStep {
    /// A thread of this pool starts the call that has waited longest.
    Begin(usize),
    /// This call of this pool ends.
    Finish(usize, usize),
}

/// Whether a simulation runs on this thread. If so, blocking stages start no threads.
pub(crate) fn are_simulated() -> bool {
    POOLS.with_borrow(Option::is_some)
}

/// Records that a call waits in `pool`.
pub(super) fn enter(pool: &Arc<Pool>) {
    POOLS.with_borrow_mut(|pools| {
        let pools = pools.as_mut().expect("asked before");
        if !pools.iter().any(|workers| Arc::ptr_eq(&workers.pool, pool)) {
            // Every step asks each pool, also those of programs that have ended.
            pools.retain(|other| !other.running.is_empty() || other.pool.has_jobs());
            pools.push(WorkerPool { pool: pool.clone(), running: Vec::new() });
        }
    });
}

pub(crate) fn start() {
    POOLS.set(Some(Vec::new()));
}

/// Ends the simulation: finishes the calls in progress, as joining threads would.
pub(crate) fn stop() {
    for workers in POOLS.take().unwrap_or_default() {
        workers.running.into_iter().for_each(|(_, job)| catch_panic(job));
    }
}

/// Discards the state of a failed simulation.
pub(crate) fn forget() {
    drop(POOLS.take());
}

/// Passes each possible step at `now` to `each`.
pub(crate) fn steps(now: u64, mut each: impl FnMut(WorkerStep)) {
    POOLS.with_borrow(|pools| {
        for (number, workers) in pools.iter().flatten().enumerate() {
            if workers.running.len() < workers.pool.max_threads() && workers.pool.has_jobs() {
                each(WorkerStep::Begin(number));
            }
            let finished =
                workers.running.iter().enumerate().filter(|(_, (until, _))| *until <= now);
            finished.for_each(|(call, _)| each(WorkerStep::Finish(number, call)));
        }
    });
}

/// The time at which the next call ends, if any is in progress.
pub(crate) fn next() -> Option<u64> {
    POOLS.with_borrow(|pools| {
        let all = pools.iter().flatten().flat_map(|workers| &workers.running);
        all.map(|(until, _)| *until).min()
    })
}

/// Performs the step. A call that starts ends after a time that `rng` determines, or immediately without `rng`.
pub(crate) fn take(step: WorkerStep, now: u64, rng: Option<&mut Rng>) {
    match step {
        WorkerStep::Begin(workers) => POOLS.with_borrow_mut(|pools| {
            let workers = &mut pools.as_mut().expect("offered before")[workers];
            // The call may have been cancelled.
            if let Some(job) = workers.pool.take() {
                let duration = rng.map_or(0, |rng| {
                    let max = if rng.u8(..8) == 0 { 2_000_000_000 } else { 1_000_000 };
                    rng.u64(..max)
                });
                workers.running.push((now + duration, job));
            }
        }),
        WorkerStep::Finish(workers, call) => {
            let job = POOLS.with_borrow_mut(|pools| {
                pools.as_mut().expect("offered before")[workers].running.swap_remove(call).1
            });
            // The job is foreign code, so it runs without the borrow.
            catch_panic(job);
        }
    }
}
