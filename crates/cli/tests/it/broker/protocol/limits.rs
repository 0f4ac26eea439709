//! Limits on clients, and their enforcement.

use std::fs;
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use phalanx_mqtt::{Delivery, Packet, QoS, Reason, SubscribeOptions, Version};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};

use crate::broker::process::Broker;

crate::on_each_driver!(
    subscriptions_of_a_client,
    connections_of_an_address,
    the_connection_rate_of_an_address,
    the_message_rate_of_a_client,
    the_oldest_message_is_dropped,
    more_clients_than_descriptors,
    large_payloads_are_read_one_after_another,
    a_client_that_does_not_read_is_reset,
);

fn subscriptions_of_a_client(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-subscriptions", "2"]);
    let mut client = Client::new(&broker, "a");
    let options = SubscribeOptions::default();
    let subscriptions = [("1", options), ("2", options), ("3", options), ("1", options)];
    let success = Reason::SUCCESS;
    assert_eq!(
        client.subscribe_with(&subscriptions, &[]),
        [success, success, Reason::QUOTA_EXCEEDED, success]
    );
    client.unsubscribe("1");
    assert_eq!(client.subscribe_with(&subscriptions[2..3], &[]), [success]);
}

fn connections_of_an_address(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-connections-per-address", "2"]);
    let first = Client::new(&broker, "1");
    let _second = Client::new(&broker, "2");
    for version in [Version::V3, Version::V5] {
        let refused = Client::expect_rejection(&broker, &ConnectOptions::new(version, "3"));
        let expected = match version {
            Version::V3 => Reason::SERVER_UNAVAILABLE,
            Version::V5 => Reason::QUOTA_EXCEEDED,
        };
        assert_eq!(refused, expected);
    }
    first.disconnect();
    // The connection slot is free once the broker has noticed the close.
    eventually("a free connection slot", || {
        let mut client = Client::open(&broker, Version::V5);
        client.send_connect(&ConnectOptions::new(Version::V5, "3"));
        let received = client.next();
        matches!(received.packet(), Packet::ConnAck(ack) if !ack.reason.is_failure()).then_some(())
    });
}

fn the_connection_rate_of_an_address(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-connection-rate", "2"]);
    let start = Instant::now();
    let mut clients = Vec::new();
    let refused = loop {
        let mut client = Client::open(&broker, Version::V5);
        client.send_connect(&ConnectOptions::new(Version::V5, &format!("c{}", clients.len())));
        let received = client.next();
        let Packet::ConnAck(ack) = received.packet() else { panic!("{received:?}") };
        if ack.reason.is_failure() {
            break ack.reason;
        }
        clients.push(client);
        // The allowed number until now: a sufficiently slow machine never exceeds the rate.
        assert!(clients.len() as f64 <= 3.0 + 2.0 * start.elapsed().as_secs_f64());
    };
    assert_eq!(refused, Reason::CONNECTION_RATE_EXCEEDED);
    // Existing connections remain.
    let client = &mut clients[0];
    client.subscribe("t", QoS::AtMostOnce);
    client.publish_with("t", "x", Delivery::AtMostOnce, false, &[]);
    client.expect_message("t", "x");
    eventually("another", || {
        let mut client = Client::open(&broker, Version::V5);
        client.send_connect(&ConnectOptions::new(Version::V5, "later"));
        let received = client.next();
        matches!(received.packet(), Packet::ConnAck(ack) if !ack.reason.is_failure()).then_some(())
    });
}

fn the_message_rate_of_a_client(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-message-rate", "100"]);
    let mut client = Client::new(&broker, "a");
    let start = Instant::now();
    for n in 1..=250 {
        client.publish_with("t", "x", Delivery::AtLeastOnce(id(n)), false, &[]);
    }
    for _ in 1..=250 {
        assert!(matches!(client.next().packet(), Packet::PubAck(_)));
    }
    // These may have passed at once. Later packets are not read before they are within the rate.
    client.publish("t", "x");
    assert!(start.elapsed() >= Duration::from_millis(1500), "{:?}", start.elapsed());
    // Other clients are not affected.
    Client::new(&broker, "b").publish("t", "x");
}

