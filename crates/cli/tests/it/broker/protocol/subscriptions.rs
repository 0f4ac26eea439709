//! Delivery by filters, options, identifiers and groups.

use phalanx_mqtt::{Delivery, Property, QoS, Reason, SubscribeOptions, Version};
use phalanx_testkit::mqtt::{Client, ConnectOptions, identifiers};

use crate::broker::process::Broker;

crate::on_one_driver!(
    wildcards_match,
    one_message_for_all_subscriptions_of_a_client,
    no_local,
    a_subscription_is_replaced,
    unsubscribing_ends_delivery,
    a_group_shares_messages,
    properties_are_passed_on,
    no_subscribers,
);

const PLAIN: SubscribeOptions = SubscribeOptions {
    qos: QoS::AtMostOnce,
    no_local: false,
    retain_as_published: false,
    retain_handling: phalanx_mqtt::RetainHandling::Send,
};

fn wildcards_match(driver: &str) {
    let broker = Broker::start(driver);
    let mut publisher = Client::new(&broker, "writer");
    for (filter, expected, unwanted) in
        [("a/+/c", "a/b/c", "a/b/d"), ("b/#", "b", "c"), ("+/+", "/x", "x"), ("#", "y", "$SYS/y")]
    {
        let mut subscriber = Client::new(&broker, "reader");
        subscriber.subscribe(filter, QoS::AtMostOnce);
        publisher.publish(unwanted, "no");
        publisher.publish(expected, "yes");
        subscriber.expect_message(expected, "yes");
        subscriber.disconnect();
    }
}

fn one_message_for_all_subscriptions_of_a_client(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "reader");
    for (filter, qos, number) in
        [("a/#", QoS::AtMostOnce, 5), ("a/+", QoS::AtLeastOnce, 6), ("+/b", QoS::AtMostOnce, 200)]
    {
        let identifier = [Property::SubscriptionIdentifier(number)];
        client.subscribe_with(&[(filter, SubscribeOptions { qos, ..PLAIN })], &identifier);
    }
    let mut publisher = Client::new(&broker, "writer");
    publisher.publish("a/b", "once");
    let received = client.next();
    let message = received.message();
    assert_eq!(message.delivery.qos(), QoS::AtLeastOnce, "the highest of them");
    assert_eq!(identifiers(&message), [5, 6, 200]);
    client.expect_no_message();
}

fn no_local(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "both");
    let own = SubscribeOptions { no_local: true, ..PLAIN };
    client.subscribe_with(&[("t", own)], &[]);
    assert_eq!(client.publish("t", "mine"), Reason::NO_MATCHING_SUBSCRIBERS);
    Client::new(&broker, "other").publish("t", "another's");
    client.expect_message("t", "another's");
    // Invalid for a shared subscription. The others of the packet, which is processed in parts, are not made either.
    let filters: Vec<_> = (0..5000).map(|n| format!("f/{n}")).collect();
    let mut subscriptions: Vec<_> = filters.iter().map(|filter| (filter.as_str(), PLAIN)).collect();
    subscriptions.push(("$share/g/t", own));
    let mut client = Client::connect_with(&broker, &ConnectOptions::persistent("lasting")).0;
    client.send_subscribe(&subscriptions);
    assert_eq!(client.wait_for_close(), Some(Reason::PROTOCOL_ERROR));
    let none = Client::new(&broker, "other").publish("f/0", "x");
    assert_eq!(none, Reason::NO_MATCHING_SUBSCRIBERS);
}

fn a_subscription_is_replaced(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "reader");
    client.subscribe("t", QoS::AtMostOnce);
    client.subscribe("t", QoS::AtLeastOnce);
    let mut publisher = Client::new(&broker, "writer");
    publisher.publish("t", "once");
    assert_eq!(client.next().message().delivery.qos(), QoS::AtLeastOnce);
    client.expect_no_message();
}

fn unsubscribing_ends_delivery(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "reader");
    client.subscribe("t", QoS::AtMostOnce);
    assert_eq!(client.unsubscribe("t"), [Reason::SUCCESS]);
    assert_eq!(client.unsubscribe("t"), [Reason::NO_SUBSCRIPTION_EXISTED]);
    Client::new(&broker, "writer").publish("t", "too late");
    client.expect_no_message();
}

/// Each message goes to one member of the group, and all members get some.
fn a_group_shares_messages(driver: &str) {
    let broker = Broker::start(driver);
    let mut members: Vec<_> = ["a", "b", "c"].map(|name| Client::new(&broker, name)).into();
    members.iter_mut().for_each(|member| member.subscribe("$share/g/jobs/#", QoS::AtMostOnce));
    let mut single_reader = Client::new(&broker, "alone");
    single_reader.subscribe("jobs/#", QoS::AtMostOnce);
    let mut publisher = Client::new(&broker, "writer");
    for n in 0..30 {
        publisher.publish("jobs/x", &n.to_string());
    }
    (0..30).for_each(|n| single_reader.expect_message("jobs/x", &n.to_string()));
    let mut all = Vec::new();
    for member in &mut members {
        for _ in 0..10 {
            let received = member.next();
            all.push(
                std::str::from_utf8(received.message().payload).unwrap().parse::<u32>().unwrap(),
            );
        }
        member.expect_no_message();
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..30));
    // A disconnected member gets no further messages.
    members.pop().unwrap().disconnect();
    for n in 0..10 {
        publisher.publish("jobs/x", &n.to_string());
    }
    for member in &mut members {
        (0..5).for_each(|_| drop(member.next()));
        member.expect_no_message();
    }
}

fn properties_are_passed_on(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("t", QoS::AtMostOnce);
    let mut old = Client::connect_with(&broker, &ConnectOptions::new(Version::V3, "old")).0;
    old.subscribe("t", QoS::AtMostOnce);
    let mut publisher = Client::new(&broker, "writer");
    let passed = [
        Property::User("unit", "°C"),
        Property::User("unit", "K"),
        Property::ContentType("text/plain"),
        Property::PayloadIsText(true),
        Property::ResponseTopic("answers"),
        Property::CorrelationData(b"\0\x01"),
    ];
    let all: Vec<_> = passed.iter().copied().chain([Property::MessageExpiry(60)]).collect();
    publisher.publish_with("t", "21", Delivery::AtMostOnce, false, &all);
    let received = reader.next();
    let (expiry, rest): (Vec<_>, Vec<_>) = received
        .message()
        .properties
        .iter()
        .partition(|property| matches!(property, Property::MessageExpiry(_)));
    assert_eq!(rest, passed);
    assert!(matches!(expiry[..], [Property::MessageExpiry(1..=60)]), "{expiry:?}");
    old.expect_message("t", "21");
}

fn no_subscribers(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "writer");
    assert_eq!(client.publish("nobody/listens", "x"), Reason::NO_MATCHING_SUBSCRIBERS);
    client.subscribe("nobody/#", QoS::AtMostOnce);
    client.publish_with("nobody/listens", "y", Delivery::AtMostOnce, false, &[]);
    client.expect_message("nobody/listens", "y");
}
