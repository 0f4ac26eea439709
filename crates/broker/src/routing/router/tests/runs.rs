//! Runs: consecutive messages with the same receivers.

use phalanx_mqtt::PacketId;

use super::*;
use crate::durable::simulated::with_journal;
use crate::model::delivery::Delivery as Delivered;

const AT_MOST_ONCE: Delivery = Delivery::AtMostOnce;
const AT_LEAST_ONCE: Delivery = Delivery::AtLeastOnce(PacketId::MIN);

/// A message of the publisher with this slot.
fn of(publisher: u32, topic: &str, delivery: Delivery) -> Arc<Message> {
    let (payload, properties) = (&b"x"[..], Properties::NONE);
    let publish = Publish { topic, payload, delivery, retain: false, duplicate: false, properties };
    Arc::new(Message::of(&publish, topic, (key(publisher), 0), Duration::ZERO))
}

/// Routes messages. Returns the receiver and the number of messages of each delivery.
fn routed(table: &mut Table, messages: &[Arc<Message>]) -> Vec<(u32, u32)> {
    let mut batches = [DeliveryBatch::default()];
    let at = (&*table.policy, Duration::ZERO);
    let mut reasons = Vec::new();
    table.router.publish(messages, &mut batches, at, (usize::MAX, &mut reasons));
    assert_eq!(reasons, vec![Reason::SUCCESS; messages.len()]);
    let [batch] = batches;
    let count: u32 = batch.deliveries.iter().map(|delivery| delivery.count).sum();
    assert_eq!(batch.count, count as usize);
    batch.deliveries.iter().map(|delivery| (delivery.client.slot, delivery.count)).collect()
}

#[test]
fn consecutive_messages_of_a_topic_are_delivered_together() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    table.router.subscribe(client(1), vec![request("t")]);
    table.router.subscribe(client(2), vec![request("#")]);
    let messages = [
        [of(5, "t", AT_MOST_ONCE), of(5, "t", AT_MOST_ONCE), of(6, "t", AT_MOST_ONCE)],
        [of(5, "u", AT_MOST_ONCE), of(5, "t", AT_MOST_ONCE), of(5, "t", AT_LEAST_ONCE)],
    ];
    let expected = [(2, 3), (1, 3), (2, 1), (2, 1), (1, 1), (2, 1), (1, 1)];
    assert_eq!(routed(&mut table, &messages.concat()), expected);
    // A retained message is recorded by itself.
    let retained = message("t", true, &[]);
    assert_eq!(routed(&mut table, &[retained.clone(), retained]), [(2, 1), (1, 1), (2, 1), (1, 1)]);
}

#[test]
fn a_run_has_the_same_receivers() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    let mut own = request("t");
    own.options.no_local = true;
    table.router.subscribe(client(5), vec![own]);
    table.router.subscribe(client(1), vec![request("t")]);
    let all = [
        of(6, "t", AT_MOST_ONCE),
        of(6, "t", AT_MOST_ONCE),
        of(5, "t", AT_MOST_ONCE),
        of(5, "t", AT_MOST_ONCE),
    ];
    assert_eq!(routed(&mut table, &all), [(5, 2), (1, 2), (1, 2)]);
    // Two members of a group alternate.
    for slot in [3, 4] {
        table.router.subscribe(client(slot), vec![request("$share/g/s")]);
    }
    let all: Vec<_> = (0..4).map(|_| of(6, "s", AT_MOST_ONCE)).collect();
    assert!(routed(&mut table, &all).iter().all(|delivery| delivery.1 == 1));
    // Content filters see each message.
    table.router.subscribe(client(1), vec![request("c"), request("c?n=1")]);
    let all: Vec<_> = (0..4).map(|_| of(6, "c", AT_MOST_ONCE)).collect();
    assert_eq!(routed(&mut table, &all), [(1, 1); 4]);
    // Publishers wait for nodes.
    table.router.subscribe(node(7, "b"), vec![request("t")]);
    assert!(
        routed(&mut table, &[of(6, "t", AT_MOST_ONCE), of(6, "t", AT_MOST_ONCE)])
            .iter()
            .all(|delivery| delivery.1 == 1)
    );
}

/// A will has no session, and is known to be of its client only by the client identifier.
#[test]
fn wills_of_two_clients_are_no_run_with_no_local() {
    let will_of = |slot| {
        let (topic, properties) = ("t", Properties::NONE);
        let will = Will { topic, payload: b"x", qos: QoS::AtMostOnce, retain: false, properties };
        let mut message = Message::of_will(&will);
        message.publisher = Some(client(slot).identity.client);
        Arc::new(message)
    };
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    let mut own = request("t");
    own.options.no_local = true;
    table.router.subscribe(client(5), vec![own]);
    table.router.subscribe(client(1), vec![request("t")]);
    let wills = [will_of(5), will_of(6), will_of(6)];
    assert_eq!(routed(&mut table, &wills), [(1, 1), (5, 2), (1, 2)]);
}

/// Few deliveries are permitted at a time, so that a run is divided, also by a message that a content filter selects before.
#[test]
fn every_message_of_a_run_is_routed_once() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    table.router.subscribe(client(1), vec![request("t"), request("c?n=1")]);
    table.router.subscribe(client(2), vec![request("t"), request("c?n=1")]);
    let content = |_| message("c", false, &[Property::User("n", "1")]);
    let messages: Vec<_> =
        (0..3).map(content).chain((0..7).map(|_| message("t", false, &[]))).collect();
    for room in 1..20 {
        let (mut rest, mut most) = (&messages[..], 0);
        while !rest.is_empty() {
            let (mut batches, mut reasons) = ([DeliveryBatch::default()], Vec::new());
            let at = (&*table.policy, Duration::ZERO);
            let count = table.router.publish(rest, &mut batches, at, (room, &mut reasons));
            let [batch] = batches;
            for message in &rest[..count] {
                let is_in = |delivered: &&Delivered| {
                    batch.run(delivered).iter().any(|other| Arc::ptr_eq(other, message))
                };
                assert_eq!(batch.deliveries.iter().filter(is_in).count(), 2);
            }
            assert_eq!(batch.count, 2 * count);
            (rest, most) = (&rest[count..], most.max(batch.count));
        }
        // The last message with a content filter, and the last one without, may exceed the room.
        assert!(most < room + 4, "{most} of {room}");
    }
}

#[test]
fn each_stored_delivery_has_its_number() {
    let numbers = with_journal(0, |wal| async move {
        let restored = RecoveredRoutes { next_delivery: 1, ..RecoveredRoutes::default() };
        let mut table = Table::with_wal(&Limits::default(), restored, wal);
        let own = SubscribeOptions { qos: QoS::AtLeastOnce, ..SubscribeOptions::default() };
        let own = SubscriptionRequest { options: own, ..request("t") };
        table.router.subscribe(Subscriber { durable_id: 1, ..client(1) }, vec![own]);
        let mut batches = [DeliveryBatch::default()];
        let all = [
            of(5, "t", AT_LEAST_ONCE),
            of(5, "t", AT_LEAST_ONCE),
            of(5, "t", AT_MOST_ONCE),
            of(5, "t", AT_MOST_ONCE),
        ];
        table.router.publish_own(&all, &mut batches, (&table.policy, Duration::ZERO));
        let [batch] = batches;
        let numbers =
            batch.deliveries.iter().map(|delivery| (delivery.count, delivery.number != 0));
        numbers.collect::<Vec<_>>()
    });
    assert_eq!(numbers, [(1, true), (1, true), (2, false)]);
}
