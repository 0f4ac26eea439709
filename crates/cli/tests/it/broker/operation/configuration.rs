//! Configuration by file, environment and flags, and their precedence.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use phalanx_mqtt::{Delivery, Packet, Property, Reason, SubscribeOptions, Version};
use phalanx_testkit::authority::{self, Authority, Pair};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions};
use tempfile::TempDir;

use crate::broker::process::Broker;
use crate::server::bare;

crate::on_one_driver!(
    a_file_takes_effect,
    a_file_is_reloaded,
    listen_addresses_are_reloaded,
    reloads_are_atomic,
    a_reload_does_not_admit_everyone,
    other_authorities,
);

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// The effective configuration of `phalanx broker`.
fn stdout_of(command: &mut Command) -> String {
    let (code, stdout, stderr) = run(command);
    assert_eq!((code, &stderr[..]), (Some(0), ""), "{command:?}");
    stdout
}

fn print(arguments: &[&str]) -> Command {
    let mut command = bare();
    command.args(["broker", "--print-config"]).args(arguments);
    command
}

/// The configuration in the Debian package.
#[test]
fn the_packaged_configuration_is_valid() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/debian/broker.toml");
    let full_config = stdout_of(&mut print(&["--config", file]));
    assert!(full_config.contains("persistence-dir = \"/var/lib/phalanx-broker\""), "{full_config}");
    assert!(full_config.contains("listen = [\"mqtt://127.0.0.1:1883\"]"), "{full_config}");
}

