//! Data that survives the broker: `kill -9` at any time, and a new broker on the same directory.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use phalanx_mqtt::{Ack, Delivery, Packet, Property, QoS, Reason, SubscribeOptions, Version};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions, id, identifiers};

use crate::broker::process::Broker;
use crate::server::bare;

crate::on_each_driver!(
    queued_messages_survive,
    unacknowledged_messages_are_sent_again,
    a_release_is_continued,
    a_message_in_progress_is_accepted_once,
    subscriptions_survive,
    retained_messages_are_kept,
    a_will_is_published_by_the_next,
    removed_state_stays_removed,
    a_session_expires_meanwhile,
    state_survives_a_graceful_shutdown,
    a_directory_is_locked,
    a_long_packet_is_processed_in_pieces,
    packets_too_large_for_the_journal,
    data_is_checked,
    a_missing_journal_is_reported,
);

fn keeping(driver: &str) -> (tempfile::TempDir, Broker) {
    let home = tempfile::tempdir().unwrap();
    let broker = Broker::start_on(driver, &home.path().join("data"));
    (home, broker)
}

/// Kills the broker and starts another in its place.
fn restart(driver: &str, home: &tempfile::TempDir, broker: Broker) -> Broker {
    broker.crashes();
    Broker::start_on(driver, &home.path().join("data"))
}

fn persistent(broker: &Broker, name: &str) -> Client {
    Client::connect_with(broker, &ConnectOptions::persistent(name)).0
}

fn resume(broker: &Broker, name: &str) -> Client {
    let (client, present) = Client::connect_with(broker, &ConnectOptions::persistent(name));
    assert!(present, "{name}");
    client
}

fn queued_messages_survive(driver: &str) {
    let (home, mut broker) = keeping(driver);
    let mut reader = persistent(&broker, "reader");
    reader.subscribe("t/+", QoS::AtLeastOnce);
    let old = ConnectOptions { clean: false, ..ConnectOptions::new(Version::V3, "old") };
    Client::connect_with(&broker, &old).0.subscribe("t/#", QoS::ExactlyOnce);
    reader.disconnect();
    for n in 0..3 {
        let mut writer = Client::new(&broker, "writer");
        assert_eq!(writer.publish("t/1", &format!("one {n}")), Reason::SUCCESS);
        let user = [Property::User("k", "v"), Property::MessageExpiry(1000)];
        writer.publish_with("t/2", &format!("two {n}"), Delivery::ExactlyOnce(id(1)), false, &user);
        assert!(matches!(writer.next().packet(), Packet::PubRec(_)));
        broker = restart(driver, &home, broker);
    }
    let mut reader = resume(&broker, "reader");
    for n in 0..3 {
        reader.expect_message("t/1", &format!("one {n}"));
        let received = reader.next();
        let message = received.message();
        assert_eq!(message.payload, format!("two {n}").as_bytes());
        assert!(message.properties.user().eq([("k", "v")]));
        let expires = |property| matches!(property, Property::MessageExpiry(900..=1000));
        assert!(message.properties.iter().any(expires));
        reader.send(&Packet::PubAck(Ack::success(message.delivery.id().unwrap())));
    }
    reader.expect_no_message();
    let (mut old, present) = Client::connect_with(&broker, &old);
    assert!(present);
    let first = old.next().message().payload.to_owned();
    assert_eq!(first, b"one 0");
    // Acknowledged messages are not sent again.
    let broker = restart(driver, &home, broker);
    resume(&broker, "reader").expect_no_message();
}

fn unacknowledged_messages_are_sent_again(driver: &str) {
    let (home, mut broker) = keeping(driver);
    let mut reader = persistent(&broker, "reader");
    reader.subscribe("t", QoS::ExactlyOnce);
    let mut writer = Client::new(&broker, "writer");
    writer.publish("t", "one");
    writer.publish_with("t", "two", Delivery::ExactlyOnce(id(9)), false, &[]);
    let sent = [reader.next().message().delivery, reader.next().message().delivery];
    for _ in 0..2 {
        broker = restart(driver, &home, broker);
        let mut reader = resume(&broker, "reader");
        for (text, delivery) in ["one", "two"].into_iter().zip(sent) {
            let received = reader.next();
            let message = received.message();
            assert!(message.duplicate);
            assert_eq!((message.payload, message.delivery), (text.as_bytes(), delivery));
        }
    }
}

