//! Placement of connections: a processor that has accepted a connection may hand it to another one.
//!
//! The kernel distributes connections among the listeners of an address without regard to load. The processor that
//! accepts a connection asks the law ([`place_connection`]) for the one that serves it. If that is another one:
//!
//! 1. The accepting processor detaches the connection from its driver, before any request on it.
//! 2. It sends the connection as a command to the other processor, with the address of the listener.
//! 3. The other processor's driver takes it over, as if its own listener on that address had accepted it. So the
//!    accept loop of that processor serves it like any other.
//!
//! If that listener has been closed meanwhile, the connection returns, and is closed if the first listener is gone too.
//! Listeners of Unix sockets, and those that only one processor has, take no part.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx_core::{Candidate, Control, ProcessorId, now, place_connection};
use phalanx_driver::{Endpoint, Socket};

use super::{Io, try_with, with};

/// The time between two measurements of a processor's load.
const LOAD_INTERVAL: Duration = Duration::from_millis(20);

/// The placement of all connections of a program.
pub(crate) struct Placement {
    members: Box<[Member]>,
    /// Processors with a larger number get connections only if none with a smaller one listens.
    preferred: usize,
    loads: Loads,
    /// The processors that listen on each address, in ascending order.
    listening: Mutex<HashMap<SocketAddr, Vec<usize>>>,
}

/// A processor. Each has a cache line of its own, because its numbers change often.
#[repr(align(64))]
struct Member {
    id: ProcessorId,
    /// Its open sockets other than listeners. Written by its own thread only.
    sockets: AtomicUsize,
    /// Connections that others have handed to it, until its accept returns them.
    arriving: AtomicUsize,
}

/// The source of the loads.
pub(crate) enum Loads {
    /// From the time that the processors sleep.
    Measured(Control),
    /// Random numbers of a simulated world.
    #[cfg(feature = "sim")]
    Drawn(phalanx_driver::sim::World),
}

impl Placement {
    /// For processors with these identities, of which `preferred` can run at the same time.
    pub(crate) fn new(
        ids: impl Iterator<Item = ProcessorId>,
        preferred: usize,
        loads: Loads,
    ) -> Arc<Self> {
        let members = ids.map(|id| Member {
            id,
            sockets: AtomicUsize::new(0),
            arriving: AtomicUsize::new(0),
        });
        let (members, listening) = (members.collect(), Mutex::default());
        Arc::new(Self { members, preferred, loads, listening })
    }

