//! Places in a program where a simulation may have it fail, or take time.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::time::Duration;

use fastrand::Rng;
use phalanx_driver::sim::World;

struct Plan {
    rng: Rng,
    per_mille: u32,
    world: World,
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

/// Says that what is done here keeps a processor busy for `duration`: in a simulation, where running
/// takes next to no time, so much virtual time passes. For programs whose load is simulated, with
/// their admission and deadlines. Outside of a simulation it does nothing, as [`fault_point`].
///
/// ```
/// fn digest(block: &[u8]) {
///     phalanx::sim::spend(std::time::Duration::from_nanos(block.len() as u64));
///     // ...
/// }
/// # digest(b"");
/// ```
pub fn spend(duration: Duration) {
    PLAN.with_borrow(|plan| {
        if let Some(Plan { world, .. }) = plan {
            let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
            world.advance_to(world.now().saturating_add(nanoseconds));
        }
    });
}

/// Fault points strike so often, in this world, until [`stop`].
pub(super) fn start(seed: u64, per_mille: u32, world: World) {
    PLAN.set(Some(Plan { rng: Rng::with_seed(seed), per_mille, world }));
}

pub(super) fn stop() {
    PLAN.set(None);
}
