//! Authentication and access rules.

use std::fs;
use std::path::PathBuf;

use phalanx_access::passwd;
use phalanx_mqtt::{Ack, Delivery, Packet, QoS, Reason, SubscribeOptions, Version};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};
use tempfile::TempDir;

use crate::broker::process::Broker;
use crate::server::bare;

crate::on_one_driver!(
    users_need_their_passwords,
    a_crowd_with_wrong_passwords,
    tokens_are_passwords,
    anonymous_clients_if_allowed,
    a_session_belongs_to_its_user,
    forbidden_publishes_are_rejected,
    forbidden_messages_are_not_delivered,
    only_the_broker_publishes_system_topics,
    files_are_reloaded,
);

/// A key set with an RSA key, a token of eve that it signed and that is valid until 2090, and one that expired.
pub(super) const KEYS: &str = r#"{"keys":[{"kty":"RSA","kid":"k1","e":"AQAB","n":"vrq5gvi1Ov2Dp8sjX6PpUMcvsctGf_EKCX8VZlQpcb52XiKAljl_VAL3YHrCUEYcuX3qexQii-s96xIaOtf0T_06KLrTVc5yAC1Ldh2SANVNB1n0-W3OGJ7feDg_uf3-aDCAVxhtA2A0V4pzKd0HSlBRJZ_BmIwynU9UWYDFhL3OYlUFqF3-qGIFdwS0_1zfGFokYfVVZv57zNt22ayiuhwD0QdZNgF0CKOTYuaGZBZU1-MxyyVVA6PgyhH3SJoXSGrfKcMiNANRMUzpJTfRzpAXVzN2_YuCf0lbdZozmxNcvXq4HV_VpN8sdfhTXTQPB5KmLCth-Ya2hvrYyeo5jw"}]}"#;
pub(super) const TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiJldmUiLCJhdWQiOiJtcXR0IiwiZXhwIjozNzg2OTEyMDAwfQ.LrSd_\
    fasFj252onPp0fyq6BvnKtav1jtQUnbOyqY4HQfPM2Rn1iEPuQyQWlKCjqMwH92XDBGGmNZw3nVXph13F2qiB_N4mteFlzoG6IQ4\
    6kzgJwCUYGvDhDooWO2vPMt6JPdw_b9R2c8maOy6ZfXhxDdNtV5oVXtpwT5Ign1U6J1RYf3PC7dlKBBucXpZak4SXItZPbJbxoVB\
    WodLVZyop-cZHhxeae7Y6eN6rSdGoWCjpYA36El0etSL4P72PB2mQszY9A25jfEw0x-w8FioPEOC44caMuX_PWdzEZTCyAWIVw5n\
    JrWE395Lt01XtvAXUSWBWpGvHpZ8te6S-JZ1g";
const EXPIRED: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiJldmUiLCJhdWQiOiJtcXR0IiwiZXhwIjoxMDAwMDAwMDAwfQ.jPxsw\
    G3sVb4Xy2cm3zovGNqvsNpK9iva-fH_2ne_dk1rA6q3xkJ63P7UFiguN_aTihIuKeNnlqRyKOfeXxbUhfi_i6u4eRm9QvjtFnnDh\
    nXhr5H71ycpYNQXzohUT13JlIYri65Oz7wa5G27CX5y_YMzsXQ9cUmjcHSKgbvBdyQOZV1rAQInZ9YNwRIiV6AZt-smeaUw0wc8n\
    LuGZYq3R9UAmW87jDJYKmqmo-Jpm7UjtPAc753vF8-6LNayU12XGDSYH8YQRpzqPJSwox61_jScEKb9gwPqteVIW5gC46qMCNo_i\
    IYbO_v4q7H7cBDwTMRmnXiWIyxbqaA54YMrSA";

/// Password and access files of a broker.
struct Files(TempDir);

impl Files {
    /// Eve's password is `apple`, Adam's `rib`.
    fn new(rules: &str) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.users(&[("eve", "apple"), ("adam", "rib")]);
        files.rules(rules);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn users(&self, users: &[(&str, &str)]) {
        let add = |text: String, (name, password): &(&str, &str)| {
            passwd::set(&text, name, password.as_bytes()).unwrap()
        };
        fs::write(self.path("users"), users.iter().fold(String::new(), add)).unwrap();
    }

    fn rules(&self, rules: &str) {
        fs::write(self.path("rules"), rules).unwrap();
    }

