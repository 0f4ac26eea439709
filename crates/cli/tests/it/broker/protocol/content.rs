//! Subscriptions with content filters.

use phalanx_mqtt::{
    Delivery, Kind, Packet, Property, PropertyBuffer, QoS, Reason, Subscribe, SubscribeOptions,
    SubscriptionBuffer, Unsubscribe, Version,
};
use phalanx_testkit::mqtt::{Client, ConnectOptions, id, identifiers};
use tempfile::tempdir;

use crate::broker::process::Broker;

crate::on_one_driver!(
    a_filter_after_the_topic,
    a_filter_before_the_topic,
    groups_share_what_a_filter_matches,
    a_filter_in_a_property,
    fields_of_the_payload,
    fields_of_nested_objects,
    one_message_with_all_identifiers,
    errors_have_a_reason_string,
    the_filter_identifies_the_subscription,
    retained_messages_are_filtered,
    a_session_keeps_its_filters,
    many_filters,
    literal_topic_filters,
);

const PLAIN: SubscribeOptions = SubscribeOptions {
    qos: QoS::AtMostOnce,
    no_local: false,
    retain_as_published: false,
    retain_handling: phalanx_mqtt::RetainHandling::Send,
};

fn publish(client: &mut Client, topic: &str, payload: &str, user: &[(&str, &str)]) {
    let properties: Vec<_> = user.iter().map(|(name, value)| Property::User(name, value)).collect();
    client.publish_with(topic, payload, Delivery::AtMostOnce, false, &properties);
}

fn a_filter_after_the_topic(driver: &str) {
    let broker = Broker::start(driver);
    for version in [Version::V3, Version::V5] {
        let mut reader = Client::connect_with(&broker, &ConnectOptions::new(version, "reader")).0;
        reader.subscribe("sensor/+/temperature?location=roomA&value>25", QoS::AtMostOnce);
        let mut writer = Client::new(&broker, "writer");
        let room = |room, value| [("location", room), ("value", value)];
        publish(&mut writer, "sensor/1/temperature", "cold", &room("roomA", "25"));
        publish(&mut writer, "sensor/1/temperature", "elsewhere", &room("roomB", "30"));
        publish(&mut writer, "sensor/1/humidity", "other", &room("roomA", "30"));
        publish(&mut writer, "sensor/1/temperature", "no value", &[("location", "roomA")]);
        publish(&mut writer, "sensor/1/temperature", "hot", &room("roomA", "25.5"));
        reader.expect_message("sensor/1/temperature", "hot");
    }
}

