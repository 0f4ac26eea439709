//! Form of answers: the client's protocol version and its maximum packet size.

use phalanx_mqtt::{
    Ack, Delivery, Disconnect, Packet, Property, QoS, Reason, SubscribeOptions, Version,
};
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};

use crate::broker::process::Broker;

crate::on_one_driver!(
    unsupported_versions,
    a_malformed_connect,
    empty_filters,
    connack_within_the_clients_maximum,
    suback_and_unsuback_within_the_clients_maximum,
    acknowledgements_and_disconnect_within_the_clients_maximum,
);

/// All bytes that the broker sends in response, up to the end of the connection.
fn response(broker: &Broker, bytes: &[u8]) -> Vec<u8> {
    let mut client = Client::open(broker, Version::V5);
    client.send_bytes(bytes);
    client.read_to_end()
}

fn connect(name: &str, level: u8, behind: &[u8]) -> Vec<u8> {
    let body = [&(name.len() as u16).to_be_bytes()[..], name.as_bytes(), &[level], behind].concat();
    [&[0x10, body.len() as u8][..], &body].concat()
}

/// Unsupported versions: return code 1 in 3.x, reason code 0x84 in MQTT 5.
fn unsupported_versions(driver: &str) {
    let broker = Broker::start(driver);
    let clean_session = b"\x02\x00\x3c\x00\x01a";
    // A bridge of mosquitto sets the high bit of the level first, and retries without it.
    for (name, level) in [("MQIsdp", 3), ("MQTT", 3), ("MQTT", 0), ("MQTT", 0x83), ("MQTT", 0x84)] {
        let bytes = connect(name, level, clean_session);
        assert_eq!(response(&broker, &bytes), b"\x20\x02\x00\x01", "{name} {level}");
    }
    for level in [6, 0x7f] {
        let bytes = response(&broker, &connect("MQTT", level, b"\x02\x00\x3c\x00\x00\x01a"));
        assert_eq!(bytes[0], 0x20);
        assert_eq!(bytes[2..4], [0, 0x84], "{level}");
    }
}

/// MQTT 5 has an answer with the reason; in 3.1.1 the connection closes without one (MQTT-3.1.4-1).
fn a_malformed_connect(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-packet-size", "1000"]);
    let long =
        [&b"\x10\x80\x10\x00\x04MQTT\x05\x02\x00\x00\x00\x07\xd0"[..], &[b'x'; 2000]].concat();
    for (name, bytes, reason) in [
        (
            "a reserved flag",
            connect("MQTT", 5, b"\x03\x00\x00\x00\x00\x01a"),
            Reason::MALFORMED_PACKET,
        ),
        ("cut short", connect("MQTT", 5, b"\x02\x00\x00\x00\x00\x09a"), Reason::MALFORMED_PACKET),
        (
            "a property twice",
            connect("MQTT", 5, b"\x02\x00\x00\x06\x21\x00\x01\x21\x00\x01\x00\x01a"),
            Reason::PROTOCOL_ERROR,
        ),
        (
            "flags of the header",
            [&[0x11][..], &connect("MQTT", 5, b"\x02\x00\x00\x00\x00\x01a")[1..]].concat(),
            Reason::MALFORMED_PACKET,
        ),
        ("too long", long, Reason::PACKET_TOO_LARGE),
    ] {
        let bytes = response(&broker, &bytes);
        assert!(bytes.len() > 4 && bytes[0] == 0x20, "{name}: {bytes:x?}");
        assert_eq!(bytes[2..4], [0, reason.0], "{name}");
    }
    for bytes in [
        connect("MQTT", 4, b"\x03\x00\x00\x00\x01a"),
        connect("MQTT", 4, b"\x02\x00\x00\x00\x09a"),
        connect("mqtt", 5, b"\x02\x00\x00\x00\x00\x01a"),
    ] {
        assert_eq!(response(&broker, &bytes), b"", "{bytes:x?}");
    }
}

fn empty_filters(driver: &str) {
    let broker = Broker::start(driver);
    for version in [Version::V3, Version::V5] {
        for subscribes in [true, false] {
            let mut client = Client::connect_with(&broker, &ConnectOptions::new(version, "odd")).0;
            let properties = if version == Version::V5 { &[0][..] } else { &[] };
            let (kind, options) = if subscribes { (0x82, &[0][..]) } else { (0xa2, &[][..]) };
            let one = |filter: &[u8]| [&[0, filter.len() as u8][..], filter, options].concat();
            let body = [&[0, 1][..], properties, &one(b"good"), &one(b"")].concat();
            client.send_bytes(&[&[kind, body.len() as u8][..], &body].concat());
            let expected = (version == Version::V5).then_some(Reason::PROTOCOL_ERROR);
            assert_eq!(client.wait_for_close(), expected, "{version:?} {kind:x}");
        }
    }
}

/// A client with this maximum packet size.
fn with_max_packet_size<'a>(id: &'a str, max_size: u32) -> ConnectOptions<'a> {
    let properties = vec![Property::MaximumPacketSize(max_size)];
    ConnectOptions { properties, ..ConnectOptions::new(Version::V5, id) }
}