/// Precedence: flag, environment variable, --set, file, default.
#[test]
fn sources_have_an_order_of_precedence() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("broker.toml");
    let text = "
        max-sessions = 1
        max-subscriptions = 1
        max-queued-messages = 1
        max-connections = 1
        listen = ['127.0.0.1:1', 'ws://127.0.0.1:2']
        persistence-dir = 'kept'
        ephemeral = false
    ";
    fs::write(&file, text).unwrap();
    let mut command =
        print(&["--max-queued-messages", "4", "--listen", "ws://127.0.0.1:3", "--ephemeral"]);
    command.args(["--set", "max-subscriptions = 2", "--set", "max-connections = 2"]);
    command.args(["--set", "max-queued-messages = 2"]).env("PHALANX_BROKER_CONFIG", &file);
    command
        .env("PHALANX_BROKER_MAX_QUEUED_MESSAGES", "3")
        .env("PHALANX_BROKER_MAX_CONNECTIONS", "3");
    let stdout = stdout_of(&mut command);
    for line in [
        "max-sessions = 1",
        "max-subscriptions = 2",
        "max-connections = 3",
        "max-queued-messages = 4",
        "listen = [\"ws://127.0.0.1:3\"]",
        "persistence-dir = false",
        "ephemeral = true",
    ] {
        assert!(stdout.lines().any(|other| other == line), "{line}:\n{stdout}");
    }
    let port = stdout_of(print(&["-p", "4"]).env("PHALANX_BROKER_LISTEN", "127.0.0.1:5"));
    assert!(port.contains("listen = [\"mqtt://127.0.0.1:4\"]"), "{port}");
    let (code, _, stderr) = run(&mut print(&["-p", "4", "--listen", "127.0.0.1:5"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("--port cannot be used with --listen"), "{stderr}");
    // The printed text is an equivalent configuration.
    let reprinted = home.path().join("again.toml");
    fs::write(&reprinted, &stdout).unwrap();
    assert_eq!(stdout_of(print(&["--config"]).arg(&reprinted)), stdout);
    // Relative paths in a file are based at the file, independent of the current directory.
    let from_root = stdout_of(print(&["--config"]).arg(&file).current_dir("/"));
    let data = format!("persistence-dir = \"{}\"", home.path().join("kept").display());
    assert!(from_root.contains(&data), "{from_root}");
    // --persistence-dir overrides `ephemeral`.
    let data = stdout_of(&mut print(&["--set", "ephemeral = true", "--persistence-dir", "/d"]));
    assert!(
        data.contains("ephemeral = false") && data.contains("persistence-dir = \"/d\""),
        "{data}"
    );
}

/// Each key has a flag and an environment variable, with which the printed configuration reads back.
#[test]
fn every_key_has_a_flag_and_a_variable() {
    let tables = [
        "--tls-certificate=c",
        "--tls-key=k",
        "--tls-client-ca=c",
        "--jwt-keys-file=k",
        "--cluster=nats://nats",
    ];
    let before = stdout_of(print(&tables).arg("--persistence-dir=d"));
    let mut flags = 0;
    for line in before.lines().filter(|line| !line.starts_with('[') && !line.is_empty()) {
        let (name, value) = line.split_once(" = ").unwrap();
        let flag = match name {
            "certificate" | "key" | "client-ca" | "client-crl" => format!("tls-{name}"),
            "keys-file" | "user-claim" | "audience" | "issuer" => format!("jwt-{name}"),
            // A list of tables has neither.
            "persistence-dir" | "ephemeral" | "bridge" | "listener" => continue,
            // These exclude others: see below.
            "auth-http" | "keys-url" | "keys-ca" | "keys-max-age" => continue,
            name => name.to_owned(),
        };
        // Another value of the same type.
        let value = match value.trim_matches('"') {
            "false" if flag.ends_with("-rate") || flag.ends_with("-per-address") => "5",
            "false"
                if ["profile", "jwt-audience", "jwt-issuer"].contains(&&*flag)
                    || ["-file", "-ca", "-crl"].iter().any(|end| flag.ends_with(end)) =>
            {
                "file"
            }
            "false" if flag == "admin" => "127.0.0.1:5",
            "false" if flag.starts_with("max-") => "5s",
            "false" => "true",
            "true" => "false",
            "auto" if flag == "placement" => "off",
            "auto" => "poll",
            "[]" if flag == "log-events" => "connects",
            _ if flag == "cluster" => "nats://a",
            "[]" => "https://a",
            "text" => "json",
            "c" | "k" => "file",
            _ if flag == "logins" => "jwt",
            _ if flag == "protocols" => "5",
            text if text.starts_with('[') => "ws://127.0.0.1:5",
            text if text.ends_with('s') && flag.starts_with("cluster") => "7s",
            text if text.ends_with('s') => "7ms",
            text if text.ends_with(['K', 'M', 'G']) => "64K",
            _ => "7",
        };
        let value = if flag == "admin-hosts" { "a" } else { value };
        check_flag((&flag, value), &tables, &before);
        flags += 1;
    }
    assert!(flags > 35, "{flags}");
}

#[test]
fn keys_of_services_have_flags_and_variables() {
    let tables = ["--auth-http-login-url=https://a", "--jwt-keys-url=https://a"];
    let before = stdout_of(print(&tables).arg("--persistence-dir=d"));
    for (flag, value) in [
        ("jwt-keys-url", "https://b"),
        ("jwt-keys-ca", "file"),
        ("jwt-keys-max-age", "120s"),
        ("auth-http-login-url", "https://b"),
        ("auth-http-format", "form"),
        ("auth-http-ca", "file"),
        ("auth-http-authorization-file", "file"),
        ("auth-http-timeout", "7s"),
        ("auth-http-max-requests", "7"),
        ("auth-http-allow-lifetime", "7s"),
        ("auth-http-deny-lifetime", "7s"),
        ("auth-http-max-answers", "7"),
    ] {
        check_flag((flag, value), &tables, &before);
    }
}

/// Checks that a flag and its variable have the same effect on the configuration `before`, which other flags set.
fn check_flag((flag, value): (&str, &str), others: &[&str], before: &str) {
    let others: Vec<_> = others.iter().filter(|other| !other.contains(flag)).copied().collect();
    let printed_by = |command: &mut Command| stdout_of(command.arg("--persistence-dir=d"));
    let by_flag = printed_by(print(&others).arg(format!("--{flag}={value}")));
    let variable = format!("PHALANX_BROKER_{}", flag.to_uppercase().replace('-', "_"));
    let by_variable = printed_by(print(&others).env(&variable, value));
    assert_eq!(by_flag, by_variable, "{variable}");
    assert_ne!(by_flag, before, "--{flag}={value}");
}

/// A folder with all files that a configuration may name.
fn files() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let users = phalanx_access::passwd::set("", "eve", b"apple").unwrap();
    fs::write(home.path().join("users"), users).unwrap();
    fs::write(home.path().join("rules"), "user eve\ntopic write garden/#\n").unwrap();
    home
}