    /// A broker with users and rules.
    fn broker(&self, driver: &str) -> Broker {
        self.broker_with(driver, &["--acl-file", self.path("rules").to_str().unwrap()])
    }

    /// A broker with users and additional arguments.
    fn broker_with(&self, driver: &str, arguments: &[&str]) -> Broker {
        let users = self.path("users");
        let mut all = vec!["--password-file", users.to_str().unwrap()];
        all.extend_from_slice(arguments);
        Broker::start_with(driver, &all)
    }
}

fn login_eve(version: Version, id: &str) -> ConnectOptions<'_> {
    ConnectOptions { login: Some(("eve", "apple")), ..ConnectOptions::new(version, id) }
}

fn login_adam(version: Version, id: &str) -> ConnectOptions<'_> {
    ConnectOptions { login: Some(("adam", "rib")), ..ConnectOptions::new(version, id) }
}

fn users_need_their_passwords(driver: &str) {
    let files = Files::new("");
    let broker = files.broker_with(driver, &[]);
    for version in [Version::V3, Version::V5] {
        Client::connect_with(&broker, &login_eve(version, "a"));
        for login in [("eve", "rib"), ("eve", ""), ("snake", "apple"), ("", "apple")] {
            let options =
                ConnectOptions { login: Some(login), ..ConnectOptions::new(version, "a") };
            let refused = Client::expect_rejection(&broker, &options);
            assert_eq!(refused, Reason::BAD_USER_NAME_OR_PASSWORD, "{login:?}");
        }
        let refused = Client::expect_rejection(&broker, &ConnectOptions::new(version, "a"));
        assert_eq!(refused, Reason::NOT_AUTHORIZED);
    }
}

/// Most of the crowd is rejected without a check. A client with the right password is accepted meanwhile, and
/// also when its name is locked out at this address.
fn a_crowd_with_wrong_passwords(driver: &str) {
    let files = Files::new("");
    let broker = files.broker_with(driver, &[]);
    Client::connect_with(&broker, &login_eve(Version::V5, "a"));
    let wrong =
        ConnectOptions { login: Some(("eve", "rib")), ..ConnectOptions::new(Version::V5, "b") };
    let mut clients: Vec<_> = (0..150).map(|_| Client::open(&broker, Version::V5)).collect();
    clients.iter_mut().for_each(|client| client.send_connect(&wrong));
    Client::connect_with(&broker, &login_eve(Version::V5, "c"));
    let refused = clients.iter_mut().map(|client| match client.next().packet() {
        Packet::ConnAck(ack) => ack.reason,
        other => panic!("expected a CONNACK, got {other:?}"),
    });
    let reasons: Vec<_> = refused.collect();
    let count = |reason| reasons.iter().filter(|other| **other == reason).count();
    let looked_at = count(Reason::BAD_USER_NAME_OR_PASSWORD);
    assert!(looked_at < 50, "{looked_at} passwords were looked at");
    let known =
        [Reason::BAD_USER_NAME_OR_PASSWORD, Reason::CONNECTION_RATE_EXCEEDED, Reason::SERVER_BUSY];
    assert!(reasons.iter().all(|reason| known.contains(reason)), "{reasons:?}");
    // The first lock-out lasts for a second, in which a slow machine may have compared no other password.
    eventually("a lock-out", || {
        let options =
            ConnectOptions { login: Some(("eve", "rib")), ..ConnectOptions::new(Version::V5, "e") };
        (Client::expect_rejection(&broker, &options) == Reason::CONNECTION_RATE_EXCEEDED)
            .then_some(())
    });
    Client::connect_with(&broker, &login_eve(Version::V5, "d"));
    eventually("a message", || broker.stderr().contains("logins refused: ").then_some(()));
}

fn anonymous_clients_if_allowed(driver: &str) {
    let files = Files::new("");
    let broker = files.broker_with(driver, &["--allow-anonymous"]);
    Client::connect_with(&broker, &ConnectOptions::new(Version::V5, "a"));
    Client::connect_with(&broker, &login_eve(Version::V5, "b"));
    // With a user name, the password is checked although anonymous clients are allowed.
    let options =
        ConnectOptions { login: Some(("eve", "rib")), ..ConnectOptions::new(Version::V5, "c") };
    assert_eq!(Client::expect_rejection(&broker, &options), Reason::BAD_USER_NAME_OR_PASSWORD);
}

