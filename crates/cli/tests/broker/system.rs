//! What a broker tells of itself, below `$SYS/broker`.

use phalanx_mqtt::{QoS, SubscribeOptions, Version};

use crate::broker::Broker;
use crate::client::{Begin, Client};

crate::on_each_driver!(what_is_told, not_to_those_who_ask_for_all, nothing_where_none_is_wanted);

/// Waits until `topic` has this value; before that it may have had others.
fn becomes(client: &mut Client, topic: &str, value: &str) {
    loop {
        let came = client.next();
        let message = came.message();
        if (message.topic, message.payload) == (topic, value.as_bytes()) {
            return;
        }
    }
}

fn what_is_told(driver: &str) {
    let broker = Broker::start_with(driver, &["--sys-interval", "1"]);
    let mut client = Client::new(&broker, "reader");
    // It may not have looked yet: then it is told when it does.
    client.subscribe("$SYS/broker/version", QoS::AtMostOnce);
    let version = concat!("phalanx broker ", env!("CARGO_PKG_VERSION"));
    becomes(&mut client, "$SYS/broker/version", version);
    // Now it has, so what is there is sent as what is retained is.
    assert_eq!(client.subscribe_with(&[("$SYS/#", SubscribeOptions::default())], &[]).len(), 1);
    // What changes meanwhile may come first, and is new.
    let came = (0..100).map(|_| client.next()).find(|came| came.message().retain);
    assert!(came.expect("what is retained").message().topic.starts_with("$SYS/broker/"));
    let (mut other, _) = Client::begin(&broker, &Begin::lasting("other"));
    other.subscribe("a/+/c", QoS::AtLeastOnce);
    other.subscribe("b", QoS::AtLeastOnce);
    other.unsubscribe("b");
    other.retain("a/b", "kept");
    other.leave();
    let (_old, _) = Client::begin(&broker, &Begin::of(Version::V3, "old"));
    // Each is asked for anew, as what has not changed is not told again.
    for (topic, value) in [
        ("clients/connected", "2"),
        ("clients/disconnected", "1"),
        ("clients/total", "3"),
        ("publish/messages/received", "1"),
        ("subscriptions/count", "2"),
        ("retained messages/count", "1"),
    ] {
        let topic = format!("$SYS/broker/{topic}");
        let (mut asks, _) = Client::begin(&broker, &Begin::of(Version::V5, "reader"));
        asks.subscribe(&topic, QoS::AtMostOnce);
        becomes(&mut asks, &topic, value);
    }
}

fn not_to_those_who_ask_for_all(driver: &str) {
    let broker = Broker::start_with(driver, &["--sys-interval", "1"]);
    let mut witness = Client::new(&broker, "witness");
    witness.subscribe("$SYS/broker/uptime", QoS::AtMostOnce);
    let mut client = Client::new(&broker, "reader");
    client.subscribe("#", QoS::AtMostOnce);
    client.subscribe("+/broker/#", QoS::AtMostOnce);
    // It has looked again since, twice.
    (0..3).for_each(|_| assert_eq!(witness.next().message().topic, "$SYS/broker/uptime"));
    client.receives_nothing();
}

fn nothing_where_none_is_wanted(driver: &str) {
    let broker = Broker::start_with(driver, &["--sys-interval", "0"]);
    let mut client = Client::new(&broker, "reader");
    client.subscribe("$SYS/#", QoS::AtMostOnce);
    client.receives_nothing();
}
