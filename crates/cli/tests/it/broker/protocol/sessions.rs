//! Session state that outlives a connection.

use phalanx_mqtt::{
    Ack, Delivery, Disconnect, Packet, Property, PropertyBuffer, Publish, QoS, Reason, Version,
};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};

use crate::broker::process::Broker;

crate::on_each_driver!(
    messages_are_queued_for_disconnected_clients,
    messages_in_flight_are_sent_again,
    a_clean_start_forgets,
    a_session_is_taken_over,
    a_session_of_one_connection_is_not_resumed,
    too_many_messages_in_flight,
    a_session_expires,
    a_client_id_is_assigned,
    a_release_is_repeated,
    the_queue_is_bounded,
);

fn messages_are_queued_for_disconnected_clients(driver: &str) {
    let broker = Broker::start(driver);
    let old = ConnectOptions { clean: false, ..ConnectOptions::new(Version::V3, "old") };
    for options in [ConnectOptions::persistent("new"), old] {
        let (mut reader, present) = Client::connect_with(&broker, &options);
        assert!(!present);
        reader.subscribe("t", QoS::AtLeastOnce);
        reader.disconnect();
        let mut publisher = Client::new(&broker, "writer");
        (0..3).for_each(|n| assert_eq!(publisher.publish("t", &n.to_string()), Reason::SUCCESS));
        publisher.publish_with("t", "nobody waits", Delivery::AtMostOnce, false, &[]);
        let expiry = [Property::MessageExpiry(0)];
        publisher.publish_with("t", "too old", Delivery::AtLeastOnce(id(1)), false, &expiry);
        publisher.next();
        let (mut reader, present) = Client::connect_with(&broker, &options);
        assert!(present);
        (0..3).for_each(|n| reader.expect_message("t", &n.to_string()));
        reader.expect_no_message();
        reader.disconnect();
    }
}

fn messages_in_flight_are_sent_again(driver: &str) {
    let broker = Broker::start(driver);
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    reader.subscribe("t", QoS::ExactlyOnce);
    let mut publisher = Client::new(&broker, "writer");
    publisher.publish("t", "one");
    publisher.publish("t", "two");
    let first = reader.next().message().delivery;
    let second = reader.next().message().delivery;
    reader.drop_connection();
    let (mut reader, present) =
        Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    assert!(present);
    for (text, delivery) in [("one", first), ("two", second)] {
        let received = reader.next();
        let message = received.message();
        assert!(message.duplicate, "it was sent before");
        assert_eq!((message.payload, message.delivery), (text.as_bytes(), delivery));
        reader.send(&Packet::PubAck(Ack::success(delivery.id().unwrap())));
    }
    reader.disconnect();
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    reader.expect_no_message();
}

fn a_release_is_repeated(driver: &str) {
    let broker = Broker::start(driver);
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    reader.subscribe("t", QoS::ExactlyOnce);
    let mut publisher = Client::new(&broker, "writer");
    publisher.publish_with("t", "x", Delivery::ExactlyOnce(id(1)), false, &[]);
    let number = reader.next().message().delivery.id().unwrap();
    reader.send(&Packet::PubRec(Ack::success(number)));
    assert_eq!(reader.next().packet(), Packet::PubRel(Ack::success(number)));
    reader.drop_connection();
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    assert_eq!(reader.next().packet(), Packet::PubRel(Ack::success(number)), "but not the message");
    reader.send(&Packet::PubComp(Ack::success(number)));
    reader.expect_no_message();
    // A message is not accepted twice over two connections.
    let (mut both, _) = Client::connect_with(&broker, &ConnectOptions::persistent("both"));
    both.subscribe("own", QoS::AtMostOnce);
    both.publish_with("own", "once", Delivery::ExactlyOnce(id(7)), false, &[]);
    let is_publish =
        [both.next(), both.next()].map(|received| matches!(received.packet(), Packet::Publish(_)));
    assert!(is_publish.contains(&true), "the message and its answer");
    both.drop_connection();
    let (mut both, _) = Client::connect_with(&broker, &ConnectOptions::persistent("both"));
    both.publish_with("own", "once", Delivery::ExactlyOnce(id(7)), false, &[]);
    assert!(matches!(both.next().packet(), Packet::PubRec(_)));
    both.expect_no_message();
}

/// Publishes to `t` until no subscription matches. The router removes the subscriptions of an ended session after the
/// response to CONNECT.
fn nobody_receives(writer: &mut Client) {
    eventually("the subscription ends", || {
        (writer.publish("t", "x") == Reason::NO_MATCHING_SUBSCRIBERS).then_some(())
    });
}

fn a_clean_start_forgets(driver: &str) {
    let broker = Broker::start(driver);
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    reader.subscribe("t", QoS::AtLeastOnce);
    reader.disconnect();
    let mut publisher = Client::new(&broker, "writer");
    publisher.publish("t", "waits");
    let (mut reader, present) = Client::connect_with(
        &broker,
        &ConnectOptions { clean: true, ..ConnectOptions::persistent("reader") },
    );
    assert!(!present);
    reader.expect_no_message();
    nobody_receives(&mut publisher);
    reader.expect_no_message();
}

