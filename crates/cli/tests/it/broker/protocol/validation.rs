//! Validation of messages before the broker forwards them. Strict clients close their connection on an invalid
//! message, and would then receive it again.

use phalanx_mqtt::{Delivery, Kind, Packet, Property, QoS, Reason, Version};
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};

use crate::broker::process::Broker;

crate::on_one_driver!(
    an_invalid_response_topic,
    texts_with_disallowed_code_points,
    payloads_declared_as_text,
    invalid_wills,
    messages_stored_by_an_earlier_version,
);

/// Properties of a PUBLISH or a will that the broker rejects, with the reason code for the publisher.
fn invalid() -> Vec<(&'static str, Vec<Property<'static>>, Reason)> {
    let deep: &'static str = Box::leak("/".repeat(250).into_boxed_str());
    let response = |topic| vec![Property::ResponseTopic(topic)];
    vec![
        ("t", response("a/#"), Reason::PROTOCOL_ERROR),
        ("t", response("+/a"), Reason::PROTOCOL_ERROR),
        ("t", response(""), Reason::PROTOCOL_ERROR),
        ("t", response(deep), Reason::TOPIC_NAME_INVALID),
        ("t", response("a\u{1}"), Reason::MALFORMED_PACKET),
        ("t", vec![Property::ContentType("text\nplain")], Reason::MALFORMED_PACKET),
        ("t", vec![Property::User("k", "\u{7f}")], Reason::MALFORMED_PACKET),
        ("t\u{ffff}", vec![], Reason::MALFORMED_PACKET),
    ]
}

/// The message is not delivered, not even to later subscribers, and the next message is.
fn nothing_has_come(broker: &Broker, reader: &mut Client, name: &str) {
    Client::new(broker, "writer").publish("t", name);
    reader.expect_message("t", name);
    let mut late_reader = Client::new(broker, "late");
    late_reader.subscribe("#", QoS::AtMostOnce);
    late_reader.expect_no_message();
}

fn an_invalid_response_topic(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("t", QoS::ExactlyOnce);
    for (n, (topic, properties, reason)) in invalid().into_iter().enumerate() {
        for delivery in
            [Delivery::AtMostOnce, Delivery::AtLeastOnce(id(1)), Delivery::ExactlyOnce(id(1))]
        {
            let mut client = Client::new(&broker, "odd");
            client.publish_with(topic, "poison", delivery, true, &properties);
            assert_eq!(
                client.wait_for_close(),
                Some(reason),
                "{topic:?} {properties:?} {delivery:?}"
            );
        }
        nothing_has_come(&broker, &mut reader, &n.to_string());
    }
    // With an alias the topic was validated before; properties are validated each time.
    let mut client = Client::new(&broker, "odd");
    let alias = Property::TopicAlias(1);
    client.publish_with("t", "good", Delivery::AtMostOnce, false, &[alias]);
    reader.expect_message("t", "good");
    let poison = [alias, Property::ResponseTopic("#")];
    client.publish_with("", "poison", Delivery::AtMostOnce, false, &poison);
    assert_eq!(client.wait_for_close(), Some(Reason::PROTOCOL_ERROR));
}

/// Also in 3.1.1, which has topics only.
fn texts_with_disallowed_code_points(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("#", QoS::AtMostOnce);
    for topic in ["a\u{1}", "a\u{9f}b", "\u{fdd0}", "\u{1ffff}"] {
        let mut client = Client::connect_with(&broker, &ConnectOptions::new(Version::V3, "old")).0;
        client.publish_with(topic, "poison", Delivery::AtMostOnce, false, &[]);
        assert_eq!(client.wait_for_close(), None, "{topic:?}");
    }
    let mut client = Client::connect_with(&broker, &ConnectOptions::new(Version::V3, "old")).0;
    client.publish_with("é/🦀", "good", Delivery::AtMostOnce, false, &[]);
    reader.expect_message("é/🦀", "good");
}

