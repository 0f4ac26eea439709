//! The event log: connects, disconnects, refusals, takeovers and drops, as text and JSON.

use std::fs;

use phalanx_access::passwd;
use phalanx_mqtt::{Delivery, Packet, Reason, Version};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions};
use serde_json::Value;

use crate::broker::process::Broker;

crate::on_one_driver!(
    events_of_a_client_as_json,
    refused_logins_as_text,
    classes_and_rates_are_reloaded,
    nothing_is_logged_by_default,
);

/// The lines of an event, once there are `count`.
fn lines(broker: &Broker, event: &str, count: usize) -> Vec<String> {
    eventually(event, || {
        let output = broker.stderr();
        let found: Vec<_> = output.lines().filter(|line| line.contains(event)).collect();
        (found.len() >= count).then(|| found.into_iter().map(str::to_owned).collect())
    })
}

/// Like [`lines`], as JSON.
fn objects(broker: &Broker, event: &str, count: usize) -> Vec<Value> {
    let event = format!("\"event\":\"{event}\"");
    let lines = lines(broker, &event, count);
    lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect()
}

const ALL: &str = "connects,disconnects,refusals,takeovers,drops";

fn events_of_a_client_as_json(driver: &str) {
    let rules = tempfile::NamedTempFile::new().unwrap();
    fs::write(rules.path(), "topic read #\n").unwrap();
    let rules = ["--acl-file", rules.path().to_str().unwrap()];
    let arguments = [&["--log-events", ALL, "--log-format", "json"], &rules[..]].concat();
    let mut broker = Broker::start_with(driver, &arguments);
    let mut first = Client::connect_with(
        &broker,
        &ConnectOptions { keep_alive: 7, ..ConnectOptions::persistent("c\"1") },
    )
    .0;
    let connected = &objects(&broker, "connected", 1)[0];
    assert_eq!(
        (&connected["address"], &connected["client"]),
        (&"127.0.0.1".into(), &"c\"1".into())
    );
    assert_eq!(connected["listener"], format!("mqtt://{}", broker.address));
    let session = [&connected["version"], &connected["keep_alive"], &connected["session_present"]];
    assert_eq!(session, [&Value::from("5"), &7.into(), &false.into()]);
    assert!(connected["port"].is_u64() && connected["time"].as_str().unwrap().ends_with('Z'));
    assert!(connected.get("user").is_none(), "an anonymous client has no user: {connected}");
    let (mut second, _) = Client::connect_with(&broker, &ConnectOptions::persistent("c\"1"));
    let taken_over = &objects(&broker, "taken_over", 1)[0];
    assert_eq!((&taken_over["client"], &taken_over["from"]), (&"c\"1".into(), &"127.0.0.1".into()));
    assert!(matches!(first.next().packet(), Packet::Disconnect(_)));
    drop(first);
    let ended = &objects(&broker, "disconnected", 1)[0];
    assert_eq!(ended["reason"], "session taken over", "{ended}");
    second.publish_with("a\nb", "x", Delivery::AtMostOnce, false, &[]);
    let dropped = &objects(&broker, "disconnected", 2)[1];
    assert_eq!(dropped["reason"], "malformed packet", "{dropped}");
    let mut third = Client::new(&broker, "third");
    third.publish_with("t", "x", Delivery::AtMostOnce, false, &[]);
    let dropped = &objects(&broker, "dropped", 1)[0];
    let fields =
        [&dropped["reason"], &dropped["topic"], &dropped["publisher"], &dropped["address"]];
    assert_eq!(fields, ["not_authorized", "t", "third", "127.0.0.1"]);
    third.disconnect();
    let left = &objects(&broker, "disconnected", 3)[2];
    assert_eq!(
        (&left["reason"], &left["seconds"]),
        (&"disconnected by the client".into(), &0.into())
    );
    // Bytes that are not MQTT.
    let mut other = Client::open(&broker, Version::V5);
    other.send_bytes(&[0xc0, 0]);
    assert!(other.try_next().is_none());
    let refused = &objects(&broker, "refused", 1)[0];
    assert!(refused["why"].as_str().unwrap().contains("CONNECT"), "{refused}");
    // The queue is written at the end.
    let _last = Client::new(&broker, "last");
    broker.ends_well();
    let last = objects(&broker, "disconnected", 4);
    assert_eq!(
        (&last[3]["client"], &last[3]["reason"]),
        (&"last".into(), &"server shutting down".into())
    );
}

fn refused_logins_as_text(driver: &str) {
    let users = tempfile::NamedTempFile::new().unwrap();
    fs::write(users.path(), passwd::set("", "eve", b"apple").unwrap()).unwrap();
    let users = users.path().to_str().unwrap();
    let broker =
        Broker::start_with(driver, &["--password-file", users, "--log-events", "refusals"]);
    let user = "eve\" address=10.9.9.9 port=1 reason=\"x";
    let options =
        ConnectOptions { login: Some((user, "pear")), ..ConnectOptions::new(Version::V5, "c") };
    assert_eq!(Client::expect_rejection(&broker, &options), Reason::BAD_USER_NAME_OR_PASSWORD);
    assert_eq!(
        Client::expect_rejection(&broker, &ConnectOptions::new(Version::V3, "d")),
        Reason::NOT_AUTHORIZED
    );
    let lines = lines(&broker, " refused address=", 2);
    // This is what the expression in packaging/fail2ban relies on.
    let (time, rest) = lines[0].split_once(" refused ").unwrap();
    assert!(time.starts_with("phalanx: 20") && time.ends_with('Z'), "{time}");
    let rest = rest.strip_prefix("address=127.0.0.1 port=").expect(rest);
    let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let expected = format!(
        " listener=mqtt://{} reason=\"bad user name or password\" client=\"c\" user={user:?}",
        broker.address
    );
    assert_eq!(rest, expected);
    assert!(lines[1].contains("reason=\"not authorized\" why=\"no user name\" client=\"d\""));
}

fn classes_and_rates_are_reloaded(driver: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |keys: &str| fs::write(file.path(), format!("listen = \"0\"\n{keys}")).unwrap();
    write("");
    let broker = Broker::start_by(driver, file.path());
    Client::new(&broker, "silent").disconnect();
    write("log-events = \"connects\"\nlog-rate = 1");
    broker.rereads("reloaded");
    // More than the limit of any one second.
    let clients: Vec<_> = (0..50).map(|n| Client::new(&broker, &format!("c{n}"))).collect();
    let output = lines(&broker, " suppressed class=connects count=", 1);
    let connected = lines(&broker, " connected ", 1);
    assert!(connected.len() < clients.len() && !connected[0].contains("silent"), "{output:?}");
}

fn nothing_is_logged_by_default(driver: &str) {
    let mut broker = Broker::start(driver);
    Client::new(&broker, "a").disconnect();
    broker.ends_well();
    assert!(!broker.stderr().contains("connected"), "{}", broker.stderr());
}
