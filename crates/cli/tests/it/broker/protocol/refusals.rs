//! Rejected packets, and the form of the rejection.

use phalanx_mqtt::{Delivery, Packet, Property, QoS, Reason, SubscribeOptions, Version};
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};

use crate::broker::process::Broker;
use crate::server::bare;

crate::on_each_driver!(
    broken_packets,
    packets_that_are_too_long,
    invalid_filters,
    invalid_aliases,
    more_than_the_receive_maximum,
    a_keep_alive_that_is_too_long,
    authentication_in_steps,
    connections_without_a_connect,
    too_many_connections,
    clients_are_told_of_the_shutdown,
);

fn broken_packets(driver: &str) {
    let broker = Broker::start(driver);
    for (bytes, reason) in [
        (&b"\x36\x05\x00\x01a\x00\x01\x00"[..], Reason::MALFORMED_PACKET),
        (b"\xf0\x00", Reason::PROTOCOL_ERROR),
        (b"\x20\x03\x00\x00\x00", Reason::PROTOCOL_ERROR),
        (b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00", Reason::PROTOCOL_ERROR),
        (b"\x30\x04\x00\x01+\x00", Reason::TOPIC_NAME_INVALID),
        (b"\x30\x03\x00\x00\x00", Reason::PROTOCOL_ERROR),
    ] {
        let mut client = Client::new(&broker, "odd");
        client.send_bytes(bytes);
        assert_eq!(client.wait_for_close(), Some(reason), "{bytes:x?}");
    }
    // A connection that begins with another packet or protocol gets no answer, or a rejection.
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\xc0\x00", b"\x00\x00"] {
        let mut client = Client::open(&broker, Version::V5);
        client.send_bytes(bytes);
        assert!(client.try_next().is_none());
    }
    let mut client = Client::open(&broker, Version::V3);
    client.send_bytes(b"\x10\x0e\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x00");
    let received = client.next();
    let Packet::ConnAck(ack) = received.packet() else { panic!() };
    assert_eq!(ack.reason, Reason::UNSUPPORTED_PROTOCOL_VERSION);
    assert!(client.try_next().is_none());
}

fn packets_that_are_too_long(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-packet-size", "1000"]);
    let mut client = Client::new(&broker, "long");
    client.publish_with("t", &"x".repeat(900), Delivery::AtLeastOnce(id(1)), false, &[]);
    assert!(matches!(client.next().packet(), Packet::PubAck(_)));
    client.publish_with("t", &"x".repeat(1000), Delivery::AtLeastOnce(id(1)), false, &[]);
    assert_eq!(client.wait_for_close(), Some(Reason::PACKET_TOO_LARGE));
    let mut client = Client::new(&broker, "deep");
    client.publish_with(&"/".repeat(300), "x", Delivery::AtMostOnce, false, &[]);
    assert_eq!(client.wait_for_close(), Some(Reason::TOPIC_NAME_INVALID));
}

fn invalid_filters(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "odd");
    let options = SubscribeOptions::default();
    let deep = "+/".repeat(250);
    let subscriptions = [
        ("a/#/b", options),
        ("good/+", options),
        ("$share/g", options),
        ("a+", options),
        (deep.as_str(), options),
    ];
    let none = Reason::TOPIC_FILTER_INVALID;
    let success = Reason::SUCCESS;
    assert_eq!(client.subscribe_with(&subscriptions, &[]), [none, success, none, none, none]);
    client.publish_with("good/one", "x", Delivery::AtMostOnce, false, &[]);
    client.expect_message("good/one", "x");
    let mut old = Client::connect_with(&broker, &ConnectOptions::new(Version::V3, "old")).0;
    let reasons = old.subscribe_with(&[("a/#/b", options), ("b", options)], &[]);
    assert_eq!(reasons, [Reason::UNSPECIFIED_ERROR, success]);
}

fn invalid_aliases(driver: &str) {
    let broker = Broker::start(driver);
    for (topic, alias, reason) in [
        ("t", 0, Reason::TOPIC_ALIAS_INVALID),
        ("t", 65, Reason::TOPIC_ALIAS_INVALID),
        ("", 1, Reason::PROTOCOL_ERROR),
    ] {
        let mut client = Client::new(&broker, "odd");
        let properties = [Property::TopicAlias(alias)];
        client.publish_with(topic, "x", Delivery::AtMostOnce, false, &properties);
        assert_eq!(client.wait_for_close(), Some(reason), "{topic} {alias}");
    }
}

