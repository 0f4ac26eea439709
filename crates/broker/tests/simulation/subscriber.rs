//! A subscriber that keeps to the rules, and in the end looks at what it has got.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::Net;
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Properties, QoS, Reason, Subscribe, SubscribeOptions,
    SubscriptionBuffer,
};

use crate::wire::{Lost, Wire};
use crate::{Got, MESSAGES, Shared, qos};

/// Subscribes, and receives until it has all.
pub(crate) async fn run(net: Net, shared: Rc<Shared>, subscriber: usize, got: Got) {
    let name = format!("subscriber {subscriber}");
    let (mut subscribed, mut begun, mut breaks) = (false, BTreeSet::new(), 4);
    while !has_all(&got) {
        let mut wire = Wire::connect(&net, &name).await;
        let fails = shared.breaks.get() && breaks > 0 && net.draw(2) == 0;
        let steps = if fails { net.draw(12) } else { u64::MAX };
        breaks -= u32::from(fails);
        if !subscribed && subscribe(&mut wire).await.is_err() {
            continue;
        }
        if !std::mem::replace(&mut subscribed, true) {
            shared.absent.set(shared.absent.get() - 1);
        }
        let _ = receive(&mut wire, &got, &mut begun, steps).await;
        if fails && net.draw(2) == 0 {
            wire.reset();
        }
        net.sleep(Duration::from_millis(net.draw(30))).await;
    }
    look(&got);
}

async fn subscribe(wire: &mut Wire) -> Result<(), Lost> {
    let mut wanted = SubscriptionBuffer::new();
    let options = SubscribeOptions { qos: QoS::ExactlyOnce, ..SubscribeOptions::default() };
    wanted.push("from/+", options).unwrap();
    let (id, filters) = (PacketId::MIN, wanted.to_subscribe());
    wire.say(&Packet::Subscribe(Subscribe { id, filters, properties: Properties::NONE })).await?;
    let came = wire.next().await?;
    let Packet::SubAck(ack) = came.packet() else { panic!("{:?}", came.packet()) };
    assert_eq!(ack.reasons, [Reason::GRANTED_QOS_2.0]);
    Ok(())
}

async fn receive(
    wire: &mut Wire,
    got: &Got,
    begun: &mut BTreeSet<PacketId>,
    steps: u64,
) -> Result<(), Lost> {
    for _ in 0..steps {
        if has_all(got) && begun.is_empty() {
            return Ok(());
        }
        let came = wire.next().await?;
        match came.packet() {
            Packet::Publish(publish) => {
                let publisher: usize = publish.topic["from/".len()..].parse().unwrap();
                let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
                let note = || got.borrow_mut()[publisher].push((number, publish.delivery.qos()));
                match publish.delivery {
                    Delivery::AtMostOnce => panic!("none is published with QoS 0"),
                    Delivery::AtLeastOnce(id) => {
                        note();
                        wire.say(&Packet::PubAck(Ack::of(id))).await?;
                    }
                    Delivery::ExactlyOnce(id) => {
                        if begun.insert(id) {
                            note();
                        }
                        wire.say(&Packet::PubRec(Ack::of(id))).await?;
                    }
                }
            }
            Packet::PubRel(ack) => {
                begun.remove(&ack.id);
                wire.say(&Packet::PubComp(Ack::of(ack.id))).await?;
            }
            other => panic!("a subscriber gets {other:?}"),
        }
    }
    Err(Lost)
}

fn has_all(got: &Got) -> bool {
    let distinct =
        |of: &Vec<(usize, QoS)>| of.iter().map(|own| own.0).collect::<BTreeSet<_>>().len();
    got.borrow().iter().all(|of| distinct(of) == MESSAGES)
}

/// Of QoS 2 exactly once, of QoS 1 at least; each in the order of its publisher.
fn look(got: &Got) {
    for of in got.borrow().iter() {
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
