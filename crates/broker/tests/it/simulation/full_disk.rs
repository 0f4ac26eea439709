//! A full disk: sessions continue, acknowledgements free space, and the broker recovers by itself.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Faults, Net};
use phalanx_broker::Broker;
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Properties, Publish, QoS, Reason, Subscribe, SubscribeOptions,
    SubscriptionBuffer,
};

use crate::simulation::power_cuts::{Files, start_broker_with_reserve, survivors};
use crate::simulation::wire::Wire;

const CAPACITY: u64 = 60_000;
const SEGMENT: u64 = 4000;

/// Bytes of another program's file.
const OTHERS: usize = 24_000;

/// Bytes of a message.
const PAYLOAD: usize = 200;

/// No more messages fit on the disk.
const FITTING_MESSAGES: u32 = CAPACITY as u32 / PAYLOAD as u32;

fn id(number: u32) -> PacketId {
    PacketId::new(1 + (number % 60_000) as u16).unwrap()
}

/// Publishes message `number` to `t`, and returns the answer.
async fn publish(wire: &mut Wire, number: u32) -> Reason {
    let mut payload = vec![0; PAYLOAD];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    let (topic, retain, duplicate) = ("t", false, false);
    let (delivery, properties) = (Delivery::AtLeastOnce(id(number)), Properties::NONE);
    let publish = Publish { topic, payload: &payload, delivery, retain, duplicate, properties };
    assert!(wire.send(&Packet::Publish(publish)).await.is_ok());
    let Ok(received) = wire.next().await else { panic!("the publisher is disconnected") };
    let Packet::PubAck(ack) = received.packet() else { panic!("{:?}", received.packet()) };
    ack.reason
}

/// Receives and acknowledges `count` messages. Returns their numbers.
async fn take(wire: &mut Wire, count: usize) -> Vec<u32> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let Ok(received) = wire.next().await else { panic!("the reader is disconnected") };
        match received.packet() {
            Packet::Publish(publish) => {
                numbers.push(u32::from_le_bytes(publish.payload[..4].try_into().unwrap()));
                let Delivery::AtLeastOnce(id) = publish.delivery else { panic!("{publish:?}") };
                assert!(wire.send(&Packet::PubAck(Ack::success(id))).await.is_ok());
            }
            other => panic!("{other:?}"),
        }
    }
    numbers
}

/// Connects a client with a persistent session.
async fn connect(net: &Net, name: &str) -> (Wire, Reason) {
    match Wire::open_with_expiry(net, name, 3600).await {
        Ok(answered) => answered,
        Err(_) => panic!("{name} gets no answer"),
    }
}

async fn subscribe(wire: &mut Wire, filter: &str) -> Reason {
    let mut wanted = SubscriptionBuffer::new();
    let options = SubscribeOptions { qos: QoS::AtLeastOnce, ..SubscribeOptions::default() };
    wanted.push(filter, options).unwrap();
    let (id, filters, properties) = (id(7), wanted.to_subscribe(), Properties::NONE);
    let subscribe = Packet::Subscribe(Subscribe { id, filters, properties });
    assert!(wire.send(&subscribe).await.is_ok());
    let Ok(received) = wire.next().await else { panic!("the subscriber is disconnected") };
    let Packet::SubAck(ack) = received.packet() else { panic!("{:?}", received.packet()) };
    Reason(ack.reasons[0])
}

/// Counts of refusals so far, by reason.
fn refused(broker: &Broker) -> Vec<(&'static str, u64)> {
    let is_of_keeping = |label: &str| label.ends_with("disk_full") || label.ends_with("store_full");
    broker.dropped().filter(|(label, count)| is_of_keeping(label) && *count > 0).collect()
}

