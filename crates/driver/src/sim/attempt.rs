//! Attempting requests in the simulated world.

use std::ffi::CString;
use std::io::{self, IoSlice};
use std::net::SocketAddr;

use super::driver::{Sim, SimSocket};
use super::net::End;
use super::{Peer, code, net, udp};
use crate::user_bytes::{Outgoing, UserBytes};
use crate::{Address, Chunk, Completion, Datagram, Done, File, OpenHow, Socket, Token};

/// The maximum number of bytes that a simulated system call takes from one part.
const MAX_BYTES_AT_ONCE: usize = 64 << 10;

/// A file being sent to a socket.
pub(super) struct FileSend {
    pub(super) socket: Socket,
    pub(super) head: Vec<u8>,
    /// Bytes of the head that were sent.
    pub(super) head_sent: usize,
    pub(super) file: File,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Bytes of the file that were sent.
    pub(super) sent: u64,
}

/// A request in flight.
pub(super) struct InFlight {
    pub(super) token: Token,
    pub(super) op: Op,
    /// The earliest time of completion.
    pub(super) at: u64,
    /// Whether it was cancelled, and has not completed yet.
    pub(super) cancelled: bool,
}

impl InFlight {
    /// Whether `other` has to wait until this cancelled request has completed.
    fn delays(&self, other: &Self) -> bool {
        let same = |socket: fn(&Op) -> Option<Socket>| {
            socket(&self.op).is_some() && socket(&self.op) == socket(&other.op)
        };
        self.cancelled && !other.cancelled && (same(sends_on) || same(receives_on))
    }
}

/// The request, with its progress. A receive `skips` this many bytes, if it may discard them.
pub(super) enum Op {
    Accept(Socket),
    Connect(Address),
    Receive { socket: Socket, max: usize, skips: Option<u64> },
    SendTo { socket: Socket, datagram: UserBytes, to: Option<SocketAddr>, segment: Option<u16> },
    ReceiveFrom { socket: Socket, buffer: Vec<u8>, max: usize },
    Send { socket: Socket, payload: Outgoing, sent: usize },
    SendFile(FileSend),
    Open { directory: File, path: CString, how: OpenHow },
    Read { file: File, buffer: Vec<u8>, offset: u64, length: usize },
    Write { file: File, bytes: UserBytes, offset: u64, written: usize },
    Sync { file: File },
}

impl Op {
    pub(super) fn socket(&self) -> Option<Socket> {
        match self {
            Self::Accept(socket)
            | Self::Receive { socket, .. }
            | Self::SendTo { socket, .. }
            | Self::ReceiveFrom { socket, .. }
            | Self::Send { socket, .. }
            | Self::SendFile(FileSend { socket, .. }) => Some(*socket),
            _ => None,
        }
    }

    pub(super) fn is_of_a_file(&self) -> bool {
        self.socket().is_none() && !matches!(self, Self::Connect(_))
    }

    /// Whether io_uring completes it some time after its cancellation.
    pub(super) fn may_end_late(&self) -> bool {
        matches!(
            self,
            Self::Connect(_) | Self::Send { .. } | Self::SendTo { .. } | Self::ReceiveFrom { .. }
        )
    }
}

/// The socket on which `op` sends.
pub(super) fn sends_on(op: &Op) -> Option<Socket> {
    match op {
        Op::Send { socket, .. } | Op::SendFile(FileSend { socket, .. }) => Some(*socket),
        _ => None,
    }
}

/// The socket on which `op` receives.
pub(super) fn receives_on(op: &Op) -> Option<Socket> {
    match op {
        Op::Receive { socket, .. } | Op::ReceiveFrom { socket, .. } => Some(*socket),
        _ => None,
    }
}

