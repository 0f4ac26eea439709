//! Logins by SCRAM: AUTH packets of a client with its own implementation of the mechanism.

use std::fs;
use std::num::NonZeroU32;

use base64ct::{Base64, Encoding};
use phalanx_access::passwd::{self, Scheme};
use phalanx_access::scram::Mechanism;
use phalanx_mqtt::{
    Auth, Delivery, Packet, Properties, Property, PropertyBuffer, QoS, Reason, Version,
};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions};
use ring::{digest, hmac, pbkdf2};
use tempfile::TempDir;

use crate::broker::process::Broker;

crate::on_one_driver!(
    clients_prove_that_they_know_their_passwords,
    wrong_proofs_are_refused,
    exchanges_of_other_forms_are_refused,
    clients_authenticate_again,
    wrong_proofs_lock_out_a_user,
);

/// Eve has keys of SCRAM-SHA-256 with the password `apple`, Adam of SCRAM-SHA-512 with `rib`; the snake has none.
fn users(eve: &str) -> String {
    let scram = |mechanism| Scheme::Scram { mechanism, iterations: 4096 };
    let text = passwd::set("", "snake", b"hiss").unwrap();
    let text = passwd::set_as(&text, "eve", eve.as_bytes(), scram(Mechanism::Sha256)).unwrap();
    passwd::set_as(&text, "adam", b"rib", scram(Mechanism::Sha512)).unwrap()
}

fn broker(driver: &str) -> (TempDir, Broker) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("users");
    fs::write(&file, users("apple")).unwrap();
    let broker = Broker::start_with(driver, &["--password-file", file.to_str().unwrap()]);
    (home, broker)
}

/// The client's side of an exchange (RFC 5802, section 3).
struct Scram<'a> {
    method: &'a str,
    password: &'a str,
    bare: String,
}

impl<'a> Scram<'a> {
    fn new(method: &'a str, user: &str, password: &'a str) -> Self {
        Self { method, password, bare: format!("n={user},r=fyko+d2lbbFgONRv9qkxdawL") }
    }

    fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.bare).into()
    }

    /// The last message, and the broker's proof that has to follow.
    fn last(&self, challenge: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let challenge = str::from_utf8(challenge).unwrap();
        let mut fields = challenge.split(',').map(|field| &field[2..]);
        let (nonce, salt) = (fields.next().unwrap(), fields.next().unwrap());
        let iterations: NonZeroU32 = fields.next().unwrap().parse().unwrap();
        let (hash, mac, kdf) = match self.method {
            "SCRAM-SHA-512" => (&digest::SHA512, hmac::HMAC_SHA512, pbkdf2::PBKDF2_HMAC_SHA512),
            _ => (&digest::SHA256, hmac::HMAC_SHA256, pbkdf2::PBKDF2_HMAC_SHA256),
        };
        let sign = |key: &[u8], text: &str| {
            hmac::sign(&hmac::Key::new(mac, key), text.as_bytes()).as_ref().to_vec()
        };
        let mut salted = vec![0; hash.output_len()];
        let salt = Base64::decode_vec(salt).unwrap();
        pbkdf2::derive(kdf, iterations, &salt, self.password.as_bytes(), &mut salted);
        let bare = format!("c=biws,r={nonce}");
        let exchange = format!("{},{challenge},{bare}", self.bare);
        let key = sign(&salted, "Client Key");
        let signature = sign(digest::digest(hash, &key).as_ref(), &exchange);
        let proof: Vec<u8> = key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        let answer = sign(&sign(&salted, "Server Key"), &exchange);
        (
            format!("{bare},p={}", Base64::encode_string(&proof)).into(),
            format!("v={}", Base64::encode_string(&answer)).into(),
        )
    }

    fn connect(&self, broker: &Broker, login: Option<(&str, &str)>) -> Client {
        let (mut client, first) = (Client::open(broker, Version::V5), self.first());
        let properties =
            vec![Property::AuthenticationMethod(self.method), Property::AuthenticationData(&first)];
        // A session belongs to one user, and may outlast its connection for a moment.
        client.send_connect(&ConnectOptions {
            properties,
            login,
            ..ConnectOptions::new(Version::V5, &self.bare)
        });
        client
    }

    fn auth(&self, client: &mut Client, reason: Reason, data: &[u8]) {
        let mut properties = PropertyBuffer::new();
        properties.push(Property::AuthenticationMethod(self.method)).unwrap();
        properties.push(Property::AuthenticationData(data)).unwrap();
        client.send(&Packet::Auth(Auth { reason, properties: properties.get() }));
    }

    /// Connects with a whole exchange.
    fn login(&self, broker: &Broker) -> (Client, Reason) {
        let mut client = self.connect(broker, None);
        let challenge = challenge(&mut client, self.method);
        let (last, answer) = self.last(&challenge);
        self.auth(&mut client, Reason::CONTINUE_AUTHENTICATION, &last);
        let received = client.next();
        let Packet::ConnAck(ack) = received.packet() else { panic!("{received:?}") };
        if ack.reason == Reason::SUCCESS {
            assert_eq!(method_and_data(ack.properties), (self.method.to_owned(), answer));
        }
        let reason = ack.reason;
        (client, reason)
    }

    /// A whole exchange of a connected client.
    fn reauthenticate(&self, client: &mut Client) -> Result<(), Reason> {
        self.auth(client, Reason::RE_AUTHENTICATE, &self.first());
        let challenge = challenge(client, self.method);
        // Other packets are processed meanwhile.
        client.expect_no_message();
        let (last, answer) = self.last(&challenge);
        self.auth(client, Reason::CONTINUE_AUTHENTICATION, &last);
        let received = client.next();
        match received.packet() {
            Packet::Auth(Auth { reason: Reason::SUCCESS, properties }) => {
                assert_eq!(method_and_data(properties), (self.method.to_owned(), answer));
                Ok(())
            }
            Packet::Disconnect(disconnect) => Err(disconnect.reason),
            other => panic!("{other:?}"),
        }
    }
}

