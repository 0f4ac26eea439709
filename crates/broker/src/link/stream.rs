//! The transport between the session of a bridge and the remote broker.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_tls::Wire;

use crate::counters::Counters;
use crate::events::Origin;
use crate::link::aliases::{IncomingAliases, OutgoingAliases};
use crate::link::answer_deadline::AnswerDeadline;
use crate::link::keep_alive::KeepAlive;
use crate::link::releases::{Releases, Unreleased};
use crate::link::status::BridgeStatus;
use crate::link::topics::TopicMap;

/// Wakes the sender of the connection.
type WakeSender = Rc<dyn Fn()>;

/// A connection to a remote broker that has accepted the bridge.
pub(crate) struct Link {
    wire: Wire,
    pub(super) options: LinkOptions,
    pub(super) keep_alive: KeepAlive,
    pub(super) suback: AnswerDeadline,
    pub(super) releases: Releases,
    /// Bytes from the remote broker that have not been processed.
    input: RefCell<Vec<u8>>,
    pub(super) incoming: RefCell<IncomingAliases>,
    pub(super) outgoing: RefCell<OutgoingAliases>,
    /// The link's own packets for the remote broker.
    pub(super) own_packets: RefCell<Vec<u8>>,
    /// The link's own packets for the reader: acknowledgements of messages that the link has dropped.
    pub(super) injected: RefCell<Vec<u8>>,
    sender: RefCell<Option<WakeSender>>,
    /// Whether the remote broker has sent DISCONNECT.
    pub(super) is_ended: Cell<bool>,
}

/// The properties of the bridge and of the remote broker.
pub(crate) struct LinkOptions {
    pub(crate) map: Arc<TopicMap>,
    /// The identifier of this broker, if loops are detected.
    pub(crate) broker_id: Option<Arc<str>>,
    /// Whether the remote broker retains messages.
    pub(crate) retain_available: bool,
    /// Maximum packet sizes of this broker and of the remote one, in bytes.
    pub(crate) max_local_packet: usize,
    pub(crate) max_remote_packet: usize,
    /// Maximum topic aliases of this broker and of the remote one.
    pub(crate) local_aliases: u16,
    pub(crate) remote_aliases: u16,
    /// Keep-alive in seconds; 0 for none.
    pub(crate) keep_alive: u16,
    /// Whether SUBACK is still outstanding after the login.
    pub(crate) awaits_suback: bool,
    /// The packet identifiers of QoS 2 messages of an earlier session that the remote broker may hold.
    pub(crate) unreleased: Rc<Unreleased>,
    /// Maximum time for each answer to SUBSCRIBE and PUBREL.
    pub(crate) answer_timeout: Duration,
    /// Whether the remote broker keeps the bridge's session for the next connection.
    pub(crate) is_resumed: bool,
    pub(crate) origin: Origin,
    /// The client identifier of the bridge's session.
    pub(crate) client: Arc<str>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) status: Arc<BridgeStatus>,
}

impl Link {
    /// Creates a link over `wire`, on which `input` was already received.
    pub(crate) fn new(wire: Wire, input: Vec<u8>, options: LinkOptions) -> Self {
        let (timeout, now) = (options.answer_timeout, now());
        let releases = Releases::new(options.unreleased.clone(), timeout, now);
        Self {
            wire,
            keep_alive: KeepAlive::new(options.keep_alive, now),
            suback: AnswerDeadline::new("SUBSCRIBE", options.awaits_suback, timeout, now),
            input: RefCell::new(input),
            incoming: RefCell::new(IncomingAliases::new(options.local_aliases)),
            outgoing: RefCell::new(OutgoingAliases::new(options.remote_aliases)),
            own_packets: RefCell::new(releases.packets()),
            releases,
            injected: RefCell::default(),
            sender: RefCell::default(),
            is_ended: Cell::new(false),
            options,
        }
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Whether the next connection continues the bridge's session at the remote broker.
    pub(crate) fn is_resumed(&self) -> bool {
        self.options.is_resumed
    }

    /// Whether the remote broker holds no QoS 2 message of an earlier session.
    pub(crate) fn has_released(&self) -> bool {
        self.releases.are_complete()
    }

    /// Whether the link has packets of its own for the remote broker.
    pub(crate) fn has_own_packets(&self) -> bool {
        !self.own_packets.borrow().is_empty()
    }

    /// Registers the function that wakes the sender for the link's own packets.
    pub(crate) fn set_wake(&self, wake: impl Fn() + 'static) {
        self.sender.replace(Some(Rc::new(wake)));
    }

    /// Waits for packets that the session has to process, and appends them to `buffer`.
    pub(crate) async fn read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let read = self.read_packets(buffer).await;
        if !matches!(read, Ok(1..)) {
            self.releases.end();
        }
        read.inspect_err(|error| {
            self.options.status.set_error(match error.kind() {
                io::ErrorKind::TimedOut => "the remote broker does not answer pings".to_owned(),
                _ => error.to_string(),
            })
        })
    }

    async fn read_packets(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let before = buffer.len();
        loop {
            buffer.append(&mut self.injected.borrow_mut());
            let mut input = self.input.take();
            let taken = self.take(&input, buffer);
            input.drain(..taken?);
            if self.keep_alive.poll_ping(now())? {
                self.ping();
            }
            if self.has_own_packets() {
                let wake = self.sender.borrow().clone();
                wake.iter().for_each(|wake| wake());
            }
            if buffer.len() > before || self.is_ended.get() {
                self.input.replace(input);
                return Ok(buffer.len() - before);
            }
            let deadlines =
                self.suback.time_left(now())?.into_iter().chain(self.releases.time_left(now())?);
            let timeout = match deadlines.chain(self.keep_alive.time_left(now())).min() {
                Some(left) => IoTimeout::after(left).until_shutdown(),
                None => IoTimeout::NONE.until_shutdown(),
            };
            match Box::pin(self.wire.read(&mut input, timeout)).await {
                Ok(0) => return Ok(0),
                Ok(_) => self.keep_alive.record_received(),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => (),
                Err(error) => return Err(error),
            }
            self.input.replace(input);
        }
    }

    /// Sends packets of the session.
    pub(crate) async fn write(
        &self,
        mut bytes: Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<Vec<u8>> {
        let mut out = self.own_packets.take();
        if !bytes.is_empty() && !self.releases.are_complete() {
            if !out.is_empty() {
                Box::pin(self.wire.write(out, timeout)).await?;
            }
            Box::pin(self.releases.wait_until_complete()).await?;
            out = self.own_packets.take();
        }
        self.put(&bytes, &mut out)?;
        bytes.clear();
        if !out.is_empty() {
            Box::pin(self.wire.write(out, timeout)).await?;
        }
        Ok(bytes)
    }
}
