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
    let is_installed =
        Command::new("mosquitto_pub").arg("--help").stdout(Stdio::null()).status().is_ok();
    if !is_installed {
        eprintln!("left out: mosquitto_pub is not installed (mosquitto-clients)");
    }
    is_installed
}

/// A broker with a TLS address next to the plain one, and the TLS address.
fn start(driver: &str, pair: &Pair, args: &[&str]) -> (Broker, SocketAddr) {
    let mut arguments = vec!["--listen", "mqtts://127.0.0.1:0"];
    arguments.extend(pair.arguments());
    arguments.extend_from_slice(args);
    let broker = Broker::start_with(driver, &arguments);
    let address = broker.next_address();
    (broker, address)
}

/// Publishes with mosquitto's client over TLS, with the client certificate `pair` if given.
pub(super) fn publish(
    address: SocketAddr,
    ca: &Path,
    pair: Option<&Pair>,
    args: &[&str],
) -> Output {
    let mut command = Command::new("mosquitto_pub");
    command.args(["-h", "localhost", "-p", &address.port().to_string(), "--cafile"]).arg(ca);
    if let Some(pair) = pair {
        command.arg("--cert").arg(&pair.certificate).arg("--key").arg(&pair.key);
    }
    command.args(["-q", "1"]).args(args).output().unwrap()
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
    let ca = authority.certificate();
    let file = ca.with_file_name("large");
    // Larger than a TLS record.
    for size in [1, 300, 16_384, 500_000] {
        let payload = "x".repeat(size);
        fs::write(&file, &payload).unwrap();
        for version in ["mqttv311", "mqttv5"] {
            let args = ["-V", version, "-t", "t", "-f", file.to_str().unwrap()];
            let output = publish(address, &ca, None, &args);
            assert!(output.status.success(), "{output:?}");
            reader.expect_message("t", &payload);
        }
    }
    // The other direction: the broker sends a retained message to a subscriber over TLS.
    reader.retain("kept", &"y".repeat(400_000));
    let mut command = Command::new("mosquitto_sub");
    command.args(["-h", "localhost", "-p", &address.port().to_string(), "-t", "kept", "-C", "1"]);
    let output = command.arg("--cafile").arg(&ca).output().unwrap();
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
    let ca = authority.certificate();
    let rules = ca.with_file_name("rules");
    fs::write(&rules, "topic read #\ntopic write marker/#\nuser eve\ntopic write garden/#\n")
        .unwrap();
    let args = ["--tls-client-ca", ca.to_str().unwrap(), "--acl-file", rules.to_str().unwrap()];
    let (broker, address) = start(driver, &authority.sign("a", &["localhost"]), &args);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("#", phalanx_mqtt::QoS::AtLeastOnce);
    let (eve, adam) = (authority.sign_client("eve"), authority.sign_client("adam"));
    // The user name of the CONNECT does not override the certificate.
    let args = ["-V", "mqttv5", "-t", "garden/x", "-m", "one", "-u", "eve", "-P", "guessed"];
    let output = publish(address, &ca, Some(&adam), &args);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Not authorized"), "{output:?}");
    let args = ["-V", "mqttv5", "-t", "garden/x", "-m", "two"];
    let output = publish(address, &ca, Some(&eve), &args);
    assert!(output.status.success(), "{output:?}");
    reader.expect_message("garden/x", "two");
    // Without a certificate, and with one signed by another authority.
    assert!(!publish(address, &ca, None, &args).status.success());
    let other_pair = Authority::new().sign_client("eve");
    assert!(!publish(address, &ca, Some(&other_pair), &args).status.success());
    reader.unsubscribe("#");
    reader.expect_no_message();
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
    let args = ["--tls-client-ca", ca, "--tls-client-crl", crl, "--log-events", "refusals"];
    let (broker, address) = start(driver, &pair, &args);
    let publish_as = |pair| publish(address, &trusted, Some(pair), &["-t", "t", "-m", "x"]);
    assert!(publish_as(&eve).status.success() && !publish_as(&adam).status.success());
    let reason = "why=\"the TLS handshake failed: invalid peer certificate: Revoked\"";
    eventually("the reason", || broker.stderr().contains(reason).then_some(()));
    // SIGHUP loads a new list immediately. An expired list rejects all clients.
    for (names, until, eve_is_accepted) in
        [(&["adam", "eve"][..], 2090, false), (&[], 2002, false), (&["adam"], 2090, true)]
    {
        authority.revoke(names, until);
        broker.rereads("reloaded: ");
        assert_eq!(publish_as(&eve).status.success(), eve_is_accepted, "{names:?} {until}");
    }
    assert!(!publish_as(&adam).status.success());
}

/// The name in the certificate in use.
fn certificate_of(address: SocketAddr) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("these tests need openssl: install it");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let start = text.find("-----BEGIN CERTIFICATE").unwrap_or(0);
    text[start..text.find("-----END CERTIFICATE").unwrap_or(start)].to_owned()
}

fn a_certificate_is_renewed(driver: &str) {
    let authority = Authority::new();
    let pair = authority.sign("a", &["localhost"]);
    let (broker, address) = start(driver, &pair, &[]);
    let before = certificate_of(address);
    assert!(!before.is_empty());
    authority.sign("a", &["localhost"]);
    eventually("the new certificate", || (certificate_of(address) != before).then_some(()));
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
        assert!(!certificate_of(address).is_empty());
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
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    assert!(received.first().is_none_or(|first| *first == 21), "{received:x?}");
    drop(Client::new(&broker, "well"));
}

#[test]
fn tls_needs_a_certificate() {
    let output = crate::server::bare()
        .args(["broker", "--ephemeral", "--listen", "mqtts://127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("tls.certificate"), "{stderr}");
}