fn a_release_is_continued(driver: &str) {
    let (home, broker) = keeping(driver);
    let mut reader = persistent(&broker, "reader");
    reader.subscribe("t", QoS::ExactlyOnce);
    let mut writer = Client::new(&broker, "writer");
    writer.publish_with("t", "x", Delivery::ExactlyOnce(id(1)), false, &[]);
    let number = reader.next().message().delivery.id().unwrap();
    reader.send(&Packet::PubRec(Ack::success(number)));
    assert_eq!(reader.next().packet(), Packet::PubRel(Ack::success(number)));
    let broker = restart(driver, &home, broker);
    let mut reader = resume(&broker, "reader");
    assert_eq!(reader.next().packet(), Packet::PubRel(Ack::success(number)), "but not the message");
    reader.send(&Packet::PubComp(Ack::success(number)));
    reader.expect_no_message();
}

fn a_message_in_progress_is_accepted_once(driver: &str) {
    let (home, broker) = keeping(driver);
    let mut reader = persistent(&broker, "reader");
    reader.subscribe("t", QoS::AtLeastOnce);
    reader.disconnect();
    let mut writer = persistent(&broker, "writer");
    let publish = |writer: &mut Client| {
        writer.publish_with("t", "once", Delivery::ExactlyOnce(id(7)), false, &[]);
        assert!(matches!(writer.next().packet(), Packet::PubRec(_)));
    };
    publish(&mut writer);
    let broker = restart(driver, &home, broker);
    let mut writer = resume(&broker, "writer");
    publish(&mut writer);
    writer.send(&Packet::PubRel(Ack::success(id(7))));
    assert_eq!(writer.next().packet(), Packet::PubComp(Ack::success(id(7))));
    // After release, the packet identifier belongs to another message.
    let broker = restart(driver, &home, broker);
    publish(&mut resume(&broker, "writer"));
    let mut reader = resume(&broker, "reader");
    reader.expect_message("t", "once");
    reader.expect_message("t", "once");
    reader.expect_no_message();
}

fn subscriptions_survive(driver: &str) {
    let (home, broker) = keeping(driver);
    let mut reader = persistent(&broker, "reader");
    let options = SubscribeOptions { qos: QoS::AtLeastOnce, ..SubscribeOptions::default() };
    let number = [Property::SubscriptionIdentifier(300)];
    reader.subscribe_with(&[("a/+", options)], &number);
    reader.subscribe_with(&[("b?n>5", options)], &[]);
    reader.subscribe_with(&[("c", options)], &[Property::User("$where", "n > 5")]);
    reader.subscribe("gone", QoS::AtLeastOnce);
    assert_eq!(reader.unsubscribe("gone"), [Reason::SUCCESS]);
    for name in ["one", "two"] {
        persistent(&broker, name).subscribe("$share/group/d", QoS::AtLeastOnce);
    }
    let broker = restart(driver, &home, broker);
    let mut reader = resume(&broker, "reader");
    let mut writer = Client::new(&broker, "writer");
    for (topic, n) in [("gone", "7"), ("a/1", "1"), ("b", "5"), ("b", "6"), ("c", "5"), ("c", "6")]
    {
        let delivery = Delivery::AtLeastOnce(id(1));
        writer.publish_with(topic, n, delivery, false, &[Property::User("n", n)]);
        writer.next();
    }
    let received = reader.next();
    assert_eq!((received.message().topic, &*identifiers(&received.message())), ("a/1", &[300][..]));
    reader.expect_message("b", "6");
    reader.expect_message("c", "6");
    assert_eq!(reader.unsubscribe("b?n>5"), [Reason::SUCCESS]);
    reader.expect_no_message();
    // Of two members, the connected one.
    let mut two = resume(&broker, "two");
    for n in 0..2 {
        writer.publish("d", &n.to_string());
        two.expect_message("d", &n.to_string());
    }
}

fn retained_messages_are_kept(driver: &str) {
    let (home, broker) = keeping(driver);
    let mut writer = Client::new(&broker, "writer");
    writer.retain("a", "old");
    writer.retain("a", "new");
    writer.retain("b", "gone");
    writer.retain("b", "");
    writer.publish_with("c", "unsure", Delivery::AtMostOnce, true, &[]);
    writer.retain("d", "last");
    let broker = restart(driver, &home, broker);
    // A session's copy outlives the next retained message.
    let mut reader = persistent(&broker, "reader");
    reader.subscribe("a", QoS::AtLeastOnce);
    assert!(reader.next().message().retain);
    let mut writer = Client::new(&broker, "writer");
    writer.retain("a", "newer");
    let broker = restart(driver, &home, broker);
    let mut reader = resume(&broker, "reader");
    reader.expect_message("a", "new");
    reader.expect_message("a", "newer");
    reader.unsubscribe("a");
    reader.subscribe("+", QoS::AtLeastOnce);
    let mut received_payloads =
        [(); 3].map(|()| String::from_utf8(reader.next().message().payload.into()).unwrap());
    received_payloads.sort();
    assert_eq!(received_payloads, ["last", "newer", "unsure"]);
}