fn a_session_belongs_to_its_user(driver: &str) {
    let files = Files::new("");
    let broker = files.broker_with(driver, &["--allow-anonymous"]);
    let persistent = |options: ConnectOptions<'static>| ConnectOptions { clean: false, ..options };
    let (mut client, _) =
        Client::connect_with(&broker, &persistent(login_eve(Version::V3, "hers")));
    client.subscribe("t", QoS::AtLeastOnce);
    let others = || [login_adam(Version::V5, "hers"), ConnectOptions::new(Version::V5, "hers")];
    for options in others().into_iter().chain([persistent(login_adam(Version::V3, "hers"))]) {
        assert_eq!(Client::expect_rejection(&broker, &options), Reason::NOT_AUTHORIZED);
    }
    // The holder is not affected, and keeps its session while it is disconnected.
    Client::new(&broker, "publisher").publish("t", "one");
    client.expect_message("t", "one");
    client.disconnect();
    Client::new(&broker, "publisher").publish("t", "two");
    for options in others() {
        assert_eq!(Client::expect_rejection(&broker, &options), Reason::NOT_AUTHORIZED);
    }
    let (mut client, present) =
        Client::connect_with(&broker, &persistent(login_eve(Version::V3, "hers")));
    assert!(present);
    client.expect_message("t", "two");
    client.disconnect();
    // After the session has ended, another user may use the client id.
    Client::connect_with(&broker, &login_eve(Version::V5, "hers")).0.disconnect();
    Client::connect_with(&broker, &login_adam(Version::V5, "hers"));
}

const RULES: &str = "\
topic read weather/#
user eve
topic readwrite garden/#
topic deny garden/snake/#
topic write inbox/+
user adam
topic read garden/#
topic read inbox/adam
";

fn forbidden_publishes_are_rejected(driver: &str) {
    let files = Files::new(RULES);
    let broker = files.broker(driver);
    let (mut adam, _) = Client::connect_with(&broker, &login_adam(Version::V5, "adam"));
    adam.subscribe("garden/#", QoS::ExactlyOnce);
    let (mut eve, _) = Client::connect_with(&broker, &login_eve(Version::V5, "eve"));
    assert_eq!(eve.publish("garden/tree", "1"), Reason::SUCCESS);
    assert_eq!(eve.publish("garden/snake/says", "2"), Reason::NOT_AUTHORIZED);
    assert_eq!(eve.publish("elsewhere", "3"), Reason::NOT_AUTHORIZED);
    // Without waiting, so that allowed and rejected messages are routed together.
    for (n, topic) in ["garden/a", "garden/snake", "garden/b", "x", "garden/c"].iter().enumerate() {
        let n = n as u16 + 1;
        eve.publish_with(topic, "q0", Delivery::AtMostOnce, false, &[]);
        eve.publish_with(topic, "q2", Delivery::ExactlyOnce(id(n)), false, &[]);
    }
    let reasons = [1, 2, 3, 4, 5].map(|n| {
        let received = eve.next();
        let Packet::PubRec(ack) = received.packet() else { panic!("{received:?}") };
        assert_eq!(ack.id, id(n));
        ack.reason
    });
    let (yes, no) = (Reason::SUCCESS, Reason::NOT_AUTHORIZED);
    assert_eq!(reasons, [yes, no, yes, no, yes]);
    // The exchanges of rejected messages are complete.
    for (n, known) in [(1, yes), (2, Reason::PACKET_IDENTIFIER_NOT_FOUND), (3, yes)] {
        eve.send(&Packet::PubRel(Ack::success(id(n))));
        let received = eve.next();
        assert!(
            matches!(received.packet(), Packet::PubComp(ack) if ack.reason == known),
            "{received:?}"
        );
    }
    adam.expect_message("garden/tree", "1");
    for topic in ["garden/a", "garden/b", "garden/c"] {
        for payload in ["q0", "q2"] {
            let received = adam.next();
            let message = received.message();
            assert_eq!((message.topic, message.payload), (topic, payload.as_bytes()));
        }
    }
    // A will is a publish.
    let will = |topic| Some((topic, "gone", QoS::AtMostOnce, false, Vec::new()));
    let heir =
        ConnectOptions { will: will("garden/snake/x"), ..self::login_eve(Version::V5, "will") };
    assert_eq!(Client::expect_rejection(&broker, &heir), Reason::NOT_AUTHORIZED);
    let heir = ConnectOptions { will: will("garden/will"), ..self::login_eve(Version::V3, "will") };
    Client::connect_with(&broker, &heir).0.drop_connection();
    adam.expect_message("garden/will", "gone");
    // MQTT 3.1.1 has no reason code for it: the message is dropped.
    let (mut old, _) = Client::connect_with(&broker, &self::login_eve(Version::V3, "old"));
    assert_eq!(old.publish("elsewhere", "4"), Reason::SUCCESS);
    old.publish_with("elsewhere", "5", Delivery::ExactlyOnce(id(9)), false, &[]);
    assert!(matches!(old.next().packet(), Packet::PubRec(ack) if !ack.reason.is_failure()));
    old.send(&Packet::PubRel(Ack::success(id(9))));
    assert!(matches!(old.next().packet(), Packet::PubComp(_)));
    assert_eq!(old.publish("garden/old", "6"), Reason::SUCCESS);
    adam.expect_message("garden/old", "6");
}

