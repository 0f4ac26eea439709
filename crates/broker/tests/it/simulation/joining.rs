//! Publishers move to the processor with the session of their receiver. The loads are random numbers, so connections also
//! spread.

use std::cell::Cell;
use std::rc::Rc;

use phalanx::sim::{self, Faults, Net, World};
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish};

use crate::simulation::subscriber::subscribe_to;
use crate::simulation::wire::{Wire, address, until};
use crate::simulation::{begin, config};

const PUBLISHERS: usize = 3;
/// Messages of each publisher.
const MESSAGES: usize = 60;
/// Maximum number of a publisher's unacknowledged messages.
const WINDOW: usize = 4;

fn world(world: &mut World) {
    world.set_processors(2 + world.seed() as usize % 3);
    world.set_max_steps(2_000_000);
    if world.draw(2) == 0 {
        world.set_faults(Faults { reset: 0, accept: 0, full: 0, ..Faults::random(world.seed()) });
    }
    begin(world, &config(world), |_| ());
    let is_ready = Rc::new(Cell::new(false));
    world.client(receive(world.net(), is_ready.clone()));
    for publisher in 0..PUBLISHERS {
        world.client(publish(world.net(), publisher, is_ready.clone()));
    }
}

/// Receives all messages, each once, in the order of its publisher.
async fn receive(net: Net, is_ready: Rc<Cell<bool>>) {
    let mut wire = Wire::connect_at(&net, "receiver", address()).await;
    subscribe_to(&mut wire, &["from/+"]).await;
    is_ready.set(true);
    let mut next = [0; PUBLISHERS];
    while next != [MESSAGES; PUBLISHERS] {
        let came = wire.next().await.ok().expect("the connection stays open");
        let Packet::Publish(publish) = came.packet() else { panic!("{:?}", came.packet()) };
        let (_, publisher) = publish.topic.split_once('/').unwrap();
        let next = &mut next[publisher.parse::<usize>().unwrap()];
        assert_eq!(str::from_utf8(publish.payload), Ok(next.to_string().as_str()));
        *next += 1;
        let ack = Packet::PubAck(Ack::success(publish.delivery.id().unwrap()));
        assert!(wire.send(&ack).await.is_ok());
    }
}

/// Publishes all messages with QoS 1.
async fn publish(net: Net, publisher: usize, is_ready: Rc<Cell<bool>>) {
    until(|| is_ready.get()).await;
    let mut wire = Wire::connect_at(&net, &format!("publisher {publisher}"), address()).await;
    let id = |number: usize| PacketId::new(number as u16 + 1).unwrap();
    let (topic, mut sent, mut acknowledged) = (format!("from/{publisher}"), 0, 0);
    while acknowledged < MESSAGES {
        if sent < MESSAGES && sent - acknowledged < WINDOW && net.draw(2) == 0 {
            let payload = sent.to_string();
            let message = Packet::Publish(Publish {
                topic: &topic,
                payload: payload.as_bytes(),
                delivery: Delivery::AtLeastOnce(id(sent)),
                retain: false,
                duplicate: false,
                properties: Properties::NONE,
            });
            assert!(wire.send(&message).await.is_ok());
            sent += 1;
        } else if acknowledged < sent {
            let came = wire.next().await.ok().expect("the connection stays open");
            let Packet::PubAck(ack) = came.packet() else { panic!("{:?}", came.packet()) };
            assert!(ack.id == id(acknowledged) && !ack.reason.is_failure(), "{ack:?}");
            acknowledged += 1;
        }
    }
}

#[test]
fn each_message_arrives_once_and_in_order_while_publishers_join_their_receiver() {
    sim::explore(60, world);
}
