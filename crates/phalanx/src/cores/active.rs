//! The setting of a running program: the number of active processors, and the limits of idle time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use phalanx_core::{ProcessorId, Setting, gather_partitions};

use super::Seats;

/// The number of active processors of a program. By default, all processors are active; if it is set to `n`, the first
/// `n` are. It can be read and set from any thread.
///
/// Setting the number to `n` has these effects:
///
/// 1. The threads of all processors run on the first `n` cores, if the machine has more (Linux).
/// 2. New connections of listeners go to active processors, and so do new QUIC connections
///    ([`UdpSocket::steer_connections`](crate::net::UdpSocket::steer_connections)).
/// 3. Partitions of [migrating](crate::stage::StageOptions::migrating) stages move to active processors.
///
/// A thread started by an operation inherits the restriction to these cores, unless it calls [`use_all_cores`] first.
///
/// Inactive processors still serve their existing connections and the partitions of other stages, and otherwise sleep.
///
/// [`use_all_cores`]: crate::runtime::use_all_cores
#[derive(Clone, Debug)]
pub struct ActiveProcessors(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    count: AtomicUsize,
    members: Box<[Member]>,
    /// `None` in a simulation.
    seats: Option<Seats>,
    /// The maximum times of spinning and coalescing, in nanoseconds. Processors read them when they are idle.
    spin: AtomicU64,
    coalesce: AtomicU64,
    /// Called on the thread of each processor after the number has changed.
    changed: fn(),
}

#[derive(Debug)]
struct Member {
    id: ProcessorId,
    /// Whether a command is on its way to the processor, which will read the current number.
    command_pending: AtomicBool,
}

impl ActiveProcessors {
    /// Creates the handle with all processors active. `idle_limits` are the maximum times of spinning and coalescing,
    /// in nanoseconds. `changed` is called on the thread of each processor after the number has changed.
    pub(crate) fn new(
        ids: impl Iterator<Item = ProcessorId>,
        seats: Option<Seats>,
        idle_limits: (u64, u64),
        changed: fn(),
    ) -> Self {
        let members = ids.map(|id| Member { id, command_pending: AtomicBool::new(false) });
        let members: Box<[Member]> = members.collect();
        let (count, spin, coalesce) = (
            AtomicUsize::new(members.len()),
            AtomicU64::new(idle_limits.0),
            AtomicU64::new(idle_limits.1),
        );
        Self(Arc::new(Shared { count, members, seats, spin, coalesce, changed }))
    }

    /// The number of active processors, from 1.
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::Relaxed)
    }

    /// The number of all processors.
    pub fn all(&self) -> usize {
        self.0.members.len()
    }

    /// The current setting, which is this number and the limits of idle time.
    pub fn setting(&self) -> Setting {
        Setting { active: self.count(), spin_ns: self.spin_ns(), coalesce_ns: self.coalesce_ns() }
    }

    /// Changes the setting. Each processor applies the limits when it is next idle; sleeping processors are not woken
    /// for this. The limits override [`Runtime::spin`](crate::Runtime::spin) and
    /// [`Runtime::coalesce`](crate::Runtime::coalesce).
    pub fn apply(&self, setting: Setting) {
        self.0.spin.store(setting.spin_ns, Ordering::Relaxed);
        self.0.coalesce.store(setting.coalesce_ns, Ordering::Relaxed);
        self.set(setting.active);
    }

    #[inline]
    pub(crate) fn spin_ns(&self) -> u64 {
        self.0.spin.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn coalesce_ns(&self) -> u64 {
        self.0.coalesce.load(Ordering::Relaxed)
    }

    /// Sets the number of active processors, clamped to between 1 and all. It applies from the next accepted connection
    /// on.
    pub fn set(&self, count: usize) {
        let count = count.clamp(1, self.all());
        if self.0.count.swap(count, Ordering::SeqCst) == count {
            return;
        }
        if let Some(seats) = &self.0.seats {
            seats.assign(|| self.count());
        }
        for (index, member) in self.0.members.iter().enumerate() {
            // At most one command per processor is in transit, however often the number changes.
            if !member.command_pending.swap(true, Ordering::SeqCst) {
                let shared = self.0.clone();
                member.id.run_later(move || {
                    shared.members[index].command_pending.store(false, Ordering::SeqCst);
                    (shared.changed)();
                    gather_partitions(shared.count.load(Ordering::SeqCst));
                });
            }
        }
    }

    /// The cores that the threads of active processors may use. Empty if the system does not report them.
    pub(crate) fn cores(&self) -> &[usize] {
        self.0.seats.as_ref().map_or(&[], |seats| seats.cores(self.count()))
    }

    /// Restricts the calling thread, which runs the processor numbered `index`, to its cores until the result is
    /// dropped.
    pub(crate) fn occupy(&self, index: usize) -> impl Drop + '_ {
        let seats = self.0.seats.as_ref();
        if let Some(seats) = seats {
            seats.enter(index, || self.count());
        }
        SeatGuard { seats, index }
    }
}

struct SeatGuard<'a> {
    seats: Option<&'a Seats>,
    index: usize,
}

impl Drop for SeatGuard<'_> {
    fn drop(&mut self) {
        self.seats.iter().for_each(|seats| seats.leave(self.index));
    }
}
