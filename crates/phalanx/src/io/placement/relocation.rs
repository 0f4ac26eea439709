//! Relocation: connections that move to another processor between two requests, if the program
//! [offers](crate::net::Stream::offer) them.
//!
//! A processor measures its own load when a connection is offered, at most once per [`LOAD_INTERVAL`], and uses a
//! control law ([`relocate_connections`]) to make a *plan*: how many of the next offered connections it hands over, and
//! to which processor. Without a plan, an offer costs two comparisons. `handover` moves the connection.
//!
//! If processors have become active because others are saturated, the saturated ones spread their connections
//! immediately, because the new processors are known to be idle and a measurement would take longer.
//!
//! A connection may use state of a processor that it cannot take along. Instead of gathering with others, such a
//! connection joins its state if one core can do the work of both processors ([`may_join`]).

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx_core::{Candidate, MAX_ARRIVING, Relocation, may_join, now, relocate_connections};
use phalanx_driver::Socket;

use super::{LOAD_INTERVAL, LocalPlacement};
use crate::cores::IdleCores;
use crate::io::Io;
use crate::lock::lock;
use crate::nanoseconds::nanoseconds;

/// The time for which a plan that spreads connections is executed before the loads are considered again.
const SPREAD_TIME: Duration = Duration::from_millis(100);
/// The time after a spread in which no connections are gathered.
const SPREAD_PAUSE: Duration = Duration::from_secs(1);
/// A measurement over a longer time says nothing about the current load.
const MAX_INTERVAL: Duration = LOAD_INTERVAL.saturating_mul(10);
/// The maximum number of connections that a processor hands over in one interval: this number or a fraction of its
/// sockets, whichever is larger.
const MIN_PER_INTERVAL: usize = 16;
const FRACTION_PER_INTERVAL: usize = 16;
/// The idle time of one idle core, in thousandths.
const ONE_CORE: u32 = 1_000;

/// The relocations of all processors of a program.
#[derive(Default)]
pub(in crate::io) struct Relocations {
    idle: Mutex<IdleCores>,
    /// The time of the last spread, in nanoseconds.
    last_spread: AtomicU64,
}

impl Relocations {
    fn has_spread_recently(&self, now: Duration) -> bool {
        let last = Duration::from_nanos(self.last_spread.load(Ordering::Relaxed));
        !last.is_zero() && now < last + SPREAD_PAUSE
    }
}

/// One processor's part in the relocations.
#[derive(Default)]
pub(in crate::io) struct Offers {
    next_sample: Cell<Duration>,
    /// The time of the last measurement, and the thread's CPU time then.
    measured: Cell<(Duration, u64)>,
    plan: Cell<Option<Plan>>,
    /// By processor, the time before which connections may not join its state.
    no_join: RefCell<Vec<Duration>>,
    /// The number of active processors, and the time until which newly active ones count as idle.
    active: Cell<(usize, Duration)>,
}

/// Connections to hand over.
#[derive(Clone, Copy)]
struct Plan {
    address: SocketAddr,
    to: Target,
    remaining: usize,
}

/// The destination of a connection that should move.
#[derive(Clone, Copy)]
pub(in crate::io) struct Target {
    pub(in crate::io) processor: u16,
    /// Whether it moves to an idle core instead of joining other connections.
    pub(in crate::io) spreads: bool,
}

impl Target {
    const SPREADS: u16 = 1 << 14;

    /// Packs the target into a number below 2¹⁵.
    pub(in crate::io) fn pack(self) -> u16 {
        self.processor | if self.spreads { Self::SPREADS } else { 0 }
    }

    pub(in crate::io) fn unpack(packed: u16) -> Self {
        Self { processor: packed & !Self::SPREADS, spreads: packed & Self::SPREADS != 0 }
    }
}

impl Io {
    /// The processor to which a connection of `listener` that is offered now should move.
    #[inline]
    pub(in crate::io) fn next_target(&self, listener: Socket) -> Option<Target> {
        let placement = &self.placement;
        if placement.shared.members.len() == 1 {
            return None;
        }
        let now = now();
        if now >= placement.offers.next_sample.get() {
            placement.set_offered(listener);
            placement.sample(listener, now);
        }
        placement.offers.plan.get().and_then(|plan| placement.follow(plan, listener))
    }

