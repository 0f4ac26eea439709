//! The state that an endpoint shares with its connections.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use phalanx::net::UdpSocket;
use quinn_proto::{ConnectionEvent, ConnectionHandle, EndpointEvent, ServerConfig};

use crate::clock::Clock;
use crate::config::{Config, Limits};
use crate::metrics::QuicMetrics;
use crate::send_queue::SendQueue;
use crate::state::Shared;

/// The state that an endpoint shares with its connections.
pub(crate) struct Core {
    quic: RefCell<quinn_proto::Endpoint>,
    connections: RefCell<HashMap<ConnectionHandle, Rc<Shared>>>,
    pub(crate) clock: Clock,
    pub(crate) metrics: QuicMetrics,
    pub(crate) limits: Limits,
    /// The configuration of the latest connections, and their idle timeout, if there was any.
    server: RefCell<(Option<Duration>, Arc<ServerConfig>)>,
    socket: Rc<UdpSocket>,
    /// Handshakes in progress.
    pub(crate) handshakes: Cell<usize>,
    /// Wakes the endpoint when its last connection has ended.
    last_ended: Cell<Option<Waker>>,
}

impl Core {
    pub(crate) fn new(quic: quinn_proto::Endpoint, config: &Config, socket: UdpSocket) -> Self {
        Self {
            quic: RefCell::new(quic),
            connections: RefCell::default(),
            clock: Clock::new(),
            metrics: config.metrics.clone(),
            limits: config.limits,
            server: RefCell::new((None, config.server.clone())),
            socket: Rc::new(socket),
            handshakes: Cell::new(0),
            last_ended: Cell::default(),
        }
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn send_queue(&self) -> SendQueue {
        SendQueue::new(self.socket.clone(), self.metrics.clone())
    }

    /// Bytes that a connection may buffer until they are acknowledged.
    pub(crate) fn send_window(&self) -> u64 {
        let limits = &self.limits;
        let share = limits.send_memory / self.connections.borrow().len().max(1);
        let share = share.try_into().unwrap_or(u32::MAX).min(limits.send_window);
        share.max(limits.min_send_window).into()
    }

    pub(crate) fn quic(&self) -> RefMut<'_, quinn_proto::Endpoint> {
        self.quic.borrow_mut()
    }

    /// The configuration of connections with this idle timeout.
    pub(crate) fn server(&self, idle: Duration) -> Arc<ServerConfig> {
        let mut server = self.server.borrow_mut();
        if server.0 != Some(idle) {
            *server = (Some(idle), Config::with_idle(&server.1, self.limits, idle));
        }
        server.1.clone()
    }

    /// Processes an event of a connection. The result is for the same connection.
    pub(crate) fn handle(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        self.quic.borrow_mut().handle_event(handle, event)
    }

    /// Adds a connection whose handshake begins.
    pub(crate) fn add(
        self: &Rc<Self>,
        handle: ConnectionHandle,
        (remote, idle): (SocketAddr, Duration),
        quic: quinn_proto::Connection,
    ) -> Rc<Shared> {
        self.handshakes.set(self.handshakes.get() + 1);
        let shared = Rc::new(Shared::new(self.clone(), handle, (remote, idle), quic));
        self.connections.borrow_mut().insert(handle, shared.clone());
        shared
    }

    /// Removes a connection.
    pub(crate) fn remove(&self, handle: ConnectionHandle) {
        let mut connections = self.connections.borrow_mut();
        if connections.remove(&handle).is_some()
            && connections.is_empty()
            && let Some(endpoint) = self.last_ended.take()
        {
            endpoint.wake();
        }
    }

    /// Passes a datagram to its connection.
    pub(crate) fn receive(&self, handle: ConnectionHandle, event: ConnectionEvent) {
        let connection = self.connections.borrow().get(&handle).cloned();
        if let Some(connection) = connection {
            connection.receive(event);
        }
    }

    /// Whether there are connections. If so, the operation is woken when the last has ended.
    pub(crate) fn has_connections(&self, context: &Context<'_>) -> bool {
        let any = !self.connections.borrow().is_empty();
        if any {
            self.last_ended.set(Some(context.waker().clone()));
        }
        any
    }
}