fn a_will_is_published_by_the_next(driver: &str) {
    let (home, broker) = keeping(driver);
    let mut subscriber = persistent(&broker, "heir");
    subscriber.subscribe("wills", QoS::AtLeastOnce);
    let with_will = |options, text, properties| {
        let will = Some(("wills", text, QoS::AtLeastOnce, false, properties));
        Client::connect_with(&broker, &ConnectOptions { will, ..options }).0
    };
    let delayed = vec![Property::WillDelay(100_000)];
    let _lost = with_will(ConnectOptions::new(Version::V3, "a"), "of a", vec![]);
    with_will(ConnectOptions::persistent("b"), "of b", vec![]).disconnect();
    let _waits = with_will(ConnectOptions::persistent("c"), "of c", delayed);
    with_will(ConnectOptions::persistent("d"), "of d", vec![]).drop_connection();
    subscriber.expect_message("wills", "of d");
    // The answer is on disk when the next one is sent.
    subscriber.expect_no_message();
    let broker = restart(driver, &home, broker);
    let mut subscriber = resume(&broker, "heir");
    subscriber.expect_message("wills", "of a");
    subscriber.expect_no_message();
    let broker = restart(driver, &home, broker);
    resume(&broker, "heir").expect_no_message();
}

fn removed_state_stays_removed(driver: &str) {
    let (home, broker) = keeping(driver);
    let mut reader = persistent(&broker, "reader");
    reader.subscribe("t", QoS::AtLeastOnce);
    Client::new(&broker, "writer").publish("t", "x");
    let options = ConnectOptions { clean: true, ..ConnectOptions::persistent("reader") };
    assert!(!Client::connect_with(&broker, &options).1);
    // A session that ends with its connection is removed, too.
    let mut brief = Client::new(&broker, "brief");
    brief.subscribe("t", QoS::AtLeastOnce);
    let broker = restart(driver, &home, broker);
    resume(&broker, "reader").expect_no_message();
    assert!(!Client::connect_with(&broker, &ConnectOptions::persistent("brief")).1);
    let reason = Client::new(&broker, "writer").publish("t", "no recipients");
    assert_eq!(reason, Reason::NO_MATCHING_SUBSCRIBERS);
}

fn a_session_expires_meanwhile(driver: &str) {
    let (home, broker) = keeping(driver);
    let short = |name| ConnectOptions {
        properties: vec![Property::SessionExpiry(1)],
        ..ConnectOptions::persistent(name)
    };
    let mut subscriber = persistent(&broker, "heir");
    subscriber.subscribe("wills", QoS::AtLeastOnce);
    let will = Some(("wills", "late", QoS::AtLeastOnce, false, vec![Property::WillDelay(1000)]));
    let mut client = Client::connect_with(&broker, &ConnectOptions { will, ..short("short") }).0;
    client.subscribe("t", QoS::AtLeastOnce);
    client.drop_connection();
    broker.crashes();
    std::thread::sleep(Duration::from_millis(2100));
    let broker = Broker::start_on(driver, &home.path().join("data"));
    resume(&broker, "heir").expect_message("wills", "late");
    assert!(!Client::connect_with(&broker, &short("short")).1);
}

fn state_survives_a_graceful_shutdown(driver: &str) {
    let (home, mut broker) = keeping(driver);
    let mut reader = persistent(&broker, "reader");
    reader.subscribe("t", QoS::AtLeastOnce);
    reader.disconnect();
    Client::new(&broker, "writer").publish("t", "x");
    broker.ends_well();
    let broker = Broker::start_on(driver, &home.path().join("data"));
    resume(&broker, "reader").expect_message("t", "x");
}

fn a_directory_is_locked(driver: &str) {
    let (home, broker) = keeping(driver);
    let mut second = bare();
    second.args(["broker", "--listen", "127.0.0.1:0", "--driver", driver]);
    let output = second.arg("--persistence-dir").arg(home.path().join("data")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("in use by another"), "{output:?}");
    drop(broker);
}

