//! A publisher that keeps to the rules: what was not answered to the end it sends again.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::Net;
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish, QoS};

use crate::wire::{Lost, Wire};
use crate::{MESSAGES, Shared, qos};

/// A message on its way.
struct Own {
    number: usize,
    /// The broker has it; only its number is still taken.
    is_received: bool,
}

fn id(number: usize) -> PacketId {
    PacketId::new(number as u16 + 1).unwrap()
}

/// Publishes all its messages.
pub(crate) async fn run(net: Net, shared: Rc<Shared>, publisher: usize) {
    while shared.absent.get() > 0 {
        net.sleep(Duration::from_millis(10)).await;
    }
    let (mut next, mut own, mut breaks) = (0, VecDeque::new(), 4);
    while next < MESSAGES || !own.is_empty() {
        let mut wire = Wire::connect(&net, &format!("publisher {publisher}")).await;
        let fails = shared.breaks.get() && breaks > 0 && net.draw(2) == 0;
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        let _ = publish(&net, &mut wire, publisher, &mut next, &mut own, steps).await;
        if fails && net.draw(2) == 0 {
            wire.reset();
        }
    }
}

/// Goes on until all is published, the connection is lost, or so many steps were taken.
async fn publish(
    net: &Net,
    wire: &mut Wire,
    publisher: usize,
    next: &mut usize,
    own: &mut VecDeque<Own>,
    steps: u64,
) -> Result<(), Lost> {
    for message in own.iter() {
        match message.is_received {
            true => wire.say(&Packet::PubRel(Ack::of(id(message.number)))).await?,
            false => send(wire, publisher, message.number, true).await?,
        }
    }
    for _ in 0..steps {
        if *next < MESSAGES && own.len() < 4 && net.draw(2) == 0 {
            own.push_back(Own { number: *next, is_received: false });
            *next += 1;
            send(wire, publisher, *next - 1, false).await?;
            continue;
        }
        if own.is_empty() {
            match *next < MESSAGES {
                true => continue,
                false => return Ok(()),
            }
        }
        let came = wire.next().await?;
        match came.packet() {
            Packet::PubAck(ack) => own.retain(|own| id(own.number) != ack.id),
            Packet::PubRec(ack) => {
                assert!(!ack.reason.is_failure(), "{ack:?}");
                let of = own.iter_mut().find(|own| id(own.number) == ack.id);
                of.expect("it was published").is_received = true;
                wire.say(&Packet::PubRel(Ack::of(ack.id))).await?;
            }
            Packet::PubComp(ack) => own.retain(|own| id(own.number) != ack.id),
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
