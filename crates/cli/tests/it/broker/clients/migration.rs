//! Migrating from mosquitto: its configuration, its password hashes, and its ways to name an address.

use std::fs;
use std::process::Output;

use phalanx_mqtt::{Reason, Version};
use phalanx_testkit::mqtt::{Client, ConnectOptions};

use crate::broker::process::Broker;
use crate::server::bare;

crate::on_each_driver!(passwords_of_mosquitto_are_accepted, addresses_of_mosquitto_are_accepted);

/// The password is `apple`. These are the formats of mosquitto_passwd since 2.0 and before.
const USERS: &str = "\
new:$7$101$AAECAwQFBgcICQoL$MXsjLC6lzVA2S8FKfg98+19trbQ+/1is2VPKiB3b5jB9C0saOOds+/MkQ2SJekmWezYvQs74UcvfK/otAa7Bug==
old:$6$AAECAwQFBgcICQoL$gqky2oGnkP2AndGycW6dMMAb8Q2jatD5jj7Lsn6notjjKmHVSXtFkYAfEXME4nk2KhjPnkKR57rLPGT4KEK+HA==
";

fn passwords_of_mosquitto_are_accepted(driver: &str) {
    let users = tempfile::NamedTempFile::new().unwrap();
    fs::write(users.path(), USERS).unwrap();
    let broker = Broker::start_with(driver, &["--password-file", users.path().to_str().unwrap()]);
    for user in ["new", "old"] {
        let options = |password| ConnectOptions {
            login: Some((user, password)),
            ..ConnectOptions::new(Version::V3, user)
        };
        Client::connect_with(&broker, &options("apple"));
        assert_eq!(
            Client::expect_rejection(&broker, &options("pear")),
            Reason::BAD_USER_NAME_OR_PASSWORD
        );
    }
    let output = broker.stderr();
    assert!(output.contains("2 users have hashes of mosquitto_passwd"), "{output}");
}

fn addresses_of_mosquitto_are_accepted(driver: &str) {
    for arguments in [&["-p", "0"][..], &["--listen", "localhost:0"], &["-l", "mqtt://localhost:0"]]
    {
        let broker = Broker::start_bare(driver, arguments);
        assert!(broker.address.ip().is_loopback());
        Client::new(&broker, "a");
    }
}

fn import(text: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    bare().args(["broker", "--import"]).arg(file.path()).output().unwrap()
}

#[test]
fn a_configuration_of_mosquitto_is_translated() {
    let home = tempfile::tempdir().unwrap();
    let users = home.path().join("users");
    fs::write(&users, USERS).unwrap();
    let own = format!(
        "per_listener_settings false\nlistener 1883\npassword_file {}\npersistence false\n\
         connection up\naddress 192.0.2.1\ntopic a/# out\nbridge_bind_address 192.0.2.7\nremote_clientid me\nmax_keepalive 60\n",
        users.display()
    );
    let output = import(&own);
    assert!(output.status.success(), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let left_out: Vec<_> = stderr.lines().filter(|line| line.contains(": left out: ")).collect();
    assert!(
        left_out[0].contains(":8: bridge_bind_address 192.0.2.7: left out: the system"),
        "{stderr}"
    );
    assert!(stderr.ends_with("10 options: 8 translated, 1 not needed, 1 left out\n"), "{stderr}");
    // The broker reads what was printed.
    let new = home.path().join("broker.toml");
    fs::write(&new, output.stdout).unwrap();
    let printed = bare().args(["broker", "--print-config", "--config"]).arg(&new).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    for line in [
        "address = [\"mqtt://192.0.2.1:1883\"]",
        "listen = [\"mqtt://[::]:1883\"]",
        "max-keep-alive = \"60s\"",
        "ephemeral = true",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
}

#[test]
fn a_configuration_of_mosquitto_is_recognized() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let check = |text: &str| {
        fs::write(file.path(), text).unwrap();
        let output = bare().args(["broker", "--check", "--config"]).arg(file.path()).output();
        let Output { status, stderr, .. } = output.unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    };
    for text in [
        "# x\n\npid_file /run/m.pid\n",
        "listener 1883\n",
        "persistence\n",
        "include_dir /d\n",
        "connection a\n",
    ] {
        let (code, stderr) = check(text);
        assert_eq!(code, Some(2));
        assert!(stderr.contains("translate it: phalanx broker --import"), "{text}: {stderr}");
    }
    for (text, code) in
        [("listen \"1884\"\n", 2), ("# listener 1883\nlisten = \"1884\"\n", 0), ("", 0)]
    {
        let (found, stderr) = check(text);
        assert!(found == Some(code) && !stderr.contains("--import"), "{text}: {stderr}");
    }
}

#[test]
fn invalid_imports_are_reported() {
    // mosquitto rejects all clients with this configuration.
    let output = import("listener 1883\n");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("allow-anonymous"), "{stderr}");
    let output = bare().args(["broker", "--import", "/nowhere"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}
