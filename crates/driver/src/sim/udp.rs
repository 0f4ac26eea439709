//! Datagrams between simulated UDP sockets. They may be lost, duplicated and reordered, and take time.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use slab::Slab;

use super::net::{HOST_V4, unspecified};
use super::{State, World, code};
use crate::DatagramBatch;

/// The maximum size of an IPv4 datagram.
const MAX_BYTES: usize = 65_507;

/// Bytes that a datagram takes in a receive buffer in addition to its content, so that empty datagrams fill it too.
const OVERHEAD: usize = 64;

/// The UDP sockets of a world.
#[derive(Default)]
pub(crate) struct Udp {
    sockets: Slab<UdpSocket>,
    by_address: BTreeMap<SocketAddr, usize>,
}

struct UdpSocket {
    address: SocketAddr,
    peer: Option<SocketAddr>,
    /// Sorted by time of arrival.
    queue: Vec<Arrival>,
    /// Bytes in the queue, bounded by the capacity of a pipe.
    bytes: usize,
    drops: u32,
    /// The last arrival. Only reordered datagrams overtake it.
    last: u64,
    /// The time at which the socket learns that its peer's host has rejected a datagram.
    refused_at: Option<u64>,
    /// For a socket bound to an unspecified address: by sender, the address to which that sender has sent last. It is
    /// the source address of responses.
    routes: BTreeMap<SocketAddr, IpAddr>,
}

struct Arrival {
    at: u64,
    from: SocketAddr,
    bytes: Bytes,
}

/// A received datagram.
pub(super) struct Received {
    pub(super) length: usize,
    pub(super) from: SocketAddr,
    pub(super) truncated: bool,
}

impl Udp {
    pub(super) fn open(&self) -> usize {
        self.sockets.len()
    }

    pub(super) fn address(&self, socket: usize) -> SocketAddr {
        self.sockets[socket].address
    }

    pub(super) fn peer(&self, socket: usize) -> Option<SocketAddr> {
        self.sockets[socket].peer
    }

    pub(super) fn connect(&mut self, socket: usize, peer: SocketAddr) {
        self.sockets[socket].peer = Some(peer);
    }

    pub(super) fn drops(&self, socket: usize) -> u32 {
        self.sockets[socket].drops
    }

    /// The socket that receives what is sent to `address`.
    fn receiver(&self, address: SocketAddr) -> Option<usize> {
        let exact = self.by_address.get(&address);
        exact.or_else(|| self.by_address.get(&unspecified(address))).copied()
    }

    /// The source address of what `socket` sends to `to`.
    fn source(&self, socket: usize, to: SocketAddr) -> SocketAddr {
        let UdpSocket { address, routes, .. } = &self.sockets[socket];
        if !address.ip().is_unspecified() {
            return *address;
        }
        let host = match address {
            SocketAddr::V4(_) => HOST_V4.into(),
            SocketAddr::V6(_) => HOST_V4.to_ipv6_mapped().into(),
        };
        (routes.get(&to).copied().unwrap_or(host), address.port()).into()
    }
}

pub(super) fn bind(state: &mut State, mut address: SocketAddr) -> io::Result<usize> {
    if address.port() == 0 {
        address.set_port(state.net.free_port());
    }
    if state.udp.by_address.contains_key(&address) {
        return Err(code(libc::EADDRINUSE));
    }
    let (peer, queue, bytes, drops, last) = (None, Vec::new(), 0, 0, 0);
    let (refused_at, routes) = (None, BTreeMap::new());
    let socket = UdpSocket { address, peer, queue, bytes, drops, last, refused_at, routes };
    let socket = state.udp.sockets.insert(socket);
    state.udp.by_address.insert(address, socket);
    Ok(socket)
}

pub(super) fn close(state: &mut State, socket: usize) {
    let socket = state.udp.sockets.remove(socket);
    state.udp.by_address.remove(&socket.address);
    state.changed();
}

/// The error of an earlier datagram, once it has arrived. It is returned once.
fn take_refusal(state: &mut State, socket: usize) -> io::Result<()> {
    let now = state.clock.now;
    match state.udp.sockets[socket].refused_at.take_if(|at| *at <= now) {
        Some(_) => Err(code(libc::ECONNREFUSED)),
        None => Ok(()),
    }
}

