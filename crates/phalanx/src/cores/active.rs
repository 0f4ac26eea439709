//! The number of active processors, and the limits of idle time: the setting of a running program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use phalanx_core::{ProcessorId, Setting, gather_partitions};

use super::Seats;

/// The number of active processors of a program: the first ones, by default all. Usable from any thread.
///
/// If the number is set to `n`,
///
/// 1. the threads of all processors get the first `n` cores, if the machine has more (Linux);
/// 2. new connections of listeners go to active processors. Those of QUIC do not: the identifier that their clients choose
///    selects one of all processors ([`bind_quic`](crate::net::bind_quic));
/// 3. partitions of [migrating](crate::stage::StageOptions::migrating) stages move to active processors.
///
/// A thread that an operation starts inherits these cores, unless it calls [`use_all_cores`] first.
///
/// The other processors still answer on the connections that they have, run the partitions of other stages, and sleep
/// when these are idle.
///
/// [`use_all_cores`]: crate::runtime::use_all_cores
#[derive(Clone, Debug)]
pub struct ActiveProcessors(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    count: AtomicUsize,
    members: Box<[Member]>,
    /// None in a simulation.
    seats: Option<Seats>,
    /// The longest times of spinning and of coalescing, in nanoseconds. Processors read them when they are idle.
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
    /// All are active. `idle_limits` are the longest times of spinning and of coalescing, in nanoseconds. `changed` is called on
    /// the thread of each processor after the number has changed.
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

    /// The setting: this number, and the limits of idle time.
    pub fn setting(&self) -> Setting {
        Setting { active: self.count(), spin_ns: self.spin_ns(), coalesce_ns: self.coalesce_ns() }
    }

    /// Changes the setting. Each processor follows the limits from its next idle moment on; one that sleeps is not woken.
    /// They replace [`Runtime::spin`](crate::Runtime::spin) and [`Runtime::coalesce`](crate::Runtime::coalesce).
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

    /// Sets the number, limited to 1 to all. It applies to the next connection that is accepted.
    pub fn set(&self, count: usize) {
        let count = count.clamp(1, self.all());
        if self.0.count.swap(count, Ordering::SeqCst) == count {
            return;
        }
        if let Some(seats) = &self.0.seats {
            seats.assign(|| self.count());
        }
        for (index, member) in self.0.members.iter().enumerate() {
            // At most one command for each processor is on its way, however often the number changes.
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

    /// The cores that the threads of active processors may use. Empty if the system does not say.
    pub(crate) fn cores(&self) -> &[usize] {
        self.0.seats.as_ref().map_or(&[], |seats| seats.cores(self.count()))
    }

    /// Gives the calling thread, that of processor number `index`, its cores until this is dropped.
    pub(crate) fn sit(&self, index: usize) -> impl Drop + '_ {
        let seats = self.0.seats.as_ref();
        if let Some(seats) = seats {
            seats.enter(index, || self.count());
        }
        Seated { seats, index }
    }
}

struct Seated<'a> {
    seats: Option<&'a Seats>,
    index: usize,
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.seats.iter().for_each(|seats| seats.leave(self.index));
    }
}
