//! Nodes forward messages to the nodes that want them.

use std::time::Duration;

use phalanx_broker::Config;
use phalanx_mqtt::{Ack, Delivery, Packet, Property, QoS, Reason};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, id, identifiers};

use super::{await_interest, await_lanes, cluster, cluster_of, node_config};
use crate::bridges::{ALL_QOS, Node, next, publish};

const NOBODY: Reason = Reason::NO_MATCHING_SUBSCRIBERS;

#[test]
fn messages_pass_with_all_properties() {
    let Some((_nats, nodes)) = cluster(&["a", "b", "c"]) else { return };
    let mut subscriber = Client::new(nodes[1].address, "subscriber");
    subscriber.subscribe("t/#", QoS::ExactlyOnce);
    let mut publisher = Client::new(nodes[0].address, "publisher");
    for (n, qos) in ALL_QOS.into_iter().enumerate() {
        publish(&mut publisher, &format!("t/{n}"), "payload", qos, false);
        let expected = (format!("t/{n}"), "payload".to_owned(), qos, false);
        assert_eq!(next(&mut subscriber), expected);
    }
    let properties = [
        Property::PayloadIsText(true),
        Property::MessageExpiry(1000),
        Property::ContentType("text/plain"),
        Property::ResponseTopic("answers"),
        Property::CorrelationData(b"7"),
        Property::User("a", "1"),
        Property::User("a", "2"),
    ];
    publisher.publish_with("t/x", "payload", Delivery::AtMostOnce, false, &properties);
    let received = subscriber.next();
    let message = received.message();
    let found: Vec<_> = message.properties.iter().collect();
    for property in
        properties.iter().filter(|property| !matches!(property, Property::MessageExpiry(_)))
    {
        assert!(found.contains(property), "{property:?} is not in {found:?}");
    }
    assert!(found.iter().any(|property| matches!(property, Property::MessageExpiry(990..=1000))));
    assert!(identifiers(&message).is_empty());
    assert_eq!(publisher.publish("elsewhere", ""), NOBODY);
    // The filter is removed from all nodes with its last subscription.
    subscriber.unsubscribe("t/#");
    eventually("the filter ends", || (publisher.publish("t/x", "") == NOBODY).then_some(()));
    subscriber.expect_no_message();
    // A large message takes several NATS messages.
    subscriber.subscribe("t/#", QoS::AtLeastOnce);
    let large = "x".repeat(900_000);
    for n in 0..5 {
        assert_eq!(publisher.publish(&format!("t/{n}"), &large), Reason::SUCCESS);
    }
    (0..5).for_each(|n| subscriber.expect_message(&format!("t/{n}"), &large));
}

#[test]
fn a_message_may_exceed_the_window() {
    let large = |config: &mut Config| config.limits.packet_size = 4 << 20;
    let Some((_nats, nodes)) = cluster_of(&["a", "b"], large) else { return };
    let mut subscriber = Client::new(nodes[1].address, "subscriber");
    subscriber.subscribe("t", QoS::AtLeastOnce);
    let mut publisher = Client::new(nodes[0].address, "publisher");
    let large = "x".repeat(2 << 20);
    for _ in 0..3 {
        assert_eq!(publisher.publish("t", &large), Reason::SUCCESS);
        subscriber.expect_message("t", &large);
    }
}

#[test]
fn subscribers_get_what_is_published_after_their_suback() {
    let Some((_nats, nodes)) = cluster(&["a", "b"]) else { return };
    let mut publishers =
        [0, 1].map(|n: usize| Client::new(nodes[n].address, &format!("publisher-{n}")));
    for n in 0..50 {
        let (topic, at) = (format!("fresh/{n}"), n % 2);
        let mut subscriber = Client::new(nodes[1 - at].address, &format!("subscriber-{n}"));
        subscriber.subscribe(&topic, QoS::AtLeastOnce);
        assert_eq!(publishers[at].publish(&topic, "x"), Reason::SUCCESS);
        subscriber.expect_message(&topic, "x");
    }
}

