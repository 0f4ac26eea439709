//! A publisher that follows the standard: it retransmits messages that were not fully acknowledged.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{Net, World};
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Property, PropertyBuffer, Publish, QoS, Reason,
};

use crate::simulation::wire::{Brokers, Lost, Wire};
use crate::simulation::{MESSAGES, Shared, qos};

/// The client's persistent state.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// Whether the broker has confirmed the session.
    is_known: bool,
    /// The number of packets received.
    packets_received: u64,
    /// The number of the next message.
    next: usize,
    unacknowledged: VecDeque<UnackedMessage>,
    /// How often each message was sent.
    sent: [u32; MESSAGES],
    /// For each message, the times of day of its first PUBLISH and of the last acknowledgement.
    times: [(Duration, Duration); MESSAGES],
}

/// A message to publish.
pub(crate) struct MessageSpec {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// The message expiry interval in seconds.
    pub(crate) expiry: Option<u32>,
}

/// Makes message `number` of a publisher, to the publisher's topic.
pub(crate) fn numbered_message(publisher: usize, number: usize) -> MessageSpec {
    let (topic, payload) = (format!("from/{publisher}"), number.to_string());
    MessageSpec { topic, payload, qos: qos(number), retain: false, expiry: None }
}

/// A publisher's number, and the function that makes its messages.
pub(crate) type Script = (usize, fn(usize, usize) -> MessageSpec);

/// A message that is not fully acknowledged.
#[derive(Clone)]
struct UnackedMessage {
    number: usize,
    id: PacketId,
    /// Whether the broker has received the message, so that only its packet identifier is still in use.
    is_received: bool,
}

/// Adds publishers with their state; all use the same function to make messages.
pub(crate) fn add_all(
    world: &mut World,
    shared: &Rc<Shared>,
    make_message: fn(usize, usize) -> MessageSpec,
    all: &[Rc<RefCell<State>>],
) {
    for (number, state) in all.iter().enumerate() {
        add_one(world, shared, (number, make_message), state);
    }
}

/// Adds the publisher with this number.
pub(crate) fn add_one(
    world: &mut World,
    shared: &Rc<Shared>,
    script: Script,
    state: &Rc<RefCell<State>>,
) {
    world.client(run(world.net(), shared.clone(), script, state.clone()));
}

/// Publishes all messages that are not published yet.
async fn run(net: Net, shared: Rc<Shared>, script: Script, state: Rc<RefCell<State>>) {
    let (publisher, _) = script;
    while shared.absent.get() > 0 {
        net.sleep(Duration::from_millis(10)).await;
    }
    let brokers = shared.publishers_at.get();
    let (mut breaks, name) = (brokers.breaks(), format!("publisher {publisher}"));
    while !state.borrow().is_done() {
        let is_known = state.borrow().is_known;
        let mut wire = brokers.connect(&net, &name, is_known).await;
        let was_known = state.borrow_mut().confirm_session();
        assert!(wire.is_present || !was_known, "publisher {publisher}'s session is lost");
        let fails = shared.breaks.get() && breaks > 0 && brokers.break_next(&net);
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        let steps = (shared.pace.get(), steps);
        let _ = publish((&net, brokers), &mut wire, script, &state, steps).await;
        if fails && net.draw(2) == 0 {
            wire.reset();
        }
    }
}

impl State {
    /// The number of packets received.
    pub(crate) fn packets_received(&self) -> u64 {
        self.packets_received
    }

    /// The number of the next message. All earlier ones were sent.
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// Whether the broker has acknowledged this message.
    pub(crate) fn is_acknowledged(&self, number: usize) -> bool {
        number < self.next
            && !self
                .unacknowledged
                .iter()
                .any(|message| message.number == number && !message.is_received)
    }

    /// The times of day between which the broker received this message. The message must have been sent.
    pub(crate) fn times(&self, number: usize) -> (Duration, Duration) {
        let (first, acknowledged_at) = self.times[number];
        (first, if self.is_acknowledged(number) { acknowledged_at } else { Duration::MAX })
    }

    /// How often a message was sent.
    pub(crate) fn sent(&self, number: usize) -> u32 {
        self.sent[number]
    }

