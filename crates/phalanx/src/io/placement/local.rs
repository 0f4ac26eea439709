//! One processor's part in the placement of connections.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use phalanx_core::{Candidate, MAX_ARRIVING, ProcessorId, now, place_connection};
use phalanx_driver::Socket;

use super::handover::{ArrivalGuard, PassedState};
use super::load_sample::LoadSample;
use super::relocation::Offers;
use super::{Placement, change, millis};
use crate::io::traffic::TrafficCounters;

/// One processor's part in the placement.
pub(in crate::io) struct LocalPlacement {
    pub(in crate::io) shared: Arc<Placement>,
    pub(in crate::io) index: usize,
    pub(in crate::io) traffic: Arc<TrafficCounters>,
    /// This processor's listeners, the newest last, with addresses if they take part in the placement.
    listeners: RefCell<Vec<(Socket, Option<SocketAddr>)>>,
    /// Connections from other processors that have not been returned by an accept yet.
    pub(in crate::io) arrived: RefCell<Vec<ReceivedConnection>>,
    loads: Box<[Cell<LoadSample>]>,
    pub(in crate::io) offers: Offers,
    /// Whether this processor has asked the kernel to steer connections (`steering`).
    pub(in crate::io) is_steered: Cell<bool>,
    /// Sockets whose groups this processor steers by connection IDs, with the size of the group.
    pub(in crate::io) quic_groups: RefCell<Vec<(Socket, u16)>>,
}

/// A connection that another processor has accepted.
pub(in crate::io) struct ReceivedConnection {
    pub(in crate::io) connection: Socket,
    pub(in crate::io) listener: Socket,
    /// Whether that processor has served it.
    pub(in crate::io) has_moved: bool,
    /// The state that it has passed on.
    pub(in crate::io) state: Option<PassedState>,
    pub(in crate::io) _counted: ArrivalGuard,
}

impl LocalPlacement {
    pub(in crate::io) fn new(shared: Arc<Placement>, index: usize) -> Self {
        let loads = shared.members.iter().map(|_| Cell::default()).collect();
        let traffic = shared.members[index].traffic.clone();
        let (listeners, arrived, offers, is_steered, quic_groups) = Default::default();
        Self { shared, index, traffic, listeners, arrived, loads, offers, is_steered, quic_groups }
    }

    pub(in crate::io) fn id(&self) -> ProcessorId {
        self.shared.members[self.index].id
    }

    /// Counts a new socket.
    pub(in crate::io) fn opened(&self) {
        self.traffic.opened();
        self.count_socket();
    }

    /// Counts a socket that another processor has counted before.
    pub(in crate::io) fn count_socket(&self) {
        change(&self.shared.members[self.index].sockets, 1);
    }

    /// Counts sockets for datagrams.
    pub(in crate::io) fn count_datagram_socket(&self, by: isize) {
        change(&self.shared.members[self.index].datagram_sockets, by);
    }

    /// Counts a socket that is about to be closed. Returns the connections that the driver closes with it. The states
    /// that were passed on with them belong to the program, so drop them after the socket is closed, and catch panics.
    #[must_use]
    pub(in crate::io) fn closed(&self, socket: Socket) -> Vec<ReceivedConnection> {
        let mut listeners = self.listeners.borrow_mut();
        let Some(at) = listeners.iter().position(|(listener, _)| *listener == socket) else {
            change(&self.shared.members[self.index].sockets, -1);
            self.quic_groups.borrow_mut().retain(|(steered, _)| *steered != socket);
            return Vec::new();
        };
        let (_, address) = listeners.remove(at);
        let mut arrived = self.arrived.borrow_mut();
        let closed = arrived.extract_if(.., |arrived| arrived.listener == socket).collect();
        if let Some(address) = address
            && listeners.iter().all(|(_, other)| *other != Some(address))
        {
            let mut listening = self.shared.listening();
            let processors = &mut listening.entry(address).or_default().processors;
            processors.retain(|processor| *processor != self.index);
            if processors.is_empty() {
                listening.remove(&address);
            }
        }
        closed
    }

