//! The examples in `docs/broker/filters-by-example.md` do what the page says.

use phalanx_mqtt::{QoS, SubscribeOptions};
use phalanx_testkit::mqtt::Client;

use crate::broker::process::Broker;

crate::on_one_driver!(each_filter_receives_the_messages_of_its_row);

const PAGE: &str = include_str!("../../../../../../docs/broker/filters-by-example.md");

/// The messages of a stream: topic and payload, by their numbers from 1.
fn stream(section: &'static str) -> Vec<(&'static str, &'static str)> {
    let (_, block) = section.split_once("```text\n").unwrap();
    let lines = block.split_once("```").unwrap().0.lines().enumerate();
    let message = |(n, line): (usize, &'static str)| {
        let mut parts = line.splitn(3, ' ');
        assert_eq!(parts.next(), Some(&*(n + 1).to_string()), "{line}");
        (parts.next().unwrap(), parts.next().unwrap())
    };
    lines.map(message).collect()
}

/// The filters of a stream, each with the second cell of its row.
fn rows(section: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    section.lines().filter_map(|line| {
        let (filter, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((filter, rest.split_once(" |")?.0))
    })
}

fn each_filter_receives_the_messages_of_its_row(driver: &str) {
    let broker = Broker::start(driver);
    let (mut filters, mut number) = (0, 0);
    for section in PAGE.split("\n## ").skip(1) {
        let stream = stream(section);
        for (filter, expected) in rows(section) {
            filters += 1;
            number += 1;
            let mut reader = Client::new(&broker, &format!("reader {number}"));
            let options = SubscribeOptions { qos: QoS::AtMostOnce, ..SubscribeOptions::default() };
            let reasons = reader.subscribe_with(&[(filter, options)], &[]);
            if expected == "error" {
                assert!(reasons[0].is_failure(), "{filter}");
                continue;
            }
            assert!(!reasons[0].is_failure(), "{filter}: {reasons:?}");
            let mut writer = Client::new(&broker, "writer");
            for (topic, payload) in &stream {
                writer.publish(topic, payload);
            }
            for n in expected.split(", ") {
                let (topic, payload) = stream[n.parse::<usize>().unwrap() - 1];
                reader.expect_message(topic, payload);
            }
            reader.expect_no_message();
            reader.disconnect();
        }
    }
    assert_eq!(filters, 24);
}