impl Sim {
    /// Attempts all requests, in random order. Unless `eager`, some are left for the next time, as after an
    /// interrupted call. If all have to wait, they are attempted again when the world has changed
    /// or a buffer was returned.
    pub(super) fn attempt(&mut self, eager: bool) {
        let progress = (self.world.changes(), self.pool.lent());
        if self.all_wait_since == Some(progress) {
            return;
        }
        let mut flights = std::mem::take(&mut self.flights);
        self.world.state().rng.shuffle(&mut flights);
        let has_cancelled = flights.iter().any(|flight| flight.cancelled);
        if has_cancelled {
            // They come first, because others wait for them.
            flights.sort_by_key(|flight| !flight.cancelled);
        }
        let (now, faults) = (self.world.now(), self.world.faults());
        let mut has_postponed = false;
        let mut waiting = 0;
        while let Some(flight) = flights.get(waiting) {
            let is_postponed = !eager && self.world.chance(faults.retry);
            has_postponed |= is_postponed;
            if flight.cancelled && !is_postponed {
                self.end_early(flights.remove(waiting));
                continue;
            }
            let is_delayed =
                || has_cancelled && flights[..waiting].iter().any(|other| other.delays(flight));
            let result = if is_postponed || flight.at > now || is_delayed() {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                self.try_once(&mut flights[waiting].op)
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => waiting += 1,
                result => {
                    let InFlight { token, .. } = flights.remove(waiting);
                    self.done.push(Completion { token, result });
                }
            }
        }
        self.flights = flights;
        self.all_wait_since = (!has_postponed).then_some(progress);
    }