/// A client that continues to send receives the reason nevertheless.
fn more_than_the_receive_maximum(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "many");
    for number in 1..=1100 {
        client.publish_with("t", "x", Delivery::ExactlyOnce(id(number)), false, &[]);
    }
    assert_eq!(client.wait_for_close(), Some(Reason::RECEIVE_MAXIMUM_EXCEEDED));
}

fn a_keep_alive_that_is_too_long(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-keep-alive", "60s"]);
    for (requested, server_keep_alive) in [(0, Some(60)), (120, Some(60)), (30, None)] {
        let mut client = Client::open(&broker, Version::V5);
        client.send_connect(&ConnectOptions {
            keep_alive: requested,
            ..ConnectOptions::new(Version::V5, "a")
        });
        let received = client.next();
        let Packet::ConnAck(ack) = received.packet() else { panic!("{received:?}") };
        let own = ack.properties.iter().find_map(|property| match property {
            Property::ServerKeepAlive(seconds) => Some(seconds),
            _ => None,
        });
        assert_eq!(own, server_keep_alive, "{requested}");
    }
}

fn authentication_in_steps(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::open(&broker, Version::V5);
    let properties = vec![Property::AuthenticationMethod("SCRAM-SHA-256")];
    client.send_connect(&ConnectOptions { properties, ..ConnectOptions::new(Version::V5, "a") });
    let received = client.next();
    let Packet::ConnAck(ack) = received.packet() else { panic!() };
    assert_eq!(ack.reason, Reason::BAD_AUTHENTICATION_METHOD);
    assert!(ack.properties.iter().any(|property| matches!(property, Property::ReasonString(_))));
    assert!(client.try_next().is_none());
}

/// It is closed after ten seconds. This test checks that other clients are served meanwhile.
fn connections_without_a_connect(driver: &str) {
    let broker = Broker::start(driver);
    let mut silent = Client::open(&broker, Version::V5);
    silent.send_bytes(b"\x10");
    let mut client = Client::new(&broker, "quick");
    client.subscribe("t", QoS::AtMostOnce);
    client.publish_with("t", "x", Delivery::AtMostOnce, false, &[]);
    client.expect_message("t", "x");
    assert!(silent.try_next().is_none());
}

fn too_many_connections(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-connections", "4", "--workers", "1"]);
    let mut all: Vec<_> = (0..4).map(|n| Client::new(&broker, &format!("c{n}"))).collect();
    for (version, reason) in
        [(Version::V5, Reason::SERVER_BUSY), (Version::V3, Reason::SERVER_UNAVAILABLE)]
    {
        assert_eq!(
            Client::expect_rejection(&broker, &ConnectOptions::new(version, "one more")),
            reason
        );
    }
    let mut more = Client::open(&broker, Version::V5);
    assert!(more.try_next().is_none(), "no answer without a request, and the connection closes");
    all.pop().unwrap().disconnect();
    // The connection slot is free once the broker has noticed the close.
    loop {
        let mut client = Client::open(&broker, Version::V5);
        let mut connect = Vec::new();
        let options = b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00";
        connect.extend_from_slice(options);
        client.send_bytes(&connect);
        match client.next().packet() {
            Packet::ConnAck(ack) if ack.reason == Reason::SERVER_BUSY => (),
            Packet::ConnAck(ack) if ack.reason == Reason::SUCCESS => break,
            other => panic!("{other:?}"),
        }
    }
}

fn clients_are_told_of_the_shutdown(driver: &str) {
    let mut broker = Broker::start(driver);
    let mut client = Client::new(&broker, "there");
    let (mut waiting, _) = Client::connect_with(&broker, &ConnectOptions::persistent("waiting"));
    waiting.subscribe("t", QoS::AtLeastOnce);
    waiting.disconnect();
    broker.ends_well();
    assert_eq!(client.wait_for_close(), Some(Reason::SERVER_SHUTTING_DOWN));
}

#[test]
fn public_addresses_need_authentication() {
    let arguments = ["broker", "--ephemeral", "--listen", "0.0.0.0:0"];
    let output = bare().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("0.0.0.0:0 is reachable from other machines"), "{stderr}");
    let anonymous = ["--allow-anonymous", "--listen", "0.0.0.0:0"];
    Broker::start_with("poll", &anonymous);
}
