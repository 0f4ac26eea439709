//! Wills of lost clients.

use phalanx_mqtt::{Disconnect, Packet, Property, QoS, Reason, SubscribeOptions, Version};
use phalanx_testkit::mqtt::{Client, ConnectOptions};

use crate::broker::process::Broker;

crate::on_each_driver!(
    a_lost_connection_publishes_the_will,
    a_disconnect_discards_the_will,
    a_disconnect_with_will_publishes_it,
    reconnecting_within_the_delay_discards_the_will,
    a_delay_ends_with_the_session,
    a_keep_alive_timeout_publishes_the_will,
    no_local_applies_to_the_will,
    wills_have_the_topics_of_messages,
);

fn with_will<'a>(options: ConnectOptions<'a>, properties: Vec<Property<'a>>) -> ConnectOptions<'a> {
    ConnectOptions { will: Some(("wills", "gone", QoS::AtLeastOnce, false, properties)), ..options }
}

/// A broker, and a subscriber to wills.
fn start(driver: &str) -> (Broker, Client) {
    let broker = Broker::start(driver);
    let mut subscriber = Client::new(&broker, "heir");
    subscriber.subscribe("wills", QoS::AtLeastOnce);
    (broker, subscriber)
}

fn a_lost_connection_publishes_the_will(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    for version in [Version::V3, Version::V5] {
        Client::connect_with(&broker, &with_will(ConnectOptions::new(version, "a"), Vec::new()))
            .0
            .drop_connection();
        subscriber.expect_message("wills", "gone");
    }
    // A protocol error has the same effect.
    let mut client = Client::connect_with(
        &broker,
        &with_will(ConnectOptions::new(Version::V5, "a"), Vec::new()),
    )
    .0;
    client.send_bytes(b"\xf0\x01\x00\xff");
    client.wait_for_close();
    subscriber.expect_message("wills", "gone");
}

fn a_disconnect_discards_the_will(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    Client::connect_with(&broker, &with_will(ConnectOptions::new(Version::V5, "a"), Vec::new()))
        .0
        .disconnect();
    subscriber.expect_no_message();
}

fn a_disconnect_with_will_publishes_it(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    let mut client = Client::connect_with(
        &broker,
        &with_will(ConnectOptions::new(Version::V5, "a"), Vec::new()),
    )
    .0;
    client.send(&Packet::Disconnect(Disconnect::new(Reason::DISCONNECT_WITH_WILL)));
    subscriber.expect_message("wills", "gone");
}

fn reconnecting_within_the_delay_discards_the_will(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    let options = || with_will(ConnectOptions::persistent("a"), vec![Property::WillDelay(3600)]);
    Client::connect_with(&broker, &options()).0.drop_connection();
    let (client, present) = Client::connect_with(&broker, &options());
    assert!(present);
    client.disconnect();
    subscriber.expect_no_message();
}

/// The will delay is an hour, but the session expires after a second.
fn a_delay_ends_with_the_session(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    let properties = vec![Property::SessionExpiry(1)];
    let options = ConnectOptions { properties, ..ConnectOptions::new(Version::V5, "a") };
    let delay = vec![Property::WillDelay(3600), Property::User("why", "it knows")];
    Client::connect_with(&broker, &with_will(options, delay)).0.drop_connection();
    let received = subscriber.next();
    assert_eq!(received.message().payload, b"gone");
    let properties: Vec<_> = received.message().properties.iter().collect();
    assert_eq!(properties, [Property::User("why", "it knows")], "the broker applies the delay");
}

fn a_keep_alive_timeout_publishes_the_will(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    let options = ConnectOptions { keep_alive: 1, ..ConnectOptions::new(Version::V5, "a") };
    let mut client = Client::connect_with(&broker, &with_will(options, Vec::new())).0;
    assert_eq!(client.wait_for_close(), Some(Reason::KEEP_ALIVE_TIMEOUT));
    subscriber.expect_message("wills", "gone");
}

fn no_local_applies_to_the_will(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    for no_local in [true, false] {
        let begin = with_will(
            ConnectOptions { clean: true, ..ConnectOptions::persistent("a") },
            Vec::new(),
        );
        let mut client = Client::connect_with(&broker, &begin).0;
        let qos = QoS::AtLeastOnce;
        let options = SubscribeOptions { qos, no_local, ..SubscribeOptions::default() };
        client.subscribe_with(&[("wills", options)], &[]);
        client.drop_connection();
        subscriber.expect_message("wills", "gone");
        let (mut client, present) = Client::connect_with(&broker, &ConnectOptions::persistent("a"));
        assert!(present);
        match no_local {
            true => client.expect_no_message(),
            false => client.expect_message("wills", "gone"),
        }
        client.disconnect();
    }
}

fn wills_have_the_topics_of_messages(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    subscriber.subscribe("$own/#", QoS::AtMostOnce);
    let options = |topic| ConnectOptions {
        will: Some((topic, "gone", QoS::AtMostOnce, false, Vec::new())),
        ..ConnectOptions::new(Version::V5, "a")
    };
    Client::connect_with(&broker, &options("$own/t")).0.drop_connection();
    subscriber.expect_message("$own/t", "gone");
    for topic in ["$SYS", "$SYS/t"] {
        assert_eq!(
            Client::expect_rejection(&broker, &options(topic)),
            Reason::TOPIC_NAME_INVALID,
            "{topic}"
        );
    }
}