#[test]
fn conditions_are_tested_before_a_message_is_forwarded() {
    let Some((_nats, nodes)) = cluster(&["a", "b"]) else { return };
    let mut publisher = Client::new(nodes[0].address, "publisher");
    let mut publish_value = |value: &str| {
        let properties = [Property::User("v", value)];
        publisher.publish_with("t", value, Delivery::AtLeastOnce(id(1)), false, &properties);
        publisher.expect_puback()
    };
    let mut subscriber = Client::new(nodes[1].address, "subscriber");
    subscriber.subscribe("$where/v > 5/t", QoS::AtLeastOnce);
    assert_eq!((publish_value("5"), publish_value("6")), (NOBODY, Reason::SUCCESS));
    subscriber.expect_message("t", "6");
    for n in 100..200 {
        subscriber.subscribe(&format!("$where/v = {n}/t"), QoS::AtLeastOnce);
    }
    assert_eq!(publish_value("3"), NOBODY);
    // Beyond the bound on computed conditions, only the subscriber's node tests them.
    for n in 100..200 {
        subscriber.subscribe(&format!("$where/v - 0 = {n}/t"), QoS::AtLeastOnce);
    }
    assert_eq!((publish_value("4"), publish_value("7")), (Reason::SUCCESS, Reason::SUCCESS));
    subscriber.expect_message("t", "7");
    subscriber.expect_no_message();
}

#[test]
fn one_member_of_a_group_gets_each_message() {
    let Some((_nats, nodes)) = cluster(&["a", "b", "c"]) else { return };
    let filters = ["$share/g/t/#", "$share/h/$where/v = 1/t/+"];
    let mut members = Vec::new();
    for (n, node) in nodes.iter().enumerate() {
        for filter in filters {
            let mut member = Client::new(node.address, &format!("member-{n}-{filter}"));
            member.subscribe(filter, QoS::AtLeastOnce);
            members.push((member, filter));
        }
    }
    let mut other = Client::new(nodes[1].address, "other");
    other.subscribe("t/#", QoS::AtLeastOnce);
    other.subscribe("end", QoS::AtLeastOnce);
    let mut publisher = Client::new(nodes[0].address, "publisher");
    for n in 0..60 {
        let properties = [Property::User("v", "1")];
        let (topic, delivery) = (format!("t/{n}"), Delivery::AtLeastOnce(id(1)));
        publisher.publish_with(&topic, "", delivery, false, &properties);
        assert_eq!(publisher.expect_puback(), Reason::SUCCESS);
    }
    // The last message shows that no other message is in flight.
    publisher.publish("end", "");
    (0..60).for_each(|n| other.expect_message(&format!("t/{n}"), ""));
    other.expect_message("end", "");
    for filter in filters {
        let mut all: Vec<String> = Vec::new();
        for (member, _) in members.iter_mut().filter(|(_, other)| *other == filter) {
            let mut count = 0;
            while count < 20 {
                let (topic, ..) = next(member);
                all.push(topic);
                count += 1;
            }
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 60, "each message once, and each member in turn");
    }
    for (member, _) in &mut members {
        member.expect_no_message();
    }
}

#[test]
fn retained_messages_are_at_all_nodes() {
    let Some((nats, mut nodes)) = cluster(&["a", "b"]) else { return };
    let mut publisher = Client::new(nodes[0].address, "publisher");
    publisher.retain("r/1", "one");
    publisher.retain("r/2", "two");
    let of = |node: &Node, topic: &str| {
        let mut client = Client::new(node.address, "reader");
        client.subscribe(topic, QoS::AtMostOnce);
        client.subscribe("end", QoS::AtMostOnce);
        client.publish_with("end", "", Delivery::AtMostOnce, false, &[]);
        let (topic, payload, ..) = next(&mut client);
        (topic != "end").then_some(payload)
    };
    let becomes = |node: &Node, topic: &str, value: Option<&str>| {
        eventually("a retained message arrives", || {
            (of(node, topic).as_deref() == value).then_some(())
        });
    };
    becomes(&nodes[1], "r/1", Some("one"));
    publisher.retain("r/1", "");
    publisher.retain("r/2", "zwei");
    becomes(&nodes[1], "r/1", None);
    becomes(&nodes[1], "r/2", Some("zwei"));
    publish(&mut publisher, "q/2", "two", QoS::ExactlyOnce, true);
    nodes.push(Node::start(node_config(&nats, "c")));
    becomes(&nodes[2], "r/2", Some("zwei"));
    assert_eq!(of(&nodes[2], "r/1"), None);
    becomes(&nodes[2], "q/2", Some("two"));
    let mut reader = Client::new(nodes[2].address, "reader-c");
    reader.subscribe("q/2", QoS::ExactlyOnce);
    assert_eq!(next(&mut reader), ("q/2".into(), "two".into(), QoS::ExactlyOnce, true));
    Client::new(nodes[2].address, "publisher-c").retain("r/1", "eins");
    becomes(&nodes[0], "r/1", Some("eins"));
    becomes(&nodes[1], "r/1", Some("eins"));
}

