//! MQTT over TLS with mosquitto's clients and openssl.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use phalanx_testkit::authority::{Authority, Pair};
use phalanx_testkit::mqtt::Client;
use phalanx_testkit::{TIMEOUT, eventually};

use crate::broker::process::Broker;

crate::on_each_driver!(
    messages_of_all_sizes,
    users_are_named_by_certificates,
    revoked_certificates_are_rejected,
    a_certificate_is_renewed,
    a_check_of_files_that_hangs,
    clients_without_a_handshake,
);

pub(super) fn are_here() -> bool {
    let here = Command::new("mosquitto_pub").arg("--help").stdout(Stdio::null()).status().is_ok();
    if !here {
        eprintln!("left out: mosquitto_pub is not installed (mosquitto-clients)");
    }
    here
}

/// A broker with a TLS address next to the plain one, and the TLS address.
fn start(driver: &str, pair: &Pair, more: &[&str]) -> (Broker, SocketAddr) {
    let mut arguments = vec!["--listen", "mqtts://127.0.0.1:0"];
    arguments.extend(pair.arguments());
    arguments.extend_from_slice(more);
    let broker = Broker::start_with(driver, &arguments);
    let address = broker.next_address();
    (broker, address)
}

/// Publishes with mosquitto's client over TLS, with the client certificate `own` if given.
pub(super) fn publish(
    address: SocketAddr,
    trusted: &Path,
    own: Option<&Pair>,
    more: &[&str],
) -> Output {
    let mut command = Command::new("mosquitto_pub");
    command.args(["-h", "localhost", "-p", &address.port().to_string(), "--cafile"]).arg(trusted);
    if let Some(own) = own {
        command.arg("--cert").arg(&own.certificate).arg("--key").arg(&own.key);
    }
    command.args(["-q", "1"]).args(more).output().unwrap()
}

fn messages_of_all_sizes(driver: &str) {
    if !are_here() {
        return;
    }
    let authority = Authority::new();
    let pair = authority.sign("a", &["localhost"]);
    // A busy machine may stall an operation, which the broker would report on stderr.
    let (broker, address) = start(driver, &pair, &["--stall-threshold", "0"]);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("t", phalanx_mqtt::QoS::AtLeastOnce);
    let trusted = authority.certificate();
    let file = trusted.with_file_name("large");
    // Larger than a TLS record.
    for size in [1, 300, 16_384, 500_000] {
        let payload = "x".repeat(size);
        fs::write(&file, &payload).unwrap();
        for version in ["mqttv311", "mqttv5"] {
            let more = ["-V", version, "-t", "t", "-f", file.to_str().unwrap()];
            let output = publish(address, &trusted, None, &more);
            assert!(output.status.success(), "{output:?}");
            reader.receives("t", &payload);
        }
    }
    // The other direction: the broker sends a retained message to a subscriber over TLS.
    reader.retain("kept", &"y".repeat(400_000));
    let mut command = Command::new("mosquitto_sub");
    command.args(["-h", "localhost", "-p", &address.port().to_string(), "-t", "kept", "-C", "1"]);
    let output = command.arg("--cafile").arg(&trusted).output().unwrap();
    assert_eq!(output.stdout.len(), 400_001, "{:?}", output.stderr);
    // A client that trusts another authority does not connect.
    let other = Authority::new();
    let output = publish(address, &other.certificate(), None, &["-t", "t", "-m", "x"]);
    assert!(!output.status.success());
    assert_eq!(broker.stderr(), "");
}

fn users_are_named_by_certificates(driver: &str) {
    if !are_here() {
        return;
    }
    let authority = Authority::new();
    let trusted = authority.certificate();
    let rules = trusted.with_file_name("rules");
    fs::write(&rules, "topic read #\ntopic write marker/#\nuser eve\ntopic write garden/#\n")
        .unwrap();
    let more =
        ["--tls-client-ca", trusted.to_str().unwrap(), "--acl-file", rules.to_str().unwrap()];
    let (broker, address) = start(driver, &authority.sign("a", &["localhost"]), &more);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("#", phalanx_mqtt::QoS::AtLeastOnce);
    let (eve, adam) = (authority.sign_client("eve"), authority.sign_client("adam"));
    // The user name of the CONNECT does not override the certificate.
    let more = ["-V", "mqttv5", "-t", "garden/x", "-m", "one", "-u", "eve", "-P", "guessed"];
    let output = publish(address, &trusted, Some(&adam), &more);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Not authorized"), "{output:?}");
    let more = ["-V", "mqttv5", "-t", "garden/x", "-m", "two"];
    let output = publish(address, &trusted, Some(&eve), &more);
    assert!(output.status.success(), "{output:?}");
    reader.receives("garden/x", "two");
    // Without a certificate, and with one signed by another authority.
    assert!(!publish(address, &trusted, None, &more).status.success());
    let stranger = Authority::new().sign_client("eve");
    assert!(!publish(address, &trusted, Some(&stranger), &more).status.success());
    reader.unsubscribe("#");
    reader.receives_nothing();
}

