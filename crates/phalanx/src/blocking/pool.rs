//! The threads of a blocking stage and their bounded queue.
//!
//! One queue under one lock serves all processors, because a blocking call costs more than the lock. A thread is
//! started, up to the bound, when a call finds none idle. The pool counts the processors that have used it. When the
//! last of them ends, calls that no thread has started are dropped and the threads are joined, so `run` returns after
//! all blocking calls. The threads of a detached stage are not joined: each ends after its call. In a simulation there
//! are no threads: the scheduler takes calls out of the queue and runs them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use phalanx_core::catch_panic;

use super::{BlockingError, workers};

use crate::lock::lock;

/// A call with its arguments. The job catches panics of the call; the thread catches panics of destructors.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Number of a job in its pool.
pub(crate) type JobNumber = u64;

/// The stages of this process whose threads are being joined.
static AWAITED_POOLS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The stages of this process that wait for blocking calls to return.
pub(crate) fn awaited_stages() -> Vec<&'static str> {
    lock(&AWAITED_POOLS).clone()
}

/// A pool of threads that may block.
pub(crate) struct Pool {
    name: &'static str,
    max_threads: usize,
    bound: usize,
    /// Whether threads are not joined.
    detached: bool,
    /// Called on each thread when it starts: sets its cores.
    use_cores: fn(),
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(JobNumber, Job)>,
    next: JobNumber,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    /// The number of processors that may still submit jobs.
    users: usize,
    /// Changes when the last user leaves. Threads of an earlier generation exit when no job is waiting.
    generation: u64,
}

impl Pool {
    pub(super) fn new(
        name: &'static str,
        max_threads: usize,
        bound: usize,
        detached: bool,
        use_cores: fn(),
    ) -> Arc<Self> {
        let (state, work) = (Mutex::default(), Condvar::new());
        Arc::new(Self { name, max_threads, bound, detached, use_cores, state, work })
    }

    /// Queues a job for the next free thread.
    pub(super) fn submit(self: &Arc<Self>, job: Job) -> Result<JobNumber, BlockingError> {
        let mut state = self.lock();
        if state.jobs.len() >= self.bound {
            return Err(BlockingError::Full { stage: self.name, bound: self.bound });
        }
        let simulated = workers::are_simulated();
        if !simulated && state.idle <= state.jobs.len() && state.threads.len() < self.max_threads {
            let (pool, generation) = (self.clone(), state.generation);
            let thread = thread::Builder::new().name(self.name.to_owned());
            let serve = move || {
                (pool.use_cores)();
                pool.serve(generation);
            };
            match thread.spawn(serve) {
                Ok(thread) => state.threads.push(thread),
                Err(_) if state.threads.is_empty() => {
                    return Err(BlockingError::NoThread { stage: self.name });
                }
                // The other threads will run it.
                Err(_) => (),
            }
        }
        let number = state.next;
        state.next += 1;
        state.jobs.push_back((number, job));
        drop(state);
        if simulated {
            workers::enter(self)
        } else {
            self.work.notify_one()
        }
        Ok(number)
    }

    /// Removes a job that no thread has started, and drops it.
    pub(super) fn withdraw(&self, number: JobNumber) {
        let mut state = self.lock();
        let place = state.jobs.iter().position(|(other, _)| *other == number);
        let job = place.and_then(|place| state.jobs.remove(place));
        drop(state);
        // The job's destructors are foreign code. They run without the lock, and their panics are caught
        // because the caller may be a destructor.
        catch_panic(|| drop(job));
    }

    /// The main function of a thread.
    fn serve(&self, generation: u64) {
        let mut state = self.lock();
        loop {
            if let Some((_, job)) = state.jobs.pop_front() {
                drop(state);
                catch_panic(job);
                state = self.lock();
            } else if state.generation != generation {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    /// Records that a processor submits no more jobs. When the last processor leaves, stops the threads, and joins them
    /// unless they are detached.
    fn leave(&self) {
        let mut state = self.lock();
        state.users -= 1;
        if state.users > 0 {
            return;
        }
        state.generation += 1;
        let (jobs, threads) = (std::mem::take(&mut state.jobs), std::mem::take(&mut state.threads));
        drop(state);
        self.work.notify_all();
        for (_, job) in jobs {
            catch_panic(|| drop(job));
        }
        if self.detached {
            return;
        }
        lock(&AWAITED_POOLS).push(self.name);
        for thread in threads {
            // The thread catches all panics.
            let _ = thread.join();
        }
        let mut awaited = lock(&AWAITED_POOLS);
        let place = awaited.iter().position(|name| *name == self.name);
        place.map(|place| awaited.swap_remove(place));
    }

    /// Poisoning is ignored: no code that may panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Methods for the simulated threads.
#[cfg(feature = "sim")]
impl Pool {
    /// Takes the call that has waited longest.
    pub(crate) fn take(&self) -> Option<Job> {
        self.lock().jobs.pop_front().map(|(_, job)| job)
    }

    /// Whether a call waits for a thread.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.lock().jobs.is_empty()
    }

    /// The maximum number of threads.
    pub(crate) fn max_threads(&self) -> usize {
        self.max_threads
    }
}

/// The pools that a processor has used. Dropping this leaves them.
#[derive(Default)]
pub(crate) struct Pools(Vec<Arc<Pool>>);

impl Pools {
    /// Records that this processor uses `pool`.
    pub(super) fn enter(&mut self, pool: &Arc<Pool>) {
        if !self.0.iter().any(|other| Arc::ptr_eq(other, pool)) {
            pool.lock().users += 1;
            self.0.push(pool.clone());
        }
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        self.0.iter().for_each(|pool| pool.leave());
    }
}
