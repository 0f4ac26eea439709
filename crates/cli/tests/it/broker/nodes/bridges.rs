//! Bridges by configuration file, and their reload.

use std::fs;

use phalanx_mqtt::QoS;
use phalanx_testkit::mqtt::Client;

use crate::broker::process::Broker;
use crate::server::bare;

crate::on_each_driver!(bridges_are_reloaded);

/// A configuration with a bridge that forwards this topic, if any.
fn text(remote: &Broker, pattern: Option<&str>) -> String {
    let bridge = pattern.map(|pattern| {
        let address = remote.address;
        format!(
            "[[bridge]]\nname = \"up\"\naddress = \"mqtt://{address}\"\nremote-client-id = \"site\"\n\
             reconnect-delay = \"10ms\"\n[[bridge.topic]]\npattern = \"{pattern}\"\nqos = 1\n"
        )
    });
    format!("listen = \"127.0.0.1:0\"\nsys-interval = \"0\"\n{}", bridge.unwrap_or_default())
}

fn bridges_are_reloaded(driver: &str) {
    let (remote, file) = (Broker::start(driver), tempfile::NamedTempFile::new().unwrap());
    let write = |pattern| fs::write(file.path(), text(&remote, pattern)).unwrap();
    write(None);
    let broker = Broker::start_by(driver, file.path());
    let mut states = Client::new(broker.address, "states");
    states.subscribe("$SYS/broker/connection/up/state", QoS::AtMostOnce);
    let mut until = |state: &str| while states.next().message().payload != state.as_bytes() {};
    let mut there = Client::new(remote.address, "subscriber");
    there.subscribe("#", QoS::AtMostOnce);
    let mut publisher = Client::new(broker.address, "publisher");
    write(Some("a/#"));
    broker.rereads("reloaded: ");
    until("1");
    publisher.publish("a/x", "added");
    there.expect_message("a/x", "added");
    write(Some("b/#"));
    broker.rereads("reloaded: ");
    until("0");
    until("1");
    publisher.publish("a/x", "no longer");
    publisher.publish("b/x", "changed");
    there.expect_message("b/x", "changed");
    write(None);
    broker.rereads("reloaded: ");
    until("0");
    publisher.publish("b/x", "removed");
    there.expect_no_message();
}

#[test]
fn mistakes_in_bridges_are_found_by_the_check() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let check = |text: &str| {
        fs::write(file.path(), format!("ephemeral = true\n{text}")).unwrap();
        let output = bare().args(["broker", "--check", "--config"]).arg(file.path()).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let bridge = "[[bridge]]\nname = \"up\"\naddress = \"mqtts://a\"\nremote-client-id = \"site\"\n\
                  topic = [{ pattern = \"#\" }]\n";
    let (code, errors) = check(&bridge.replace("#\"", "#/a\""));
    assert!(code == Some(2) && errors.contains("\"#/a\" is not valid"), "{errors}");
    let (code, errors) = check(&format!("{bridge}[bridge.tls]\nca = \"/nowhere.pem\"\n"));
    assert!(
        code == Some(1) && errors.contains("bridge up: ") && errors.contains("/nowhere.pem"),
        "{code:?} {errors}"
    );
}