    fn listening(&self) -> MutexGuard<'_, HashMap<SocketAddr, Vec<usize>>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One processor's part in the placement.
pub(super) struct Place {
    shared: Arc<Placement>,
    index: usize,
    /// Its listeners, the newest last, with the addresses of those that take part.
    listeners: RefCell<Vec<(Socket, Option<SocketAddr>)>>,
    /// Connections of other processors that its accepts have not returned yet.
    arrived: RefCell<Vec<Arrived>>,
    loads: Box<[Cell<LoadSample>]>,
}

/// A connection that another processor has accepted.
struct Arrived {
    connection: Socket,
    listener: Socket,
    _counted: Arriving,
}

/// A processor's load in the last interval.
#[derive(Clone, Copy, Default)]
struct LoadSample {
    at: Duration,
    parked_ns: u64,
    /// Per mille of time awake.
    load: u32,
}

/// Counts a connection on its way.
struct Arriving {
    shared: Arc<Placement>,
    processor: usize,
}

impl Arriving {
    fn at(shared: &Arc<Placement>, processor: usize) -> Self {
        shared.members[processor].arriving.fetch_add(1, Ordering::Relaxed);
        Self { shared: shared.clone(), processor }
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.shared.members[self.processor].arriving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection on its way to another processor. Dropping it closes the connection.
struct Handover {
    connection: Endpoint,
    address: SocketAddr,
    /// The processor that accepted it; none if it returns there.
    from: Option<usize>,
    to: Arriving,
}

impl Handover {
    fn send(self) {
        let to = self.to.shared.members[self.to.processor].id;
        to.release(move || {
            try_with(|io| io.take_over(self));
        });
    }
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

    fn listen(&self, socket: Socket, address: Option<SocketAddr>) {
        self.listeners.borrow_mut().push((socket, address));
        let Some(address) = address else { return };
        let mut listening = self.shared.listening();
        let processors = listening.entry(address).or_default();
        if let Err(at) = processors.binary_search(&self.index) {
            processors.insert(at, self.index);
        }
    }

    /// The newest listener on `address`.
    fn listener(&self, address: SocketAddr) -> Option<Socket> {
        let listeners = self.listeners.borrow();
        let same = listeners.iter().rev().find(|(_, other)| *other == Some(address));
        same.map(|(listener, _)| *listener)
    }

    fn address(&self, listener: Socket) -> Option<SocketAddr> {
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
    fn choose(&self, address: SocketAddr) -> usize {
        let listening = self.shared.listening();
        let Some(processors) = listening.get(&address) else { return self.index };
        let preferred = processors.partition_point(|index| *index < self.shared.preferred);
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
        Candidate { processor, sockets, arriving, load: self.load(processor) }
    }

    fn load(&self, processor: usize) -> u32 {
        let control = match &self.shared.loads {
            Loads::Measured(control) => control,
            #[cfg(feature = "sim")]
            Loads::Drawn(world) => return world.draw(1_001) as u32,
        };
        let (sample, at) = (&self.loads[processor], now());
        let before = sample.get();
        let elapsed = at.saturating_sub(before.at);
        if elapsed >= LOAD_INTERVAL {
            let (parked_ns, is_parked) = control.parked(processor);
            sample.set(before.next(at, elapsed, parked_ns, is_parked));
        }
        sample.get().load
    }
}

impl LoadSample {
    fn next(self, at: Duration, elapsed: Duration, parked_ns: u64, is_parked: bool) -> Self {
        let parked = match parked_ns - self.parked_ns {
            // It has slept for the whole interval.
            0 if is_parked => elapsed.as_nanos(),
            parked => u128::from(parked),
        };
        let asleep = (1_000 * parked / elapsed.as_nanos().max(1)).min(1_000) as u32;
        Self { at, parked_ns, load: 1_000 - asleep }
    }
}

impl Io {
    /// Lets a new listener take part in the placement, if it has an IP address.
    pub(super) fn listens(&self, listener: Socket) {
        let address = match self.place.shared.members.len() {
            1 => None,
            _ => self.try_driver(|driver| driver.local_addr(listener)).ok(),
        };
        self.place.listen(listener, address);
    }

    /// Hands `connection`, which `listener` has accepted, to the processor that serves it. False if that is this one.
    fn hand_over(&self, listener: Socket, connection: Socket) -> bool {
        let place = &self.place;
        if place.shared.members.len() == 1
            || place.has_arrived(connection)
            || self.drain_announced.get()
        {
            return false;
        }
        let Some(address) = place.address(listener) else { return false };
        let target = place.choose(address);
        if target == place.index {
            return false;
        }
        let detached = self.try_driver(|driver| Ok(driver.detach(connection)));
        let Ok(Some(connection)) = detached else { return false };
        let to = Arriving::at(&place.shared, target);
        Handover { connection, address, from: Some(place.index), to }.send();
        true
    }

    /// Takes over a connection that another processor has accepted, or returns it.
    fn take_over(&self, Handover { connection, address, from, to }: Handover) {
        match (self.place.listener(address), from) {
            (Some(listener), _) => {
                // On an error the driver has closed it, as an accept that fails does.
                if let Ok(connection) =
                    self.try_driver(|driver| driver.take_over(listener, connection))
                {
                    let arrived = Arrived { connection, listener, _counted: to };
                    self.place.arrived.borrow_mut().push(arrived);
                }
            }
            (None, Some(from)) => {
                let to = Arriving::at(&self.place.shared, from);
                Handover { connection, address, from: None, to }.send();
            }
            (None, None) => drop(connection),
        }
    }
}

/// Hands `connection`, which `listener` of this processor has accepted, to the processor that serves it. False if that
/// is this one.
pub(crate) fn place(listener: Socket, connection: Socket) -> bool {
    with(|io| io.hand_over(listener, connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_the_time_awake() {
        let second = Duration::from_secs(1);
        let load = |parked_ns, is_parked| {
            LoadSample::default().next(second, second, parked_ns, is_parked).load
        };
        assert_eq!(load(0, false), 1_000, "it never slept");
        assert_eq!(load(0, true), 0, "it never woke");
        assert_eq!(load(250_000_000, false), 750);
        assert_eq!(load(250_000_000, true), 750);
        assert_eq!(load(3_000_000_000, true), 0, "a sleep that began earlier");
    }
}
