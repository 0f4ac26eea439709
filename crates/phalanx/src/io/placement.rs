//! Placement of connections: a processor that has accepted a connection may hand it to another one.
//!
//! The kernel distributes connections among the listeners of an address without regard to load. The processor that
//! accepts a connection asks the law ([`place_connection`]) for the one that serves it, and hands the connection over
//! (`handover`) if that is another one. Listeners of Unix sockets, and those that only one processor has, take no part.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx_core::{Candidate, Control, ProcessorId, now, place_connection};
use phalanx_driver::Socket;

use super::handover::Arriving;
use super::load_sample::LoadSample;
use crate::active::ActiveProcessors;

/// The time between two measurements of a processor's load.
const LOAD_INTERVAL: Duration = Duration::from_millis(20);

/// The placement of all connections of a program.
pub(crate) struct Placement {
    pub(super) members: Box<[Member]>,
    /// The number of processors that can run at the same time.
    cores: usize,
    active: ActiveProcessors,
    loads: Loads,
    /// The processors that listen on each address, in ascending order.
    listening: Mutex<HashMap<SocketAddr, Vec<usize>>>,
}

/// A processor. Each has a cache line of its own, because its numbers change often.
#[repr(align(64))]
pub(super) struct Member {
    pub(super) id: ProcessorId,
    /// Its open sockets other than listeners. Written by its own thread only.
    sockets: AtomicUsize,
    /// Connections that others have handed to it, until its accept returns them.
    pub(super) arriving: AtomicUsize,
}

/// The source of the loads.
pub(crate) enum Loads {
    /// From the time that the processors sleep.
    Measured(Control),
    /// Random numbers of a simulated world.
    #[cfg(feature = "sim")]
    Drawn(phalanx_driver::sim::World),
}

impl Loads {
    /// The load of `processor` in thousandths; `sample` is the caller's last measurement of it.
    fn of(&self, processor: usize, sample: &Cell<LoadSample>) -> u32 {
        match self {
            Loads::Measured(control) => {
                let (before, at) = (sample.get(), now());
                let elapsed = before.age(at);
                if elapsed >= LOAD_INTERVAL {
                    let (parked_ns, is_parked) = control.parked(processor);
                    sample.set(before.next(at, elapsed, parked_ns, is_parked));
                }
                sample.get().load()
            }
            #[cfg(feature = "sim")]
            Loads::Drawn(world) => world.draw(1_001) as u32,
        }
    }
}

impl Placement {
    /// For the program's processors, which have these identities, and of which `cores` can run at the same time.
    pub(crate) fn new(
        ids: impl Iterator<Item = ProcessorId>,
        cores: usize,
        active: ActiveProcessors,
        loads: Loads,
    ) -> Arc<Self> {
        let members = ids.map(|id| Member {
            id,
            sockets: AtomicUsize::new(0),
            arriving: AtomicUsize::new(0),
        });
        let (members, listening) = (members.collect(), Mutex::default());
        Arc::new(Self { members, cores, active, loads, listening })
    }

    /// Processors with this number or a larger one get connections only if none with a smaller one listens.
    fn preferred(&self) -> usize {
        self.cores.min(self.active.count())
    }

    fn listening(&self) -> MutexGuard<'_, HashMap<SocketAddr, Vec<usize>>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One processor's part in the placement.
pub(super) struct Place {
    pub(super) shared: Arc<Placement>,
    pub(super) index: usize,
    /// Its listeners, the newest last, with the addresses of those that take part.
    listeners: RefCell<Vec<(Socket, Option<SocketAddr>)>>,
    /// Connections of other processors that its accepts have not returned yet.
    pub(super) arrived: RefCell<Vec<Arrived>>,
    loads: Box<[Cell<LoadSample>]>,
}

/// A connection that another processor has accepted.
pub(super) struct Arrived {
    pub(super) connection: Socket,
    pub(super) listener: Socket,
    pub(super) _counted: Arriving,
}

impl Place {
    pub(super) fn new(shared: Arc<Placement>, index: usize) -> Self {
        let loads = shared.members.iter().map(|_| Cell::default()).collect();
        let (listeners, arrived) = Default::default();
        Self { shared, index, listeners, arrived, loads }
    }

    pub(super) fn id(&self) -> ProcessorId {
        self.shared.members[self.index].id
    }

    /// Counts a new socket.
    pub(super) fn opened(&self) {
        self.count_sockets(1);
    }

    /// Counts a socket that is about to be closed.
    pub(super) fn closed(&self, socket: Socket) {
        let mut listeners = self.listeners.borrow_mut();
        let Some(at) = listeners.iter().position(|(listener, _)| *listener == socket) else {
            return self.count_sockets(-1);
        };
        let (_, address) = listeners.remove(at);
        // The driver closes them with the listener.
        self.arrived.borrow_mut().retain(|arrived| arrived.listener != socket);
        if let Some(address) = address
            && listeners.iter().all(|(_, other)| *other != Some(address))
        {
            let mut listening = self.shared.listening();
            let processors = listening.entry(address).or_default();
            processors.retain(|processor| *processor != self.index);
            if processors.is_empty() {
                listening.remove(&address);
            }
        }
    }

    fn count_sockets(&self, change: isize) {
        let sockets = &self.shared.members[self.index].sockets;
        let count = sockets.load(Ordering::Relaxed).saturating_add_signed(change);
        sockets.store(count, Ordering::Relaxed);
    }

    pub(super) fn listen(&self, socket: Socket, address: Option<SocketAddr>) {
        self.listeners.borrow_mut().push((socket, address));
        let Some(address) = address else { return };
        let mut listening = self.shared.listening();
        let processors = listening.entry(address).or_default();
        if let Err(at) = processors.binary_search(&self.index) {
            processors.insert(at, self.index);
        }
    }

    /// The newest listener on `address`.
    pub(super) fn listener(&self, address: SocketAddr) -> Option<Socket> {
        let listeners = self.listeners.borrow();
        let same = listeners.iter().rev().find(|(_, other)| *other == Some(address));
        same.map(|(listener, _)| *listener)
    }

    pub(super) fn address(&self, listener: Socket) -> Option<SocketAddr> {
        let listeners = self.listeners.borrow();
        listeners.iter().find(|(other, _)| *other == listener).and_then(|(_, address)| *address)
    }

    /// Whether `connection` came from another processor. True once.
    pub(super) fn has_arrived(&self, connection: Socket) -> bool {
        let mut arrived = self.arrived.borrow_mut();
        let at = arrived.iter().position(|arrived| arrived.connection == connection);
        at.map(|at| arrived.swap_remove(at)).is_some()
    }

    /// The processor that serves a connection to `address` that this one has accepted.
    pub(super) fn choose(&self, address: SocketAddr) -> usize {
        let listening = self.shared.listening();
        let Some(processors) = listening.get(&address) else { return self.index };
        let preferred = self.shared.preferred();
        let preferred = processors.partition_point(|index| *index < preferred);
        let processors = match preferred {
            0 => &processors[..],
            preferred => &processors[..preferred],
        };
        let candidates: Vec<_> =
            processors.iter().map(|&processor| self.candidate(processor)).collect();
        drop(listening);
        place_connection(self.index, &candidates)
    }

    fn candidate(&self, processor: usize) -> Candidate {
        let member = &self.shared.members[processor];
        let arriving = member.arriving.load(Ordering::Relaxed);
        let sockets = member.sockets.load(Ordering::Relaxed) + arriving;
        let load = self.shared.loads.of(processor, &self.loads[processor]);
        Candidate { processor, sockets, arriving, load }
    }
}
