//! The properties and the state of a lane.

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

/// How often [`Lane::wait_until_processed`] polls within the timeout.
const POLLS_PER_TIMEOUT: u32 = 25;

/// Sends a payload to a node.
pub(crate) type SendPayload = Box<dyn Fn(&[u8]) -> Sent>;

/// Result of sending a payload.
pub(crate) enum Sent {
    Yes,
    /// The connection to NATS is full: try again later.
    Full,
    /// The payload exceeds the limit of NATS.
    TooLarge(String),
    /// NATS cannot be reached: the lane ends.
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
    /// Bytes.
    pub(crate) max_payload: usize,
    /// Bytes.
    pub(crate) max_incoming_packet: usize,
    /// Bytes.
    pub(crate) max_outgoing_packet: usize,
    /// The lane ends if the other node acknowledges no sent data for this time.
    pub(crate) timeout: Duration,
    /// The keys of subscriptions that the session for the other node has from an earlier lane.
    pub(crate) known: HashSet<Box<str>>,
}

/// A lane to another node.
pub(crate) struct Lane {
    pub(super) options: LaneOptions,
    /// Received bytes that have not been processed.
    pub(super) input: RefCell<Vec<u8>>,
    pub(super) received: Cell<u64>,
    pub(super) processed: Cell<u64>,
    /// The last sent values of `received` and `processed`, and when they were sent.
    pub(super) last_acknowledged: Cell<(u64, u64)>,
    pub(super) last_acknowledged_at: Cell<Duration>,
    pub(super) sent: Cell<u64>,
    /// The numbers of bytes that the other node has received and processed.
    pub(super) acknowledged: Cell<(u64, u64)>,
    /// When the other node last acknowledged new bytes.
    pub(super) last_progress: Cell<Duration>,
    close_reason: RefCell<Option<String>>,
    pub(super) reader: Notify,
    pub(super) writer: Notify,
    pub(super) sender: RefCell<Option<Rc<dyn Fn()>>>,
    /// The lane's own packets for the other node.
    pub(super) own_packets: RefCell<Vec<u8>>,
    /// Notifies when `own_packets` was taken to be sent; and whether they are being sent.
    pub(super) drained: Notify,
    pub(super) is_sending_own_packets: Cell<bool>,
    /// The lane's own packets for the session here.
    pub(super) injected: RefCell<Vec<u8>>,
    /// The number of unanswered announcements, and the version of the filters once they are answered.
    pub(super) unanswered: Cell<usize>,
    pub(super) version: Cell<Option<u64>>,
    /// Whether all filters with which the lane begins were sent.
    pub(super) is_announced: Cell<bool>,
    pub(super) known: RefCell<HashSet<Box<str>>>,
    /// The numbers of online members at the other node, for the router.
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
            last_acknowledged: Cell::new((0, 0)),
            last_acknowledged_at: Cell::new(now()),
            sent: Cell::new(0),
            acknowledged: Cell::new((0, 0)),
            last_progress: Cell::new(now()),
            close_reason: RefCell::default(),
            reader: Notify::default(),
            writer: Notify::default(),
            sender: RefCell::default(),
            own_packets: RefCell::default(),
            drained: Notify::default(),
            is_sending_own_packets: Cell::new(false),
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

    /// Ends the lane. Only the first reason is kept.
    pub(crate) fn close(&self, reason: &str) {
        if self.is_closed() {
            return;
        }
        // If this frame is lost, the other node is refused when it next sends data.
        let _ = self.send_frame(&NodeFrame::Close { lane: self.id(), reason });
        self.mark_closed(reason);
    }

    /// Marks the lane as ended, by either node.
    pub(crate) fn mark_closed(&self, reason: &str) {
        self.close_reason.borrow_mut().get_or_insert_with(|| reason.to_owned());
        self.options.status.lag.set(0);
        self.reader.notify();
        self.writer.notify();
        self.drained.notify();
        self.wake_sender();
    }

    /// Whether the lane has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.close_reason.borrow().is_some()
    }

    /// Why the lane has ended.
    pub(crate) fn close_reason(&self) -> Option<String> {
        self.close_reason.borrow().clone()
    }

    /// Waits until the other node has processed the lane's current packets. Returns false if the lane ends first.
    pub(crate) async fn wait_until_processed(&self) -> bool {
        let mut until = None;
        while !self.is_closed() {
            if until.is_none()
                && self.own_packets.borrow().is_empty()
                && !self.is_sending_own_packets.get()
            {
                until = Some(self.sent.get());
            }
            if until.is_some_and(|until| self.acknowledged.get().1 >= until) {
                return true;
            }
            sleep(self.options.timeout / POLLS_PER_TIMEOUT).await;
        }
        false
    }

    /// Registers the function that wakes the sender for the lane's own packets.
    pub(crate) fn set_wake(&self, wake: impl Fn() + 'static) {
        self.sender.replace(Some(Rc::new(wake)));
    }

    /// Wakes the sender for the lane's own packets.
    pub(crate) fn wake_sender(&self) {
        let wake = self.sender.borrow().clone();
        wake.iter().for_each(|wake| wake());
    }
}
