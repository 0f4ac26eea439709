//! QoS 1 and 2, and the number of messages in flight.

use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Property, QoS, Reason, Version};
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};

use crate::broker::process::Broker;

crate::on_each_driver!(
    exactly_once_in_both_directions,
    the_receive_maximum_is_respected,
    duplicates_are_accepted_once,
    an_unknown_packet_identifier,
    the_order_is_preserved_under_load,
    messages_beyond_the_clients_maximum_are_not_sent,
    topic_aliases,
    packet_identifiers_are_reused,
);

fn exactly_once_in_both_directions(driver: &str) {
    let broker = Broker::start(driver);
    for version in [Version::V3, Version::V5] {
        let mut subscriber =
            Client::connect_with(&broker, &ConnectOptions::new(version, "reader")).0;
        subscriber.subscribe("a/#", QoS::ExactlyOnce);
        let mut publisher =
            Client::connect_with(&broker, &ConnectOptions::new(version, "writer")).0;
        publisher.publish_with("a/b", "one", Delivery::ExactlyOnce(id(9)), false, &[]);
        assert_eq!(publisher.next().packet(), Packet::PubRec(Ack::success(id(9))));
        publisher.send(&Packet::PubRel(Ack::success(id(9))));
        assert_eq!(publisher.next().packet(), Packet::PubComp(Ack::success(id(9))));

        let received = subscriber.next();
        let Delivery::ExactlyOnce(number) = received.message().delivery else {
            panic!("{received:?}")
        };
        subscriber.send(&Packet::PubRec(Ack::success(number)));
        assert_eq!(subscriber.next().packet(), Packet::PubRel(Ack::success(number)));
        subscriber.send(&Packet::PubComp(Ack::success(number)));
        subscriber.expect_no_message();
    }
}

/// With a receive maximum of 2 the third message waits for an acknowledgement.
fn the_receive_maximum_is_respected(driver: &str) {
    let broker = Broker::start(driver);
    let options = ConnectOptions {
        properties: vec![Property::ReceiveMaximum(2)],
        ..ConnectOptions::new(Version::V5, "slow")
    };
    let mut slow = Client::connect_with(&broker, &options).0;
    slow.subscribe("t", QoS::AtLeastOnce);
    let mut publisher = Client::new(&broker, "writer");
    for n in 0..5 {
        publisher.publish("t", &n.to_string());
    }
    let mut numbers = Vec::new();
    for n in 0..5 {
        let received = slow.next();
        assert_eq!(received.message().payload, n.to_string().as_bytes());
        numbers.push(received.message().delivery.id().unwrap());
        // Acknowledge only after two messages, so that a premature third one is detected.
        if n >= 1 {
            slow.send(&Packet::PingReq);
            assert_eq!(slow.next().packet(), Packet::PingResp, "no third message");
            slow.send(&Packet::PubAck(Ack::success(numbers[n - 1])));
        }
    }
}

fn duplicates_are_accepted_once(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "both");
    client.subscribe("t", QoS::AtMostOnce);
    client.publish_with("t", "once", Delivery::ExactlyOnce(id(4)), false, &[]);
    client.publish_with("t", "once", Delivery::ExactlyOnce(id(4)), false, &[]);
    let (mut received, mut messages) = (0, 0);
    while received < 2 {
        match client.next().packet() {
            Packet::PubRec(ack) => {
                assert_eq!((ack.id, ack.reason), (id(4), Reason::SUCCESS));
                received += 1;
            }
            Packet::Publish(_) => messages += 1,
            other => panic!("{other:?}"),
        }
    }
    if messages == 0 {
        client.expect_message("t", "once");
    }
    client.expect_no_message();
    // After PUBREL the packet identifier starts another message.
    client.send(&Packet::PubRel(Ack::success(id(4))));
    assert_eq!(client.next().packet(), Packet::PubComp(Ack::success(id(4))));
    client.publish_with("t", "again", Delivery::ExactlyOnce(id(4)), false, &[]);
    let kinds = [client.next(), client.next()]
        .map(|received| matches!(received.packet(), Packet::Publish(_)));
    assert!(kinds.contains(&true) && kinds.contains(&false));
}

