//! The topics below `$SYS/broker`.

use phalanx_mqtt::{QoS, SubscribeOptions, Version};
use phalanx_testkit::mqtt::{Client, ConnectOptions};

use crate::broker::process::Broker;

crate::on_one_driver!(
    system_topics_are_published,
    not_matched_by_a_leading_wildcard,
    disabled_by_an_interval_of_zero
);

/// Waits until `topic` has this value; earlier values are ignored.
fn becomes(client: &mut Client, topic: &str, value: &str) {
    loop {
        let received = client.next();
        let message = received.message();
        if (message.topic, message.payload) == (topic, value.as_bytes()) {
            return;
        }
    }
}

fn system_topics_are_published(driver: &str) {
    let broker = Broker::start_with(driver, &["--sys-interval", "1s"]);
    let mut client = Client::new(&broker, "reader");
    // Before the first update there is no retained value; it is published with the update.
    client.subscribe("$SYS/broker/version", QoS::AtMostOnce);
    let version = concat!("phalanx broker ", env!("CARGO_PKG_VERSION"));
    becomes(&mut client, "$SYS/broker/version", version);
    // From now on the values are retained messages.
    assert_eq!(client.subscribe_with(&[("$SYS/#", SubscribeOptions::default())], &[]).len(), 1);
    // Updates may arrive before the retained message, without the retain flag.
    let received = (0..100).map(|_| client.next()).find(|received| received.message().retain);
    assert!(received.expect("what is retained").message().topic.starts_with("$SYS/broker/"));
    let (mut other, _) = Client::connect_with(&broker, &ConnectOptions::persistent("other"));
    other.subscribe("a/+/c", QoS::AtLeastOnce);
    other.subscribe("b", QoS::AtLeastOnce);
    other.unsubscribe("b");
    other.retain("a/b", "kept");
    other.disconnect();
    let (_old, _) = Client::connect_with(&broker, &ConnectOptions::new(Version::V3, "old"));
    // Subscribe to each separately, since unchanged values are not published again.
    for (topic, value) in [
        ("clients/connected", "2"),
        ("clients/disconnected", "1"),
        ("clients/total", "3"),
        ("publish/messages/received", "1"),
        ("subscriptions/count", "2"),
        ("retained messages/count", "1"),
    ] {
        let topic = format!("$SYS/broker/{topic}");
        let (mut requester, _) =
            Client::connect_with(&broker, &ConnectOptions::new(Version::V5, "reader"));
        requester.subscribe(&topic, QoS::AtMostOnce);
        becomes(&mut requester, &topic, value);
    }
}

fn not_matched_by_a_leading_wildcard(driver: &str) {
    let broker = Broker::start_with(driver, &["--sys-interval", "1s"]);
    let mut observer = Client::new(&broker, "witness");
    observer.subscribe("$SYS/broker/uptime", QoS::AtMostOnce);
    let mut client = Client::new(&broker, "reader");
    client.subscribe("#", QoS::AtMostOnce);
    client.subscribe("+/broker/#", QoS::AtMostOnce);
    // Two updates have occurred since.
    (0..3).for_each(|_| assert_eq!(observer.next().message().topic, "$SYS/broker/uptime"));
    client.expect_no_message();
}

fn disabled_by_an_interval_of_zero(driver: &str) {
    let broker = Broker::start_with(driver, &["--sys-interval", "0"]);
    let mut client = Client::new(&broker, "reader");
    client.subscribe("$SYS/#", QoS::AtMostOnce);
    client.expect_no_message();
}