/// Fills the disk with published messages or with another program's file. Returns the number of messages published.
async fn fill(net: &Net, writer: &mut Wire, by_other_clients: bool) -> u32 {
    for number in 0..=FITTING_MESSAGES {
        if by_other_clients && number == 50 {
            net.write_file("other", vec![0; OTHERS]);
        }
        match publish(writer, number).await {
            Reason::QUOTA_EXCEEDED => return number,
            reason => assert!(!reason.is_failure(), "{reason:?}"),
        }
    }
    panic!("the disk does not get full");
}

fn a_full_disk(seed: u64) -> u32 {
    let published = Rc::new(Cell::new(0));
    let of_world = published.clone();
    sim::run(seed, |world| {
        world.set_max_steps(4_000_000);
        world.set_faults(Faults { full: 0, ..Faults::MILD });
        let broker = start_broker_with_reserve(world, seed, SEGMENT, &Files::new());
        let net = world.net();
        net.set_disk_capacity(CAPACITY);
        world.client(async move {
            let by_other_clients = seed.is_multiple_of(3);
            let mut reader = connect(&net, "reader").await.0;
            assert_eq!(subscribe(&mut reader, "t").await, Reason(1));
            reader.reset();
            let mut quiet = connect(&net, "quiet").await.0;
            assert_eq!(subscribe(&mut quiet, "x").await, Reason(1));
            quiet.reset();
            let mut writer = Wire::open_with_expiry(&net, "writer", 0)
                .await
                .ok()
                .expect("the broker accepts the connection")
                .0;
            let count = fill(&net, &mut writer, by_other_clients).await;
            assert_eq!(refused(&broker), [("disk_full", 1)]);
            // The broker refuses additions to its persistent state, and nothing else.
            assert_eq!(connect(&net, "new").await.1, Reason::QUOTA_EXCEEDED);
            assert_eq!(publish(&mut writer, count).await, Reason::QUOTA_EXCEEDED);
            for _ in 0..2 {
                let (wire, reason) = connect(&net, "reader").await;
                assert!(reason == Reason::SUCCESS && wire.is_present, "{reason:?}");
                wire.reset();
            }
            // An existing subscription is confirmed, and a new one is refused.
            let mut quiet = connect(&net, "quiet").await.0;
            assert_eq!(subscribe(&mut quiet, "x").await, Reason(1));
            assert_eq!(subscribe(&mut quiet, "y").await, Reason::QUOTA_EXCEEDED);
            // Each refusal is counted.
            let each = [("disk_full", 2), ("session_disk_full", 1), ("subscription_disk_full", 1)];
            assert_eq!(refused(&broker), each);
            if by_other_clients && seed.is_multiple_of(2) {
                // The broker notices by itself that there is space again.
                assert!(net.remove_file("other"));
                net.sleep(Duration::from_secs(20)).await;
                assert_eq!(publish(&mut writer, count).await, Reason::SUCCESS);
                return of_world.set(count);
            }
            let mut reader = connect(&net, "reader").await.0;
            let received = take(&mut reader, count as usize).await;
            assert!(received.into_iter().eq(0..count), "all acknowledged messages, in order");
            // The acknowledgements have freed space.
            net.sleep(Duration::from_secs(20)).await;
            assert_eq!(publish(&mut writer, count).await, Reason::SUCCESS);
            assert_eq!(take(&mut reader, 1).await, [count]);
            assert_eq!(connect(&net, "new").await.1, Reason::SUCCESS);
            net.sleep(Duration::from_secs(20)).await;
            let left = phalanx_store::recover(&survivors(&net, 1000), Path::new("/")).unwrap();
            assert!(left.sessions.values().all(|session| session.queue.is_empty()), "{left:?}");
            of_world.set(count);
        });
    });
    published.get()
}

#[test]
fn a_full_disk_is_drained() {
    let (worlds, published) = (Cell::new(0), Cell::new(0));
    sim::explore_each(20, |seed| {
        worlds.set(worlds.get() + 1);
        published.set(published.get() + a_full_disk(seed));
    });
    // A single world may publish less than the others.
    assert!(
        worlds.get() < 20 || published.get() > worlds.get() * 49,
        "{published:?} in {worlds:?}"
    );
}