/// The broker drops such a message at QoS 0, and otherwise answers its publisher; the connection stays open.
fn payloads_declared_as_text(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("t", QoS::ExactlyOnce);
    let mut client = Client::new(&broker, "writer");
    // A PUBLISH with a payload that is not UTF-8: its last byte is changed.
    let mut publish = |delivery, last: u8| {
        let mut bytes = Vec::new();
        let mut properties = phalanx_mqtt::PropertyBuffer::new();
        properties.push(Property::PayloadIsText(true)).unwrap();
        let publish = phalanx_mqtt::Publish {
            topic: "t",
            payload: b"text ?",
            delivery,
            retain: false,
            duplicate: false,
            properties: properties.get(),
        };
        Packet::Publish(publish).encode(Version::V5, &mut bytes).unwrap();
        *bytes.last_mut().unwrap() = last;
        client.send_bytes(&bytes);
        match delivery {
            Delivery::AtMostOnce => None,
            _ => Some(match client.next().packet() {
                Packet::PubAck(ack) => (Kind::PubAck, ack.reason),
                Packet::PubRec(ack) => (Kind::PubRec, ack.reason),
                other => panic!("{other:?}"),
            }),
        }
    };
    let invalid = Reason::PAYLOAD_FORMAT_INVALID;
    assert_eq!(publish(Delivery::AtMostOnce, 0xff), None);
    assert_eq!(publish(Delivery::AtLeastOnce(id(1)), 0xff), Some((Kind::PubAck, invalid)));
    for _ in 0..2 {
        // The exchange did not begin, so the packet identifier is free.
        assert_eq!(publish(Delivery::ExactlyOnce(id(1)), 0xff), Some((Kind::PubRec, invalid)));
    }
    let valid = publish(Delivery::AtLeastOnce(id(2)), b'!');
    assert_eq!(valid, Some((Kind::PubAck, Reason::SUCCESS)));
    reader.expect_message("t", "text !");
    reader.expect_no_message();
}

fn invalid_wills(driver: &str) {
    let broker = Broker::start(driver);
    for (topic, properties, reason) in invalid() {
        let will = Some((topic, "gone", QoS::AtMostOnce, true, properties.clone()));
        let options = ConnectOptions { will, ..ConnectOptions::new(Version::V5, "mortal") };
        assert_eq!(Client::expect_rejection(&broker, &options), reason, "{topic:?} {properties:?}");
    }
    let mut client = Client::open(&broker, Version::V5);
    // A will with the property that its payload is UTF-8, and the payload 0xff.
    client.send_bytes(
        b"\x10\x17\x00\x04MQTT\x05\x06\x00\x00\x00\x00\x01m\x02\x01\x01\x00\x01w\x00\x01\xff",
    );
    let received = client.next();
    let Packet::ConnAck(ack) = received.packet() else { panic!("{received:?}") };
    assert_eq!(ack.reason, Reason::PAYLOAD_FORMAT_INVALID);
}

/// `journals/unvalidated.journal` was written by a version without these checks. For the client `reader`, which
/// is subscribed to `queued/#`, `t?a==1`, `t?a=1|b=2` and `$json/#`, it contains `queued/poison` with the
/// response topic `a/#`, `queued/control\u{1}`, `queued/format` whose text is not UTF-8, and `queued/good`. It
/// retains `kept/poison` with an empty response topic, `kept/user` with a line break in a user property, and
/// `kept/good`.
fn messages_stored_by_an_earlier_version(driver: &str) {
    let data = tempfile::tempdir().unwrap();
    let journal = include_bytes!("journals/unvalidated.journal");
    std::fs::write(data.path().join("000000000001.journal"), journal).unwrap();
    for _ in 0..2 {
        let mut broker = Broker::start_on(driver, data.path());
        let output = broker.stderr();
        for filter in ["t?a==1", "t?a=1|b=2", "$json/#"] {
            assert!(output.contains(&format!("lost its subscription {filter:?}")), "{output}");
        }
        let mut late_reader = Client::new(&broker, "late");
        late_reader.subscribe("#", QoS::AtLeastOnce);
        late_reader.expect_message("kept/good", "good");
        late_reader.expect_no_message();
        broker.ends_well();
    }
    let broker = Broker::start_on(driver, data.path());
    let (mut reader, is_present) =
        Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    assert!(is_present);
    reader.expect_message("queued/good", "good");
    reader.expect_no_message();
    // A message without a recipient is gone, and is not sent later.
    reader.disconnect();
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    reader.expect_no_message();
}
