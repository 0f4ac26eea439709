//! Compatibility with other clients: paho-mqtt (Python), MQTT.js, and Eclipse Paho's interoperability suites.
//!
//! `.ci/run` installs them at pinned versions in the folder named by the environment variable `PHALANX_PEERS`:
//! `py` (a virtual environment with paho-mqtt), `js` (npm's prefix with `mqtt`) and `paho.mqtt.testing` (the
//! suites). Missing peers are skipped with a message. The suites run in the slow job.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::broker::process::Broker;

crate::on_each_driver!(paho_mqtt_is_served, mqtt_js_is_served);

/// The path of a peer in that folder. If it is missing, prints a message past the test harness, which hides the
/// output of passing tests.
fn peer(name: &str, path: &str) -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers");
    let folder = std::env::var_os("PHALANX_PEERS").map_or(default, PathBuf::from);
    let path = folder.join(path);
    if path.exists() {
        return Some(path);
    }
    let where_to = path.display();
    let message = format!("LEFT OUT: {name} is not at {where_to}; `.ci/run peers` brings it\n");
    let _ = std::io::stderr().write_all(message.as_bytes());
    None
}

/// Path of a script in this repository.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/broker/clients/peers").join(name)
}

/// Runs the command, which must report success.
fn passes(command: &mut Command, broker: &Broker) {
    let output = command.arg(broker.address.port().to_string()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"passed\n", "{stderr}");
}

fn paho_mqtt_is_served(driver: &str) {
    let Some(python) = peer("paho-mqtt", "py/bin/python") else { return };
    passes(Command::new(python).arg(script("with_paho.py")), &Broker::start(driver));
}

fn mqtt_js_is_served(driver: &str) {
    let Some(modules) = peer("MQTT.js", "js/node_modules") else { return };
    let mut node = Command::new("node");
    node.env("NODE_PATH", modules).arg(script("with_mqttjs.js"));
    passes(&mut node, &Broker::start(driver));
}

/// Everything is allowed except for what the suites expect to be rejected.
const RULES: &str = "topic readwrite #\ntopic readwrite $TopicA/#\ntopic readwrite $client_test5/#\n\
                     topic deny test/nosubscribe\n";

/// Runs one of Eclipse Paho's suites: all its tests pass except the `known` failures. The suites take three
/// minutes, most of it sleeping, so they run only if the environment variable `PHALANX_SUITES` is set.
fn suite(name: &str, known: &[&str]) {
    if std::env::var_os("PHALANX_SUITES").is_none() {
        return;
    }
    let Some(folder) = peer("paho.mqtt.testing", "paho.mqtt.testing/interoperability") else {
        return;
    };
    let rules = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&rules, RULES).unwrap();
    let rules = rules.path().to_str().unwrap();
    // One suite expects this maximum keep-alive.
    let broker = Broker::start_with("auto", &["--max-keep-alive", "60s", "--acl-file", rules]);
    let mut command = Command::new("python3");
    command.arg(script("suite.py")).arg(folder).arg(name);
    let output = command.arg(broker.address.port().to_string()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).expect(&stderr);
    assert!(result["run"].as_u64() >= Some(10), "{result}");
    let failed = result["failed"].as_array().unwrap();
    let failed: Vec<_> = failed.iter().filter_map(Value::as_str).collect();
    assert_eq!(failed, known, "{stderr}");
}

#[test]
fn the_suite_for_3_1_1_passes() {
    suite("client_test", &[]);
}

#[test]
fn the_suite_for_5_passes() {
    // The suite accepts 0x80 but not the more specific 0x87.
    suite("client_test5", &["test_subscribe_failure"]);
}
