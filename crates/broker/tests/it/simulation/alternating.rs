//! Responses and messages of one connection: a client that constantly causes responses also gets its messages, a packet
//! that is sent in part is completed before the next one begins, and SUBACK precedes retained messages.

use std::time::Duration;

use phalanx::sim::{self, Faults};
use phalanx_mqtt::{Delivery, Packet, PacketId, Properties, Property, PropertyBuffer, Publish};

use crate::simulation::subscriber::{send_subscribe, subscribe_to};
use crate::simulation::wire::Wire;
use crate::simulation::{begin, config};

/// Number of the client's unacknowledged messages. Their acknowledgements exceed the connection's buffers.
const OWED: usize = 2500;

const AT_ONCE: usize = 100;

fn publish<'a>(topic: &'a str, payload: &'a [u8], properties: Properties<'a>) -> Packet<'a> {
    let (delivery, retain, duplicate) = (Delivery::AtLeastOnce(PacketId::MIN), false, false);
    Packet::Publish(Publish { topic, payload, delivery, retain, duplicate, properties })
}

#[test]
fn messages_arrive_between_responses() {
    sim::explore_each(3, |seed| {
        sim::run(seed, |world| {
            world.set_max_steps(4_000_000);
            world.set_faults(Faults::NONE);
            begin(world, &config(world), |_| ());
            let net = world.net();
            world.client(async move {
                let Ok((mut busy, _)) = Wire::open_with_expiry(&net, "busy", 0).await else {
                    panic!("busy")
                };
                subscribe_to(&mut busy, &["mine"]).await;
                // Each message is refused with a reason string, so that the acknowledgements are long.
                let mut text = PropertyBuffer::new();
                text.push(Property::PayloadIsText(true)).unwrap();
                let some = vec![publish("other", &[0xff], text.get()); AT_ONCE];
                for _ in 0..OWED / AT_ONCE {
                    assert!(busy.send_all(&some).await.is_ok());
                }
                // By then the broker has received the messages, and waits for the client to read.
                net.sleep(Duration::from_secs(1)).await;
                let Ok((mut writer, _)) = Wire::open_with_expiry(&net, "writer", 0).await else {
                    panic!()
                };
                let sent = writer.send(&publish("mine", b"x", Properties::NONE)).await;
                assert!(sent.is_ok() && writer.next().await.is_ok());
                let mut read = 0;
                loop {
                    let Ok(received) = busy.next().await else { panic!("the connection is lost") };
                    read += 1;
                    match received.packet() {
                        Packet::Publish(_) => return,
                        Packet::PubAck(_) if read < 5 * OWED => (),
                        other => panic!("{other:?} after {read} packets"),
                    }
                    // Keeps the number of unacknowledged messages constant.
                    if read % AT_ONCE == 0 {
                        assert!(busy.send_all(&some).await.is_ok());
                        net.sleep(Duration::from_millis(10)).await;
                    }
                }
            });
        });
    });
}

/// Number of responses, and of messages, that the client awaits at a time.
const EACH: usize = 8;

/// A message that is sent alone may be sent in part, while responses are also sent. The session's next message must not
/// precede the rest.
#[test]
fn packets_are_not_split() {
    sim::explore_each(200, |seed| {
        sim::run(seed, |world| {
            world.set_faults(Faults { short: 700, immediate: 300, ..Faults::NONE });
            begin(world, &config(world), |_| ());
            let net = world.net();
            world.client(async move {
                let Ok((mut busy, _)) = Wire::open_with_expiry(&net, "busy", 0).await else {
                    panic!("busy")
                };
                subscribe_to(&mut busy, &["mine"]).await;
                let Ok((mut writer, _)) = Wire::open_with_expiry(&net, "writer", 0).await else {
                    panic!()
                };
                let payload = [b'x'; 40];
                let message = Publish {
                    delivery: Delivery::AtMostOnce,
                    topic: "mine",
                    payload: &payload,
                    retain: false,
                    duplicate: false,
                    properties: Properties::NONE,
                };
                for _ in 0..20 {
                    for _ in 0..EACH {
                        let asked = busy.send(&publish("other", b"y", Properties::NONE)).await;
                        assert!(asked.is_ok());
                        assert!(writer.send(&Packet::Publish(message)).await.is_ok());
                    }
                    for _ in 0..2 * EACH {
                        let Ok(received) = busy.next().await else {
                            panic!("the connection is lost")
                        };
                        match received.packet() {
                            Packet::Publish(own) => assert_eq!(own.payload, payload),
                            Packet::PubAck(_) => (),
                            other => panic!("{other:?}"),
                        }
                    }
                }
            });
        });
    });
}

/// The client also sends a message before the SUBSCRIBE, whose acknowledgement may be pending when SUBACK is.
#[test]
fn retained_messages_follow_suback() {
    sim::explore_each(100, |seed| {
        sim::run(seed, |world| {
            begin(world, &config(world), |_| ());
            let net = world.net();
            world.client(async move {
                let mut writer = Wire::connect(&net, "writer").await;
                let own = |topic, retain| Publish {
                    delivery: Delivery::AtLeastOnce(PacketId::MIN),
                    topic,
                    payload: b"x",
                    retain,
                    duplicate: false,
                    properties: Properties::NONE,
                };
                let retained = Packet::Publish(own("retained", true));
                assert!(writer.send(&retained).await.is_ok() && writer.next().await.is_ok());
                // The session may be on another processor than its second connection.
                Wire::connect(&net, "reader").await.reset();
                let mut reader = Wire::connect(&net, "reader").await;
                assert!(reader.send(&Packet::Publish(own("other", false))).await.is_ok());
                let start = net.now();
                assert!(send_subscribe(&mut reader, &["retained"]).await.is_ok());
                let mut is_subscribed = false;
                loop {
                    let Ok(received) = reader.next().await else {
                        panic!("the connection is lost")
                    };
                    match received.packet() {
                        Packet::PubAck(_) => (),
                        Packet::SubAck(_) => is_subscribed = true,
                        Packet::Publish(_) => {
                            // The broker does not hold messages for longer than 100 ms.
                            let is_late = net.now() - start >= Duration::from_millis(100);
                            return assert!(is_subscribed || is_late, "before SUBACK");
                        }
                        other => panic!("{other:?}"),
                    }
                }
            });
        });
    });
}
