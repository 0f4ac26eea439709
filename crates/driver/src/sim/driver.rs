//! The implementation of [`Driver`] in a simulated world.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::attempt::{FileSend, InFlight, Op, receives_on, sends_on};
use super::net::{self, End};
use super::{Peer, World, code, udp};
use crate::chunk::Pool;
use crate::endpoint::Simulated;
use crate::sockets::attached::Attached;
use crate::sockets::socket_table::SocketTable;
use crate::{
    Completion, Config, DatagramBatch, Done, Driver, Endpoint, Request, Socket, Token, Unpark,
};

/// A driver of a simulated [`World`].
///
/// A thread that runs all of a world's processors does not park, but checks [`is_ready`](Driver::is_ready).
/// If it parks, the driver advances the world's time, or sleeps briefly for other threads if nothing will
/// arrive.
pub struct Sim {
    pub(super) world: World,
    pub(super) pool: Rc<Pool>,
    pub(super) sockets: SocketTable<SimSocket>,
    /// Requests that were started but not submitted, so they are not in the world yet.
    new: Vec<InFlight>,
    pub(super) flights: Vec<InFlight>,
    /// The number of [changes](World::changes) of the world and of lent buffers when all `flights` last had to wait.
    pub(super) all_wait_since: Option<(u64, usize)>,
    pub(super) done: Vec<Completion>,
    pub(super) attached: Attached,
    wake_event: Arc<WakeEvent>,
    calls: u64,
}

/// A socket of the driver.
#[derive(Clone, Copy)]
pub(super) enum SimSocket {
    Listener(usize),
    Stream(End),
    /// By its number in the world.
    Udp(usize),
}

#[derive(Default)]
struct WakeEvent(AtomicBool);

impl Unpark for WakeEvent {
    fn unpark(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Sim {
    pub(super) fn new(world: World, config: &Config) -> io::Result<Self> {
        Ok(Self {
            pool: Pool::new(config)?,
            world,
            sockets: SocketTable::new(),
            new: Vec::new(),
            flights: Vec::new(),
            all_wait_since: None,
            done: Vec::new(),
            attached: Attached::default(),
            wake_event: Arc::default(),
            calls: 0,
        })
    }

    /// The number of requests that have not completed, or whose completion was not reaped.
    pub fn in_flight(&self) -> usize {
        self.new.len() + self.flights.len() + self.done.len()
    }

    fn launch(&mut self, token: Token, op: Op) {
        let at = match &op {
            Op::Accept(_)
            | Op::Receive { .. }
            | Op::Send { .. }
            | Op::SendFile(_)
            | Op::SendTo { .. }
            | Op::ReceiveFrom { .. } => 0,
            _ => self.world.state().arrival(),
        };
        self.new.push(InFlight { token, op, at, cancelled: false });
    }

    /// The error of a request on `socket`, if it cannot start.
    fn refusal(&self, socket: Socket, same: fn(&Op) -> Option<Socket>) -> Option<i32> {
        match self.sockets.get(socket) {
            None => Some(libc::EBADF),
            Some(_) => {
                let mut flights = self.new.iter().chain(&self.flights);
                let is_busy =
                    flights.any(|flight| !flight.cancelled && same(&flight.op) == Some(socket));
                is_busy.then_some(libc::EBUSY)
            }
        }
    }

    /// Cancels a request, unless it completes first.
    pub(super) fn end_early(&mut self, mut flight: InFlight) {
        let faults = self.world.faults();
        let is_late = flight.at > self.world.now() || !self.world.chance(faults.retry);
        let result = if is_late {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            self.try_once(&mut flight.op)
        };
        self.done.push(match result {
            Ok(done) => Completion::ok(flight.token, done),
            Err(_) => Completion::err(flight.token, libc::ECANCELED),
        });
    }

    fn reject(&mut self, token: Token, code: i32) {
        self.done.push(Completion::err(token, code));
    }

    fn drop_socket(&mut self, socket: SimSocket) {
        let state = &mut *self.world.state();
        match socket {
            SimSocket::Listener(listener) => net::close_listener(state, listener),
            SimSocket::Stream(end) => net::close(state, end),
            SimSocket::Udp(socket) => udp::close(state, socket),
        }
    }
}

impl Driver for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn adopt(&mut self, endpoint: Endpoint) -> io::Result<Socket> {
        self.calls += 1;
        let socket = endpoint.into_sim()?;
        Ok(self.sockets.insert(match socket {
            Simulated::Listener(listening) if listening.is_of(&self.world) => {
                SimSocket::Listener(listening.into_listener().1)
            }
            Simulated::Stream(peer) if peer.is_of(&self.world) => {
                SimSocket::Stream(peer.into_end().1)
            }
            Simulated::Udp(peer) if peer.is_of(&self.world) => SimSocket::Udp(peer.into_socket()),
            // A socket of another world: its number means another socket here.
            _ => return Err(code(libc::EBADF)),
        }))
    }

    fn fd(&self, socket: Socket) -> Option<BorrowedFd<'_>> {
        assert!(self.sockets.get(socket).is_some(), "an open socket");
        None
    }

