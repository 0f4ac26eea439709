//! Subscriptions while the disk accepts no writes. Clients without a persistent session are served, because their state
//! is not stored. Others are refused immediately.

use std::time::Duration;

use phalanx::sim::{self, Client, Faults, Net};
use phalanx_mqtt::{
    Ack, Connect, Delivery, Disconnect, Frame, Kind, Packet, PacketId, Properties, Publish, Reason,
    Subscribe, SubscribeOptions, SubscriptionBuffer, Unsubscribe, Version,
};

use crate::simulation::power_cuts::{Files, start_broker};
use crate::simulation::subscriber::{send_subscribe, subscribe_to, unsubscribe};
use crate::simulation::wire::{Wire, address};

const STALLED: Faults = Faults { full: 1000, ..Faults::NONE };

/// The reason codes of the next packet, which must be SUBACK or UNSUBACK.
async fn reasons(wire: &mut Wire) -> Vec<Reason> {
    let Ok(received) = wire.next().await else { panic!("the connection is lost") };
    match received.packet() {
        Packet::SubAck(ack) => ack.reasons.iter().copied().map(Reason).collect(),
        Packet::UnsubAck(ack) => ack.reasons.iter().copied().map(Reason).collect(),
        Packet::PubRec(ack) | Packet::PubComp(ack) => vec![ack.reason],
        other => panic!("{other:?}"),
    }
}

/// Leaves a record that the disk does not accept.
async fn stall(net: &Net, wire: &mut Wire) {
    net.set_faults(STALLED);
    let goodbye = Packet::Disconnect(Disconnect::new(Reason::SUCCESS));
    assert!(wire.send(&goodbye).await.is_ok() && wire.wait_for_close().await);
}

/// Even while records of the client's partition wait for the disk.
#[test]
fn a_client_without_a_persistent_session_does_not_wait() {
    sim::explore_each(10, |seed| {
        sim::run(seed, |world| {
            world.set_faults(Faults::NONE);
            world.set_processors(1);
            start_broker(world, seed, &Files::default());
            let net = world.net();
            world.client(async move {
                let mut known = Wire::connect(&net, "known").await;
                let Ok((mut guest, _)) = Wire::open_with_expiry(&net, "guest", 0).await else {
                    panic!("guest")
                };
                assert!(send_subscribe(&mut guest, &["a"]).await.is_ok());
                assert_eq!(reasons(&mut guest).await, [Reason::GRANTED_QOS_2]);
                let (topic, payload, properties) = ("t", &b"x"[..], Properties::NONE);
                let (delivery, retain) = (Delivery::ExactlyOnce(PacketId::MIN), false);
                let publish =
                    Publish { topic, payload, delivery, retain, duplicate: false, properties };
                assert!(guest.send(&Packet::Publish(publish)).await.is_ok());
                let reason = reasons(&mut guest).await[0];
                assert!(!reason.is_failure(), "{reason:?}");
                stall(&net, &mut known).await;
                assert!(send_subscribe(&mut guest, &["b"]).await.is_ok());
                assert_eq!(reasons(&mut guest).await, [Reason::GRANTED_QOS_2]);
                assert!(unsubscribe(&mut guest, "a").await.is_ok());
                assert_eq!(reasons(&mut guest).await, [Reason::SUCCESS]);
                assert!(guest.send(&Packet::PubRel(Ack::success(PacketId::MIN))).await.is_ok());
                assert_eq!(reasons(&mut guest).await, [Reason::SUCCESS]);
                net.set_faults(Faults::NONE);
            });
        });
    });
}

#[test]
fn changes_of_persistent_subscriptions_are_refused_at_once() {
    let busy = Reason::IMPLEMENTATION_SPECIFIC_ERROR;
    sim::explore_each(10, |seed| {
        sim::run(seed, |world| {
            world.set_faults(Faults::NONE);
            start_broker(world, seed, &Files::default());
            let net = world.net();
            world.client(async move {
                let mut other = Wire::connect(&net, "other").await;
                let mut known = Wire::connect(&net, "known").await;
                assert!(send_subscribe(&mut known, &["t"]).await.is_ok());
                assert_eq!(reasons(&mut known).await, [Reason::GRANTED_QOS_2]);
                stall(&net, &mut other).await;
                net.sleep(Duration::from_secs(1)).await;
                let begun = net.now();
                for _ in 0..20 {
                    assert!(unsubscribe(&mut known, "t").await.is_ok());
                    assert_eq!(reasons(&mut known).await, [busy]);
                }
                assert!(send_subscribe(&mut known, &["x", "a/#/b"]).await.is_ok());
                let invalid = Reason::TOPIC_FILTER_INVALID;
                assert_eq!(reasons(&mut known).await, [busy, invalid], "each for its own reason");
                let elapsed = net.now() - begun;
                assert!(elapsed < Duration::from_secs(300), "{elapsed:?}");
                net.set_faults(Faults::NONE);
                // The failed write is retried at intervals.
                let mut received = vec![busy];
                for _ in 0..60 {
                    if received != [busy] {
                        break;
                    }
                    net.sleep(Duration::from_secs(1)).await;
                    assert!(unsubscribe(&mut known, "t").await.is_ok());
                    received = reasons(&mut known).await;
                }
                assert_eq!(received, [Reason::SUCCESS]);
            });
        });
    });
}

