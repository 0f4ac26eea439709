//! Placement of connections: a processor that has accepted a connection may hand it to another one.
//!
//! The kernel distributes connections among the listeners of an address without regard to load. A processor that has
//! accepted a connection uses a control law ([`place_connection`](phalanx_core::place_connection)) to choose the
//! processor that serves it, and hands the connection over (`handover`) if that is another one. Listeners of Unix
//! sockets, and addresses on which only one processor listens, take no part.
//!
//! | file | idea |
//! |---|---|
//! | `local` | one processor's part |
//! | `handover` | an accepted connection goes to another processor |
//! | `relocation` | connections that move between two requests |
//! | `steering` | the kernel distributes new connections among active processors |
//! | `load_sample`, `saturation` | the load of a processor |
//! | `moves` | counters |

mod handover;
mod load_sample;
mod local;
mod moves;
mod relocation;
mod saturation;
mod steering;

use std::cell::Cell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use phalanx_core::{Control, ProcessorId, now};

pub(super) use self::handover::PassedState;
pub(crate) use self::handover::{Accepted, place};
pub(crate) use self::load_sample::LoadSample;
pub(super) use self::local::{LocalPlacement, ReceivedConnection};
use self::moves::Moves;
use self::relocation::Relocations;
pub(super) use self::relocation::Target;
pub(crate) use self::saturation::{Saturated, SaturationProbe};
pub(crate) use self::steering::active_changed;
use crate::cores::{ActiveProcessors, IdleCores};
use crate::io::traffic::{Traffic, TrafficCounters};
use crate::lock::lock;
#[cfg(feature = "admin")]
use crate::metrics::Registered;

/// The time between two measurements of a processor's load.
pub(super) const LOAD_INTERVAL: Duration = Duration::from_millis(20);

/// The placement of all connections of a program.
pub(crate) struct Placement {
    pub(super) members: Box<[Member]>,
    /// The number of processors that can run at the same time.
    cores: usize,
    pub(super) active: ActiveProcessors,
    pub(super) loads: Loads,
    listening: Mutex<HashMap<SocketAddr, Listening>>,
    pub(super) relocations: Relocations,
    pub(super) moves: Moves,
    /// The saturation flags, which processors set if the program has automatic placement.
    saturated: Arc<Saturated>,
}

/// The listeners of an address.
#[derive(Default)]
struct Listening {
    /// Their processors, in ascending order.
    processors: Vec<usize>,
    /// Whether the program offers their connections, so that they may move later.
    offered: bool,
}

/// The placement data of a processor. It has its own cache line, because its numbers change often.
#[repr(align(64))]
pub(super) struct Member {
    pub(super) id: ProcessorId,
    /// The number of its open sockets other than listeners. Written only by its own thread.
    sockets: AtomicUsize,
    /// The number of these sockets that receive datagrams. All HTTP/3 connections share one.
    datagram_sockets: AtomicUsize,
    /// The number of connections that others have handed to it and that its accept has not returned yet.
    pub(super) arriving: AtomicUsize,
    /// Its last measurement of its own load: the time in milliseconds modulo 2³² in the upper 32 bits, and the CPU load
    /// in thousandths in the lower 32 bits.
    load: AtomicU64,
    traffic: Arc<TrafficCounters>,
}

impl Member {
    /// The CPU load of this processor in the recent past, in thousandths; `None` if it was not measured.
    fn cpu_load(&self, now: Duration) -> Option<u32> {
        let load = self.load.load(Ordering::Relaxed);
        // Negative if its clock is ahead of `now`, which is the start time of a turn.
        let age = (millis(now) as u32).wrapping_sub((load >> 32) as u32) as i32;
        let recent = -1_000..=3 * millis(LOAD_INTERVAL) as i32;
        (load != 0 && recent.contains(&age)).then_some(load as u32)
    }
}

