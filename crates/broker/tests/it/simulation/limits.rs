//! Limits on what clients send.

use std::time::Duration;

use phalanx::sim::{self, Faults, World};
use phalanx_mqtt::{
    Delivery, Packet, Properties, Property, PropertyBuffer, Publish, QoS, Reason, Will,
};

use crate::simulation::subscriber::subscribe_to;
use crate::simulation::wire::{ConnectOptions, Wire};
use crate::simulation::{begin, config};

/// Starts a broker that lets each client publish one message per second.
fn begin_limited(world: &mut World) {
    world.set_faults(Faults::NONE);
    let mut config = config(world);
    config.limits.message_rate = Some(1);
    begin(world, &config, |_| ());
}

fn will(properties: Properties<'_>) -> Will<'_> {
    Will { topic: "will", payload: b"x", qos: QoS::AtMostOnce, retain: false, properties }
}

/// The client's will is published, although the rate limit would stop the broker from reading for a quarter of an hour.
#[test]
fn the_end_of_a_client_beyond_its_rate_is_noticed() {
    sim::explore_each(5, |seed| {
        sim::run(seed, |world| {
            begin_limited(world);
            let net = world.net();
            world.client(async move {
                let Ok((mut observer, _)) = Wire::open_with_expiry(&net, "observer", 0).await
                else {
                    panic!()
                };
                subscribe_to(&mut observer, &["will"]).await;
                let will = Some(will(Properties::NONE));
                let options = ConnectOptions { name: "c", will, ..ConnectOptions::default() };
                let Ok((mut wire, _)) = Wire::open(&net, options).await else { panic!() };
                let (topic, payload, properties) = ("t", &b""[..], Properties::NONE);
                let (delivery, retain, duplicate) = (Delivery::AtMostOnce, false, false);
                let publish = Publish { topic, payload, delivery, retain, duplicate, properties };
                assert!(wire.send_all(&vec![Packet::Publish(publish); 1000]).await.is_ok());
                net.sleep(Duration::from_secs(5)).await;
                drop(wire);
                let begun = net.now();
                let Ok(received) = observer.next().await else { panic!("the will is lost") };
                assert!(matches!(received.packet(), Packet::Publish(_)), "{:?}", received.packet());
                let elapsed = net.now() - begun;
                // The messages take 1,000 s at the client's rate. A simulated processor may pause for seconds.
                assert!(elapsed < Duration::from_secs(500), "{elapsed:?}");
            });
        });
    });
}

/// Unauthenticated clients can send CONNECT.
#[test]
fn a_long_connect_is_refused() {
    sim::run(0, |world| {
        begin_limited(world);
        let net = world.net();
        world.client(async move {
            let text = "x".repeat(60_000);
            for (count, expected) in [(3, Reason::SUCCESS), (5, Reason::PACKET_TOO_LARGE)] {
                let mut properties = PropertyBuffer::new();
                (0..count).for_each(|_| properties.push(Property::User("k", &text)).unwrap());
                let will = Some(will(properties.get()));
                let options = ConnectOptions { name: "c", will, ..ConnectOptions::default() };
                let Ok((_, reason)) = Wire::open(&net, options).await else { panic!("no answer") };
                assert_eq!(reason, expected);
            }
        });
    });
}