    /// The processor to which a connection of `listener` should move that uses state of the processor `near`.
    pub(in crate::io) fn target_near(
        &self,
        listener: Socket,
        near: Option<usize>,
    ) -> Option<Target> {
        let placement = &self.placement;
        let is_near = near == Some(placement.index);
        // A connection leaves its state only where processors may be inactive: elsewhere, its work would need both.
        let stays = is_near && placement.offers.active.get().0 == 0;
        if stays || placement.shared.members.len() == 1 {
            return None;
        }
        let now = now();
        if now >= placement.offers.next_sample.get() {
            placement.sample(listener, now);
        }
        let is_inactive = placement.index >= placement.shared.preferred();
        let plan = placement.offers.plan.get().filter(|plan| plan.to.spreads || is_inactive);
        if let Some(target) = plan.and_then(|plan| placement.follow(plan, listener)) {
            return Some(target);
        }
        let near = near.filter(|_| !is_near)?;
        let mut no_join = placement.offers.no_join.borrow_mut();
        if no_join.len() <= near {
            no_join.resize(near + 1, Duration::ZERO);
        }
        if now < no_join[near] {
            return None;
        }
        let joins = placement.should_join(placement.address(listener)?, near, now);
        if !joins {
            no_join[near] = now + LOAD_INTERVAL;
        }
        let processor = u16::try_from(near).ok().filter(|_| joins)?;
        Some(Target { processor, spreads: false })
    }
}

impl LocalPlacement {
    /// Takes one connection from the plan, if `listener` has the plan's address.
    fn follow(&self, plan: Plan, listener: Socket) -> Option<Target> {
        if self.address(listener) != Some(plan.address) || self.is_crowded(plan.to.processor.into())
        {
            return None;
        }
        let remaining = plan.remaining - 1;
        self.offers.plan.set((remaining > 0).then_some(Plan { remaining, ..plan }));
        Some(plan.to)
    }

    /// Whether connections to `address` that use state of the processor `near` should move there.
    fn should_join(&self, address: SocketAddr, near: usize, now: Duration) -> bool {
        let (candidates, _) = self.candidates(address);
        let find = |index| candidates.iter().find(|candidate| candidate.processor == index);
        let (Some(own), Some(to)) = (find(self.index), find(near)) else { return false };
        to.arriving < MAX_ARRIVING
            && !self.shared.relocations.has_spread_recently(now)
            && may_join(own.load, to.load, || self.idle(now))
    }

    /// Measures this processor's load, and makes a plan for the connections of `listener`.
    #[cold]
    fn sample(&self, listener: Socket, now: Duration) {
        self.offers.next_sample.set(now + LOAD_INTERVAL);
        self.offers.plan.set(None);
        if let Some(address) = self.address(listener) {
            self.plan(address, now);
        }
    }

    /// Measures this processor's load. Returns `false` if the last measurement was too long ago.
    fn measure(&self, now: Duration) -> bool {
        if self.is_saturated() {
            self.publish_load(now, 1_000);
        } else if let Some(cpu_time) = self.shared.loads.cpu_time() {
            let (before, cpu_before) = self.offers.measured.replace((now, cpu_time));
            let elapsed = now.saturating_sub(before);
            if elapsed > MAX_INTERVAL {
                return false;
            }
            let load =
                1_000 * u128::from(cpu_time.saturating_sub(cpu_before)) / elapsed.as_nanos().max(1);
            self.publish_load(now, load.min(1_000) as u32);
        }
        true
    }

    /// Makes a plan for connections to `address`.
    fn plan(&self, address: SocketAddr, now: Duration) {
        let (offers, is_measured) = (&self.offers, self.measure(now));
        let Some(relocation) = self.decide(address, now, is_measured) else { return };
        let Relocation { to, connections, spreads } = relocation;
        let mut remaining = connections;
        if spreads {
            let now = nanoseconds(now);
            self.shared.relocations.last_spread.store(now, Ordering::Relaxed);
            offers.next_sample.set(offers.next_sample.get() + SPREAD_TIME);
        } else {
            remaining = remaining.min((connections / FRACTION_PER_INTERVAL).max(MIN_PER_INTERVAL));
        }
        let to = u16::try_from(to).ok().filter(|to| *to < Target::SPREADS);
        offers.plan.set(to.filter(|_| remaining > 0).map(|processor| {
            let to = Target { processor, spreads };
            Plan { address, to, remaining }
        }));
    }

