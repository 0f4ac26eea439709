//! The threads of a blocking stage and the bounded queue before them.
//!
//! One queue under one lock for all processors: a call that blocks costs more than that. A thread is
//! started when a call finds none idle, up to the bound. The processors that have used the pool are
//! counted; when the last of them ends, what no thread has begun is dropped and the threads are
//! joined. So a program's `run` returns after its blocking calls have. In a simulation there are no
//! threads: its scheduler takes the calls out of the queue and makes them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::BlockingError;
use crate::sim::workers;

/// One call, with all that it needs. It catches its own panics; a destructor's is caught here.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Names a job in its pool.
pub(crate) type JobNumber = u64;

/// The stages whose threads are waited for, in this process.
static AWAITED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The stages of this process that cannot end before their threads' calls have returned.
pub(crate) fn awaited_stages() -> Vec<&'static str> {
    AWAITED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Threads that may block.
pub(crate) struct Pool {
    name: &'static str,
    most_threads: usize,
    bound: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(JobNumber, Job)>,
    next: JobNumber,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    /// Processors that may still send jobs.
    users: usize,
    closing: bool,
}

impl Pool {
    pub(super) fn new(name: &'static str, most_threads: usize, bound: usize) -> Arc<Self> {
        let (state, work) = (Mutex::default(), Condvar::new());
        Arc::new(Self { name, most_threads, bound, state, work })
    }

    /// Queues a job for the next free thread.
    pub(super) fn submit(self: &Arc<Self>, job: Job) -> Result<JobNumber, BlockingError> {
        let mut state = self.lock();
        if state.jobs.len() >= self.bound {
            return Err(BlockingError::Full { stage: self.name, bound: self.bound });
        }
        let simulated = workers::are_simulated();
        if !simulated && state.idle <= state.jobs.len() && state.threads.len() < self.most_threads {
            let pool = self.clone();
            let thread = thread::Builder::new().name(self.name.to_owned());
            match thread.spawn(move || pool.serve()) {
                Ok(thread) => state.threads.push(thread),
                Err(_) if state.threads.is_empty() => {
                    return Err(BlockingError::NoThread { stage: self.name });
                }
                // The others will come to it.
                Err(_) => (),
            }
        }
        let number = state.next;
        state.next += 1;
        state.jobs.push_back((number, job));
        drop(state);
        match simulated {
            true => workers::enter(self),
            false => self.work.notify_one(),
        }
        Ok(number)
    }

    /// Takes back a job that no thread has begun, and drops it.
    pub(super) fn withdraw(&self, number: JobNumber) {
        let mut state = self.lock();
        let place = state.jobs.iter().position(|(other, _)| *other == number);
        let job = place.and_then(|place| state.jobs.remove(place));
        drop(state);
        // Its destructors are foreign code: not under the lock, and contained, since this is called
        // by a destructor.
        contain(|| drop(job));
    }

    /// A thread's life.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some((_, job)) = state.jobs.pop_front() {
                drop(state);
                contain(job);
                state = self.lock();
            } else if state.closing {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    /// A processor sends no more jobs. After the last one, waits for what the threads are doing.
    fn leave(&self) {
        let mut state = self.lock();
        state.users -= 1;
        if state.users > 0 {
            return;
        }
        state.closing = true;
        let (jobs, threads) = (std::mem::take(&mut state.jobs), std::mem::take(&mut state.threads));
        drop(state);
        self.work.notify_all();
        for (_, job) in jobs {
            contain(|| drop(job));
        }
        AWAITED.lock().unwrap_or_else(PoisonError::into_inner).push(self.name);
        for thread in threads {
            // It catches all panics.
            let _ = thread.join();
        }
        let mut awaited = AWAITED.lock().unwrap_or_else(PoisonError::into_inner);
        let place = awaited.iter().position(|name| *name == self.name);
        place.map(|place| awaited.swap_remove(place));
        drop(awaited);
        self.lock().closing = false;
    }

    /// No code that may panic runs under the lock, and the state is always whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Access of the simulated threads.
#[cfg(feature = "sim")]
impl Pool {
    /// The call that has waited longest, for a simulated thread.
    pub(crate) fn take(&self) -> Option<Job> {
        self.lock().jobs.pop_front().map(|(_, job)| job)
    }

    /// Whether a call waits for a thread.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.lock().jobs.is_empty()
    }

    /// The most threads.
    pub(crate) fn most_threads(&self) -> usize {
        self.most_threads
    }
}

/// Runs foreign code whose panic is nobody's.
pub(crate) fn contain(foreign: impl FnOnce()) {
    let caught = catch_unwind(AssertUnwindSafe(foreign));
    let again = caught.map_err(|panic| catch_unwind(AssertUnwindSafe(|| drop(panic))));
    // The payload of a panic may panic when it is dropped. Once is enough.
    if let Err(Err(panic)) = again {
        std::mem::forget(panic);
    }
}

/// The pools that a processor has used; it leaves them when it ends.
#[derive(Default)]
pub(crate) struct Pools(Vec<Arc<Pool>>);

impl Pools {
    /// Notes that this processor uses `pool`.
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