fn revoked_certificates_are_rejected(driver: &str) {
    if !are_here() {
        return;
    }
    let authority = Authority::new();
    let (trusted, list) = (authority.certificate(), authority.revoke(&["adam"], 2090));
    let pair = authority.sign("a", &["localhost"]);
    let (eve, adam) = (authority.sign_client("eve"), authority.sign_client("adam"));
    let (ca, crl) = (trusted.to_str().unwrap(), list.to_str().unwrap());
    let more = ["--tls-client-ca", ca, "--tls-client-crl", crl, "--log-events", "refusals"];
    let (broker, address) = start(driver, &pair, &more);
    let said = |own| publish(address, &trusted, Some(own), &["-t", "t", "-m", "x"]);
    assert!(said(&eve).status.success() && !said(&adam).status.success());
    let why = "why=\"the TLS handshake failed: invalid peer certificate: Revoked\"";
    eventually("the reason", || broker.stderr().contains(why).then_some(()));
    // SIGHUP loads a new list at once. An expired list rejects all clients.
    for (names, until, eve_is_well) in
        [(&["adam", "eve"][..], 2090, false), (&[], 2002, false), (&["adam"], 2090, true)]
    {
        authority.revoke(names, until);
        broker.rereads("reloaded: ");
        assert_eq!(said(&eve).status.success(), eve_is_well, "{names:?} {until}");
    }
    assert!(!said(&adam).status.success());
}

/// The name in the certificate in use.
fn shown(address: SocketAddr) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("these tests need openssl: install it");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let begin = text.find("-----BEGIN CERTIFICATE").unwrap_or(0);
    text[begin..text.find("-----END CERTIFICATE").unwrap_or(begin)].to_owned()
}

fn a_certificate_is_renewed(driver: &str) {
    let authority = Authority::new();
    let pair = authority.sign("a", &["localhost"]);
    let (broker, address) = start(driver, &pair, &[]);
    let before = shown(address);
    assert!(!before.is_empty());
    authority.sign("a", &["localhost"]);
    eventually("the new certificate", || (shown(address) != before).then_some(()));
    eventually("a message", || broker.stderr().contains("was reloaded").then_some(()));
}

/// A handshake uses the files loaded before if those of now cannot be read in time.
fn a_check_of_files_that_hangs(driver: &str) {
    /// `O_NONBLOCK` on Linux.
    const NONBLOCK: i32 = 0o4000;
    let authority = Authority::new();
    let pair = authority.sign("a", &["localhost"]);
    let (broker, address) = start(driver, &pair, &["--connect-timeout", "2s"]);
    fs::remove_file(&pair.certificate).unwrap();
    assert!(Command::new("mkfifo").arg(&pair.certificate).status().unwrap().success());
    // A pipe can be opened once the broker reads it.
    let mut pipe = fs::File::options();
    let pipe = pipe.write(true).custom_flags(NONBLOCK);
    let mut pipe = eventually("a check of the files", || {
        assert!(!shown(address).is_empty());
        pipe.open(&pair.certificate).ok()
    });
    pipe.write_all(b"-").unwrap();
    drop(pipe);
    drop(Client::new(&broker, "well"));
}

fn clients_without_a_handshake(driver: &str) {
    let authority = Authority::new();
    let (broker, address) = start(driver, &authority.sign("a", &["localhost"]), &[]);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00").unwrap();
    // At most a TLS alert.
    let mut came = Vec::new();
    let _ = stream.read_to_end(&mut came);
    assert!(came.first().is_none_or(|first| *first == 21), "{came:x?}");
    drop(Client::new(&broker, "well"));
}

#[test]
fn tls_needs_a_certificate() {
    let output = crate::server::bare()
        .args(["broker", "--ephemeral", "--listen", "mqtts://127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tls.certificate"), "{said}");
}
