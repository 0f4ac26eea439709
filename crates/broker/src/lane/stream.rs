//! A lane: its properties, its state and its end.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::sleep;
use phalanx::sync::Notify;
use phalanx::time::now;

use crate::lane::frame::NodeFrame;
use crate::peers::members::Counts;
use crate::peers::{NodeStatus, Peers};

/// Part of the timeout after which [`Lane::is_processed`] looks again.
const POLLS: u32 = 25;

/// Sends a payload to a node.
pub(crate) type SendPayload = Box<dyn Fn(&[u8]) -> Sent>;

/// Result of sending a payload.
pub(crate) enum Sent {
    Yes,
    /// Later: its connection is full.
    Full,
    /// The payload exceeds the limit of NATS.
    TooLarge(String),
    /// This or the next lane cannot be used.
    Failed(String),
}

/// The properties of a lane.
pub(crate) struct LaneOptions {
    pub(crate) id: u64,
    /// The other node.
    pub(crate) node: Arc<str>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) status: Arc<NodeStatus>,
    /// Sends a payload to the other node.
    pub(crate) send: SendPayload,
    /// Maximum size of a payload, in bytes.
    pub(crate) most: usize,
    /// Maximum size of a packet from the other node, in bytes.
    pub(crate) most_packet: usize,
    /// Maximum size of a packet to it, in bytes.
    pub(crate) most_sent: usize,
    /// The lane ends if nothing that was sent is acknowledged for this time.
    pub(crate) timeout: Duration,
    /// The keys of the subscriptions that the other node's session has from an earlier lane.
    pub(crate) known: HashSet<Box<str>>,
}

/// A lane to another node.
pub(crate) struct Lane {
    pub(super) options: LaneOptions,
    /// Bytes that arrived in order and were not processed.
    pub(super) input: RefCell<Vec<u8>>,
    pub(super) received: Cell<u64>,
    pub(super) processed: Cell<u64>,
    /// The numbers of these that the other node knows.
    pub(super) told: Cell<(u64, u64)>,
    pub(super) told_at: Cell<Duration>,
    pub(super) sent: Cell<u64>,
    /// Bytes that the other node has received and processed.
    pub(super) arrived: Cell<(u64, u64)>,
    /// The time at which it last received new ones.
    pub(super) progress: Cell<Duration>,
    why_closed: RefCell<Option<String>>,
    pub(super) reader: Notify,
    pub(super) writer: Notify,
    pub(super) sender: RefCell<Option<Rc<dyn Fn()>>>,
    /// Packets of the lane itself for the other node.
    pub(super) answers: RefCell<Vec<u8>>,
    /// Tells that they are being sent, and whether they are.
    pub(super) drained: Notify,
    pub(super) is_answering: Cell<bool>,
    /// Packets of the lane itself for the session here.
    pub(super) injected: RefCell<Vec<u8>>,
    /// Unanswered packets of announced filters, and the version of the filters after them.
    pub(super) unanswered: Cell<usize>,
    pub(super) version: Cell<Option<u64>>,
    /// All filters of the lane's begin were sent.
    pub(super) is_announced: Cell<bool>,
    pub(super) known: RefCell<HashSet<Box<str>>>,
    /// Members of shared subscriptions at the other node, for the router.
    pub(super) members: RefCell<Option<Counts>>,
}

impl Lane {
    pub(crate) fn new(mut options: LaneOptions) -> Rc<Self> {
        let known = RefCell::new(std::mem::take(&mut options.known));
        Rc::new(Self {
            options,
            input: RefCell::default(),
            received: Cell::new(0),
            processed: Cell::new(0),
            told: Cell::new((0, 0)),
            told_at: Cell::new(now()),
            sent: Cell::new(0),
            arrived: Cell::new((0, 0)),
            progress: Cell::new(now()),
            why_closed: RefCell::default(),
            reader: Notify::default(),
            writer: Notify::default(),
            sender: RefCell::default(),
            answers: RefCell::default(),
            drained: Notify::default(),
            is_answering: Cell::new(false),
            injected: RefCell::default(),
            unanswered: Cell::new(0),
            version: Cell::new(None),
            is_announced: Cell::new(false),
            known,
            members: RefCell::default(),
        })
    }

    /// The number of the lane.
    pub(crate) fn id(&self) -> u64 {
        self.options.id
    }

    /// Sends a frame of the lane.
    pub(crate) fn send_frame(&self, frame: &NodeFrame<'_>) -> Sent {
        let mut payload = Vec::new();
        frame.encode(&mut payload);
        (self.options.send)(&payload)
    }

    /// Ends the lane. The first reason counts.
    pub(crate) fn close(&self, why: &str) {
        if self.is_closed() {
            return;
        }
        // If it is lost, the other node finds the end by its next data.
        let _ = self.send_frame(&NodeFrame::Close { lane: self.id(), why });
        self.closed(why);
    }

    /// The other node has ended the lane.
    pub(crate) fn closed(&self, why: &str) {
        self.why_closed.borrow_mut().get_or_insert_with(|| why.to_owned());
        self.options.status.lag.set(0);
        self.reader.notify();
        self.writer.notify();
        self.drained.notify();
        self.nudge();
    }

    /// Whether the lane has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.why_closed.borrow().is_some()
    }

    /// Why the lane has ended.
    pub(crate) fn why_closed(&self) -> Option<String> {
        self.why_closed.borrow().clone()
    }

    /// Whether the other node has processed the lane's own packets of now. Waits while the lane lasts.
    pub(crate) async fn is_processed(&self) -> bool {
        let mut until = None;
        while !self.is_closed() {
            if until.is_none() && self.answers.borrow().is_empty() && !self.is_answering.get() {
                until = Some(self.sent.get());
            }
            if until.is_some_and(|until| self.arrived.get().1 >= until) {
                return true;
            }
            sleep(self.options.timeout / POLLS).await;
        }
        false
    }

    /// Registers what wakes the sender for the lane's own packets.
    pub(crate) fn set_wake(&self, wake: impl Fn() + 'static) {
        self.sender.replace(Some(Rc::new(wake)));
    }

    /// Wakes the sender for packets of the lane itself.
    pub(crate) fn nudge(&self) {
        let wake = self.sender.borrow().clone();
        wake.iter().for_each(|wake| wake());
    }
}