    pub(super) fn try_once(&mut self, op: &mut Op) -> io::Result<Done> {
        match op {
            Op::Accept(listener) => self.try_accept(*listener),
            Op::Connect(address) => {
                self.fail_connect(address)?;
                let peer = self.world.connect_to(address)?;
                Ok(self.hold_peer(peer))
            }
            Op::Receive { socket, skips: Some(max), .. } if self.world.draw(2) == 0 => {
                self.try_skip(*socket, *max)
            }
            Op::Receive { socket, max, .. } => self.try_receive(*socket, *max),
            Op::SendTo { socket, datagram, to, segment } => {
                let from = self.udp_socket(*socket)?;
                let state = &mut *self.world.state();
                match segment {
                    Some(segment) => {
                        let mut segments = datagram.chunks((*segment).max(1).into());
                        segments.try_for_each(|segment| udp::send(state, from, segment, *to))?;
                    }
                    None => udp::send(state, from, datagram, *to)?,
                }
                Ok(Done::SentDatagram)
            }
            Op::ReceiveFrom { socket, buffer, max } => {
                let socket = self.udp_socket(*socket)?;
                buffer.resize(*max, 0);
                let received = udp::receive(&mut self.world.state(), socket, buffer)?;
                let udp::Received { length, from, truncated } = received;
                buffer.truncate(length);
                let bytes = std::mem::take(buffer);
                Ok(Done::Datagram(Box::new(Datagram { bytes, from, truncated })))
            }
            Op::Send { socket, payload, sent } => {
                let end = self.stream(*socket)?;
                while *sent < payload.len() {
                    // Several parts at once, as in one system call.
                    let mut part = Vec::new();
                    for rest in payload.rest(*sent) {
                        part.extend_from_slice(&rest[..rest.len().min(MAX_BYTES_AT_ONCE)]);
                        if rest.len() > MAX_BYTES_AT_ONCE {
                            break;
                        }
                    }
                    *sent += net::send(&mut self.world.state(), end, &part)?;
                }
                Ok(Done::Sent(std::mem::take(payload).into_head()))
            }
            Op::SendFile(sending) => self.try_send_file(sending),
            Op::Open { directory, path, how } => {
                let node = directory.simulated()?;
                Ok(Done::Opened(node.open(path, *how)?.into()))
            }
            Op::Read { file, buffer, offset, length } => {
                if offset.checked_add(*length as u64).is_none_or(|end| end > i64::MAX as u64) {
                    return Err(code(libc::EINVAL));
                }
                file.simulated()?.read(buffer, *offset, *length)?;
                Ok(Done::Read(std::mem::take(buffer)))
            }
            Op::Write { file, bytes, offset, written } => {
                if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
                    return Err(code(libc::EINVAL));
                }
                let file = file.simulated()?;
                while *written < bytes.len() {
                    *written += file.write(&bytes[*written..], *offset + *written as u64)?;
                }
                Ok(Done::Written)
            }
            Op::Sync { file } => {
                file.simulated()?.sync()?;
                Ok(Done::Synced)
            }
        }
    }

    /// Sends the first bytes of `parts`. Returns zero if there is no room for any.
    pub(super) fn try_send(&self, socket: Socket, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        match self.stream(socket) {
            Ok(end) if !bytes.is_empty() => match net::send(&mut self.world.state(), end, &bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                sent => sent,
            },
            _ => Ok(0),
        }
    }

    fn try_send_file(&mut self, sending: &mut FileSend) -> io::Result<Done> {
        let FileSend { socket, head, head_sent, file, offset, length, sent } = sending;
        let end = self.stream(*socket)?;
        crate::files::sendfile::check(*offset, *length)?;
        while *head_sent < head.len() {
            *head_sent += net::send(&mut self.world.state(), end, &head[*head_sent..])?;
        }
        // The file may be truncated, or leave the page cache, while the request waits for the socket.
        while *sent < *length {
            if self.world.chance(self.world.faults().disk) {
                return Err(code(libc::EIO));
            }
            let mut part = vec![0; (*length - *sent).min(MAX_BYTES_AT_ONCE as u64) as usize];
            let had = file.simulated()?.read_now(&mut part, *offset + *sent)?;
            if had.bytes == 0 {
                break;
            }
            *sent += net::send(&mut self.world.state(), end, &part[..had.bytes])? as u64;
            if !had.complete {
                break;
            }
        }
        head.clear();
        Ok(Done::SentFile { head: std::mem::take(head), bytes: *sent })
    }

    pub(super) fn try_accept(&mut self, listener: Socket) -> io::Result<Done> {
        if let Some(connection) = self.attached.take(listener) {
            return Ok(Done::Accepted(connection));
        }
        let Some(SimSocket::Listener(listener)) = self.sockets.get(listener).copied() else {
            return Err(code(libc::EINVAL));
        };
        let end = {
            let state = &mut *self.world.state();
            let end = net::accept(state, listener).ok_or(io::ErrorKind::WouldBlock)?;
            if state.chance(state.faults.accept) {
                net::reset(state, end);
                let codes = [libc::EMFILE, libc::ECONNABORTED];
                return Err(code(codes[state.rng.usize(..2)]));
            }
            end
        };
        Ok(self.hold(end))
    }

    /// The connection of `socket`.
    ///
    /// # Errors
    /// `EBADF` if it is not open, `ENOTCONN` for a listener or a UDP socket.
    pub(super) fn stream(&self, socket: Socket) -> io::Result<End> {
        match *self.sockets.open(socket)? {
            SimSocket::Stream(end) => Ok(end),
            SimSocket::Listener(_) | SimSocket::Udp(_) => Err(code(libc::ENOTCONN)),
        }
    }

    /// The number of a UDP socket in the world.
    pub(super) fn udp_socket(&self, socket: Socket) -> io::Result<usize> {
        match self.sockets.get(socket).copied() {
            Some(SimSocket::Udp(socket)) => Ok(socket),
            _ => Err(code(libc::EOPNOTSUPP)),
        }
    }

    /// Fails a connect at the fault rate.
    fn fail_connect(&self, address: &Address) -> io::Result<()> {
        let state = &mut *self.world.state();
        if matches!(address, Address::Ip(_)) && state.chance(state.faults.connect) {
            let codes = [libc::ECONNREFUSED, libc::ETIMEDOUT];
            return Err(code(codes[state.rng.usize(..2)]));
        }
        Ok(())
    }

    /// Discards bytes without a buffer, as a kernel may.
    fn try_skip(&mut self, socket: Socket, max: u64) -> io::Result<Done> {
        let end = self.stream(socket)?;
        let mut bytes = vec![0; max.min(MAX_BYTES_AT_ONCE as u64) as usize];
        Ok(match net::receive(&mut self.world.state(), end, &mut bytes)? {
            0 => Done::Received(Chunk::empty()),
            skipped => Done::Skipped(skipped as u64),
        })
    }

    fn try_receive(&mut self, socket: Socket, max: usize) -> io::Result<Done> {
        let end = self.stream(socket)?;
        // Without a buffer the receive waits for one.
        let mut chunk = self.pool.take().ok_or(io::ErrorKind::WouldBlock)?;
        let space = chunk.space();
        let wanted = space.len().min(max);
        let received = net::receive(&mut self.world.state(), end, &mut space[..wanted])?;
        if received == 0 {
            return Ok(Done::Received(Chunk::empty()));
        }
        chunk.truncate(received);
        Ok(Done::Received(chunk))
    }
}

impl Sim {
    /// Stores an accepted connection of this world.
    pub(super) fn hold(&mut self, end: End) -> Done {
        Done::Accepted(self.sockets.insert(SimSocket::Stream(end)))
    }

    /// Stores a connection that was opened by request.
    pub(super) fn hold_peer(&mut self, peer: Peer) -> Done {
        Done::Connected(self.sockets.insert(SimSocket::Stream(peer.into_end().1)))
    }
}
