//! Drops are counted by reason, in `$SYS` and `/metrics`, and logged.

use std::net::SocketAddr;

use phalanx_mqtt::{Delivery, Packet, Property, QoS, Reason, SubscribeOptions, Version};
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};
use phalanx_testkit::{eventually, http};

use crate::broker::process::Broker;

crate::on_one_driver!(
    retained_messages_beyond_the_bound,
    dropped_messages_are_counted,
    messages_that_are_being_sent_are_counted,
);

/// A broker with these keys in its file, and its admin address.
fn start(driver: &str, keys: &str) -> (Broker, SocketAddr) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let base = "listen = \"127.0.0.1:0\"\nsys-interval = \"1s\"";
    let text = format!("{base}\n{keys}\n[runtime]\nadmin = \"127.0.0.1:0\"\n");
    std::fs::write(file.path(), text).unwrap();
    let broker = Broker::start_by(driver, file.path());
    let admin = broker.admin();
    (broker, admin)
}

/// The answer to `/metrics`.
fn metrics(admin: SocketAddr) -> String {
    http::get(admin, "/metrics").text().to_owned()
}

/// The count of messages dropped for this reason.
fn dropped(admin: SocketAddr, reason: &str) -> u64 {
    let metrics_text = metrics(admin);
    let name = format!("mqtt_messages_dropped_total{{reason=\"{reason}\"}} ");
    let families = metrics_text.matches("# TYPE mqtt_messages_dropped counter").count();
    assert_eq!(families, 1, "{metrics_text}");
    let line = metrics_text.lines().find_map(|line| line.strip_prefix(&name)).expect(&metrics_text);
    line.parse().unwrap()
}

/// Waits until the topic below `$SYS` has this value.
fn assert_logged(broker: &Broker, topic: &str, value: &str) {
    let mut client = Client::new(broker, "asks");
    client.subscribe(&format!("$SYS/broker/{topic}"), QoS::AtMostOnce);
    while client.next().message().payload != value.as_bytes() {}
}

fn retained_messages_beyond_the_bound(driver: &str) {
    const SENT: u64 = 1000;
    let (broker, admin) = start(driver, "max-retained = 300");
    let mut client = Client::new(&broker, "writer");
    for n in 0..SENT {
        client.publish_with(&format!("kept/{n}"), "x", Delivery::AtMostOnce, true, &[]);
    }
    // The publisher gets a reason code where the protocol has one, and the drop is counted as well.
    client.publish_with("kept/more", "x", Delivery::AtLeastOnce(id(1)), true, &[]);
    assert_eq!(client.expect_puback(), Reason::QUOTA_EXCEEDED);
    assert_eq!(dropped(admin, "retained_full"), SENT + 1 - 300);
    let metrics_text = metrics(admin);
    assert!(metrics_text.contains("# TYPE mqtt_retained_messages gauge\n"), "{metrics_text}");
    assert!(metrics_text.contains("\nmqtt_retained_messages 300\n"), "{metrics_text}");
    assert!(metrics_text.contains("\nmqtt_connections 1\n"), "{metrics_text}");
    assert_logged(&broker, "dropped/retained_full", "701");
    assert_logged(&broker, "publish/messages/dropped", "701");
    assert_logged(&broker, "retained messages/count", "300");
    let stderr = eventually("a line", || {
        let stderr = broker.stderr();
        stderr.contains("messages, retained_full: ").then_some(stderr)
    });
    assert!(
        stderr.contains("max-retained") && stderr.contains("the first was \"kept/300\""),
        "{stderr}"
    );
    assert!(stderr.lines().count() < 10, "{stderr}");
}

fn dropped_messages_are_counted(driver: &str) {
    let rules = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(rules.path(), "topic readwrite open/#\n").unwrap();
    let keys = format!("max-queued-messages = 5\nacl-file = {:?}", rules.path());
    let (broker, admin) = start(driver, &keys);
    let mut writer = Client::new(&broker, "writer");
    // There is no reason code at QoS 0 and in 3.1.1.
    writer.publish_with("closed", "x", Delivery::AtMostOnce, false, &[]);
    assert_eq!(writer.publish("closed", "x"), Reason::NOT_AUTHORIZED);
    let mut old = Client::connect_with(&broker, &ConnectOptions::new(Version::V3, "old")).0;
    assert_eq!(old.publish("closed", "x"), Reason::SUCCESS);
    assert_eq!(dropped(admin, "not_authorized"), 3);
    // They count for max-message-rate too.
    assert!(metrics(admin).contains("\nmqtt_messages_received_total 3\n"), "{}", metrics(admin));
    let closed = writer.subscribe_with(&[("closed", SubscribeOptions::default())], &[]);
    assert_eq!(closed, [Reason::NOT_AUTHORIZED]);
    let metrics_text = metrics(admin);
    let line = "mqtt_subscriptions_rejected_total{reason=\"subscription_not_authorized\"} 1";
    assert!(metrics_text.contains(line), "{metrics_text}");
    // A disconnected client, and one with a small maximum packet size.
    let (mut offline, _) = Client::connect_with(&broker, &ConnectOptions::persistent("away"));
    offline.subscribe("open/+", QoS::AtLeastOnce);
    offline.disconnect();
    let short = vec![Property::MaximumPacketSize(100)];
    let mut small = Client::connect_with(
        &broker,
        &ConnectOptions { properties: short, ..ConnectOptions::new(Version::V5, "small") },
    )
    .0;
    small.subscribe("open/long", QoS::AtMostOnce);
    writer.publish_with("open/a", "x", Delivery::AtMostOnce, false, &[]);
    writer.publish("open/long", &"x".repeat(200));
    for _ in 0..7 {
        writer.publish("open/a", "x");
    }
    let expected = [("offline", 1), ("packet_too_large", 1), ("queue_full", 3)];
    for (reason, count) in expected {
        eventually(reason, || (dropped(admin, reason) == count).then_some(()));
    }
    // The queue is dropped with the session.
    let begin = ConnectOptions { clean: true, ..ConnectOptions::persistent("away") };
    let (mut offline, _) = Client::connect_with(&broker, &begin);
    assert_eq!(dropped(admin, "session_ended"), 5);
    // A SUBSCRIBE receives as many retained messages as its queue holds, which is more for small ones: here all
    // of them.
    writer.retain("open/kept", "x");
    let options = SubscribeOptions::default();
    assert_eq!(offline.subscribe_with(&[("open/kept", options)], &[]), [Reason::SUCCESS]);
    assert!(matches!(offline.next().packet(), Packet::Publish(_)));
    assert_eq!(dropped(admin, "retained_left_out"), 0);
}

/// One message, which the socket's buffers do not hold, for a client that does not read it.
fn messages_that_are_being_sent_are_counted(driver: &str) {
    let (broker, admin) = start(driver, "max-packet-size = \"64M\"");
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("t", QoS::AtMostOnce);
    Client::new(&broker, "writer").publish("t", &"x".repeat(32 << 20));
    let sent = || metrics(admin).contains("\nmqtt_messages_delivered_total 1\n");
    eventually("the message is sent", || sent().then_some(()));
    drop(reader);
    eventually("its loss is counted", || (dropped(admin, "connection_lost") == 1).then_some(()));
}