fn a_session_is_taken_over(driver: &str) {
    let broker = Broker::start(driver);
    let (mut before, _) = Client::connect_with(&broker, &ConnectOptions::persistent("same"));
    before.subscribe("t", QoS::AtLeastOnce);
    let (mut successor, present) =
        Client::connect_with(&broker, &ConnectOptions::persistent("same"));
    assert!(present);
    assert_eq!(before.wait_for_close(), Some(Reason::SESSION_TAKEN_OVER));
    Client::new(&broker, "writer").publish("t", "x");
    successor.expect_message("t", "x");
}

fn a_session_expires(driver: &str) {
    let broker = Broker::start(driver);
    let properties = vec![Property::SessionExpiry(1)];
    let options = ConnectOptions { properties, ..ConnectOptions::persistent("short") };
    let (mut client, _) = Client::connect_with(&broker, &options);
    client.subscribe("t", QoS::AtLeastOnce);
    client.disconnect();
    // Its subscription ends with it.
    nobody_receives(&mut Client::new(&broker, "writer"));
    assert!(!Client::connect_with(&broker, &options).1);
    // A session that ends with its connection cannot be extended at DISCONNECT.
    let mut client = Client::new(&broker, "brief");
    let mut properties = PropertyBuffer::new();
    properties.push(Property::SessionExpiry(5)).unwrap();
    let (reason, properties) = (Reason::SUCCESS, properties.get());
    client.send(&Packet::Disconnect(Disconnect { reason, properties }));
    assert_eq!(client.wait_for_close(), Some(Reason::PROTOCOL_ERROR));
}

fn a_client_id_is_assigned(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::open(&broker, Version::V5);
    client.send_connect(&ConnectOptions::new(Version::V5, ""));
    let received = client.next();
    let Packet::ConnAck(ack) = received.packet() else { panic!() };
    let name = ack.properties.iter().find_map(|property| match property {
        Property::AssignedClientIdentifier(name) => Some(name),
        _ => None,
    });
    assert!(name.is_some_and(|name| name.len() > 20), "{name:?}");
    // In 3.1.1 the client id may be empty with a clean session.
    Client::connect_with(&broker, &ConnectOptions::new(Version::V3, ""));
    let mut client = Client::open(&broker, Version::V3);
    client.send_connect(&ConnectOptions { clean: false, ..ConnectOptions::new(Version::V3, "") });
    let received = client.next();
    let Packet::ConnAck(ack) = received.packet() else { panic!() };
    assert_eq!(ack.reason, Reason::CLIENT_IDENTIFIER_NOT_VALID);
    assert!(client.try_next().is_none());
}

fn the_queue_is_bounded(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-queued-messages", "3"]);
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    reader.subscribe("t", QoS::AtLeastOnce);
    reader.disconnect();
    let mut publisher = Client::new(&broker, "writer");
    for n in 0..5 {
        publisher.publish("t", &n.to_string());
    }
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    (0..3).for_each(|n| reader.expect_message("t", &n.to_string()));
    reader.expect_no_message();
    publisher.publish("t", "there is room again");
    reader.expect_message("t", "there is room again");
}

/// MQTT-3.1.2-6: a session that was to end with its connection is not resumed by another.
fn a_session_of_one_connection_is_not_resumed(driver: &str) {
    let broker = Broker::start(driver);
    for version in [Version::V3, Version::V5] {
        let mut first = Client::connect_with(&broker, &ConnectOptions::new(version, "name")).0;
        first.subscribe("t", QoS::AtLeastOnce);
        let persistent = ConnectOptions { clean: false, ..ConnectOptions::new(version, "name") };
        let (mut second, present) = Client::connect_with(&broker, &persistent);
        assert!(!present, "{version:?}");
        nobody_receives(&mut Client::new(&broker, "writer"));
        second.expect_no_message();
        second.disconnect();
    }
}

/// Messages beyond the receive maximum (1,024) end the connection, and count as new when they are sent again.
fn too_many_messages_in_flight(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("late", QoS::AtLeastOnce);
    let (mut writer, _) = Client::connect_with(&broker, &ConnectOptions::persistent("writer"));
    for n in 1..=1000 {
        writer.publish_with("early", "x", Delivery::ExactlyOnce(id(n)), false, &[]);
    }
    for _ in 1..=1000 {
        assert!(matches!(writer.next().packet(), Packet::PubRec(_)));
    }
    let (mut bytes, properties) = (Vec::new(), PropertyBuffer::new());
    for n in 1001..=1100 {
        let message = Publish {
            topic: "late",
            payload: b"lost",
            delivery: Delivery::ExactlyOnce(id(n)),
            retain: false,
            duplicate: false,
            properties: properties.get(),
        };
        Packet::Publish(message).encode(Version::V5, &mut bytes).unwrap();
    }
    writer.send_bytes(&bytes);
    assert_eq!(writer.wait_for_close(), Some(Reason::RECEIVE_MAXIMUM_EXCEEDED));
    reader.expect_no_message();
    let (mut writer, present) =
        Client::connect_with(&broker, &ConnectOptions::persistent("writer"));
    assert!(present);
    writer.publish_with("late", "again", Delivery::ExactlyOnce(id(1001)), false, &[]);
    reader.expect_message("late", "again");
}
