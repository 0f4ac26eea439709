//! The cores that the thread of each processor may use.
//!
//! If all processors are active, a thread may use every core that the process may use or, if pinned, one core. If only
//! `n` are active, the threads of all processors share the first `n` cores in the order of [`topology::order`]. An
//! inactive processor thus shares the cores of active ones: nothing has to move, and it still serves its connections. A
//! change costs one system call per thread.
//!
//! A thread inherits the cores of the thread that starts it. Helper threads therefore call
//! [`use_all_cores`](phalanx_driver::use_all_cores).

use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

use super::topology;

use crate::lock::lock;

/// The assignment of cores to threads.
#[derive(Debug)]
pub(crate) struct Seats {
    /// The cores that the process may use, in the order of their use. Empty if the system does not report them.
    cores: Vec<usize>,
    processors: usize,
    /// Whether each thread is pinned to a separate core.
    pinned: bool,
    /// The threads that run processors. The lock keeps a thread from ending while its cores are set: its number could
    /// then belong to another thread.
    threads: Mutex<Vec<Option<Pid>>>,
}

impl Seats {
    /// Creates the assignment for `processors` threads. They are not pinned if there are fewer cores, because two
    /// processors pinned to one core would starve each other.
    pub(crate) fn new(processors: usize, pin: bool) -> Self {
        let cores = cores();
        let pinned = pin && processors <= cores.len();
        Self { cores, processors, pinned, threads: Mutex::new(vec![None; processors]) }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<Option<Pid>>> {
        lock(&self.threads)
    }

    /// Records that the calling thread runs `processor`, and gives it its cores.
    pub(crate) fn enter(&self, processor: usize, active: impl Fn() -> usize) {
        let mut threads = self.threads();
        threads[processor] = Some(gettid());
        let active = active();
        if self.pinned || active < self.processors {
            self.bind(gettid(), processor, active);
        }
    }

    /// Records that the thread of `processor` is about to end.
    pub(crate) fn leave(&self, processor: usize) {
        self.threads()[processor] = None;
    }

    /// Assigns cores to all threads according to the number of active processors. The number is read under the lock, so
    /// the latest one applies.
    pub(crate) fn assign(&self, active: impl Fn() -> usize) {
        let threads = self.threads();
        let active = active();
        for (processor, thread) in threads.iter().enumerate() {
            thread.iter().for_each(|thread| self.bind(*thread, processor, active));
        }
    }

    /// Sets the cores of a thread. If the system refuses, the thread keeps its current cores.
    fn bind(&self, thread: Pid, processor: usize, active: usize) {
        let mut set = CpuSet::new();
        self.cores_of(processor, active).iter().for_each(|core| set.set(*core));
        if set.count() > 0 {
            let _ = sched_setaffinity(Some(thread), &set);
        }
    }

    fn cores_of(&self, processor: usize, active: usize) -> &[usize] {
        if self.pinned {
            return std::slice::from_ref(&self.cores[processor % active]);
        }
        self.cores(active)
    }

    /// The cores that the threads of active processors may use. Empty if the system does not report them.
    pub(crate) fn cores(&self, active: usize) -> &[usize] {
        if active == self.processors && !self.pinned {
            &self.cores
        } else {
            &self.cores[..active.min(self.cores.len())]
        }
    }
}

/// The cores that the process may use, in the order of their use.
fn cores() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    topology::order(topology::read(Path::new("/sys/devices"), &allowed))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use phalanx_driver::use_all_cores;

    use super::*;

    fn seats(pinned: bool) -> Seats {
        let threads = Mutex::new(vec![None; 4]);
        Seats { cores: vec![2, 3, 0, 1], processors: 4, pinned, threads }
    }

    #[test]
    fn all_active_processors_get_all_cores_again() {
        let seats = Seats { cores: vec![4, 2, 3, 0, 1], ..seats(false) };
        assert_eq!(seats.cores_of(3, 4), [4, 2, 3, 0, 1]);
        assert_eq!(seats.cores_of(3, 3), [4, 2, 3]);
        let pinned = Seats { pinned: true, ..seats };
        assert_eq!(pinned.cores(4), [4, 2, 3, 0], "those of the four threads");
    }

    #[test]
    fn inactive_processors_share_the_cores_of_active_ones() {
        let cores = |pinned, active| {
            (0..4).map(|processor| seats(pinned).cores_of(processor, active).to_vec()).collect()
        };
        let all: Vec<Vec<usize>> = cores(false, 4);
        assert_eq!(all, vec![vec![2, 3, 0, 1]; 4]);
        let two: Vec<Vec<usize>> = cores(false, 2);
        assert_eq!(two, vec![vec![2, 3]; 4]);
        let pinned: Vec<Vec<usize>> = cores(true, 4);
        assert_eq!(pinned, [[2], [3], [0], [1]]);
        let pinned: Vec<Vec<usize>> = cores(true, 2);
        assert_eq!(pinned, [[2], [3], [2], [3]]);
    }

    #[test]
    fn a_running_thread_gets_its_cores_and_helpers_get_all() {
        let allowed = sched_getaffinity(None).unwrap();
        let seats = Seats::new(1, true);
        thread::scope(|scope| {
            let (ready, entered) = channel();
            let (go_on, waits) = channel::<()>();
            let (seats, first) = (&seats, seats.cores[0]);
            let processor = scope.spawn(move || {
                seats.enter(0, || 1);
                ready.send(gettid()).unwrap();
                waits.recv().unwrap();
                let helper = thread::spawn(|| {
                    use_all_cores();
                    sched_getaffinity(None).unwrap()
                });
                seats.leave(0);
                helper.join().unwrap()
            });
            let thread = entered.recv().unwrap();
            let mut only = CpuSet::new();
            only.set(first);
            assert_eq!(sched_getaffinity(Some(thread)).unwrap(), only);
            seats.assign(|| 1);
            go_on.send(()).unwrap();
            assert_eq!(processor.join().unwrap(), allowed);
        });
        assert_eq!(*seats.threads(), [None]);
    }

    #[test]
    fn threads_are_not_pinned_without_a_core_for_each() {
        let seats = Seats::new(1 + cores().len(), true);
        assert!(!seats.pinned && !seats.cores.is_empty());
    }
}
