//! A publisher that keeps to the rules: what was not answered to the end it sends again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{Net, World};
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Property, PropertyBuffer, Publish, QoS, Reason,
};

use crate::wire::{Lost, Wire};
use crate::{MESSAGES, Shared, qos};

/// What it would keep on a disk of its own.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    /// The broker has told it that it has a session.
    is_known: bool,
    /// Packets that it has got.
    heard: u64,
    /// The number of the next message.
    next: usize,
    own: VecDeque<Own>,
    /// How often each was sent.
    sent: [u32; MESSAGES],
    /// The times of day when each was sent first, and when it was answered last.
    times: [(Duration, Duration); MESSAGES],
}

/// What a publisher publishes under a number.
pub(crate) struct Said {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// Seconds after which it is worth nothing.
    pub(crate) expiry: Option<u32>,
}

/// Its number, to a topic of its own.
pub(crate) fn number(publisher: usize, number: usize) -> Said {
    let (topic, payload) = (format!("from/{publisher}"), number.to_string());
    Said { topic, payload, qos: qos(number), retain: false, expiry: None }
}

/// A publisher's number, and what it says.
type Script = (usize, fn(usize, usize) -> Said);

/// A message on its way.
#[derive(Clone)]
struct Own {
    number: usize,
    id: PacketId,
    /// The broker has it; only its number is still taken.
    is_received: bool,
}

/// Has publishers enter, with what they know; all say the same under their numbers.
pub(crate) fn enter(
    world: &mut World,
    shared: &Rc<Shared>,
    says: fn(usize, usize) -> Said,
    all: &[Rc<RefCell<Memory>>],
) {
    for (number, memory) in all.iter().enumerate() {
        let (net, shared) = (world.net(), shared.clone());
        world.client(run(net, shared, (number, says), memory.clone()));
    }
}

/// Publishes all its messages that it has not yet.
async fn run(net: Net, shared: Rc<Shared>, script: Script, memory: Rc<RefCell<Memory>>) {
    let (publisher, _) = script;
    while shared.absent.get() > 0 {
        net.sleep(Duration::from_millis(10)).await;
    }
    let mut breaks = 4;
    while !memory.borrow().is_through() {
        let mut wire = Wire::connect(&net, &format!("publisher {publisher}")).await;
        let was_known = memory.borrow_mut().is_let_in();
        assert!(wire.is_present || !was_known, "publisher {publisher}'s session is lost");
        let fails = shared.breaks.get() && breaks > 0 && net.draw(2) == 0;
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        let _ = publish(&net, &mut wire, script, &memory, steps).await;
        if fails && net.draw(2) == 0 {
            wire.reset();
        }
    }
}

impl Memory {
    /// How many packets it has got.
    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    /// The number of the next message: those before have been sent.
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// Whether the broker has said that it has this message.
    pub(crate) fn is_answered(&self, number: usize) -> bool {
        number < self.next && !self.own.iter().any(|own| own.number == number && !own.is_received)
    }

    /// The times of day between which the broker has got this message, which was sent.
    pub(crate) fn times(&self, number: usize) -> (Duration, Duration) {
        let (first, answered) = self.times[number];
        (first, if self.is_answered(number) { answered } else { Duration::MAX })
    }

    /// How often a message was sent.
    pub(crate) fn sent(&self, number: usize) -> u32 {
        self.sent[number]
    }

    /// Whether it was before.
    fn is_let_in(&mut self) -> bool {
        self.heard += 1;
        std::mem::replace(&mut self.is_known, true)
    }

    pub(crate) fn is_through(&self) -> bool {
        self.next == MESSAGES && self.own.is_empty()
    }

    fn may_begin(&self) -> bool {
        self.next < MESSAGES && self.own.len() < 4
    }

    /// The next message, which is under way now, by the lowest identifier that is free.
    fn begin(&mut self) -> Own {
        let mut ids = (1..).filter_map(PacketId::new);
        let id = ids.find(|id| self.own.iter().all(|own| own.id != *id)).expect("few are taken");
        let own = Own { number: self.next, id, is_received: false };
        self.own.push_back(own.clone());
        self.next += 1;
        own
    }

    /// The broker has a message, and says so at this time.
    fn is_received(&mut self, id: PacketId, now: Duration) {
        let of = self.own.iter_mut().find(|own| own.id == id).expect("it was published");
        of.is_received = true;
        self.times[of.number].1 = now;
    }

    fn is_done(&mut self, id: PacketId) {
        self.own.retain(|own| own.id != id);
    }
}

/// Goes on until all is published, the connection is lost, or so many steps were taken.
async fn publish(
    net: &Net,
    wire: &mut Wire,
    script: Script,
    memory: &RefCell<Memory>,
    steps: u64,
) -> Result<(), Lost> {
    let again = memory.borrow().own.clone();
    for message in again {
        match message.is_received {
            true => wire.say(&Packet::PubRel(Ack::of(message.id))).await?,
            false => send((net, wire), script, memory, &message, true).await?,
        }
    }
    for _ in 0..steps {
        if memory.borrow().is_through() {
            return Ok(());
        }
        if memory.borrow().may_begin() && net.draw(2) == 0 {
            let message = memory.borrow_mut().begin();
            send((net, wire), script, memory, &message, false).await?;
            continue;
        }
        if memory.borrow().own.is_empty() {
            continue;
        }
        let came = wire.next().await?;
        memory.borrow_mut().heard += 1;
        match came.packet() {
            Packet::PubAck(ack) => {
                assert!(!ack.reason.is_failure(), "{ack:?}");
                memory.borrow_mut().is_received(ack.id, net.time_of_day());
                memory.borrow_mut().is_done(ack.id);
            }
            Packet::PubRec(ack) => {
                assert!(!ack.reason.is_failure(), "{ack:?}");
                memory.borrow_mut().is_received(ack.id, net.time_of_day());
                wire.say(&Packet::PubRel(Ack::of(ack.id))).await?;
            }
            Packet::PubComp(ack) => memory.borrow_mut().is_done(ack.id),
            // The disk takes long.
            Packet::Disconnect(why) if why.reason == Reason::SERVER_UNAVAILABLE => {
                return Err(Lost);
            }
            other => panic!("a publisher gets {other:?}"),
        }
    }
    Err(Lost)
}

async fn send(
    (net, wire): (&Net, &mut Wire),
    (publisher, says): Script,
    memory: &RefCell<Memory>,
    &Own { number, id, .. }: &Own,
    duplicate: bool,
) -> Result<(), Lost> {
    if memory.borrow().sent[number] == 0 {
        memory.borrow_mut().times[number].0 = net.time_of_day();
    }
    memory.borrow_mut().sent[number] += 1;
    let Said { topic, payload, qos, retain, expiry } = says(publisher, number);
    let mut properties = PropertyBuffer::new();
    expiry.into_iter().for_each(|own| properties.push(Property::MessageExpiry(own)).unwrap());
    let delivery = match qos {
        QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
        _ => Delivery::AtLeastOnce(id),
    };
    wire.say(&Packet::Publish(Publish {
        topic: &topic,
        payload: payload.as_bytes(),
        delivery,
        retain,
        duplicate,
        properties: properties.get(),
    }))
    .await
}