    fn local_addr(&self, socket: Socket) -> io::Result<SocketAddr> {
        let state = self.world.state();
        Ok(match *self.sockets.get(socket).expect("an open socket") {
            SimSocket::Listener(listener) => state.net.listener_address(listener).ip()?,
            SimSocket::Stream(end) => state.net.address(end).ip()?,
            SimSocket::Udp(socket) => state.udp.address(socket),
        })
    }

    fn bind_udp(&mut self, address: SocketAddr) -> io::Result<Socket> {
        self.calls += 2;
        let socket = udp::bind(&mut self.world.state(), address)?;
        Ok(self.sockets.insert(SimSocket::Udp(socket)))
    }

    fn connect_udp(&mut self, socket: Socket, peer: SocketAddr) -> io::Result<()> {
        let socket = self.udp_socket(socket)?;
        self.world.state().udp.connect(socket, peer);
        Ok(())
    }

    fn udp_drops(&self, socket: Socket) -> io::Result<u32> {
        Ok(self.world.state().udp.drops(self.udp_socket(socket)?))
    }

    fn has_segments(&self, _: Socket) -> bool {
        true
    }

    fn receive_datagrams_now(
        &mut self,
        socket: Socket,
        batch: &mut DatagramBatch,
    ) -> io::Result<()> {
        let socket = self.udp_socket(socket)?;
        udp::receive_batch(&mut self.world.state(), socket, batch)
    }

    fn peer_addr(&self, socket: Socket) -> io::Result<SocketAddr> {
        match *self.sockets.get(socket).expect("an open socket") {
            SimSocket::Listener(_) => Err(code(libc::ENOTCONN)),
            SimSocket::Stream(end) => self.world.state().net.peer_address(end).ip(),
            SimSocket::Udp(socket) => {
                let peer = self.world.state().udp.peer(socket);
                peer.ok_or_else(|| code(libc::ENOTCONN))
            }
        }
    }

    fn is_idle(&mut self, connection: Socket) -> bool {
        match *self.sockets.get(connection).expect("an open socket") {
            SimSocket::Stream(end) => net::is_idle(&self.world.state(), end),
            SimSocket::Listener(_) | SimSocket::Udp(_) => false,
        }
    }

    fn is_closed_by_peer(&self, connection: Socket) -> bool {
        match *self.sockets.get(connection).expect("an open socket") {
            SimSocket::Stream(end) => net::is_closed_by_peer(&self.world.state(), end),
            SimSocket::Listener(_) | SimSocket::Udp(_) => false,
        }
    }

    fn reset_on_close(&mut self, connection: Socket) -> io::Result<()> {
        let end = self.stream(connection)?;
        net::reset_on_close(&mut self.world.state(), end);
        Ok(())
    }

    fn time_of_day(&self) -> Duration {
        self.world.time_of_day()
    }

    fn close(&mut self, socket: Socket) {
        let Some(removed) = self.sockets.remove(socket) else { return };
        self.calls += 1;
        for flights in [&mut self.new, &mut self.flights] {
            flights.retain(|flight| {
                let is_affected = flight.op.socket() == Some(socket);
                if is_affected {
                    self.done.push(Completion::err(flight.token, libc::ECANCELED));
                }
                !is_affected
            });
        }
        self.drop_socket(removed);
        while let Some(connection) = self.attached.take(socket) {
            self.close(connection);
        }
    }

    fn detach(&mut self, connection: Socket) -> Option<Endpoint> {
        let mut flights = self.new.iter().chain(&self.flights);
        let unused = !flights.any(|flight| flight.op.socket() == Some(connection));
        match self.sockets.get(connection).copied()? {
            SimSocket::Stream(end) if unused => {
                self.sockets.remove(connection);
                Some(Peer::new(self.world.clone(), end).into())
            }
            _ => None,
        }
    }

    fn attach(&mut self, listener: Socket, connection: Endpoint) -> io::Result<Socket> {
        self.sockets.open(listener)?;
        let connection = self.adopt(connection)?;
        self.attached.push(listener, connection);
        self.all_wait_since = None;
        Ok(connection)
    }

    fn shutdown(&mut self, socket: Socket, how: Shutdown) -> io::Result<()> {
        self.calls += 1;
        let end = self.stream(socket)?;
        net::shutdown(&mut self.world.state(), end, how)
    }

    fn send_now(&mut self, socket: Socket, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.sockets.open(socket)?;
        let mut flights = self.new.iter().chain(&self.flights);
        let is_sending = flights.any(|flight| sends_on(&flight.op) == Some(socket));
        if is_sending || !self.world.chance(self.world.faults().immediate) {
            return Ok(0);
        }
        self.calls += 1;
        self.try_send(socket, parts)
    }

