//! Connections: two bounded pipes, in which bytes take time to arrive.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::path::PathBuf;

use bytes::Bytes;
use slab::Slab;

use super::{State, code};
use crate::Address;

/// The host address of sockets that are bound to an unspecified address.
pub(super) const HOST_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);

/// The address at which a socket receives what is sent to any address with this port.
pub(super) fn unspecified(address: SocketAddr) -> SocketAddr {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    (any, address.port()).into()
}

/// The default limit on bytes in transit in one direction.
const PIPE_CAPACITY: usize = 64 << 10;

pub(crate) struct Net {
    pub(super) pipe_capacity: usize,
    listeners: Slab<Listener>,
    by_address: BTreeMap<Address, Vec<usize>>,
    connections: Slab<Connection>,
    /// The number of ports that were assigned.
    ports: u16,
}

impl Default for Net {
    fn default() -> Self {
        Self {
            pipe_capacity: PIPE_CAPACITY,
            listeners: Slab::new(),
            by_address: BTreeMap::new(),
            connections: Slab::new(),
            ports: 0,
        }
    }
}

struct Listener {
    address: Address,
    /// Connections, and the time at which each arrives.
    backlog: VecDeque<(u64, End)>,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    connection: usize,
    side: usize,
}

impl End {
    pub(super) fn other(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }
}

struct Connection {
    /// The bytes that each side receives.
    pipes: [Pipe; 2],
    sides: [Side; 2],
}

#[derive(Default)]
struct Pipe {
    segments: VecDeque<(u64, Bytes)>,
    bytes: usize,
    /// The time at which the end of the stream arrives.
    closed_at: Option<u64>,
    /// The last arrival, so that none overtakes another.
    last: u64,
}

struct Side {
    address: Address,
    open: bool,
    /// The time at which this side notices that the connection was reset.
    reset: Option<u64>,
    /// Whether a call has returned the reset.
    reset_reported: bool,
    /// Whether the read direction is shut down.
    read_shut_down: bool,
    /// Whether closing this side is a reset.
    resets: bool,
}

impl Net {
    pub(super) fn open(&self) -> usize {
        self.listeners.len() + self.connections.len()
    }

    pub(super) fn address(&self, end: End) -> &Address {
        &self.connections[end.connection].sides[end.side].address
    }

    pub(super) fn peer_address(&self, end: End) -> &Address {
        self.address(end.other())
    }

    pub(super) fn listener_address(&self, listener: usize) -> &Address {
        &self.listeners[listener].address
    }

    /// A port that was not assigned before.
    ///
    /// # Panics
    /// If all ports have been used.
    pub(super) fn free_port(&mut self) -> u16 {
        const FIRST: u16 = 2_000;
        loop {
            assert!(
                self.ports < u16::MAX - FIRST,
                "all ports of this world were used; use more worlds"
            );
            self.ports += 1;
            let port = FIRST + self.ports;
            let has_port =
                |address: &Address| matches!(address, Address::Ip(own) if own.port() == port);
            if !self.listeners.iter().any(|(_, listener)| has_port(&listener.address)) {
                return port;
            }
        }
    }

    pub(super) fn listen(&mut self, mut address: Address) -> usize {
        if let Address::Ip(address) = &mut address
            && address.port() == 0
        {
            address.set_port(self.free_port());
        }
        let by_address = self.by_address.entry(address.clone()).or_default();
        let listener = self.listeners.insert(Listener { address, backlog: VecDeque::new() });
        by_address.push(listener);
        listener
    }
}

pub(super) fn connect(state: &mut State, address: &Address) -> io::Result<End> {
    let at = state.arrival();
    let exact = state.net.by_address.get(address);
    let any = || state.net.by_address.get(&Address::Ip(unspecified(address.ip().ok()?)));
    let listeners = exact.filter(|listeners| !listeners.is_empty()).or_else(any);
    let Some(listeners) = listeners.filter(|listeners| !listeners.is_empty()) else {
        // The file of a Unix socket outlives its listener.
        let unknown = matches!(address, Address::Unix(_)) && exact.is_none();
        return Err(code(if unknown { libc::ENOENT } else { libc::ECONNREFUSED }));
    };
    let listener = listeners[state.rng.usize(..listeners.len())];
    let end = pair(state, address.clone());
    state.net.listeners[listener].backlog.push_back((at, end.other()));
    state.changed();
    Ok(end)
}