/// A client that does not read receives the newest messages.
fn the_oldest_message_is_dropped(driver: &str) {
    let broker = Broker::start_with(driver, &["--max-queued-messages", "10", "--drop-oldest"]);
    let mut slow = Client::new(&broker, "slow");
    slow.subscribe("t", QoS::AtMostOnce);
    let mut publisher = Client::new(&broker, "publisher");
    // More than the socket buffers hold.
    let large = "x".repeat(200_000);
    for _ in 0..200 {
        publisher.publish_with("t", &large, Delivery::AtMostOnce, false, &[]);
    }
    publisher.publish_with("t", "last", Delivery::AtMostOnce, false, &[]);
    publisher.publish("elsewhere", "all is routed");
    let mut count = 0;
    loop {
        let received = slow.next();
        count += 1;
        if received.message().payload == b"last" {
            break;
        }
    }
    assert!(count < 200, "nothing was dropped");
}

/// Connections beyond the descriptor limit are rejected rather than left in the accept queue.
fn more_clients_than_descriptors(driver: &str) {
    let broker = Broker::start_limited(driver, 64);
    let all: Vec<_> = (0..32).map(|n| Client::new(&broker, &format!("c{n}"))).collect();
    for _ in 0..8 {
        let refused = Client::expect_rejection(&broker, &ConnectOptions::new(Version::V5, "late"));
        assert_eq!(refused, Reason::SERVER_BUSY);
    }
    all.into_iter().for_each(Client::disconnect);
    eventually("a free connection slot", || {
        let mut client = Client::open(&broker, Version::V5);
        client.send_connect(&ConnectOptions::new(Version::V5, "after"));
        let received = client.next();
        matches!(received.packet(), Packet::ConnAck(ack) if !ack.reason.is_failure()).then_some(())
    });
}

/// Several clients publish more JSON than the broker reads without a pause.
fn large_payloads_are_read_one_after_another(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("t/+?$json&n>=0", QoS::AtMostOnce);
    let text = "x".repeat(600 << 10);
    let mut writers = [0, 1, 2, 3].map(|n| Client::new(&broker, &format!("writer {n}")));
    for round in 0..4 {
        let payload = format!("{{\"text\":\"{text}\",\"n\":{round}}}");
        for (n, writer) in writers.iter_mut().enumerate() {
            let delivery = Delivery::AtLeastOnce(id(round + 1));
            writer.publish_with(&format!("t/{n}"), &payload, delivery, false, &[]);
        }
    }
    let mut received = [0; 4];
    for _ in 0..16 {
        let packet = reader.next();
        let message = packet.message();
        let writer: usize = message.topic["t/".len()..].parse().unwrap();
        let end = format!("\"n\":{}}}", received[writer]);
        assert!(message.payload.ends_with(end.as_bytes()), "{}: {end}", message.topic);
        received[writer] += 1;
    }
    for writer in &mut writers {
        (0..4).for_each(|_| assert_eq!(writer.expect_puback(), Reason::SUCCESS));
    }
}

/// The kernel does not keep the unsent output of a client that was disconnected because it does not read.
fn a_client_that_does_not_read_is_reset(driver: &str) {
    let broker = Broker::start_with(driver, &["--send-timeout", "100ms"]);
    let mut subscriber = Client::new(&broker, "heir");
    subscriber.subscribe("wills", QoS::AtMostOnce);
    let will = Some(("wills", "gone", QoS::AtMostOnce, false, Vec::new()));
    let mut slow = Client::connect_with(
        &broker,
        &ConnectOptions { will, ..ConnectOptions::new(Version::V5, "slow") },
    )
    .0;
    slow.subscribe("much", QoS::AtMostOnce);
    let mut slow = slow.into_stream();
    let (mut writer, payload) = (Client::new(&broker, "writer"), "x".repeat(200 << 10));
    // More than the buffers of both sockets hold.
    for _ in 0..100 {
        writer.publish_with("much", &payload, Delivery::AtMostOnce, false, &[]);
    }
    subscriber.expect_message("wills", "gone");
    let ports = (broker.address.port(), slow.local_addr().unwrap().port());
    eventually("the end of the connection in the kernel", || {
        let all = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let is_own = |line: &str| {
            let mut fields = line.split_whitespace().skip(1);
            let mut ends_with =
                |port: u16| fields.next()?.ends_with(&format!(":{port:04X}")).then_some(());
            ends_with(ports.0).is_some() && ends_with(ports.1).is_some()
        };
        (!all.lines().any(is_own)).then_some(())
    });
    let error = slow.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}
