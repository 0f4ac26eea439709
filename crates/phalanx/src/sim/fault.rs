//! Points in a program at which a simulation may inject a panic or a delay.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::time::Duration;

use fastrand::Rng;
use phalanx_driver::sim::World;

struct Plan {
    rng: Rng,
    per_mille: u32,
    /// The points that have panicked.
    panicked: Vec<&'static str>,
    world: World,
}

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// A point at which a simulation may inject a panic, with the probability set by
/// [`World::set_panics`](super::World::set_panics). Place it where a panic could leave state half updated. Outside a
/// simulation it does nothing except read a thread-local variable. It does not panic in the program's `start`.
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
    let panics = PLAN.with_borrow_mut(|plan| {
        let Some(plan) = plan else { return false };
        let panics = plan.per_mille > 0 && plan.rng.u32(..1000) < plan.per_mille;
        if panics && !plan.panicked.contains(&name) {
            plan.panicked.push(name);
        }
        panics
    });
    if panics {
        // Bypasses the panic hook, which would print a message for each of thousands of seeds.
        resume_unwind(Box::new(name));
    }
}

/// Advances virtual time by `duration` while the processor is busy. In a simulation, running code takes almost no
/// virtual time. Call this function to simulate load, for example to test admission and deadlines. Outside a simulation
/// it does nothing.
///
/// ```
/// fn digest(block: &[u8]) {
///     phalanx::sim::busy_for(std::time::Duration::from_nanos(block.len() as u64));
///     // ...
/// }
/// # digest(b"");
/// ```
pub fn busy_for(duration: Duration) {
    PLAN.with_borrow(|plan| {
        if let Some(Plan { world, .. }) = plan {
            let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
            world.advance_to(world.now().saturating_add(nanoseconds));
        }
    });
}

/// Makes [`busy_for`] advance the time of this world until [`stop`].
pub(super) fn start(seed: u64, world: World) {
    let (rng, panicked) = (Rng::with_seed(seed), Vec::new());
    PLAN.set(Some(Plan { rng, per_mille: 0, panicked, world }));
}

/// Enables fault points.
pub(super) fn enable(per_mille: u32) {
    PLAN.with_borrow_mut(|plan| plan.iter_mut().for_each(|plan| plan.per_mille = per_mille));
}

/// Runs `f` without panics of fault points.
pub(super) fn disabled<R>(f: impl FnOnce() -> R) -> R {
    let rate = PLAN.with_borrow(|plan| plan.as_ref().map_or(0, |plan| plan.per_mille));
    enable(0);
    let result = f();
    enable(rate);
    result
}

pub(super) fn stop() {
    PLAN.set(None);
}

/// Whether a fault point has panicked with this message, which is its name.
pub(super) fn has_injected(message: &str) -> bool {
    PLAN.with_borrow(|plan| plan.as_ref().is_some_and(|plan| plan.panicked.contains(&message)))
}
