//! Retained messages.

use phalanx_mqtt::{Delivery, Property, QoS, RetainHandling, SubscribeOptions};
use phalanx_testkit::mqtt::Client;

use crate::broker::process::Broker;

crate::on_one_driver!(
    the_last_one_is_retained,
    an_empty_one_deletes_it,
    when_they_are_sent,
    the_flag_is_that_of_publishing_if_asked_for,
    they_expire,
    no_local_applies_to_later_sessions,
);

fn the_last_one_is_retained(driver: &str) {
    let broker = Broker::start(driver);
    let mut publisher = Client::new(&broker, "writer");
    publisher.retain("a/b", "old");
    publisher.retain("a/b", "new");
    publisher.retain("a/c", "other");
    publisher.retain("$own/system", "hidden");
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("+/b", QoS::AtMostOnce);
    let received = reader.next();
    assert_eq!((received.message().payload, received.message().retain), (&b"new"[..], true));
    reader.subscribe("#", QoS::AtMostOnce);
    let mut all =
        [reader.next(), reader.next()].map(|received| received.message().topic.to_owned());
    all.sort_unstable();
    assert_eq!(all, ["a/b", "a/c"]);
    reader.expect_no_message();
}

fn an_empty_one_deletes_it(driver: &str) {
    let broker = Broker::start(driver);
    let mut publisher = Client::new(&broker, "writer");
    publisher.retain("a", "kept");
    publisher.retain("a", "");
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("a", QoS::AtMostOnce);
    reader.expect_no_message();
}

fn when_they_are_sent(driver: &str) {
    let broker = Broker::start(driver);
    Client::new(&broker, "writer").retain("a", "kept");
    let mut reader = Client::new(&broker, "reader");
    let mut subscribe = |handling, is_known: bool| {
        let retain_handling = handling;
        let options = SubscribeOptions { retain_handling, ..SubscribeOptions::default() };
        if !is_known {
            reader.unsubscribe("a");
        }
        reader.subscribe_with(&[("a", options)], &[]);
        let has_payload = matches!(
            (handling, is_known),
            (RetainHandling::Send, _) | (RetainHandling::SendIfNew, false)
        );
        if has_payload {
            reader.expect_message("a", "kept");
        }
        reader.expect_no_message();
    };
    for handling in [RetainHandling::Send, RetainHandling::SendIfNew, RetainHandling::DoNotSend] {
        subscribe(handling, false);
        subscribe(handling, true);
    }
    // Shared subscriptions receive no retained messages.
    reader.subscribe("$share/g/a", QoS::AtMostOnce);
    reader.expect_no_message();
}

fn the_flag_is_that_of_publishing_if_asked_for(driver: &str) {
    let broker = Broker::start(driver);
    let mut publisher = Client::new(&broker, "writer");
    for as_published in [false, true] {
        let mut reader = Client::new(&broker, "reader");
        let options =
            SubscribeOptions { retain_as_published: as_published, ..SubscribeOptions::default() };
        reader.subscribe_with(&[("flag", options)], &[]);
        publisher.retain("flag", "x");
        assert_eq!(reader.next().message().retain, as_published);
        publisher.publish("flag", "y");
        assert!(!reader.next().message().retain);
        publisher.retain("flag", "");
        reader.disconnect();
    }
}

fn they_expire(driver: &str) {
    let broker = Broker::start(driver);
    let mut publisher = Client::new(&broker, "writer");
    let expiry = [Property::MessageExpiry(0)];
    publisher.publish_with("a", "no more", Delivery::AtMostOnce, true, &expiry);
    publisher.retain("b", "still");
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("#", QoS::AtMostOnce);
    reader.expect_message("b", "still");
    reader.expect_no_message();
}

/// A client's own messages are not sent to it with No Local, in this session or another one.
fn no_local_applies_to_later_sessions(driver: &str) {
    let broker = Broker::start(driver);
    let options = SubscribeOptions { no_local: true, ..SubscribeOptions::default() };
    let mut client = Client::new(&broker, "writer");
    client.retain("a/own", "mine");
    client.subscribe_with(&[("a/#", options)], &[]);
    client.expect_no_message();
    client.disconnect();
    Client::new(&broker, "other").retain("a/other", "theirs");
    let mut second_writer = Client::new(&broker, "writer");
    second_writer.subscribe_with(&[("a/#", options)], &[]);
    second_writer.expect_message("a/other", "theirs");
    second_writer.expect_no_message();
    second_writer.subscribe("a/own", QoS::AtMostOnce);
    second_writer.expect_message("a/own", "mine");
}