    /// Reacts to a change of the number of active processors.
    pub(in crate::io) fn active_changed(&self, now: Duration) {
        let (offers, active) = (&self.offers, self.shared.preferred());
        let (before, _) = offers.active.get();
        let has_grown = before > 0 && active > before && self.is_saturated();
        offers.active.set((active, if has_grown { now + SPREAD_TIME } else { Duration::ZERO }));
        if has_grown {
            offers.next_sample.set(now);
        }
    }

    /// Decides on a relocation. An inactive processor gives its connections away without a measurement, because it may
    /// never get enough requests to measure.
    fn decide(&self, address: SocketAddr, now: Duration, is_measured: bool) -> Option<Relocation> {
        let (mut others, _) = self.candidates(address);
        let Some(own) = others.iter().position(|other| other.processor == self.index) else {
            // This processor is not active.
            let least_loaded = others.iter().min_by_key(|other| (other.load, other.sockets))?;
            return Some(Relocation {
                to: least_loaded.processor,
                connections: self.candidate(self.index).sockets,
                spreads: false,
            });
        };
        if !is_measured {
            return None;
        }
        let own: Candidate = others.remove(own);
        let relocation = relocate_connections(&own, &others, || self.idle(now))?;
        let has_spread = self.shared.relocations.has_spread_recently(now);
        (relocation.spreads || !has_spread).then_some(relocation)
    }

    /// The total idle time of all cores in the recent past, in thousandths of one core.
    fn idle(&self, now: Duration) -> u32 {
        if now < self.offers.active.get().1 {
            return ONE_CORE;
        }
        let mut idle = lock(&self.shared.relocations.idle);
        self.shared.loads.idle(&mut idle, self.shared.active.cores(), now)
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::{Graph, ProcessorBuilder};

    use super::*;
    use crate::cores::ActiveProcessors;
    use crate::io::placement::{Loads, Placement};

    /// The part of processor 1 of 2, for listeners on the returned address.
    fn place(builders: &[ProcessorBuilder]) -> (LocalPlacement, ActiveProcessors, SocketAddr) {
        let ids = || builders.iter().map(|builder| builder.id());
        let active = ActiveProcessors::new(ids(), None, (0, 0), || ());
        let loads = Loads::Measured(builders[0].control());
        let place = LocalPlacement::new(Placement::new(ids(), 2, active.clone(), loads), 1);
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        place.shared.listening().entry(address).or_default().processors = vec![0, 1];
        (place, active, address)
    }

    #[test]
    fn an_inactive_processor_with_rare_requests_gives_its_connections_away() {
        let builders = Graph::new().build(2);
        let (place, active, address) = place(&builders);
        place.opened();
        let target = |second| {
            place.plan(address, Duration::from_secs(second));
            place.offers.plan.take().map(|plan| plan.to.processor)
        };
        // Inside the processor, because the loads of other processors are those at its time.
        let processor = Graph::new().build(1).remove(0).build(Box::new(|| ()));
        processor.enter(|| {
            assert_eq!([target(1), target(2)], [None, None], "its load is not known");
            active.set(1);
            assert_eq!([target(3), target(4)], [Some(0), Some(0)]);
        });
    }

    #[test]
    fn connections_join_another_processor_unless_they_have_just_spread() {
        let builders = Graph::new().build(2);
        let (place, _, address) = place(&builders);
        let processor = Graph::new().build(1).remove(0).build(Box::new(|| ()));
        processor.enter(|| {
            let joins = |near| place.should_join(address, near, now());
            assert!(joins(0) && !joins(2), "there is no processor 2");
            place.shared.relocations.last_spread.store(nanoseconds(now()) + 1, Ordering::Relaxed);
            assert!(!joins(0));
        });
    }
}