#[test]
fn a_check_reports_all_errors() {
    let home = files();
    let file = home.path().join("broker.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        run(bare().args(["broker", "--check", "--config"]).arg(&file))
    };
    let authority = Authority::new();
    let pair = authority.sign("a", &["localhost"]);
    let path = |path: &Path| path.display().to_string();
    let tls = format!(
        "[tls]\ncertificate = '{}'\nkey = '{}'\nclient-ca = '{}'\n",
        path(&pair.certificate),
        path(&pair.key),
        path(&authority.certificate())
    );
    let all = "password-file = 'users'\nacl-file = 'rules'\npersistence-dir = 'kept/here'\n";
    assert_eq!(check(&format!("{all}{tls}")), (Some(0), String::new(), String::new()));
    assert!(!home.path().join("kept").exists(), "nothing is created");
    // All missing files are reported.
    let none = "password-file = 'no-users'\nacl-file = 'no-rules'\npersistence-dir = 'users'\n\
                [tls]\ncertificate = 'no.pem'\nkey = 'no.key'\nclient-ca = 'no.ca'\n";
    let (code, stdout, stderr) = check(none);
    assert_eq!((code, &stdout[..]), (Some(1), ""));
    for file_name in ["no-users", "no-rules", "/users", "no.pem", "no.ca"] {
        assert!(stderr.lines().any(|line| line.contains(file_name)), "{file_name}: {stderr}");
    }
    assert!(stderr.lines().all(|line| line.starts_with("phalanx: ")), "{stderr}");
    // Existing files with errors.
    fs::write(home.path().join("rules"), "topic grant #\n").unwrap();
    let (code, _, stderr) = check("acl-file = 'rules'");
    assert!(code == Some(1) && stderr.contains("rules"), "{stderr}");
    // Errors in the configuration.
    let (code, stdout, stderr) = check("max-queued-mesages = 1\nmax-queued-messages = 'x'");
    assert_eq!((code, &stdout[..], stderr.lines().count()), (Some(2), "", 2), "{stderr}");
    let prefix = format!("phalanx: {}:1:1: max-queued-mesages: ", file.display());
    let is_reported =
        |line: &str| line.starts_with(&prefix) && line.contains("`max-queued-messages`");
    assert!(stderr.lines().any(is_reported), "{stderr}");
    // Without --check the broker does not start either.
    let (code, stdout, _) = run(bare().args(["broker", "--config"]).arg(&file));
    assert_eq!((code, &stdout[..]), (Some(2), ""));
    let (code, _, stderr) = run(bare().args(["broker", "--config", "/nowhere/at/all"]));
    assert!(code == Some(2) && stderr.contains("/nowhere/at/all"), "{stderr}");
    let (code, _, stderr) = run(bare().args(["broker", "--max-packet-size", "5"]));
    assert!(
        code == Some(2)
            && stderr
                .contains("--max-packet-size: max-packet-size: found 5, expected 128 to 268435455"),
        "{stderr}"
    );
    let (code, _, stderr) = run(bare().args(["broker", "--jwt"]));
    assert!(
        code == Some(2) && stderr.contains("use --jwt-keys-file or --jwt-keys-url"),
        "{stderr}"
    );
    let (code, _, stderr) = run(bare().args(["broker", "--listen", "http://127.0.0.1:1"]));
    assert!(code == Some(2) && stderr.contains("mqtts://"), "{stderr}");
}

/// A broker with a configuration file.
struct ConfiguredBroker {
    home: TempDir,
    file: PathBuf,
    broker: Broker,
}

impl ConfiguredBroker {
    /// Starts a broker in a folder with all files that the configuration may name.
    fn start(driver: &str, text: &str) -> Self {
        let home = files();
        let file = home.path().join("broker.toml");
        fs::write(&file, text).unwrap();
        let broker = Broker::start_by(driver, &file);
        Self { home, file, broker }
    }

    /// Replaces the configuration. Returns the new messages, one of which contains `end`.
    fn reload(&self, text: &str, end: &str) -> String {
        fs::write(&self.file, text).unwrap();
        self.broker.rereads(end)
    }
}

fn a_file_takes_effect(driver: &str) {
    let text = "listen = ['127.0.0.1:0', 'ws://127.0.0.1:0']\npassword-file = 'users'\nacl-file = 'rules'\n\
                max-queued-messages = 10\n";
    let ConfiguredBroker { broker, .. } = &ConfiguredBroker::start(driver, text);
    broker.next_address();
    assert_eq!(
        Client::expect_rejection(broker, &ConnectOptions::new(Version::V5, "a")),
        Reason::NOT_AUTHORIZED
    );
    let (mut eve, _) = Client::connect_with(broker, &login("a"));
    assert_eq!(eve.publish("garden/tree", "x"), Reason::NO_MATCHING_SUBSCRIBERS);
    assert_eq!(eve.publish("elsewhere", "x"), Reason::NOT_AUTHORIZED);
}