fn challenge(client: &mut Client, method: &str) -> Vec<u8> {
    let received = client.next();
    let Packet::Auth(Auth { reason: Reason::CONTINUE_AUTHENTICATION, properties }) =
        received.packet()
    else {
        panic!("{received:?}")
    };
    let (own, data) = method_and_data(properties);
    assert_eq!(own, method);
    data
}

fn method_and_data(properties: Properties<'_>) -> (String, Vec<u8>) {
    let (mut method, mut data) = (String::new(), Vec::new());
    for property in properties {
        match property {
            Property::AuthenticationMethod(name) => name.clone_into(&mut method),
            Property::AuthenticationData(bytes) => data = bytes.to_vec(),
            _ => (),
        }
    }
    (method, data)
}

fn clients_prove_that_they_know_their_passwords(driver: &str) {
    let (_home, broker) = broker(driver);
    for (method, user, password) in
        [("SCRAM-SHA-256", "eve", "apple"), ("SCRAM-SHA-512", "adam", "rib")]
    {
        let (mut client, reason) = Scram::new(method, user, password).login(&broker);
        assert_eq!(reason, Reason::SUCCESS);
        client.subscribe("t", QoS::AtMostOnce);
        client.publish_with("t", "x", Delivery::AtMostOnce, false, &[]);
        client.expect_message("t", "x");
        client.disconnect();
        // The keys also verify the password of a client that sends it.
        for version in [Version::V3, Version::V5] {
            let login = Some((user, password));
            Client::connect_with(
                &broker,
                &ConnectOptions { login, ..ConnectOptions::new(version, user) },
            );
            let login = Some((user, "pear"));
            let refused = Client::expect_rejection(
                &broker,
                &ConnectOptions { login, ..ConnectOptions::new(version, user) },
            );
            assert_eq!(refused, Reason::BAD_USER_NAME_OR_PASSWORD);
        }
    }
}

fn wrong_proofs_are_refused(driver: &str) {
    let (_home, broker) = broker(driver);
    for (user, password) in
        [("eve", "pear"), ("nobody", "apple"), ("snake", "hiss"), ("adam", "rib")]
    {
        let (mut client, reason) = Scram::new("SCRAM-SHA-256", user, password).login(&broker);
        assert_eq!(reason, Reason::BAD_USER_NAME_OR_PASSWORD, "{user}");
        assert!(client.try_next().is_none());
    }
}