fn connack_within_the_clients_maximum(driver: &str) {
    let broker = Broker::start(driver);
    // Receive maximum, topic alias maximum and maximum packet size: 16 bytes.
    Client::connect_with(&broker, &with_max_packet_size("fits", 16));
    // The property cannot be omitted, since the client would violate the limit.
    let words = Property::AuthenticationMethod("in steps");
    for (max_size, reason) in [
        (5, Some(Reason::IMPLEMENTATION_SPECIFIC_ERROR)),
        (15, Some(Reason::IMPLEMENTATION_SPECIFIC_ERROR)),
        (4, None),
        (1, None),
    ] {
        let mut client = Client::open(&broker, Version::V5);
        client.send_connect(&with_max_packet_size("small", max_size));
        let bytes = client.read_to_end();
        assert!(bytes.len() <= max_size as usize, "{bytes:x?}");
        assert_eq!(bytes.get(3).map(|code| Reason(*code)), reason, "{max_size}");
    }
    // A reason string that does not fit is omitted.
    for (max_size, with_reason_string) in [(5, false), (40, false), (200, true)] {
        let mut client = Client::open(&broker, Version::V5);
        let mut options = with_max_packet_size("steps", max_size);
        options.properties.push(words);
        client.send_connect(&options);
        let bytes = client.read_to_end();
        assert!(
            bytes.len() <= max_size as usize && (bytes.len() > 5) == with_reason_string,
            "{bytes:x?}"
        );
        assert_eq!(Reason(bytes[3]), Reason::BAD_AUTHENTICATION_METHOD);
    }
}

fn suback_and_unsuback_within_the_clients_maximum(driver: &str) {
    let broker = Broker::start(driver);
    let many: Vec<_> = (0..40).map(|n| format!("t/{n}")).collect();
    let subscriptions: Vec<_> =
        many.iter().map(|filter| (filter.as_str(), SubscribeOptions::default())).collect();
    // A fixed header of two bytes, an identifier of two, no properties, and a byte per reason.
    for (max_size, fits) in [(45, true), (44, false)] {
        let mut client = Client::connect_with(&broker, &with_max_packet_size("many", max_size)).0;
        if fits {
            assert_eq!(client.subscribe_with(&subscriptions, &[]), [Reason::SUCCESS; 40]);
            assert_eq!(client.unsubscribe_all(&many), [Reason::SUCCESS; 40]);
            continue;
        }
        client.send_subscribe(&subscriptions);
        // No subscription exists without the client's knowledge.
        assert_eq!(client.wait_for_close(), Some(Reason::PACKET_TOO_LARGE));
        let mut client = Client::connect_with(&broker, &with_max_packet_size("many", max_size)).0;
        client.send_subscribe(&subscriptions[..39]);
        client.next();
        client.send_unsubscribe(&many);
        assert_eq!(client.wait_for_close(), Some(Reason::PACKET_TOO_LARGE));
    }
    // The reason string of a rejected filter is sent only if the packet has room for it.
    for (max_size, with_reason_string) in [(20, false), (200, true)] {
        let mut client = Client::connect_with(&broker, &with_max_packet_size("wrong", max_size)).0;
        client.send_subscribe(&[("a/#/b", SubscribeOptions::default())]);
        let received = client.next();
        let Packet::SubAck(ack) = received.packet() else { panic!("{received:?}") };
        assert_eq!(ack.reasons, [Reason::TOPIC_FILTER_INVALID.0]);
        assert_eq!(!ack.properties.is_empty(), with_reason_string);
    }
}

fn acknowledgements_and_disconnect_within_the_clients_maximum(driver: &str) {
    let rules = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&rules, "topic readwrite open\n").unwrap();
    let broker = Broker::start_with(driver, &["--acl-file", rules.path().to_str().unwrap()]);
    for (max_size, with_reason_string) in [(20, false), (200, true)] {
        let mut client = Client::connect_with(&broker, &with_max_packet_size("curt", max_size)).0;
        for delivery in [Delivery::AtLeastOnce(id(1)), Delivery::ExactlyOnce(id(2))] {
            client.publish_with("closed", "x", delivery, false, &[]);
            let received = client.next();
            let (Packet::PubAck(ack) | Packet::PubRec(ack)) = received.packet() else {
                panic!("{received:?}")
            };
            assert_eq!(ack.reason, Reason::NOT_AUTHORIZED);
            assert_eq!(!ack.properties.is_empty(), with_reason_string, "{max_size}");
        }
        client.send(&Packet::PubRel(Ack::success(id(3))));
        let received = client.next();
        let Packet::PubComp(ack) = received.packet() else { panic!("{received:?}") };
        assert_eq!(ack.reason, Reason::PACKET_IDENTIFIER_NOT_FOUND);
        client.publish_with("open", "x", Delivery::AtMostOnce, false, &[Property::TopicAlias(0)]);
        let received = client.next();
        let Packet::Disconnect(Disconnect { reason, properties }) = received.packet() else {
            panic!("{received:?}")
        };
        assert_eq!(reason, Reason::TOPIC_ALIAS_INVALID);
        assert_eq!(!properties.is_empty(), with_reason_string, "{max_size}");
    }
    // The limit applies to messages as well.
    let mut small = Client::connect_with(&broker, &with_max_packet_size("small", 30)).0;
    small.subscribe("open", QoS::AtMostOnce);
    let mut writer = Client::new(&broker, "writer");
    writer.publish("open", &"x".repeat(100));
    writer.publish("open", "short");
    small.expect_message("open", "short");
}