    /// Marks the session as confirmed. Returns whether it already was.
    fn confirm_session(&mut self) -> bool {
        self.packets_received += 1;
        std::mem::replace(&mut self.is_known, true)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.next == MESSAGES && self.unacknowledged.is_empty()
    }

    fn may_begin(&self) -> bool {
        self.next < MESSAGES && self.unacknowledged.len() < 4
    }

    /// Starts the next message, with the lowest free packet identifier.
    fn begin(&mut self) -> UnackedMessage {
        let mut ids = (1..).filter_map(PacketId::new);
        let id = ids
            .find(|id| self.unacknowledged.iter().all(|message| message.id != *id))
            .expect("few identifiers are in use");
        let own = UnackedMessage { number: self.next, id, is_received: false };
        self.unacknowledged.push_back(own.clone());
        self.next += 1;
        own
    }

    /// Processes the acknowledgement of a message, at this time.
    fn mark_received(&mut self, id: PacketId, now: Duration) {
        let of = self
            .unacknowledged
            .iter_mut()
            .find(|message| message.id == id)
            .expect("published before");
        of.is_received = true;
        self.times[of.number].1 = now;
    }

    fn remove(&mut self, id: PacketId) {
        self.unacknowledged.retain(|message| message.id != id);
    }
}

/// Continues until all messages are published, the connection is lost, or the number of steps is reached.
async fn publish(
    (net, brokers): (&Net, Brokers),
    wire: &mut Wire,
    script: Script,
    state: &RefCell<State>,
    (pace, steps): (Duration, u64),
) -> Result<(), Lost> {
    let pending = state.borrow().unacknowledged.clone();
    for message in pending {
        match message.is_received {
            true => wire.send(&Packet::PubRel(Ack::success(message.id))).await?,
            false => send((net, wire), script, state, &message, true).await?,
        }
    }
    for _ in 0..steps {
        if state.borrow().is_done() {
            return Ok(());
        }
        if state.borrow().may_begin() && net.draw(2) == 0 {
            if !pace.is_zero() {
                net.sleep(Duration::from_millis(net.draw(pace.as_millis() as u64))).await;
            }
            let message = state.borrow_mut().begin();
            send((net, wire), script, state, &message, false).await?;
            continue;
        }
        if state.borrow().unacknowledged.is_empty() {
            continue;
        }
        let received = wire.next().await?;
        state.borrow_mut().packets_received += 1;
        match received.packet() {
            Packet::PubAck(ack) => {
                assert!(!ack.reason.is_failure(), "{ack:?}");
                state.borrow_mut().mark_received(ack.id, net.time_of_day());
                state.borrow_mut().remove(ack.id);
            }
            Packet::PubRec(ack) => {
                assert!(!ack.reason.is_failure(), "{ack:?}");
                state.borrow_mut().mark_received(ack.id, net.time_of_day());
                wire.send(&Packet::PubRel(Ack::success(ack.id))).await?;
            }
            Packet::PubComp(ack) => state.borrow_mut().remove(ack.id),
            // The broker's disk is slow.
            Packet::Disconnect(disconnect) if disconnect.reason == Reason::SERVER_BUSY => {
                return Err(Lost);
            }
            Packet::Disconnect(disconnect) if wire.may_end(brokers, disconnect.reason) => {
                return Err(Lost);
            }
            other => panic!("a publisher gets {other:?}"),
        }
    }
    Err(Lost)
}

async fn send(
    (net, wire): (&Net, &mut Wire),
    (publisher, make_message): Script,
    state: &RefCell<State>,
    &UnackedMessage { number, id, .. }: &UnackedMessage,
    duplicate: bool,
) -> Result<(), Lost> {
    if state.borrow().sent[number] == 0 {
        state.borrow_mut().times[number].0 = net.time_of_day();
    }
    state.borrow_mut().sent[number] += 1;
    let MessageSpec { topic, payload, qos, retain, expiry } = make_message(publisher, number);
    let mut properties = PropertyBuffer::new();
    expiry
        .into_iter()
        .for_each(|seconds| properties.push(Property::MessageExpiry(seconds)).unwrap());
    let delivery = match qos {
        QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
        _ => Delivery::AtLeastOnce(id),
    };
    wire.send(&Packet::Publish(Publish {
        topic: &topic,
        payload: payload.as_bytes(),
        delivery,
        retain,
        duplicate,
        properties: properties.get(),
    }))
    .await
}
