//! A publisher that keeps to the rules: what was not answered to the end it sends again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::Net;
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish, QoS};

use crate::wire::{Lost, Wire};
use crate::{MESSAGES, Shared, qos};

/// What it would keep on a disk of its own.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    /// The broker has told it that it has a session.
    is_known: bool,
    /// The number of the next message.
    next: usize,
    own: VecDeque<Own>,
}

/// A message on its way.
#[derive(Clone)]
struct Own {
    number: usize,
    /// The broker has it; only its number is still taken.
    is_received: bool,
}

fn id(number: usize) -> PacketId {
    PacketId::new(number as u16 + 1).unwrap()
}

/// Publishes all its messages that it has not yet.
pub(crate) async fn run(
    net: Net,
    shared: Rc<Shared>,
    publisher: usize,
    memory: Rc<RefCell<Memory>>,
) {
    while shared.absent.get() > 0 {
        net.sleep(Duration::from_millis(10)).await;
    }
    let mut breaks = 4;
    while !memory.borrow().is_through() {
        let mut wire = Wire::connect(&net, &format!("publisher {publisher}")).await;
        let was_known = std::mem::replace(&mut memory.borrow_mut().is_known, true);
        assert!(wire.is_present || !was_known, "publisher {publisher}'s session is lost");
        let fails = shared.breaks.get() && breaks > 0 && net.draw(2) == 0;
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        let _ = publish(&net, &mut wire, publisher, &memory, steps).await;
        if fails && net.draw(2) == 0 {
            wire.reset();
        }
    }
}

impl Memory {
    /// How far it has come.
    pub(crate) fn count(&self) -> usize {
        2 * self.next - self.own.len()
    }

    fn is_through(&self) -> bool {
        self.next == MESSAGES && self.own.is_empty()
    }

    fn may_begin(&self) -> bool {
        self.next < MESSAGES && self.own.len() < 4
    }

    /// The number of the next message, which is under way now.
    fn begin(&mut self) -> usize {
        self.own.push_back(Own { number: self.next, is_received: false });
        self.next += 1;
        self.next - 1
    }

    fn is_received(&mut self, packet: PacketId) {
        let of = self.own.iter_mut().find(|own| id(own.number) == packet);
        of.expect("it was published").is_received = true;
    }

    fn is_done(&mut self, packet: PacketId) {
        self.own.retain(|own| id(own.number) != packet);
    }
}

/// Goes on until all is published, the connection is lost, or so many steps were taken.
async fn publish(
    net: &Net,
    wire: &mut Wire,
    publisher: usize,
    memory: &RefCell<Memory>,
    steps: u64,
) -> Result<(), Lost> {
    let again = memory.borrow().own.clone();
    for message in again {
        match message.is_received {
            true => wire.say(&Packet::PubRel(Ack::of(id(message.number)))).await?,
            false => send(wire, publisher, message.number, true).await?,
        }
    }
    for _ in 0..steps {
        if memory.borrow().is_through() {
            return Ok(());
        }
        if memory.borrow().may_begin() && net.draw(2) == 0 {
            let number = memory.borrow_mut().begin();
            send(wire, publisher, number, false).await?;
            continue;
        }
        if memory.borrow().own.is_empty() {
            continue;
        }
        let came = wire.next().await?;
        match came.packet() {
            Packet::PubAck(ack) => {
                assert!(!ack.reason.is_failure(), "{ack:?}");
                memory.borrow_mut().is_done(ack.id);
            }
            Packet::PubRec(ack) => {
                assert!(!ack.reason.is_failure(), "{ack:?}");
                memory.borrow_mut().is_received(ack.id);
                wire.say(&Packet::PubRel(Ack::of(ack.id))).await?;
            }
            Packet::PubComp(ack) => memory.borrow_mut().is_done(ack.id),
            other => panic!("a publisher gets {other:?}"),
        }
    }
    Err(Lost)
}

async fn send(
    wire: &mut Wire,
    publisher: usize,
    number: usize,
    duplicate: bool,
) -> Result<(), Lost> {
    let delivery = match qos(number) {
        QoS::ExactlyOnce => Delivery::ExactlyOnce(id(number)),
        _ => Delivery::AtLeastOnce(id(number)),
    };
    let (topic, payload) = (format!("from/{publisher}"), number.to_string());
    wire.say(&Packet::Publish(Publish {
        topic: &topic,
        payload: payload.as_bytes(),
        delivery,
        retain: false,
        duplicate,
        properties: Properties::NONE,
    }))
    .await
}
