//! Places in a program where a simulation may have it fail.

use std::cell::RefCell;
use std::panic::resume_unwind;

use fastrand::Rng;

struct Plan {
    rng: Rng,
    per_mille: u32,
}

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// A place where an operation may panic, if a simulation is to have it so
/// ([`World::set_panics`](super::World::set_panics)): for the moments after which something could be
/// left half done. Outside of a simulation it does nothing, and costs a look at a thread's variable.
///
/// ```
/// # fn pay(_: u32) {} fn note(_: u32) {}
/// fn transfer(amount: u32) {
///     pay(amount);
///     phalanx::sim::fault_point("paid and not noted");
///     note(amount);
/// }
/// # transfer(1);
/// ```
pub fn fault_point(name: &'static str) {
    let strikes = PLAN.with_borrow_mut(|plan| {
        plan.as_mut().is_some_and(|plan| plan.rng.u32(..1000) < plan.per_mille)
    });
    if strikes {
        // Without the hook: thousands of seeds would say it thousands of times.
        resume_unwind(Box::new(name));
    }
}

/// Fault points strike so often until [`stop`].
pub(super) fn start(seed: u64, per_mille: u32) {
    PLAN.set(Some(Plan { rng: Rng::with_seed(seed), per_mille }));
}

pub(super) fn stop() {
    PLAN.set(None);
}