/// The form that all client libraries accept, also in 3.1.1.
fn a_filter_before_the_topic(driver: &str) {
    let broker = Broker::start(driver);
    for version in [Version::V3, Version::V5] {
        let mut reader = Client::connect_with(&broker, &ConnectOptions::new(version, "reader")).0;
        let filters = [
            "$where/room = 'A%2FB' AND NOT value <= %2B25/#",
            "$where/sign LIKE '%23%25' OR sign = '%2B'/sensor/+/sign",
            "$where-json/temp > 20/sensor/+",
        ];
        filters.iter().for_each(|filter| reader.subscribe(filter, QoS::AtMostOnce));
        let mut writer = Client::new(&broker, "writer");
        publish(&mut writer, "sensor/1", "cold", &[("room", "A/B"), ("value", "25")]);
        publish(&mut writer, "sensor/1", "elsewhere", &[("room", "A"), ("value", "26")]);
        publish(&mut writer, "sensor/1", "hot", &[("room", "A/B"), ("value", "26")]);
        publish(&mut writer, "sensor/1/sign", "first", &[("sign", "#1")]);
        publish(&mut writer, "sensor/1/sign", "none", &[("sign", "1")]);
        publish(&mut writer, "sensor/1/sign", "second", &[("sign", "+")]);
        publish(&mut writer, "sensor/1", r#"{"temp": 20}"#, &[]);
        publish(&mut writer, "sensor/1", r#"{"temp": 21}"#, &[]);
        reader.expect_message("sensor/1", "hot");
        reader.expect_message("sensor/1/sign", "first");
        reader.expect_message("sensor/1/sign", "second");
        reader.expect_message("sensor/1", r#"{"temp": 21}"#);
        reader.expect_no_message();
        if version == Version::V5 {
            assert_eq!(reader.unsubscribe_all(&filters), [Reason::SUCCESS; 3]);
            assert_eq!(writer.publish("sensor/1", "{}"), Reason::NO_MATCHING_SUBSCRIBERS);
        }
    }
}

/// Each match is delivered to one member. Members join and leave, and the filter is removed with the last.
fn groups_share_what_a_filter_matches(driver: &str) {
    let broker = Broker::start(driver);
    let mut readers = ["one", "other"].map(|name| Client::new(&broker, name));
    for filter in ["$share/g/t?n>5", "$share/g/$where/n > 5/t"] {
        for reader in &mut readers {
            reader.subscribe(filter, QoS::AtMostOnce);
        }
        let mut writer = Client::new(&broker, "writer");
        for n in ["1", "6", "2", "7", "8", "9"] {
            publish(&mut writer, "t", n, &[("n", n)]);
        }
        writer.publish("flush", "");
        let mut received: Vec<_> = readers
            .iter_mut()
            .flat_map(|reader| [reader.next(), reader.next()])
            .map(|received| String::from_utf8(received.message().payload.to_vec()).unwrap())
            .collect();
        received.sort_unstable();
        assert_eq!(received, ["6", "7", "8", "9"]);
        readers.iter_mut().for_each(Client::expect_no_message);
        assert_eq!(readers[1].unsubscribe(filter), [Reason::SUCCESS]);
        for n in ["6", "7"] {
            publish(&mut writer, "t", n, &[("n", n)]);
            readers[0].expect_message("t", n);
        }
        assert_eq!(readers[0].unsubscribe(filter), [Reason::SUCCESS]);
        let user = [Property::User("n", "6")];
        writer.publish_with("t", "x", Delivery::AtLeastOnce(id(1)), false, &user);
        assert_eq!(writer.expect_puback(), Reason::NO_MATCHING_SUBSCRIBERS);
    }
}

fn a_filter_in_a_property(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    for (name, condition) in
        [("$where", "symbol IN ('ACME', 'EVIL') AND NOT price > 10"), ("filter", "halted = TRUE")]
    {
        let own = [Property::User(name, condition)];
        assert_eq!(reader.subscribe_with(&[("quotes", PLAIN)], &own), [Reason::SUCCESS]);
    }
    let mut writer = Client::new(&broker, "writer");
    publish(&mut writer, "quotes", "dear", &[("symbol", "ACME"), ("price", "10.01")]);
    publish(&mut writer, "quotes", "cheap", &[("symbol", "EVIL"), ("price", "10")]);
    publish(&mut writer, "quotes", "halted", &[("symbol", "DULL"), ("halted", "true")]);
    publish(
        &mut writer,
        "quotes",
        "both",
        &[("symbol", "ACME"), ("price", "1"), ("halted", "true")],
    );
    for text in ["cheap", "halted", "both"] {
        reader.expect_message("quotes", text);
    }
    reader.expect_no_message();
}

fn fields_of_the_payload(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("t?$json&temp>20", QoS::AtMostOnce);
    let mut other = Client::new(&broker, "other");
    let own = [
        Property::User("$where", "name LIKE 'k%' AND ok = TRUE"),
        Property::User("$payload", "json"),
    ];
    other.subscribe_with(&[("t", PLAIN)], &own);
    let mut unfiltered = Client::new(&broker, "blind");
    unfiltered.subscribe("t?temp>20", QoS::AtMostOnce);
    let mut writer = Client::new(&broker, "writer");
    for payload in [
        r#"{"temp": 20}"#,
        r#"{"temp": "21"}"#,
        r#"{"temp": 21"#,
        r#"[{"temp": 21}]"#,
        "21",
        r#" {"nested": {"temp": 1}, "temp": 2.1e1, "list": [1]}"#,
        r#"{"name": "k\u0069tchen", "ok": true, "temp": null}"#,
    ] {
        publish(&mut writer, "t", payload, &[]);
    }
    // Many devices write numbers as strings.
    reader.expect_message("t", r#"{"temp": "21"}"#);
    reader.expect_message("t", r#" {"nested": {"temp": 1}, "temp": 2.1e1, "list": [1]}"#);
    reader.expect_no_message();
    other.expect_message("t", r#"{"name": "k\u0069tchen", "ok": true, "temp": null}"#);
    // A property takes precedence over a field of the same name.
    publish(&mut writer, "t", r#"{"temp": 99}"#, &[("temp", "5")]);
    publish(&mut writer, "t", r#"{"temp": 5}"#, &[("temp", "99")]);
    reader.expect_message("t", r#"{"temp": 5}"#);
    unfiltered.expect_message("t", r#"{"temp": 5}"#);
}

fn fields_of_nested_objects(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("$where-json/position.lat > 48 AND name.first = 'k'/t", QoS::AtMostOnce);
    let mut writer = Client::new(&broker, "writer");
    let matching = r#"{"position": {"lat": 48.1, "lon": 11}, "name": {"first": "k"}}"#;
    for payload in [
        r#"{"position": {"lat": 47}, "name": {"first": "k"}}"#,
        r#"{"position": [{"lat": 49}], "name": {"first": "k"}}"#,
        r#"{"lat": 49, "first": "k"}"#,
        matching,
    ] {
        publish(&mut writer, "t", payload, &[]);
    }
    reader.expect_message("t", matching);
    reader.expect_no_message();
}

fn one_message_with_all_identifiers(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    for (n, filter) in ["t?a=1", "+?a<5", "t", "#?b=1", "t?a=2"].into_iter().enumerate() {
        let number = [Property::SubscriptionIdentifier(n as u32 + 1)];
        reader.subscribe_with(&[(filter, PLAIN)], &number);
    }
    let mut writer = Client::new(&broker, "writer");
    publish(&mut writer, "t", "x", &[("a", "1")]);
    let received = reader.next();
    assert_eq!(identifiers(&received.message()), [1, 2, 3]);
    reader.expect_no_message();
}

/// The reason codes and the reason string of a SUBACK.
fn refused(client: &mut Client, filter: &str, user: &[(&str, &str)]) -> (Vec<u8>, String) {
    let mut subscriptions = SubscriptionBuffer::new();
    subscriptions.push(filter, PLAIN).unwrap();
    let mut properties = PropertyBuffer::new();
    user.iter().for_each(|(name, value)| properties.push(Property::User(name, value)).unwrap());
    let (id, filters, properties) = (id(1), subscriptions.to_subscribe(), properties.get());
    client.send(&Packet::Subscribe(Subscribe { id, filters, properties }));
    let received = client.next();
    let Packet::SubAck(ack) = received.packet() else { panic!("{received:?}") };
    let words = ack.properties.iter().find_map(|property| match property {
        Property::ReasonString(words) => Some(words.to_owned()),
        _ => None,
    });
    (ack.reasons.to_vec(), words.unwrap_or_default())
}

fn errors_have_a_reason_string(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "odd");
    let none = vec![Reason::TOPIC_FILTER_INVALID.0];
    for (filter, user, message) in [
        ("t?a=1&b", &[][..], "column 5"),
        ("t", &[("$where", "a = ")], "column 5"),
        ("t?a=1", &[("$where", "a = 1")], "two filters"),
        ("t?a==1", &[], "column 3"),
        ("t?a=1|b=2", &[], "no OR here"),
        ("?a=1", &[], "topic filter is missing"),
        ("$where/a = 1", &[], "topic filter is missing"),
        ("$where/a LIKE 'x%'/t", &[], "%25"),
        ("$where/a = /t", &[], "column 5"),
        ("$filter/a = 1/t", &[], "write $where/"),
        ("$where/a = 1/$share/g/t", &[], "must precede"),
        ("t", &[("where", "a = 1")], "`$where`"),
        ("t", &[("$Where", "a = 1")], "`$where`"),
        ("t", &[("$payload", "json")], "requires a filter"),
        ("a/#/b?a=1", &[], "wildcard"),
    ] {
        let (reasons, words) = refused(&mut client, filter, user);
        assert_eq!(reasons, none, "{filter}");
        assert!(words.contains(message), "{filter}: {words}");
    }
    // There is no subscription.
    assert_eq!(client.publish("t", "x"), Reason::NO_MATCHING_SUBSCRIBERS);
    // An existing subscription without the property remains.
    client.subscribe("t", QoS::AtMostOnce);
    let mut subscriptions = SubscriptionBuffer::new();
    subscriptions.push("t", PLAIN).unwrap();
    let mut properties = PropertyBuffer::new();
    properties.push(Property::User("where", "a = 1")).unwrap();
    let (id, filters, properties) = (id(2), subscriptions.to_unsubscribe(), properties.get());
    client.send(&Packet::Unsubscribe(Unsubscribe { id, filters, properties }));
    assert_eq!(client.answer(Kind::UnsubAck), [Reason::TOPIC_FILTER_INVALID]);
    assert_eq!(client.unsubscribe("t"), [Reason::SUCCESS]);
    // Clients that opt out of problem information get no reason string.
    let options = ConnectOptions {
        properties: vec![Property::RequestProblemInformation(false)],
        ..ConnectOptions::new(Version::V5, "curt")
    };
    let mut curt = Client::connect_with(&broker, &options).0;
    assert_eq!(refused(&mut curt, "t?a", &[]), (none, String::new()));
}

fn the_filter_identifies_the_subscription(driver: &str) {
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    let where_a = [Property::User("$where", "a = 1")];
    reader.subscribe("t?a=1", QoS::AtMostOnce);
    reader.subscribe_with(&[("t", PLAIN)], &where_a);
    reader.subscribe("t", QoS::AtMostOnce);
    // Replaced rather than added.
    reader.subscribe("t?a=1", QoS::AtLeastOnce);
    assert_eq!(reader.unsubscribe("t"), [Reason::SUCCESS]);
    assert_eq!(reader.unsubscribe("t?a=1"), [Reason::SUCCESS]);
    assert_eq!(reader.unsubscribe("t?a=1"), [Reason::NO_SUBSCRIPTION_EXISTED]);
    let mut writer = Client::new(&broker, "writer");
    publish(&mut writer, "t", "still there", &[("a", "1")]);
    reader.expect_message("t", "still there");
    let mut subscriptions = SubscriptionBuffer::new();
    subscriptions.push("t", PLAIN).unwrap();
    let mut properties = PropertyBuffer::new();
    where_a.iter().for_each(|property| properties.push(*property).unwrap());
    let (id, filters, properties) = (id(2), subscriptions.to_unsubscribe(), properties.get());
    reader.send(&Packet::Unsubscribe(Unsubscribe { id, filters, properties }));
    assert_eq!(reader.answer(Kind::UnsubAck), [Reason::SUCCESS]);
    assert_eq!(writer.publish("t", "gone"), Reason::NO_MATCHING_SUBSCRIBERS);
}

fn retained_messages_are_filtered(driver: &str) {
    let broker = Broker::start(driver);
    let mut writer = Client::new(&broker, "writer");
    for (topic, value) in [("r/1", "5"), ("r/2", "15"), ("r/3", "25")] {
        let user = [Property::User("v", value)];
        writer.publish_with(topic, value, Delivery::AtMostOnce, true, &user);
    }
    writer.publish("flush", "");
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("r/+?v>10&v<20", QoS::AtMostOnce);
    reader.expect_message("r/2", "15");
    reader.expect_no_message();
    // By a condition that the index does not decide.
    reader.subscribe("$where/v * 2 > 40/r/+", QoS::AtMostOnce);
    reader.expect_message("r/3", "25");
    reader.expect_no_message();
}

fn a_session_keeps_its_filters(driver: &str) {
    let broker = Broker::start(driver);
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    reader.subscribe("t?v=1", QoS::AtLeastOnce);
    reader.subscribe("$where/v = 3/#", QoS::AtLeastOnce);
    reader.disconnect();
    let mut writer = Client::new(&broker, "writer");
    for value in ["1", "2", "3"] {
        let user = [Property::User("v", value)];
        writer.publish_with("t", value, Delivery::AtLeastOnce(id(1)), false, &user);
        writer.next();
    }
    let (mut reader, _) = Client::connect_with(&broker, &ConnectOptions::persistent("reader"));
    reader.expect_message("t", "1");
    reader.expect_message("t", "3");
    reader.expect_no_message();
    reader.disconnect();
    // The filters end with the session.
    let clean_session = ConnectOptions { clean: true, ..ConnectOptions::persistent("reader") };
    drop(Client::connect_with(&broker, &clean_session));
    let user = [Property::User("v", "1")];
    writer.publish_with("t", "x", Delivery::AtLeastOnce(id(1)), false, &user);
    let received = writer.next();
    let Packet::PubAck(ack) = received.packet() else { panic!() };
    assert_eq!(ack.reason, Reason::NO_MATCHING_SUBSCRIBERS);
}

/// Enough filters for the index to reorganize itself several times; each event matches one.
fn many_filters(driver: &str) {
    const COUNT: usize = 1200;
    let broker = Broker::start(driver);
    let mut reader = Client::new(&broker, "reader");
    for chunk in (0..COUNT).collect::<Vec<_>>().chunks(100) {
        let filters: Vec<_> = chunk.iter().map(|n| format!("t?n={n}&m<{n}")).collect();
        let subscriptions: Vec<_> = filters.iter().map(|filter| (filter.as_str(), PLAIN)).collect();
        assert_eq!(reader.subscribe_with(&subscriptions, &[]).len(), chunk.len());
    }
    let mut writer = Client::new(&broker, "writer");
    for n in (0..COUNT).step_by(7) {
        let (n, previous) = (n.to_string(), n.saturating_sub(1).to_string());
        publish(&mut writer, "t", &n, &[("n", &n), ("m", &previous)]);
        publish(&mut writer, "t", "none", &[("n", &n), ("m", &n)]);
    }
    for n in (7..COUNT).step_by(7) {
        reader.expect_message("t", &n.to_string());
    }
    reader.expect_no_message();
}

/// Topic filters that look like content filters, at a broker without these, and in packets that exclude them. They survive
/// a restart, which turns content filters on again.
fn literal_topic_filters(driver: &str) {
    let home = tempdir().unwrap();
    let data = home.path().join("data");
    let mut arguments = vec!["--persistence-dir", data.to_str().unwrap()];
    let start = |arguments: &[&str]| Broker::start_with_data(driver, arguments);
    let filters = ["list?page=2", "$where/+", "$share/g/s?v=1"];
    let topics = ["list?page=2", "$where/x", "s?v=1"];
    let receives_all = |broker: &Broker, reader: &mut Client| {
        let mut writer = Client::new(broker, "writer");
        for topic in topics {
            publish(&mut writer, topic, "literally", &[]);
            reader.expect_message(topic, "literally");
        }
        publish(&mut writer, "list", "by content", &[("page", "2")]);
        reader.expect_no_message();
    };
    let options = |version| ConnectOptions { version, ..ConnectOptions::persistent("reader") };
    for version in [Version::V3, Version::V5] {
        arguments.push("--content-filters=false");
        let broker = start(&arguments);
        let (mut reader, _) = Client::connect_with(&broker, &options(version));
        filters.iter().for_each(|filter| reader.subscribe(filter, QoS::AtLeastOnce));
        receives_all(&broker, &mut reader);
        drop(broker);
        arguments.pop();
        let broker = start(&arguments);
        let (mut reader, _) = Client::connect_with(&broker, &options(version));
        receives_all(&broker, &mut reader);
        reader.subscribe(filters[0], QoS::AtLeastOnce);
        let mut writer = Client::new(&broker, "writer");
        publish(&mut writer, "list", "by content", &[("page", "2")]);
        reader.expect_message("list", "by content");
        drop(Client::connect_with(&broker, &ConnectOptions { clean: true, ..options(version) }));
    }
    let broker = start(&arguments);
    let mut reader = Client::new(&broker, "reader");
    let subscriptions = filters.map(|filter| (filter, PLAIN));
    let literally = [Property::User("$literal", "true")];
    assert_eq!(reader.subscribe_with(&subscriptions, &literally), [Reason::SUCCESS; 3]);
    receives_all(&broker, &mut reader);
    // Without the property, the literal one is the other meaning.
    assert_eq!(reader.unsubscribe(filters[0]), [Reason::SUCCESS]);
    assert_eq!(reader.unsubscribe(filters[0]), [Reason::NO_SUBSCRIPTION_EXISTED]);
}
