//! Settings of single addresses.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use phalanx_access::passwd;
use phalanx_mqtt::{Reason, Version};
use phalanx_testkit::authority::{Authority, Pair};
use phalanx_testkit::mqtt::{Client, ConnectOptions};
use tempfile::TempDir;

use crate::broker::access::tls;
use crate::broker::process::Broker;

crate::on_one_driver!(
    each_address_has_its_own_logins,
    limits_and_versions_of_an_address,
    certificates_of_one_address,
    settings_of_an_address_are_reloaded,
    values_that_stay_are_those_in_force,
    a_broken_certificate_of_one_address_changes_no_other,
);

/// Addresses with settings of their own, and one without, in the order of `listen`.
const LISTEN: &str = r#"listen = ["mqtt://127.0.0.2:0", "mqtt://127.0.0.3:0", "mqtt://127.0.0.4:0"]
password-file = "users"
"#;

/// A folder with two password files: eve's password is `apple`, and adam's, in the other file, `rib`, as is that of a
/// user with a long name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, name, password) in [("users", "eve", "apple"), ("others", "adam", "rib")] {
        let text = match file {
            "others" => passwd::set("", &"x".repeat(1025), b"rib").unwrap(),
            _ => String::new(),
        };
        let text = passwd::set(&text, name, password.as_bytes()).unwrap();
        fs::write(folder.path().join(file), text).unwrap();
    }
    folder
}

/// A broker with this configuration, and its three addresses.
fn start(driver: &str, folder: &Path, text: &str) -> (Broker, [SocketAddr; 3]) {
    let file = folder.join("broker.toml");
    fs::write(&file, text).unwrap();
    let broker = Broker::start_by(driver, &file);
    let addresses = [broker.address, broker.next_address(), broker.next_address()];
    (broker, addresses)
}

fn with<'a>(login: (&'a str, &'a str), id: &'a str) -> ConnectOptions<'a> {
    ConnectOptions { login: Some(login), ..ConnectOptions::new(Version::V5, id) }
}

fn each_address_has_its_own_logins(driver: &str) {
    let (folder, of_two) = (folder(), "address = \"mqtt://127.0.0.2:0\"\nallow-anonymous = true");
    let of_three =
        "address = \"mqtt://127.0.0.3:0\"\npassword-file = \"others\"\nuser-as-client-id = true";
    let text = format!("{LISTEN}[[listener]]\n{of_two}\n[[listener]]\n{of_three}\n");
    let (_broker, [two, three, four]) = start(driver, folder.path(), &text);
    let (eve, adam) = (with(("eve", "apple"), "a"), with(("adam", "rib"), "a"));
    let anonymous = ConnectOptions::new(Version::V5, "b");
    Client::connect_with(two, &anonymous);
    Client::connect_with(two, &eve);
    assert_eq!(Client::expect_rejection(two, &adam), Reason::BAD_USER_NAME_OR_PASSWORD);
    assert_eq!(Client::expect_rejection(three, &anonymous), Reason::NOT_AUTHORIZED);
    assert_eq!(Client::expect_rejection(three, &eve), Reason::BAD_USER_NAME_OR_PASSWORD);
    assert_eq!(Client::expect_rejection(four, &anonymous), Reason::NOT_AUTHORIZED);
    Client::connect_with(four, &eve);
    assert_eq!(Client::expect_rejection(four, &adam), Reason::BAD_USER_NAME_OR_PASSWORD);
    let long = "x".repeat(1025);
    assert_eq!(Client::expect_rejection(three, &with((&long, "rib"), "a")), Reason::NOT_AUTHORIZED);
    // The user name is the client identifier, so the second connection takes the session over.
    let (mut first, _) = Client::connect_with(three, &adam);
    Client::connect_with(three, &with(("adam", "rib"), "c"));
    assert_eq!(first.wait_for_close(), Some(Reason::SESSION_TAKEN_OVER));
}

fn limits_and_versions_of_an_address(driver: &str) {
    let folder = folder();
    let own = "[[listener]]\naddress = \"mqtt://127.0.0.2:0\"\nallow-anonymous = true\nprotocols = \"5\"\n\
               max-connections = 1\nmax-packet-size = 200\n";
    let text = format!("allow-anonymous = true\n{LISTEN}{own}");
    let (_broker, [two, three, _]) = start(driver, folder.path(), &text);
    let old = ConnectOptions::new(Version::V3, "a");
    let refused = Client::expect_rejection(two, &old);
    assert_eq!(refused, Reason::UNSUPPORTED_PROTOCOL_VERSION);
    Client::connect_with(three, &old);
    // The connection that was refused may not have ended yet.
    let mut first = phalanx_testkit::eventually("a free connection", || {
        let mut client = Client::open(two, Version::V5);
        client.send_connect(&ConnectOptions::new(Version::V5, "b"));
        let accepted = client.next();
        matches!(accepted.packet(), phalanx_mqtt::Packet::ConnAck(ack) if ack.reason == Reason::SUCCESS)
            .then_some(client)
    });
    assert_eq!(
        Client::expect_rejection(two, &ConnectOptions::new(Version::V5, "c")),
        Reason::SERVER_BUSY
    );
    Client::connect_with(three, &ConnectOptions::new(Version::V5, "c"))
        .0
        .publish("t", &"x".repeat(300));
    let long = phalanx_testkit::mqtt::encode(
        &phalanx_mqtt::Packet::Publish(phalanx_mqtt::Publish {
            topic: "t",
            payload: &[b'x'; 300],
            delivery: phalanx_mqtt::Delivery::AtMostOnce,
            retain: false,
            duplicate: false,
            properties: phalanx_mqtt::Properties::NONE,
        }),
        Version::V5,
    );
    first.send_bytes(&long);
    assert_eq!(first.wait_for_close(), Some(Reason::PACKET_TOO_LARGE));
}