    fn accept_now(&mut self, listener: Socket) -> io::Result<Option<Socket>> {
        self.sockets.open(listener)?;
        let mut flights = self.new.iter().chain(&self.flights);
        let is_awaited =
            flights.any(|flight| matches!(flight.op, Op::Accept(at) if at == listener));
        if is_awaited || !self.world.chance(self.world.faults().immediate) {
            return Ok(None);
        }
        self.calls += 1;
        match self.try_accept(listener) {
            Ok(Done::Accepted(connection)) => Ok(Some(connection)),
            Ok(other) => unreachable!("accept completed with {other:?}"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn start(&mut self, token: Token, request: Request) {
        let (refusal, op) = match request {
            Request::Accept { listener } => {
                (self.refusal(listener, |_| None), Op::Accept(listener))
            }
            Request::Receive { socket, max } => {
                (self.refusal(socket, receives_on), Op::Receive { socket, max, skips: None })
            }
            Request::Skip { socket, max } => {
                let receive = Op::Receive { socket, max: usize::MAX, skips: Some(max) };
                (self.refusal(socket, receives_on), receive)
            }
            Request::ReceiveFrom { socket, buffer, max } => {
                (self.refusal(socket, receives_on), Op::ReceiveFrom { socket, buffer, max })
            }
            Request::SendTo { socket, datagram, to, segment } => {
                let datagram = datagram.into();
                (self.refusal(socket, |_| None), Op::SendTo { socket, datagram, to, segment })
            }
            Request::SendVectored { socket, parts } => {
                let payload = parts.into();
                (self.refusal(socket, sends_on), Op::Send { socket, payload, sent: 0 })
            }
            Request::Send { socket, payload } => {
                let payload = payload.into();
                (self.refusal(socket, sends_on), Op::Send { socket, payload, sent: 0 })
            }
            // The simulated network copies in any case.
            Request::SendFile { socket, head, file, offset, length, transfer: _ } => {
                let (head_sent, sent) = (0, 0);
                let sending = FileSend { socket, head, head_sent, file, offset, length, sent };
                (self.refusal(socket, sends_on), Op::SendFile(sending))
            }
            Request::Connect { address } => (None, Op::Connect(address)),
            Request::Open { directory, path, how } => (None, Op::Open { directory, path, how }),
            Request::ReadAt { file, buffer, offset, length } => {
                (None, Op::Read { file, buffer, offset, length })
            }
            Request::WriteAt { file, bytes, offset } => {
                (None, Op::Write { file, bytes: bytes.into(), offset, written: 0 })
            }
            Request::Sync { file, .. } => (None, Op::Sync { file }),
        };
        match refusal {
            Some(code) => self.reject(token, code),
            None => self.launch(token, op),
        }
    }

    fn cancel(&mut self, token: Token) {
        let find = |flights: &[InFlight]| flights.iter().position(|flight| flight.token == token);
        let flight = match (find(&self.new), find(&self.flights)) {
            (Some(at), _) => self.new.remove(at),
            (None, Some(at)) => self.flights.remove(at),
            (None, None) => return,
        };
        self.all_wait_since = None;
        if flight.op.is_of_a_file() && self.world.chance(500) {
            // A file's request may already be in progress, and then continues.
            self.flights.push(flight);
        } else if flight.op.may_end_late() && self.world.chance(self.world.faults().retry) {
            self.flights.push(InFlight { cancelled: true, ..flight });
        } else {
            self.end_early(flight);
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        if !self.new.is_empty() {
            self.calls += 1;
            self.flights.append(&mut self.new);
            self.all_wait_since = None;
        }
        Ok(())
    }

    fn reap(&mut self, into: &mut Vec<Completion>) -> io::Result<usize> {
        self.calls += 1;
        self.attempt(false);
        let state = &mut *self.world.state();
        state.rng.shuffle(&mut self.done);
        // Returns a random part of the completions now, and the rest next time.
        let count = match self.done.len() {
            more @ 2.. => state.rng.usize(1..=more),
            length => length,
        };
        into.extend(self.done.drain(..count));
        Ok(count)
    }

    fn is_ready(&mut self) -> bool {
        self.attempt(true);
        !self.done.is_empty()
    }

    fn park(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.submit()?;
        let limit = timeout.map(|timeout| timeout.as_nanos() as u64);
        let deadline = limit.map(|limit| self.world.now().saturating_add(limit));
        loop {
            if self.is_ready() || self.wake_event.0.swap(false, Ordering::SeqCst) {
                return Ok(());
            }
            match (self.world.next_arrival(), deadline) {
                (Some(at), deadline) if deadline.is_none_or(|deadline| at <= deadline) => {
                    self.world.advance_to(at);
                }
                (_, deadline) => {
                    std::thread::sleep(Duration::from_micros(20));
                    if let Some(deadline) = deadline {
                        self.world.advance_to(deadline);
                        return Ok(());
                    }
                }
            }
        }
    }

    /// One completion is enough: the simulation draws waits elsewhere.
    fn coalesce(&mut self, _: usize, limit: Duration) -> io::Result<()> {
        self.park(Some(limit))
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        self.wake_event.clone()
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }

    fn buffers_lent(&self) -> usize {
        self.pool.lent()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        for socket in self.sockets.drain() {
            self.drop_socket(socket);
        }
    }
}