/// More subscriptions than are processed at once; all are answered in order and stored.
fn a_long_packet_is_processed_in_pieces(driver: &str) {
    let (home, broker) = keeping(driver);
    let mut reader = persistent(&broker, "reader");
    let options = SubscribeOptions::default();
    let filters: Vec<_> =
        (0..10_000).map(|n| if n == 5000 { "not#".to_owned() } else { format!("t/{n}") }).collect();
    let subscriptions: Vec<_> = filters.iter().map(|filter| (filter.as_str(), options)).collect();
    let mut expected = vec![Reason::SUCCESS; 10_000];
    expected[5000] = Reason::TOPIC_FILTER_INVALID;
    assert_eq!(reader.subscribe_with(&subscriptions, &[]), expected);
    let broker = restart(driver, &home, broker);
    let mut reader = resume(&broker, "reader");
    for n in [0, 4095, 4096, 8191, 8192, 9999] {
        let topic = &filters[n];
        Client::new(&broker, "writer").publish(topic, "x");
        reader.expect_message(topic, "x");
    }
    expected[5000] = Reason::NO_SUBSCRIPTION_EXISTED;
    assert_eq!(reader.unsubscribe_all(&filters), expected);
}

fn packets_too_large_for_the_journal(driver: &str) {
    let home = tempfile::tempdir().unwrap();
    let mut command = bare();
    command.args(["broker", "--listen", "127.0.0.1:0", "--driver", driver]);
    command
        .args(["--max-packet-size", "134217729", "--persistence-dir"])
        .arg(home.path().join("data"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("134217728"), "{output:?}");
    assert!(!home.path().join("data").exists(), "no exchange began");
}

fn check(data: &Path) -> Output {
    bare().args(["broker", "--check-persistence-dir"]).arg(data).output().unwrap()
}

fn data_is_checked(driver: &str) {
    let (home, broker) = keeping(driver);
    let data = home.path().join("data");
    assert_eq!(check(&data).status.code(), Some(2), "the identifier is in use");
    assert_eq!(check(&home.path().join("missing")).status.code(), Some(2));
    let output = check(home.path());
    assert_eq!(output.status.code(), Some(2), "a wrong directory is no backup: {output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no journal"), "{output:?}");
    let mut reader = persistent(&broker, "reader");
    reader.subscribe("t", QoS::AtLeastOnce);
    Client::new(&broker, "writer").publish("t", "x");
    broker.crashes();
    let output = check(&data);
    let stderr = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stderr.contains("1 sessions, 1 subscriptions, 1 messages, 1 times queued"), "{stderr}");
    // An incomplete end is reported and ignored.
    let file = data.join("000000000001.journal");
    let contents = fs::read(&file).unwrap();
    fs::write(&file, [&contents[..], b"half a batch"].concat()).unwrap();
    let output = check(&data);
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("ignored 12 bytes of an unfinished write"),
        "{output:?}"
    );
    let broker = Broker::start_on(driver, &data);
    eventually("a message", || {
        broker.stderr().contains("ignored 12 bytes of an unfinished write").then_some(())
    });
    resume(&broker, "reader").expect_message("t", "x");
    broker.crashes();
    // Corruption of complete records is never ignored.
    let mut changed = fs::read(&file).unwrap();
    changed[100] ^= 1;
    fs::write(&file, &changed).unwrap();
    let output = check(&data);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("000000000001.journal: byte "), "{stderr}");
}

fn a_missing_journal_is_reported(driver: &str) {
    let (home, broker) = keeping(driver);
    let data = home.path().join("data");
    let mut reader = persistent(&broker, "reader");
    reader.subscribe("t", QoS::AtLeastOnce);
    Client::new(&broker, "writer").publish("t", "x");
    broker.crashes();
    let file = data.join("000000000001.journal");
    let contents = fs::read(&file).unwrap();
    // Truncated by more than one batch, emptied, and removed.
    let corrupt: [(&str, &dyn Fn()); 3] = [
        ("missing at the end", &|| fs::write(&file, &contents[..100]).unwrap()),
        ("the journal is missing", &|| fs::write(&file, "").unwrap()),
        ("the journal is missing", &|| fs::remove_file(&file).unwrap()),
    ];
    for (word, corrupt) in corrupt {
        corrupt();
        let start = |args: &[&str]| {
            let mut command = bare();
            command.args(["broker", "--listen", "127.0.0.1:0", "--driver", driver]).args(args);
            command.arg("--persistence-dir").arg(&data).output().unwrap()
        };
        for output in [check(&data), start(&[])] {
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(stderr.contains(word) && stderr.contains("--accept-loss"), "{stderr}");
        }
    }
    let data = data.to_str().unwrap();
    let broker = Broker::start_with_data(driver, &["--accept-loss", "--persistence-dir", data]);
    eventually("a message", || broker.stderr().contains("no journal").then_some(()));
    broker.crashes();
    let broker = Broker::start_with_data(driver, &["--persistence-dir", data]);
    assert!(!Client::connect_with(&broker, &ConnectOptions::persistent("reader")).1);
}