fn forbidden_messages_are_not_delivered(driver: &str) {
    let files = Files::new(RULES);
    let broker = files.broker(driver);
    let plain = SubscribeOptions::default();
    let (mut eve, _) = Client::connect_with(&broker, &login_eve(Version::V5, "eve"));
    eve.retain("garden/first", "0");
    let (mut adam, _) = Client::connect_with(&broker, &login_adam(Version::V5, "adam"));
    let no = Reason::NOT_AUTHORIZED;
    let subscriptions = [("weather/#", plain), ("inbox/eve", plain), ("$share/g/weather", plain)];
    assert_eq!(adam.subscribe_with(&subscriptions, &[]), [no; 3]);
    let (mut old, _) = Client::connect_with(&broker, &self::login_adam(Version::V3, "old"));
    assert_eq!(old.subscribe_with(&[("weather/#", plain)], &[]), [Reason::UNSPECIFIED_ERROR]);
    // A partly allowed subscription is accepted, and its messages are filtered: retained ones, and content
    // matches too.
    assert_eq!(adam.subscribe_with(&[("#", plain), ("+/+?n=1", plain)], &[]), [Reason::SUCCESS; 2]);
    adam.expect_message("garden/first", "0");
    let (mut member, _) = Client::connect_with(&broker, &self::login_adam(Version::V5, "member"));
    let (mut owner_client, _) =
        Client::connect_with(&broker, &self::login_eve(Version::V5, "hers"));
    for client in [&mut member, &mut owner_client] {
        assert_eq!(client.subscribe_with(&[("$share/g/#", plain)], &[]), [Reason::SUCCESS]);
    }
    for n in 0..4 {
        eve.publish("inbox/eve", "secret");
        eve.publish("inbox/adam", &n.to_string());
        adam.expect_message("inbox/adam", &n.to_string());
        // One member may not read it, so the other one always gets it.
        member.expect_message("inbox/adam", &n.to_string());
    }
    eve.publish("garden/last", "9");
    adam.expect_message("garden/last", "9");
    // The session of an anonymous client.
    let others = files.broker_with(
        driver,
        &["--allow-anonymous", "--acl-file", files.path("rules").to_str().unwrap()],
    );
    let mut anonymous = Client::new(&others, "anybody");
    let subscriptions = [("weather/#", plain), ("garden/#", plain)];
    assert_eq!(anonymous.subscribe_with(&subscriptions, &[]), [Reason::SUCCESS, no]);
}

fn only_the_broker_publishes_system_topics(driver: &str) {
    let broker = Broker::start(driver);
    let mut client = Client::new(&broker, "a");
    client.subscribe("$SYS/mine", QoS::AtMostOnce);
    assert_eq!(client.publish("$SYS/mine", "x"), Reason::NOT_AUTHORIZED);
    assert_eq!(client.publish("$SYSTEM", "x"), Reason::NO_MATCHING_SUBSCRIBERS);
    client.expect_no_message();
}

