//! A subscriber that keeps to the rules, and in the end looks at what it has got.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::Net;
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Properties, QoS, Reason, Subscribe, SubscribeOptions,
    SubscriptionBuffer,
};

use crate::wire::{Lost, Wire};
use crate::{MESSAGES, PUBLISHERS, Shared, qos};

/// What it would keep on a disk of its own.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) is_subscribed: bool,
    /// Packets that it has got.
    heard: u64,
    /// Messages of QoS 2 that it has, and whose packet identifiers are still taken.
    begun: BTreeSet<PacketId>,
    /// What it has got of each publisher: messages' numbers, by their QoS.
    got: Vec<Vec<(usize, QoS)>>,
}

impl Default for Memory {
    fn default() -> Self {
        let got = vec![Vec::new(); PUBLISHERS];
        Self { is_subscribed: false, heard: 0, begun: BTreeSet::new(), got }
    }
}

/// Subscribes, and receives until it has all.
pub(crate) async fn run(
    net: Net,
    shared: Rc<Shared>,
    subscriber: usize,
    memory: Rc<RefCell<Memory>>,
) {
    let name = format!("subscriber {subscriber}");
    let mut breaks = 4;
    while !memory.borrow().has_all() {
        let mut wire = Wire::connect(&net, &name).await;
        let fails = shared.breaks.get() && breaks > 0 && net.draw(2) == 0;
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        let was_subscribed = memory.borrow().is_subscribed;
        assert!(wire.is_present || !was_subscribed, "{name}'s session is lost");
        if !was_subscribed && subscribe(&mut wire).await.is_err() {
            continue;
        }
        memory.borrow_mut().is_subscribed = true;
        memory.borrow_mut().heard += 1;
        if !was_subscribed {
            shared.absent.set(shared.absent.get() - 1);
        }
        let _ = receive(&mut wire, &memory, steps).await;
        if fails && net.draw(2) == 0 {
            wire.reset();
        }
        net.sleep(Duration::from_millis(net.draw(30))).await;
    }
    memory.borrow().look();
}

async fn subscribe(wire: &mut Wire) -> Result<(), Lost> {
    let mut wanted = SubscriptionBuffer::new();
    let options = SubscribeOptions { qos: QoS::ExactlyOnce, ..SubscribeOptions::default() };
    wanted.push("from/+", options).unwrap();
    let (id, filters) = (PacketId::MIN, wanted.to_subscribe());
    wire.say(&Packet::Subscribe(Subscribe { id, filters, properties: Properties::NONE })).await?;
    let came = wire.next().await?;
    let Packet::SubAck(ack) = came.packet() else { panic!("{:?}", came.packet()) };
    // The disk takes long.
    if ack.reasons == [Reason::SERVER_BUSY.0] {
        return Err(Lost);
    }
    assert_eq!(ack.reasons, [Reason::GRANTED_QOS_2.0]);
    Ok(())
}

async fn receive(wire: &mut Wire, memory: &RefCell<Memory>, steps: u64) -> Result<(), Lost> {
    for _ in 0..steps {
        if memory.borrow().has_all() && memory.borrow().begun.is_empty() {
            return Ok(());
        }
        let came = wire.next().await?;
        memory.borrow_mut().heard += 1;
        match came.packet() {
            Packet::Publish(publish) => {
                let publisher: usize = publish.topic["from/".len()..].parse().unwrap();
                let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
                let qos = publish.delivery.qos();
                let note = || memory.borrow_mut().got[publisher].push((number, qos));
                match publish.delivery {
                    Delivery::AtMostOnce => panic!("none is published with QoS 0"),
                    Delivery::AtLeastOnce(id) => {
                        note();
                        wire.say(&Packet::PubAck(Ack::of(id))).await?;
                    }
                    Delivery::ExactlyOnce(id) => {
                        let is_new = memory.borrow_mut().begun.insert(id);
                        if is_new {
                            note();
                        }
                        wire.say(&Packet::PubRec(Ack::of(id))).await?;
                    }
                }
            }
            Packet::PubRel(ack) => {
                memory.borrow_mut().begun.remove(&ack.id);
                wire.say(&Packet::PubComp(Ack::of(ack.id))).await?;
            }
            other => panic!("a subscriber gets {other:?}"),
        }
    }
    Err(Lost)
}

impl Memory {
    /// How many packets it has got.
    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    pub(crate) fn has_all(&self) -> bool {
        let distinct =
            |of: &Vec<(usize, QoS)>| of.iter().map(|own| own.0).collect::<BTreeSet<_>>().len();
        self.got.iter().all(|of| distinct(of) == MESSAGES)
    }

    /// Of QoS 2 exactly once, of QoS 1 at least; each in the order of its publisher.
    fn look(&self) {
        for of in &self.got {
            let exactly: Vec<_> = of.iter().filter(|own| own.1 == QoS::ExactlyOnce).collect();
            let expected: Vec<_> = (0..MESSAGES).filter(|n| qos(*n) == QoS::ExactlyOnce).collect();
            assert!(exactly.iter().map(|own| own.0).eq(expected), "QoS 2: {of:?}");
            let mut first = Vec::new();
            for own in of.iter().filter(|own| own.1 == QoS::AtLeastOnce) {
                if !first.contains(&own.0) {
                    first.push(own.0);
                }
            }
            assert!(first.is_sorted(), "QoS 1: {of:?}");
        }
    }
}