fn an_unknown_packet_identifier(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "odd");
    client.send(&Packet::PubRel(Ack::success(id(3))));
    let reason = Reason::PACKET_IDENTIFIER_NOT_FOUND;
    assert_eq!(client.next().packet(), Packet::PubComp(Ack { reason, ..Ack::success(id(3)) }));
    client.send(&Packet::PubRec(Ack::success(id(5))));
    assert_eq!(client.next().packet(), Packet::PubRel(Ack { reason, ..Ack::success(id(5)) }));
    client.send(&Packet::PubAck(Ack::success(id(5))));
    client.send(&Packet::PubComp(Ack::success(id(5))));
    client.expect_no_message();
}

/// More than any buffer holds, with every QoS: the order per QoS is preserved.
fn the_order_is_preserved_under_load(driver: &str) {
    const COUNT: usize = 3000;
    let broker = Broker::start(driver);
    let mut subscriber = Client::new(&broker, "reader");
    subscriber.subscribe("much/#", QoS::ExactlyOnce);
    let mut publisher = Client::new(&broker, "writer");
    let padding = "x".repeat(700);
    let writer = std::thread::spawn(move || {
        for n in 0..COUNT {
            let delivery = match n % 2 {
                0 => Delivery::AtMostOnce,
                _ => Delivery::AtLeastOnce(PacketId::new(n as u16 + 1).unwrap()),
            };
            publisher.publish_with("much/more", &format!("{n}:{padding}"), delivery, false, &[]);
        }
        (0..COUNT / 2)
            .for_each(|_| assert!(matches!(publisher.next().packet(), Packet::PubAck(_))));
    });
    let mut last = [None; 2];
    for _ in 0..COUNT {
        let received = subscriber.next();
        let message = received.message();
        let text = std::str::from_utf8(message.payload).unwrap();
        let n: usize = text.split(':').next().unwrap().parse().unwrap();
        let before = last[n % 2].replace(n);
        assert!(before.is_none_or(|before| before + 2 == n), "{n} behind {before:?}");
        if let Some(id) = message.delivery.id() {
            subscriber.send(&Packet::PubAck(Ack::success(id)));
        }
    }
    writer.join().unwrap();
}

fn messages_beyond_the_clients_maximum_are_not_sent(driver: &str) {
    let broker = Broker::start(driver);
    let properties = vec![Property::MaximumPacketSize(100)];
    let options = ConnectOptions { properties, ..ConnectOptions::new(Version::V5, "small") };
    let mut small = Client::connect_with(&broker, &options).0;
    small.subscribe("t", QoS::AtLeastOnce);
    let mut publisher = Client::new(&broker, "writer");
    publisher.publish("t", &"x".repeat(200));
    publisher.publish("t", "short");
    small.expect_message("t", "short");
}

fn topic_aliases(driver: &str) {
    let broker = Broker::start(driver);
    let options = ConnectOptions {
        properties: vec![Property::TopicAliasMaximum(1)],
        ..ConnectOptions::new(Version::V5, "c")
    };
    let mut client = Client::connect_with(&broker, &options).0;
    client.subscribe("a/#", QoS::AtMostOnce);
    let alias = [Property::TopicAlias(7)];
    client.publish_with("a/one", "1", Delivery::AtMostOnce, false, &alias);
    client.publish_with("", "2", Delivery::AtMostOnce, false, &alias);
    client.publish_with("a/two", "3", Delivery::AtMostOnce, false, &[]);
    let own = |received: &phalanx_testkit::mqtt::ReceivedPacket| {
        received.message().properties.iter().find_map(|property| match property {
            Property::TopicAlias(number) => Some(number),
            _ => None,
        })
    };
    // The broker's topic aliases: this client accepts one, and the first topic gets it.
    let received = client.next();
    assert_eq!((received.message().topic, own(&received)), ("a/one", Some(1)));
    let received = client.next();
    assert_eq!((received.message().topic, own(&received)), ("", Some(1)));
    let received = client.next();
    assert_eq!((received.message().topic, own(&received)), ("a/two", None));
}

/// More messages than packet identifiers.
fn packet_identifiers_are_reused(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "round");
    client.subscribe("t", QoS::AtLeastOnce);
    let mut received_count = 0u32;
    let mut sent = 0u32;
    while received_count < 70_000 {
        if sent < 70_000 && sent - received_count < 512 {
            let number = PacketId::new((sent % 65_535) as u16 + 1).unwrap();
            client.publish_with("t", "", Delivery::AtLeastOnce(number), false, &[]);
            sent += 1;
            continue;
        }
        let received = client.next();
        if let Packet::Publish(publish) = received.packet() {
            client.send(&Packet::PubAck(Ack::success(publish.delivery.id().unwrap())));
            received_count += 1;
        }
    }
}