async fn send(client: &mut Client, packet: &Packet<'_>) {
    let mut bytes = Vec::new();
    packet.encode(Version::V3, &mut bytes).unwrap();
    client.write_all(&bytes).await.unwrap();
}

/// The kind of the next packet of a client; `None` at the end of its connection.
async fn next(client: &mut Client, input: &mut Vec<u8>) -> Option<Kind> {
    loop {
        if let Some(frame) = Frame::split(input, Frame::MAX_PACKET).unwrap() {
            let (kind, length) = (frame.kind(), frame.length());
            input.drain(..length);
            return Some(kind);
        }
        if client.read(input).await.ok()? == 0 {
            return None;
        }
    }
}

/// MQTT 3.1.1 has no reason codes in UNSUBACK.
#[test]
fn a_failed_unsubscribe_is_not_acknowledged() {
    sim::explore_each(10, |seed| {
        sim::run(seed, |world| {
            world.set_faults(Faults::NONE);
            start_broker(world, seed, &Files::default());
            let net = world.net();
            world.client(async move {
                let mut other = Wire::connect(&net, "other").await;
                let (mut client, mut input) = (net.connect(address()).await.unwrap(), Vec::new());
                let connect = Connect {
                    version: Version::V3,
                    client_id: "old",
                    clean_start: false,
                    keep_alive: 0,
                    username: None,
                    password: None,
                    will: None,
                    properties: Properties::NONE,
                };
                send(&mut client, &Packet::Connect(connect)).await;
                assert_eq!(next(&mut client, &mut input).await, Some(Kind::ConnAck));
                let mut both = SubscriptionBuffer::new();
                both.push("t", SubscribeOptions::default()).unwrap();
                let (id, properties) = (PacketId::MIN, Properties::NONE);
                let subscribe = Subscribe { id, filters: both.to_subscribe(), properties };
                send(&mut client, &Packet::Subscribe(subscribe)).await;
                assert_eq!(next(&mut client, &mut input).await, Some(Kind::SubAck));
                stall(&net, &mut other).await;
                let filters = both.to_unsubscribe();
                let unsubscribe = Unsubscribe { id, filters, properties };
                send(&mut client, &Packet::Unsubscribe(unsubscribe)).await;
                assert_eq!(next(&mut client, &mut input).await, None);
                net.set_faults(Faults::NONE);
            });
        });
    });
}

/// The session's messages wait for SUBACK for 100 ms. With a SUBSCRIBE of several chunks, of at most 4,096 filters each,
/// they do not wait at all.
#[test]
fn messages_wait_for_suback_for_a_limited_time() {
    for (count, time_held) in [(1, Duration::from_millis(100)), (4097, Duration::ZERO)] {
        sim::explore_each(10, |seed| {
            sim::run(seed, |world| {
                world.set_faults(Faults::NONE);
                world.advance_only_when_idle();
                start_broker(world, seed, &Files::default());
                let net = world.net();
                world.client(async move {
                    let mut known = Wire::connect(&net, "known").await;
                    subscribe_to(&mut known, &["mine"]).await;
                    let mut writer = Wire::connect(&net, "writer").await;
                    net.set_faults(STALLED);
                    let filters: Vec<_> = (0..count).map(|n| format!("other/{n}")).collect();
                    let filters: Vec<_> = filters.iter().map(String::as_str).collect();
                    let start = net.now();
                    assert!(send_subscribe(&mut known, &filters).await.is_ok());
                    net.sleep(Duration::from_millis(50)).await;
                    let (topic, payload, properties) = ("mine", &b"x"[..], Properties::NONE);
                    let (delivery, retain, duplicate) = (Delivery::AtMostOnce, false, false);
                    let publish =
                        Publish { topic, payload, delivery, retain, duplicate, properties };
                    assert!(writer.send(&Packet::Publish(publish)).await.is_ok());
                    let Ok(received) = known.next().await else { panic!("the connection is lost") };
                    assert!(matches!(received.packet(), Packet::Publish(_)), "before SUBACK");
                    let after = net.now() - start;
                    let expected = time_held..time_held + Duration::from_millis(80);
                    assert!(expected.contains(&after), "{count} filters: after {after:?}");
                    net.set_faults(Faults::NONE);
                    assert_eq!(reasons(&mut known).await.len(), count);
                });
            });
        });
    }
}
