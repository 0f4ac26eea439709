//! The threads of blocking stages, simulated: the scheduler begins a call, lets virtual time pass as
//! the seed says, and makes the call when that is over. So calls overtake each other as on threads,
//! and a call that is given up is not begun, or begun and in vain.

use std::cell::RefCell;
use std::sync::Arc;

use fastrand::Rng;

use crate::blocking::{Job, Pool, discard_panic};

/// One stage's threads.
struct Crew {
    pool: Arc<Pool>,
    /// What they are at, and until when.
    at_work: Vec<(u64, Job)>,
}

thread_local! {
    /// There while a simulation runs on this thread.
    static CREWS: RefCell<Option<Vec<Crew>>> = const { RefCell::new(None) };
}

/// What a simulated thread can do now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chore {
    /// A thread of this crew begins the call that has waited longest.
    Begin(usize),
    /// This call of this crew is over.
    Finish(usize, usize),
}

/// Whether blocking stages have no threads, since a simulation stands in for them.
pub(crate) fn are_simulated() -> bool {
    CREWS.with_borrow(Option::is_some)
}

/// A call waits in `pool`.
pub(crate) fn enter(pool: &Arc<Pool>) {
    CREWS.with_borrow_mut(|crews| {
        let crews = crews.as_mut().expect("asked before");
        if !crews.iter().any(|crew| Arc::ptr_eq(&crew.pool, pool)) {
            crews.push(Crew { pool: pool.clone(), at_work: Vec::new() });
        }
    });
}

pub(super) fn start() {
    CREWS.set(Some(Vec::new()));
}

/// The simulation is over: what was begun is finished, as threads are joined.
pub(super) fn stop() {
    for crew in CREWS.take().unwrap_or_default() {
        crew.at_work.into_iter().for_each(|(_, job)| discard_panic(job));
    }
}

/// Forgets what a simulation that failed has left.
pub(super) fn forget() {
    drop(CREWS.take());
}

/// All that simulated threads can do at `now`.
pub(super) fn chores(now: u64, mut each: impl FnMut(Chore)) {
    CREWS.with_borrow(|crews| {
        for (number, crew) in crews.iter().flatten().enumerate() {
            if crew.at_work.len() < crew.pool.most_threads() && crew.pool.has_jobs() {
                each(Chore::Begin(number));
            }
            let over = crew.at_work.iter().enumerate().filter(|(_, (until, _))| *until <= now);
            over.for_each(|(call, _)| each(Chore::Finish(number, call)));
        }
    });
}

/// When the next call will be over, if one is under way.
pub(super) fn next() -> Option<u64> {
    CREWS.with_borrow(|crews| {
        let all = crews.iter().flatten().flat_map(|crew| &crew.at_work);
        all.map(|(until, _)| *until).min()
    })
}

/// Does it.
pub(super) fn attend(chore: Chore, now: u64, rng: &mut Rng) {
    match chore {
        Chore::Begin(crew) => CREWS.with_borrow_mut(|crews| {
            let crew = &mut crews.as_mut().expect("offered before")[crew];
            // A call that has been given up meanwhile is not there any more.
            if let Some(job) = crew.pool.take() {
                let most = if rng.u8(..8) == 0 { 2_000_000_000 } else { 1_000_000 };
                crew.at_work.push((now + rng.u64(..most), job));
            }
        }),
        Chore::Finish(crew, call) => {
            let job = CREWS.with_borrow_mut(|crews| {
                crews.as_mut().expect("offered before")[crew].at_work.swap_remove(call).1
            });
            // The program's own code: not while the crews are borrowed.
            discard_panic(job);
        }
    }
}