/// Sends a datagram, which may be lost. A datagram to an address without a socket is lost, which a connected sender
/// learns.
pub(super) fn send(
    state: &mut State,
    socket: usize,
    bytes: &[u8],
    to: Option<SocketAddr>,
) -> io::Result<()> {
    if state.is_silent {
        return Err(code(libc::ENETDOWN));
    }
    take_refusal(state, socket)?;
    let peer = state.udp.sockets[socket].peer;
    let to = to.or(peer).ok_or_else(|| code(libc::EDESTADDRREQ))?;
    let from = state.udp.source(socket, to);
    if bytes.len() > MAX_BYTES {
        return Err(code(libc::EMSGSIZE));
    }
    if state.chance(state.faults.lost) {
        return Ok(());
    }
    let copies = 1 + usize::from(state.chance(state.faults.duplicated));
    let bytes = Bytes::copy_from_slice(bytes);
    for _ in 0..copies {
        let at = state.arrival();
        let in_order = !state.chance(state.faults.reordered);
        let Some(receiver) = state.udp.receiver(to) else {
            if peer == Some(to) {
                state.udp.sockets[socket].refused_at.get_or_insert(at);
                state.changed();
            }
            continue;
        };
        let receiver = &mut state.udp.sockets[receiver];
        if receiver.address.ip().is_unspecified() {
            receiver.routes.insert(from, to.ip());
        }
        if receiver.peer.is_some_and(|peer| peer != from) {
            continue;
        }
        if receiver.bytes + bytes.len() + OVERHEAD
            > state.net.pipe_capacity.max(MAX_BYTES + OVERHEAD)
        {
            receiver.drops = receiver.drops.wrapping_add(1);
            continue;
        }
        let at = if in_order { at.max(receiver.last) } else { at };
        receiver.last = receiver.last.max(at);
        receiver.bytes += bytes.len() + OVERHEAD;
        let place = receiver.queue.partition_point(|arrival| arrival.at <= at);
        receiver.queue.insert(place, Arrival { at, from, bytes: bytes.clone() });
        state.changed();
    }
    Ok(())
}

/// Moves the next datagram that has arrived into `into`; `WouldBlock` if there is none.
pub(super) fn receive(state: &mut State, socket: usize, into: &mut [u8]) -> io::Result<Received> {
    take_refusal(state, socket)?;
    let now = state.clock.now;
    let socket = &mut state.udp.sockets[socket];
    if socket.queue.first().is_none_or(|arrival| arrival.at > now) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let Arrival { from, bytes, .. } = socket.queue.remove(0);
    socket.bytes -= bytes.len() + OVERHEAD;
    let length = bytes.len().min(into.len());
    into[..length].copy_from_slice(&bytes[..length]);
    state.changed();
    Ok(Received { length, from, truncated: length < bytes.len() })
}

/// Replaces the datagrams in `batch` by those that have arrived.
pub(super) fn receive_batch(
    state: &mut State,
    socket: usize,
    batch: &mut DatagramBatch,
) -> io::Result<()> {
    batch.clear();
    while !batch.is_full() {
        let received = batch.push(|buffer| {
            let Received { length, from, truncated } = receive(state, socket, buffer)?;
            Ok((length, from, truncated))
        });
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            received => received?,
        }
    }
    Ok(())
}

/// A simulated UDP socket for a client, or for a driver to adopt. Its calls never block. Dropping the value closes the
/// socket.
#[derive(Debug)]
pub struct UdpPeer {
    world: World,
    socket: Option<usize>,
}

impl UdpPeer {
    pub(super) fn new(world: World, socket: usize) -> Self {
        Self { world, socket: Some(socket) }
    }

    fn socket(&self) -> usize {
        self.socket.expect("there until it is dropped")
    }

    /// The address to which it is bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.world.state().udp.address(self.socket())
    }

    /// Sends a datagram. The network may lose, duplicate or reorder it, according to the world's
    /// [`Faults`](super::Faults).
    ///
    /// # Errors
    /// `EMSGSIZE` above 65,507 bytes.
    pub fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        send(&mut self.world.state(), self.socket(), datagram, Some(to))
    }

    /// Takes a datagram that has arrived: its length in `into`, and its sender. The rest of a datagram that is longer
    /// than `into` is discarded.
    ///
    /// # Errors
    /// `WouldBlock` if none has arrived.
    pub fn try_recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let received = receive(&mut self.world.state(), self.socket(), into)?;
        Ok((received.length, received.from))
    }

    pub(super) fn is_of(&self, world: &World) -> bool {
        self.world.is_same(world)
    }

    pub(super) fn into_socket(mut self) -> usize {
        self.socket.take().expect("there until it is dropped")
    }
}

impl Drop for UdpPeer {
    fn drop(&mut self) {
        if let Some(socket) = self.socket {
            close(&mut self.world.state(), socket);
        }
    }
}