/// A new connection to `address`: the client's end of it.
pub(super) fn pair(state: &mut State, address: Address) -> End {
    let port = state.net.free_port();
    let client = match address {
        Address::Ip(_) => SocketAddr::from((HOST_V4, port)).into(),
        Address::Unix(_) => Address::Unix(PathBuf::new()),
    };
    let side = |address| Side {
        address,
        open: true,
        reset: None,
        reset_reported: false,
        read_shut_down: false,
        resets: false,
    };
    let connection = Connection { pipes: Default::default(), sides: [side(client), side(address)] };
    let connection = state.net.connections.insert(connection);
    End { connection, side: 0 }
}

pub(super) fn accept(state: &mut State, listener: usize) -> Option<End> {
    let now = state.clock.now;
    let backlog = &mut state.net.listeners[listener].backlog;
    let position = backlog.iter().position(|(at, _)| *at <= now)?;
    backlog.remove(position).map(|(_, end)| end)
}

pub(super) fn close_listener(state: &mut State, listener: usize) {
    let Listener { address, backlog } = state.net.listeners.remove(listener);
    if let Some(listeners) = state.net.by_address.get_mut(&address) {
        listeners.retain(|other| *other != listener);
    }
    backlog.into_iter().for_each(|(_, end)| reset(state, end));
}