fn exchanges_of_other_forms_are_refused(driver: &str) {
    let (_home, broker) = broker(driver);
    let refused = |client: &mut Client| match client.next().packet() {
        Packet::ConnAck(ack) => ack.reason,
        other => panic!("{other:?}"),
    };
    let eve = Scram::new("SCRAM-SHA-256", "eve", "apple");
    // A method that no user can use, and a client without a method.
    let other = Scram::new("SCRAM-SHA-1", "eve", "apple");
    assert_eq!(refused(&mut other.connect(&broker, None)), Reason::BAD_AUTHENTICATION_METHOD);
    let mut client = Client::open(&broker, Version::V5);
    let properties = vec![Property::AuthenticationData(b"n,,n=eve,r=a")];
    client.send_connect(&ConnectOptions { properties, ..ConnectOptions::new(Version::V5, "a") });
    assert_eq!(refused(&mut client), Reason::PROTOCOL_ERROR);
    // Malformed first messages, and another user in CONNECT.
    let malformed = Scram { bare: "n=eve".into(), ..Scram::new("SCRAM-SHA-256", "eve", "apple") };
    assert_eq!(refused(&mut malformed.connect(&broker, None)), Reason::NOT_AUTHORIZED);
    let mut client = eve.connect(&broker, Some(("adam", "rib")));
    assert_eq!(refused(&mut client), Reason::NOT_AUTHORIZED);
    // Malformed last messages, and another packet in their place.
    let mut client = eve.connect(&broker, None);
    let challenge = challenge(&mut client, eve.method);
    eve.auth(&mut client, Reason::CONTINUE_AUTHENTICATION, b"c=biws,r=a,p=AAAA");
    assert_eq!(refused(&mut client), Reason::NOT_AUTHORIZED);
    let mut client = eve.connect(&broker, None);
    self::challenge(&mut client, eve.method);
    // A proof for another exchange.
    eve.auth(&mut client, Reason::CONTINUE_AUTHENTICATION, &eve.last(&challenge).0);
    assert_eq!(refused(&mut client), Reason::NOT_AUTHORIZED);
    for packet in [
        Packet::PingReq,
        Packet::Auth(Auth {
            reason: Reason::CONTINUE_AUTHENTICATION,
            properties: Properties::NONE,
        }),
    ] {
        let mut client = eve.connect(&broker, None);
        self::challenge(&mut client, eve.method);
        client.send(&packet);
        assert_eq!(refused(&mut client), Reason::PROTOCOL_ERROR, "{packet:?}");
        assert!(client.try_next().is_none());
    }
    // A packet that is longer than an exchange needs is refused before it is received.
    let mut client = eve.connect(&broker, None);
    self::challenge(&mut client, eve.method);
    client.send_bytes(&[0xf0, 0xff, 0xff, 0x01]);
    assert_eq!(refused(&mut client), Reason::PACKET_TOO_LARGE);
}

fn clients_authenticate_again(driver: &str) {
    let (home, broker) = broker(driver);
    let eve = Scram::new("SCRAM-SHA-256", "eve", "apple");
    let connected = || {
        let (client, reason) = eve.login(&broker);
        assert_eq!(reason, Reason::SUCCESS);
        client
    };
    let mut client = connected();
    for _ in 0..3 {
        assert_eq!(eve.reauthenticate(&mut client), Ok(()));
    }
    let wrong = Scram::new("SCRAM-SHA-256", "eve", "pear");
    assert_eq!(wrong.reauthenticate(&mut client), Err(Reason::NOT_AUTHORIZED));
    assert!(client.try_next().is_none());
    // Another user, a step without a begin, and a second begin.
    let mut client = connected();
    let other = Scram::new("SCRAM-SHA-256", "snake", "hiss");
    other.auth(&mut client, Reason::RE_AUTHENTICATE, &other.first());
    assert_eq!(client.wait_for_close(), Some(Reason::NOT_AUTHORIZED));
    let mut client = connected();
    eve.auth(&mut client, Reason::CONTINUE_AUTHENTICATION, &eve.first());
    assert_eq!(client.wait_for_close(), Some(Reason::PROTOCOL_ERROR));
    let mut client = connected();
    eve.auth(&mut client, Reason::RE_AUTHENTICATE, &eve.first());
    challenge(&mut client, eve.method);
    eve.auth(&mut client, Reason::RE_AUTHENTICATE, &eve.first());
    assert_eq!(client.wait_for_close(), Some(Reason::PROTOCOL_ERROR));
    // A client that has sent its password has no method.
    let login = Some(("eve", "apple"));
    let mut client = Client::connect_with(
        &broker,
        &ConnectOptions { login, ..ConnectOptions::new(Version::V5, "b") },
    )
    .0;
    eve.auth(&mut client, Reason::RE_AUTHENTICATE, &eve.first());
    assert_eq!(client.wait_for_close(), Some(Reason::PROTOCOL_ERROR));
    // The password in force counts.
    let mut client = connected();
    fs::write(home.path().join("users"), users("plum")).unwrap();
    broker.rereads("reloaded: ");
    assert_eq!(eve.reauthenticate(&mut client), Err(Reason::NOT_AUTHORIZED));
}

/// Clients that have proven the password before are not locked out, like those that have sent it.
fn wrong_proofs_lock_out_a_user(driver: &str) {
    let (_home, broker) = broker(driver);
    let (eve, wrong) =
        (Scram::new("SCRAM-SHA-256", "eve", "apple"), Scram::new("SCRAM-SHA-256", "eve", "pear"));
    assert_eq!(eve.login(&broker).1, Reason::SUCCESS);
    let locked_out = eventually("lockout", || match wrong.login(&broker).1 {
        Reason::BAD_USER_NAME_OR_PASSWORD => None,
        reason => Some(reason),
    });
    assert_eq!(locked_out, Reason::CONNECTION_RATE_EXCEEDED);
    assert_eq!(eve.login(&broker).1, Reason::SUCCESS);
}