fn login(id: &'static str) -> ConnectOptions<'static> {
    ConnectOptions { login: Some(("eve", "apple")), ..ConnectOptions::new(Version::V5, id) }
}

/// A configuration with passwords and access rules.
const PROTECTED: &str = "listen = '127.0.0.1:0'\npassword-file = 'users'\nacl-file = 'rules'\n";

fn a_file_is_reloaded(driver: &str) {
    let configured = ConfiguredBroker::start(driver, PROTECTED);
    let ConfiguredBroker { home, file, broker } = &configured;
    let (mut eve, _) = Client::connect_with(broker, &login("a"));
    // Other access rules, fewer subscriptions, a shorter keep-alive, and a change that needs a restart.
    fs::write(home.path().join("others"), "user eve\ntopic readwrite sea/#\n").unwrap();
    let second = "listen = '127.0.0.1:0'\npassword-file = 'users'\nacl-file = 'others'\n\
                  max-subscriptions = 1\nmax-keep-alive = '9s'\nmax-packet-size = 200\n\
                  max-retained = 5\nruntime.shutdown-timeout = '77s'\n";
    let messages = configured.reload(second, "reloaded: ");
    for key in ["max-retained", "runtime.shutdown-timeout"] {
        let line = format!("phalanx: {key}: changed; restart to apply");
        assert!(messages.lines().any(|other| other == line), "{key}: {messages}");
    }
    assert_eq!(messages.lines().count(), 3, "{messages}");
    for file in [file, &home.path().join("others")] {
        assert!(messages.contains(file.to_str().unwrap()), "{messages}");
    }
    // Existing connections follow the new rules and the limits of their session.
    assert_eq!(eve.publish("garden/tree", "x"), Reason::NOT_AUTHORIZED);
    let options = SubscribeOptions::default();
    let reasons = eve.subscribe_with(&[("sea/1", options), ("sea/2", options)], &[]);
    assert_eq!(reasons, [Reason::SUCCESS, Reason::QUOTA_EXCEEDED]);
    // Limits of an existing connection are unchanged; a new one has the new limits.
    eve.publish_with("sea/1", &"x".repeat(300), Delivery::AtMostOnce, false, &[]);
    eve.expect_message("sea/1", &"x".repeat(300));
    let mut other = Client::open(broker, Version::V5);
    other.send_connect(&login("b"));
    let received = other.next();
    let Packet::ConnAck(ack) = received.packet() else { panic!("{received:?}") };
    let properties: Vec<Property<'_>> = ack.properties.iter().collect();
    assert!(properties.contains(&Property::ServerKeepAlive(9)), "{properties:?}");
    assert!(properties.contains(&Property::MaximumPacketSize(200)), "{properties:?}");
}

/// A new address accepts clients; a removed one does not, but its connections stay open.
fn listen_addresses_are_reloaded(driver: &str) {
    let configured = ConfiguredBroker::start(driver, "listen = '127.0.0.1:0'\n");
    let broker = &configured.broker;
    let (mut client, _) = Client::connect_with(broker, &ConnectOptions::new(Version::V5, "a"));
    configured.reload("listen = ['127.0.0.1:0', 'ws://127.0.0.2:0']\n", "reloaded: ");
    let added = broker.next_address();
    assert_eq!(added.ip().to_string(), "127.0.0.2");
    std::net::TcpStream::connect(added).unwrap();
    let messages = configured.reload("listen = 'ws://127.0.0.2:0'\n", "reloaded: ");
    assert!(!messages.contains("restart"), "{messages}");
    eventually("the address is closed", || {
        std::net::TcpStream::connect(broker.address).is_err().then_some(())
    });
    std::net::TcpStream::connect(added).unwrap();
    assert_eq!(client.publish("t", "x"), Reason::NO_MATCHING_SUBSCRIBERS);
}

fn reloads_are_atomic(driver: &str) {
    let configured = ConfiguredBroker::start(driver, PROTECTED);
    let ConfiguredBroker { home, broker, .. } = &configured;
    let (mut eve, _) = Client::connect_with(broker, &login("a"));
    fs::write(home.path().join("all"), "topic readwrite #\n").unwrap();
    for invalid in [
        "acl-file = 'all'\nmax-queued-mesages = 1\n",
        "acl-file = 'all'\npassword-file = 'no-users'\n",
        "acl-file = 'all'\nmax-packet-size = 5\n",
        "acl-file = 'no-rules'\n",
    ] {
        configured.reload(&format!("listen = '127.0.0.1:0'\n{invalid}"), "not reloaded; the old");
        assert_eq!(eve.publish("elsewhere", "x"), Reason::NOT_AUTHORIZED, "{invalid}");
    }
    // Passwords are required until a restart without the password file.
    let messages = configured.reload("listen = '127.0.0.1:0'\nacl-file = 'all'\n", "reloaded: ");
    assert!(messages.contains("password-file: changed"), "{messages}");
    assert_eq!(
        Client::expect_rejection(broker, &ConnectOptions::new(Version::V5, "b")),
        Reason::NOT_AUTHORIZED
    );
}

fn a_reload_does_not_admit_everyone(driver: &str) {
    let config_with = |logins: &str| format!("listen = '127.0.0.1:0'\n{logins}");
    let service = config_with("[auth-http]\nlogin-url = 'http://127.0.0.1:9/'\n");
    let configured = ConfiguredBroker::start(driver, &service);
    let refused =
        || Client::expect_rejection(&configured.broker, &ConnectOptions::new(Version::V5, "b"));
    assert_eq!(refused(), Reason::NOT_AUTHORIZED);
    for logins in ["password-file = 'users'\n", ""] {
        let messages = configured.reload(&config_with(logins), "not reloaded; the old");
        assert!(messages.contains("restart to apply"), "{messages}");
        assert_eq!(refused(), Reason::NOT_AUTHORIZED, "{logins}");
    }
}

/// Whether the broker accepts a client with this certificate.
fn lets_in(address: SocketAddr, trusted: &Path, pair: &Pair) -> bool {
    let mut command = Command::new("mosquitto_pub");
    command.args(["-h", "localhost", "-p", &address.port().to_string(), "--cafile"]).arg(trusted);
    command.arg("--cert").arg(&pair.certificate).arg("--key").arg(&pair.key);
    command.args(["-q", "1", "-t", "t", "-m", "x"]).output().unwrap().status.success()
}

/// A changed authorities file is reloaded automatically; another file at SIGHUP.
fn other_authorities(driver: &str) {
    if Command::new("mosquitto_pub").arg("--help").stdout(Stdio::null()).status().is_err() {
        return eprintln!("left out: mosquitto_pub is not installed (mosquitto-clients)");
    }
    let (first, other) = (Authority::new(), Authority::new());
    let pair = first.sign("a", &["localhost"]);
    let trusted = first.certificate();
    let (eve, adam) = (first.sign_client("eve"), other.sign_client("adam"));
    let folder = tempfile::tempdir().unwrap();
    let authorities = folder.path().join("authorities");
    fs::copy(&trusted, &authorities).unwrap();
    let config_with = |authorities: &Path| {
        let [certificate, key] = [&pair.certificate, &pair.key].map(|path| path.display());
        format!(
            "listen = 'mqtts://127.0.0.1:0'\n[tls]\ncertificate = '{certificate}'\nkey = '{key}'\n\
             client-ca = '{}'\n",
            authorities.display()
        )
    };
    let configured = ConfiguredBroker::start(driver, &config_with(&authorities));
    let broker = &configured.broker;
    let address = broker.address;
    assert!(lets_in(address, &trusted, &eve) && !lets_in(address, &trusted, &adam));
    // Both authorities.
    let both = [fs::read(&trusted).unwrap(), fs::read(other.certificate()).unwrap()].concat();
    authority::replace(&authorities, both);
    eventually("the new authorities", || lets_in(address, &trusted, &adam).then_some(()));
    assert!(lets_in(address, &trusted, &eve));
    eventually("a message", || broker.stderr().contains("were reloaded").then_some(()));
    // Only the other authority.
    configured.reload(&config_with(&other.certificate()), "reloaded: ");
    assert!(lets_in(address, &trusted, &adam) && !lets_in(address, &trusted, &eve));
}