#[test]
fn an_interrupted_transfer_of_retained_messages_is_repeated() {
    // The end of a lane may be noticed only after the timeout.
    let soon = |config: &mut Config| config.cluster.timeout = Duration::from_secs(5);
    let Some((mut nats, mut nodes)) = cluster_of(&["a"], soon) else { return };
    let (topics, large) = ((0..40).map(|n| format!("r/{n}")), "x".repeat(500_000));
    let mut publisher = Client::new(nodes[0].address, "publisher");
    topics.clone().for_each(|topic| publisher.retain(&topic, &large));
    let mut config = node_config(&nats, "b");
    soon(&mut config);
    nodes.push(Node::start(config));
    let has = |topic: &str| {
        let mut client = Client::new(nodes[1].address, "reader");
        client.subscribe(topic, QoS::AtMostOnce);
        client.subscribe("end", QoS::AtMostOnce);
        client.publish_with("end", "", Delivery::AtMostOnce, false, &[]);
        next(&mut client).0 == topic
    };
    // On most machines, the transfer takes longer than finding its first message.
    eventually("the transfer begins", || topics.clone().any(|topic| has(&topic)).then_some(()));
    nats.restart();
    for topic in topics {
        eventually("the transfer is complete", || has(&topic).then_some(()));
    }
}

#[test]
fn messages_wait_while_nats_is_away() {
    let Some((mut nats, nodes)) = cluster(&["a", "b"]) else { return };
    let mut subscriber = Client::new(nodes[1].address, "subscriber");
    subscriber.subscribe("t", QoS::ExactlyOnce);
    let mut publisher = Client::new(nodes[0].address, "publisher");
    let mut expected = Vec::new();
    for n in 0..60 {
        match n {
            20 => nats.stop(),
            40 => nats.restart(),
            _ => (),
        }
        publish(&mut publisher, "t", &n.to_string(), QoS::ExactlyOnce, false);
        expected.push(n.to_string());
    }
    let mut found = Vec::new();
    let mut complete = 0;
    while complete < expected.len() {
        let received = subscriber.next();
        match received.packet() {
            Packet::Publish(message) => {
                found.push(String::from_utf8(message.payload.to_vec()).unwrap());
                subscriber.send(&Packet::PubRec(Ack::success(message.delivery.id().unwrap())));
            }
            Packet::PubRel(ack) => {
                subscriber.send(&Packet::PubComp(Ack::success(ack.id)));
                complete += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(found, expected);
    subscriber.expect_no_message();
    await_lanes(&nodes);
}

#[test]
fn a_node_returns() {
    let Some((nats, mut nodes)) = cluster(&["a", "b"]) else { return };
    let mut subscriber = Client::new(nodes[0].address, "subscriber");
    subscriber.subscribe("t", QoS::AtLeastOnce);
    drop(nodes.pop());
    nodes.push(Node::start(node_config(&nats, "b")));
    await_interest(&nodes[1], "t", "publisher");
    subscriber.expect_message("t", "");
    await_lanes(&nodes);
}

/// A node tells the others that a topic filter is literal even though it looks like a content filter.
#[test]
fn literal_topic_filters_are_announced_as_such() {
    let Some((_nats, nodes)) = cluster_of(&["a", "b"], |config| config.content_filters = false)
    else {
        return;
    };
    let mut subscriber = Client::new(nodes[1].address, "subscriber");
    for filter in ["list?page=2", "$share/g/s?v=1"] {
        subscriber.subscribe(filter, QoS::AtLeastOnce);
    }
    let mut publisher = Client::new(nodes[0].address, "publisher");
    for topic in ["list?page=2", "s?v=1"] {
        assert_eq!(publisher.publish(topic, "literally"), Reason::SUCCESS);
        subscriber.expect_message(topic, "literally");
    }
    assert_eq!(publisher.publish("list", ""), NOBODY);
    for filter in ["list?page=2", "$share/g/s?v=1"] {
        assert_eq!(subscriber.unsubscribe(filter), [Reason::SUCCESS]);
    }
    for topic in ["list?page=2", "s?v=1"] {
        eventually("the filter ends", || (publisher.publish(topic, "") == NOBODY).then_some(()));
    }
}