    pub(in crate::io) fn listen(&self, socket: Socket, address: Option<SocketAddr>) {
        self.listeners.borrow_mut().push((socket, address));
        let Some(address) = address else { return };
        let mut listening = self.shared.listening();
        let processors = &mut listening.entry(address).or_default().processors;
        if let Err(at) = processors.binary_search(&self.index) {
            processors.insert(at, self.index);
        }
    }

    /// The listeners whose connections may be placed.
    pub(in crate::io) fn placing_listeners(&self) -> Vec<Socket> {
        let listeners = self.listeners.borrow();
        listeners.iter().filter(|(_, address)| address.is_some()).map(|(one, _)| *one).collect()
    }

    /// The newest listener on `address`.
    pub(in crate::io) fn listener(&self, address: SocketAddr) -> Option<Socket> {
        let listeners = self.listeners.borrow();
        let same = listeners.iter().rev().find(|(_, other)| *other == Some(address));
        same.map(|(listener, _)| *listener)
    }

    pub(in crate::io) fn address(&self, listener: Socket) -> Option<SocketAddr> {
        let listeners = self.listeners.borrow();
        listeners.iter().find(|(other, _)| *other == listener).and_then(|(_, address)| *address)
    }

    /// Removes `connection` from those that came from another processor.
    pub(in crate::io) fn take_arrived(&self, connection: Socket) -> Option<ReceivedConnection> {
        let mut arrived = self.arrived.borrow_mut();
        let at = arrived.iter().position(|arrived| arrived.connection == connection);
        at.map(|at| arrived.swap_remove(at))
    }

    /// The processor that serves a connection to `address` that this one has accepted.
    pub(in crate::io) fn choose(&self, address: SocketAddr) -> usize {
        let (candidates, may_move) = self.candidates(address);
        place_connection(self.index, &candidates, may_move)
    }

    /// Records that the program offers the connections of `listener`.
    pub(in crate::io) fn set_offered(&self, listener: Socket) {
        let Some(address) = self.address(listener) else { return };
        if let Some(group) = self.shared.listening().get_mut(&address) {
            group.offered = true;
        }
    }

    /// The processors that may serve connections to `address`, and whether the program offers these connections.
    pub(in crate::io) fn candidates(&self, address: SocketAddr) -> (Vec<Candidate>, bool) {
        let listening = self.shared.listening();
        let Some(group) = listening.get(&address) else { return (Vec::new(), false) };
        let offered = group.offered;
        let preferred = self.shared.preferred();
        let processors = match group.processors.partition_point(|index| *index < preferred) {
            0 => group.processors.clone(),
            preferred => group.processors[..preferred].to_vec(),
        };
        drop(listening);
        (processors.into_iter().map(|processor| self.candidate(processor)).collect(), offered)
    }

    pub(in crate::io) fn candidate(&self, processor: usize) -> Candidate {
        let member = &self.shared.members[processor];
        let arriving = member.arriving.load(Ordering::Relaxed);
        let sockets = member.sockets.load(Ordering::Relaxed) + arriving;
        let load = if self.shared.saturated.is_set(processor) {
            // The last measurement may be outdated.
            1_000
        } else {
            let busy_share = self.shared.loads.of(processor, &self.loads[processor]);
            member.cpu_load(now()).map_or(busy_share, |load| load.min(busy_share))
        };
        Candidate { processor, sockets, arriving, load }
    }

    /// Whether this processor has not been idle for a while.
    pub(in crate::io) fn is_saturated(&self) -> bool {
        self.shared.saturated.is_set(self.index)
    }

    /// Publishes this processor's load.
    pub(in crate::io) fn publish_load(&self, now: Duration, load: u32) {
        let packed = millis(now) << 32 | u64::from(load);
        self.shared.members[self.index].load.store(packed, Ordering::Relaxed);
    }

    /// Whether the maximum number of connections is already on its way to `processor`.
    pub(in crate::io) fn is_crowded(&self, processor: usize) -> bool {
        self.shared.members[processor].arriving.load(Ordering::Relaxed) >= MAX_ARRIVING
    }
}