fn certificates_of_one_address(driver: &str) {
    if !tls::are_here() {
        return;
    }
    let (authority, folder) = (Authority::new(), folder());
    let (pair, ca) = (authority.sign("a", &["localhost"]), authority.certificate());
    let text = format!(
        "listen = [\"mqtts://127.0.0.1:0\", \"mqtts://127.0.0.2:0\", \"mqtt://127.0.0.3:0\"]\n\
         password-file = \"users\"\n[tls]\ncertificate = {:?}\nkey = {:?}\n[[listener]]\n\
         address = \"mqtts://127.0.0.1:0\"\nlogins = []\ntls = {{ certificate = {:?}, key = {:?}, client-ca = {:?} }}\n",
        pair.certificate, pair.key, pair.certificate, pair.key, ca
    );
    let (broker, [certificates, passwords, _]) = start(driver, folder.path(), &text);
    let eve = authority.sign_client("eve");
    let args = ["-V", "mqttv5", "-t", "t", "-m", "x"];
    let login = ["-V", "mqttv5", "-t", "t", "-m", "x", "-u", "eve", "-P", "apple"];
    assert!(tls::publish(certificates, &ca, Some(&eve), &args).status.success());
    assert!(!tls::publish(certificates, &ca, None, &login).status.success());
    let insecure = [&login[..], &["--insecure", "-h", "127.0.0.2"]].concat();
    let output = tls::publish(passwords, &ca, None, &insecure);
    assert!(output.status.success(), "{output:?}");
    // The authorities of an address need a restart.
    let changed = text.replace("logins = []\ntls = {", "# ");
    fs::write(folder.path().join("broker.toml"), changed).unwrap();
    broker.rereads("restart to apply");
    assert!(!tls::publish(certificates, &ca, None, &login).status.success());
}

fn settings_of_an_address_are_reloaded(driver: &str) {
    let folder = folder();
    let own = "[[listener]]\naddress = \"mqtt://127.0.0.2:0\"\nallow-anonymous = true\n";
    let text = format!("{LISTEN}{own}");
    let (broker, [two, three, _]) = start(driver, folder.path(), &text);
    let anonymous = ConnectOptions::new(Version::V5, "a");
    Client::connect_with(two, &anonymous);
    assert_eq!(Client::expect_rejection(three, &anonymous), Reason::NOT_AUTHORIZED);
    fs::write(folder.path().join("broker.toml"), text.replace("2:0\"\nallow", "3:0\"\nallow"))
        .unwrap();
    broker.rereads("reloaded");
    assert_eq!(Client::expect_rejection(two, &anonymous), Reason::NOT_AUTHORIZED);
    Client::connect_with(three, &anonymous);
}

fn a_broken_certificate_of_one_address_changes_no_other(driver: &str) {
    if !tls::are_here() {
        return;
    }
    let (authority, folder) = (Authority::new(), folder());
    let [first, second] = ["a", "b"].map(|name| authority.sign(name, &["localhost"]));
    let other_authority = Authority::new();
    let other = other_authority.sign("c", &["localhost"]);
    let with = |pair: &Pair| {
        format!(
            "listen = [\"mqtts://127.0.0.1:0\", \"mqtts://127.0.0.2:0\", \"mqtt://127.0.0.3:0\"]\n[tls]\n\
             certificate = {:?}\nkey = {:?}\n[[listener]]\naddress = \"mqtts://127.0.0.2:0\"\n\
             tls = {{ certificate = {:?}, key = {:?} }}\n",
            pair.certificate, pair.key, second.certificate, second.key
        )
    };
    let (broker, [address, ..]) = start(driver, folder.path(), &with(&first));
    fs::write(&second.certificate, "").unwrap();
    fs::write(folder.path().join("broker.toml"), with(&other)).unwrap();
    broker.rereads(second.certificate.to_str().unwrap());
    let output = tls::publish(address, &authority.certificate(), None, &["-t", "t", "-m", "x"]);
    assert!(output.status.success(), "{output:?}");
}

/// A setting that cannot be removed keeps the value of the last reload, not that of the start.
fn values_that_stay_are_those_in_force(driver: &str) {
    let folder = folder();
    let (broker, _) = start(driver, folder.path(), LISTEN);
    for (file, is_logged) in [("password-file = \"others\"\n", false), ("", true)] {
        let text = LISTEN.replace("password-file = \"users\"\n", file);
        fs::write(folder.path().join("broker.toml"), text).unwrap();
        let before = broker.stderr().len();
        broker.rereads("reloaded: ");
        assert_eq!(
            broker.stderr()[before..].contains("password-file: changed"),
            is_logged,
            "{file}"
        );
        let refused = Client::expect_rejection(&broker, &with(("eve", "apple"), "a"));
        assert_eq!(refused, Reason::BAD_USER_NAME_OR_PASSWORD, "{file}");
        Client::connect_with(&broker, &with(("adam", "rib"), "b"));
    }
}