/// Moves bytes that have arrived at `end` into `into`. Returns 0 at the end of the stream.
pub(super) fn receive(state: &mut State, end: End, into: &mut [u8]) -> io::Result<usize> {
    let now = state.clock.now;
    let max = state.portion(into.len());
    let pipe = &state.net.connections[end.connection].pipes[end.side];
    if pipe.segments.front().is_some_and(|(at, _)| *at <= now) {
        inject_reset(state, end);
    }
    let connection = &mut state.net.connections[end.connection];
    let side = &mut connection.sides[end.side];
    if side.reset.is_some_and(|at| at <= now) {
        return match std::mem::replace(&mut side.reset_reported, true) {
            true => Ok(0),
            false => Err(code(libc::ECONNRESET)),
        };
    }
    if side.read_shut_down {
        return Ok(0);
    }
    let pipe = &mut connection.pipes[end.side];
    let mut moved = 0;
    while moved < max {
        let Some((_, bytes)) = pipe.segments.front_mut().filter(|(at, _)| *at <= now) else {
            break;
        };
        let part = bytes.split_to(bytes.len().min(max - moved));
        into[moved..moved + part.len()].copy_from_slice(&part);
        moved += part.len();
        if bytes.is_empty() {
            pipe.segments.pop_front();
        }
    }
    pipe.bytes -= moved;
    if moved > 0 {
        state.changed();
        return Ok(moved);
    }
    match pipe.closed_at {
        Some(at) if at <= now && pipe.segments.is_empty() => Ok(0),
        _ => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Whether nothing has arrived at `end` that was not received.
pub(super) fn is_idle(state: &State, end: End) -> bool {
    let connection = &state.net.connections[end.connection];
    let (side, pipe) = (&connection.sides[end.side], &connection.pipes[end.side]);
    let bytes = pipe.segments.front().map(|(at, _)| *at);
    let arrivals = [side.reset, pipe.closed_at, bytes];
    !side.read_shut_down && arrivals.into_iter().flatten().all(|at| at > state.clock.now)
}

/// Whether the other end has closed its sending direction or reset the connection, as far as that has arrived at `end`.
pub(super) fn is_closed_by_peer(state: &State, end: End) -> bool {
    let connection = &state.net.connections[end.connection];
    let closed_at = [connection.sides[end.side].reset, connection.pipes[end.side].closed_at];
    closed_at.into_iter().flatten().any(|at| at <= state.clock.now)
}

/// Takes as many bytes for the other end as its pipe has space for.
pub(super) fn send(state: &mut State, end: End, bytes: &[u8]) -> io::Result<usize> {
    let now = state.clock.now;
    if state.is_silent {
        return Err(code(libc::EPIPE));
    }
    inject_reset(state, end);
    let connection = &mut state.net.connections[end.connection];
    let side = &mut connection.sides[end.side];
    if side.reset.is_some_and(|at| at <= now) {
        let reset_reported = std::mem::replace(&mut side.reset_reported, true);
        return Err(code(if reset_reported { libc::EPIPE } else { libc::ECONNRESET }));
    }
    if connection.pipes[1 - end.side].closed_at.is_some() {
        return Err(code(libc::EPIPE));
    }
    if !connection.sides[1 - end.side].open {
        // The bytes are sent, and the other side answers with a reset.
        if connection.sides[end.side].reset.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let at = state.arrival();
        state.net.connections[end.connection].sides[end.side].reset = Some(at);
        state.changed();
        return Ok(bytes.len().min(state.net.pipe_capacity));
    }
    let room = state.net.pipe_capacity.saturating_sub(connection.pipes[1 - end.side].bytes);
    if room == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let count = state.portion(bytes.len().min(room));
    let at = state.arrival();
    let pipe = &mut state.net.connections[end.connection].pipes[1 - end.side];
    pipe.last = pipe.last.max(at);
    pipe.segments.push_back((pipe.last, Bytes::copy_from_slice(&bytes[..count])));
    pipe.bytes += count;
    state.changed();
    Ok(count)
}

/// Shuts down one or both directions.
pub(super) fn shutdown(state: &mut State, end: End, how: Shutdown) -> io::Result<()> {
    let reset = state.net.connections[end.connection].sides[end.side].reset;
    if state.is_silent || reset.is_some_and(|at| at <= state.clock.now) {
        return Err(code(libc::ENOTCONN));
    }
    if how != Shutdown::Read {
        finish(state, end);
    }
    if how != Shutdown::Write {
        state.net.connections[end.connection].sides[end.side].read_shut_down = true;
        state.changed();
    }
    Ok(())
}

/// Ends the stream to the other side.
fn finish(state: &mut State, end: End) {
    let at = state.arrival();
    let pipe = &mut state.net.connections[end.connection].pipes[1 - end.side];
    if pipe.closed_at.is_none() {
        pipe.last = pipe.last.max(at);
        pipe.closed_at = Some(pipe.last);
    }
    state.changed();
}

/// Makes closing an end a reset.
pub(super) fn reset_on_close(state: &mut State, end: End) {
    state.net.connections[end.connection].sides[end.side].resets = true;
}

/// Closes an end. Unread bytes make this a reset.
pub(super) fn close(state: &mut State, end: End) {
    let connection = &state.net.connections[end.connection];
    if connection.pipes[end.side].segments.is_empty() && !connection.sides[end.side].resets {
        finish(state, end);
        remove(state, end);
    } else {
        reset(state, end);
    }
}

/// Closes an end, so that the other one loses the bytes in transit.
pub(super) fn reset(state: &mut State, end: End) {
    let at = state.arrival();
    let other = &mut state.net.connections[end.connection].sides[1 - end.side];
    other.reset.get_or_insert(at);
    remove(state, end);
}

fn remove(state: &mut State, end: End) {
    let connection = &mut state.net.connections[end.connection];
    connection.sides[end.side].open = false;
    if connection.sides.iter().all(|side| !side.open) {
        state.net.connections.remove(end.connection);
    }
    state.changed();
}

/// Resets the connection for both ends, at the fault rate.
fn inject_reset(state: &mut State, end: End) {
    if state.chance(state.faults.reset) {
        let now = state.clock.now;
        for side in &mut state.net.connections[end.connection].sides {
            side.reset.get_or_insert(now);
        }
        state.changed();
    }
}