fn files_are_reloaded(driver: &str) {
    let files = Files::new(RULES);
    let broker = files.broker(driver);
    let (mut adam, _) = Client::connect_with(&broker, &login_adam(Version::V5, "adam"));
    adam.subscribe("garden/#", QoS::AtMostOnce);
    let (mut eve, _) = Client::connect_with(&broker, &login_eve(Version::V5, "eve"));
    // A file with an error changes nothing.
    files.rules("topic grant #");
    broker.rereads("not reloaded; the old configuration remains in effect");
    eve.publish("garden/1", "x");
    adam.expect_message("garden/1", "x");
    // Existing connections follow the new rules and keep their subscriptions.
    files.users(&[("eve", "pear"), ("adam", "rib")]);
    files.rules("user eve\ntopic garden/#\nuser adam\ntopic read garden/here\n");
    broker.rereads("reloaded: ");
    eve.publish("garden/1", "y");
    eve.publish("garden/here", "z");
    adam.expect_message("garden/here", "z");
    assert_eq!(eve.publish("inbox/adam", "x"), Reason::NOT_AUTHORIZED);
    let refused = Client::expect_rejection(&broker, &self::login_eve(Version::V5, "again"));
    assert_eq!(refused, Reason::BAD_USER_NAME_OR_PASSWORD);
    let options = ConnectOptions {
        login: Some(("eve", "pear")),
        ..ConnectOptions::new(Version::V5, "again")
    };
    Client::connect_with(&broker, &options);
}

#[test]
fn missing_files_are_errors() {
    for flag in ["--password-file", "--acl-file"] {
        let output = bare()
            .args(["broker", "--ephemeral", "--listen", "127.0.0.1:0", flag, "/no/such/file"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("cannot read /no/such/file"), "{stderr}");
    }
}

fn tokens_are_passwords(driver: &str) {
    let files = Files::new("user eve\ntopic write eve/#\nuser adam\n");
    let (keys, config) = (files.path("keys.json"), files.path("broker.toml"));
    fs::write(&keys, KEYS).unwrap();
    let with = |audience: &str| {
        let jwt = format!("[jwt]\nkeys-file = {keys:?}\naudience = \"{audience}\"\n");
        fs::write(&config, jwt).unwrap();
    };
    with("mqtt");
    let rules = files.path("rules");
    let arguments = ["--config", config.to_str().unwrap(), "--acl-file", rules.to_str().unwrap()];
    let broker = Broker::start_with(driver, &arguments);
    for version in [Version::V5, Version::V3] {
        let options = |login| ConnectOptions { login, ..ConnectOptions::new(version, "c") };
        let mut client = Client::connect_with(&broker, &options(Some(("eve", TOKEN)))).0;
        if version == Version::V5 {
            let reason = client.publish("eve/a", "x");
            assert_ne!(reason, Reason::NOT_AUTHORIZED, "the token names the user");
            assert_eq!(client.publish("other", "x"), Reason::NOT_AUTHORIZED);
        }
        for login in [("adam", TOKEN), ("eve", EXPIRED), ("eve", &TOKEN[..TOKEN.len() - 4])] {
            let refused = Client::expect_rejection(&broker, &options(Some(login)));
            assert_eq!(refused, Reason::BAD_USER_NAME_OR_PASSWORD);
        }
        for login in [("eve", "apple"), ("eve", "")] {
            let refused = Client::expect_rejection(&broker, &options(Some(login)));
            assert_eq!(refused, Reason::BAD_USER_NAME_OR_PASSWORD, "{login:?}");
        }
        assert_eq!(Client::expect_rejection(&broker, &options(None)), Reason::NOT_AUTHORIZED);
    }
    // A client may send the token alone.
    for (token, is_valid) in [(TOKEN, true), (EXPIRED, false)] {
        let mut command = crate::server::bare();
        command.args(["pub", "--broker", &broker.address.to_string(), "-t", "eve/a", "-m", "x"]);
        let output = command.env("PHALANX_PASSWORD", token).output().unwrap();
        assert_eq!(output.status.success(), is_valid, "{output:?}");
    }
    // Another audience, and beside users with passwords.
    with("other");
    broker.rereads("reloaded: ");
    let refused =
        ConnectOptions { login: Some(("eve", TOKEN)), ..ConnectOptions::new(Version::V5, "c") };
    assert_eq!(Client::expect_rejection(&broker, &refused), Reason::BAD_USER_NAME_OR_PASSWORD);
    let both = files.broker_with(driver, &["--config", config.to_str().unwrap()]);
    drop(Client::connect_with(&both, &login_eve(Version::V5, "c")));
    assert_eq!(Client::expect_rejection(&both, &refused), Reason::BAD_USER_NAME_OR_PASSWORD);
}
