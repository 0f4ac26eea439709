//! Wills of lost clients.

use phalanx_mqtt::{Disconnect, Packet, Property, QoS, Reason, SubscribeOptions, Version};
use phalanx_testkit::mqtt::{Begin, Client};

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

fn with_will<'a>(begin: Begin<'a>, properties: Vec<Property<'a>>) -> Begin<'a> {
    Begin { will: Some(("wills", "gone", QoS::AtLeastOnce, false, properties)), ..begin }
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
        Client::begin(&broker, &with_will(Begin::of(version, "a"), Vec::new())).0.drop_connection();
        subscriber.receives("wills", "gone");
    }
    // A protocol error has the same effect.
    let mut client = Client::begin(&broker, &with_will(Begin::of(Version::V5, "a"), Vec::new())).0;
    client.send_bytes(b"\xf0\x01\x00\xff");
    client.ended();
    subscriber.receives("wills", "gone");
}

fn a_disconnect_discards_the_will(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    Client::begin(&broker, &with_will(Begin::of(Version::V5, "a"), Vec::new())).0.leave();
    subscriber.receives_nothing();
}

fn a_disconnect_with_will_publishes_it(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    let mut client = Client::begin(&broker, &with_will(Begin::of(Version::V5, "a"), Vec::new())).0;
    client.say(&Packet::Disconnect(Disconnect::because(Reason::DISCONNECT_WITH_WILL)));
    subscriber.receives("wills", "gone");
}

fn reconnecting_within_the_delay_discards_the_will(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    let begin = || with_will(Begin::lasting("a"), vec![Property::WillDelay(3600)]);
    Client::begin(&broker, &begin()).0.drop_connection();
    let (client, present) = Client::begin(&broker, &begin());
    assert!(present);
    client.leave();
    subscriber.receives_nothing();
}

/// The will delay is an hour, but the session expires after a second.
fn a_delay_ends_with_the_session(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    let properties = vec![Property::SessionExpiry(1)];
    let begin = Begin { properties, ..Begin::of(Version::V5, "a") };
    let delay = vec![Property::WillDelay(3600), Property::User("why", "it knows")];
    Client::begin(&broker, &with_will(begin, delay)).0.drop_connection();
    let received = subscriber.next();
    assert_eq!(received.message().payload, b"gone");
    let properties: Vec<_> = received.message().properties.iter().collect();
    assert_eq!(properties, [Property::User("why", "it knows")], "the broker applies the delay");
}

fn a_keep_alive_timeout_publishes_the_will(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    let begin = Begin { keep_alive: 1, ..Begin::of(Version::V5, "a") };
    let mut client = Client::begin(&broker, &with_will(begin, Vec::new())).0;
    assert_eq!(client.ended(), Some(Reason::KEEP_ALIVE_TIMEOUT));
    subscriber.receives("wills", "gone");
}

fn no_local_applies_to_the_will(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    for no_local in [true, false] {
        let begin = with_will(Begin { clean: true, ..Begin::lasting("a") }, Vec::new());
        let mut client = Client::begin(&broker, &begin).0;
        let qos = QoS::AtLeastOnce;
        let options = SubscribeOptions { qos, no_local, ..SubscribeOptions::default() };
        client.subscribe_with(&[("wills", options)], &[]);
        client.drop_connection();
        subscriber.receives("wills", "gone");
        let (mut client, present) = Client::begin(&broker, &Begin::lasting("a"));
        assert!(present);
        match no_local {
            true => client.receives_nothing(),
            false => client.receives("wills", "gone"),
        }
        client.leave();
    }
}

fn wills_have_the_topics_of_messages(driver: &str) {
    let (broker, mut subscriber) = start(driver);
    subscriber.subscribe("$own/#", QoS::AtMostOnce);
    let begin = |topic| Begin {
        will: Some((topic, "gone", QoS::AtMostOnce, false, Vec::new())),
        ..Begin::of(Version::V5, "a")
    };
    Client::begin(&broker, &begin("$own/t")).0.drop_connection();
    subscriber.receives("$own/t", "gone");
    for topic in ["$SYS", "$SYS/t"] {
        assert_eq!(
            Client::expect_rejection(&broker, &begin(topic)),
            Reason::TOPIC_NAME_INVALID,
            "{topic}"
        );
    }
}