/// Changes a counter that only this thread writes.
fn change(counter: &AtomicUsize, by: isize) {
    let count = counter.load(Ordering::Relaxed).saturating_add_signed(by);
    counter.store(count, Ordering::Relaxed);
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The source of the loads.
pub(crate) enum Loads {
    /// Measured by the time for which the processors sleep.
    Measured(Control),
    /// Random numbers of a simulated world.
    #[cfg(feature = "sim")]
    Drawn(phalanx_driver::sim::World),
}

impl Loads {
    /// The load of `processor` in thousandths. `sample` is the caller's last measurement of it.
    fn of(&self, processor: usize, sample: &Cell<LoadSample>) -> u32 {
        match self {
            Loads::Measured(control) => {
                let (before, at) = (sample.get(), now());
                let elapsed = before.age(at);
                if elapsed >= LOAD_INTERVAL {
                    let parked_ns = control.parked(processor, at.as_nanos() as u64);
                    sample.set(before.next(at, elapsed, parked_ns));
                }
                sample.get().load()
            }
            #[cfg(feature = "sim")]
            Loads::Drawn(world) => world.draw(1_001) as u32,
        }
    }

    /// The CPU time of this thread, in nanoseconds. `None` in a simulation.
    pub(super) fn cpu_time(&self) -> Option<u64> {
        match self {
            Loads::Measured(_) => Some(crate::machine::thread_cpu_time()),
            #[cfg(feature = "sim")]
            Loads::Drawn(_) => None,
        }
    }

    /// The idle time of the cores that the threads of active processors may use, in thousandths of one core.
    pub(super) fn idle(&self, idle: &mut IdleCores, cores: &[usize], now: Duration) -> u32 {
        match self {
            Loads::Measured(_) => idle.at(now, cores),
            #[cfg(feature = "sim")]
            Loads::Drawn(world) => world.draw(1_001) as u32,
        }
    }
}

impl Placement {
    /// Creates the placement for processors with these identities, of which `cores` can run at the same time.
    pub(crate) fn new(
        ids: impl Iterator<Item = ProcessorId>,
        cores: usize,
        active: ActiveProcessors,
        loads: Loads,
    ) -> Arc<Self> {
        let members = ids.map(|id| Member {
            id,
            sockets: AtomicUsize::new(0),
            datagram_sockets: AtomicUsize::new(0),
            arriving: AtomicUsize::new(0),
            load: AtomicU64::new(0),
            traffic: Arc::default(),
        });
        let (listening, relocations, moves) = Default::default();
        let members: Box<[Member]> = members.collect();
        let saturated = Saturated::new(members.len());
        Arc::new(Self { members, cores, active, loads, listening, relocations, moves, saturated })
    }

    /// The saturation flags of the processors.
    pub(crate) fn saturated(&self) -> Arc<Saturated> {
        self.saturated.clone()
    }

    /// Adds the counters of moved connections to `metrics`, if there is a processor to which they can move.
    #[cfg(feature = "admin")]
    pub(crate) fn register(&self, mut metrics: Registered) -> Registered {
        if self.members.len() > 1 {
            self.moves.register(&mut metrics);
        }
        metrics
    }

    /// The open sockets of a processor other than listeners.
    pub(crate) fn sockets(&self, processor: usize) -> usize {
        self.members[processor].sockets.load(Ordering::Relaxed)
    }

    /// Whether a processor serves only one connection, so that its load cannot be divided.
    pub(crate) fn has_single_connection(&self, processor: usize) -> bool {
        let datagram_sockets = self.members[processor].datagram_sockets.load(Ordering::Relaxed);
        self.sockets(processor) == 1 && datagram_sockets == 0
    }

    pub(crate) fn processors(&self) -> usize {
        self.members.len()
    }

    /// The traffic of a processor.
    pub(crate) fn traffic(&self, processor: usize) -> Traffic {
        self.members[processor].traffic.read(self.sockets(processor))
    }

    /// Processors with this number or a larger one get connections only if no processor with a smaller number listens.
    pub(super) fn preferred(&self) -> usize {
        self.cores.min(self.active.count())
    }

    fn listening(&self) -> MutexGuard<'_, HashMap<SocketAddr, Listening>> {
        lock(&self.listening)
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::Graph;

    use super::*;

    fn place() -> LocalPlacement {
        let mut builders = Graph::new().build(1);
        let builder = builders.remove(0);
        let ids = || std::iter::once(builder.id());
        let active = ActiveProcessors::new(ids(), None, (0, 0), || ());
        LocalPlacement::new(Placement::new(ids(), 1, active, Loads::Measured(builder.control())), 0)
    }

    #[test]
    fn a_single_connection_is_one_without_other_sockets() {
        let place = place();
        let is_single = || place.shared.has_single_connection(0);
        assert!(!is_single(), "its work comes from elsewhere");
        place.opened();
        assert!(is_single());
        place.opened();
        assert!(!is_single());
        change(&place.shared.members[0].sockets, -1);
        place.count_datagram_socket(1);
        assert!(!is_single(), "many connections may share it");
        place.count_datagram_socket(-1);
        assert!(is_single());
    }

    #[test]
    fn a_connection_of_another_processor_is_not_opened() {
        let place = place();
        place.count_socket();
        let traffic = place.shared.traffic(0);
        assert_eq!((traffic.sockets, traffic.opens), (1, 0));
        place.opened();
        let traffic = place.shared.traffic(0);
        assert_eq!((traffic.sockets, traffic.opens), (2, 1));
    }

    #[test]
    fn loads_are_known_for_a_moment_even_after_months() {
        let place = place();
        let member = &place.shared.members[0];
        let day = Duration::from_secs(24 * 3600);
        for days in [1, 49, 50, 100, 1_000] {
            let now = days * day;
            place.publish_load(now, 500);
            assert_eq!(member.cpu_load(now + Duration::from_millis(60)), Some(500), "{days}");
            let before = now.saturating_sub(Duration::from_millis(5));
            assert_eq!(member.cpu_load(before), Some(500), "{days}: ahead of the reader");
            assert_eq!(member.cpu_load(now + Duration::from_millis(61)), None, "{days}");
        }
        // 2³² milliseconds.
        let wraps = Duration::from_millis((1 << 32) - 10);
        place.publish_load(wraps, 500);
        assert_eq!(member.cpu_load(wraps + Duration::from_millis(50)), Some(500));
    }
}
