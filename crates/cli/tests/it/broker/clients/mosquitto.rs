//! Compatibility with mosquitto's clients (Debian's `mosquitto-clients`).

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use crate::broker::process::Broker;

crate::on_each_driver!(
    a_message_arrives,
    many_messages_arrive_in_order,
    a_will_is_published,
    a_filter_before_the_topic,
);

/// Whether they are installed; prints a message if not.
fn are_here() -> bool {
    let is_installed =
        Command::new("mosquitto_pub").arg("--help").stdout(Stdio::null()).status().is_ok();
    if !is_installed {
        eprintln!("left out: mosquitto_pub is not installed (mosquitto-clients)");
    }
    is_installed
}

fn command(name: &str, broker: &Broker, before: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command
        .args(before)
        .args(["-h", "127.0.0.1", "-p", &broker.address.port().to_string()])
        .args(arguments);
    command
}

/// A subscriber with an active subscription, as reported with `-d`.
struct Subscriber(Child, BufReader<std::process::ChildStdout>);

impl Subscriber {
    fn start(broker: &Broker, arguments: &[&str]) -> Self {
        // Line-buffered output, although stdout is not a terminal.
        let mut command = command("stdbuf", broker, &["-oL", "mosquitto_sub"], arguments);
        let mut child = command.arg("-d").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("Subscribed (mid: 1)") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ends without a subscription");
        }
        Self(child, lines)
    }

    /// The printed messages; it exits after the requested number.
    fn messages(mut self) -> Vec<String> {
        let lines = self.1.by_ref().lines().map(Result::unwrap);
        let output = lines.filter(|line| !line.starts_with("Client ")).collect();
        assert!(self.0.wait().unwrap().success());
        output
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn publish(broker: &Broker, arguments: &[&str]) -> Command {
    command("mosquitto_pub", broker, &[], arguments)
}

fn a_message_arrives(driver: &str) {
    if !are_here() {
        return;
    }
    let broker = Broker::start(driver);
    for version in ["mqttv311", "mqttv5"] {
        for qos in ["0", "1", "2"] {
            let arguments = ["-V", version, "-q", qos, "-t", "doors/+/state", "-C", "1"];
            let subscriber = Subscriber::start(&broker, &arguments);
            let arguments = ["-V", version, "-q", qos, "-t", "doors/front/state", "-m", "open"];
            assert!(publish(&broker, &arguments).status().unwrap().success());
            assert_eq!(subscriber.messages(), ["open"], "{version} QoS {qos}");
        }
    }
}

fn many_messages_arrive_in_order(driver: &str) {
    if !are_here() {
        return;
    }
    let broker = Broker::start(driver);
    for qos in ["1", "2"] {
        let subscriber = Subscriber::start(&broker, &["-q", qos, "-t", "#", "-C", "2000"]);
        let mut publisher = publish(&broker, &["-q", qos, "-t", "lines", "-l"]);
        let mut publisher = publisher.stdin(Stdio::piped()).spawn().unwrap();
        let mut lines = publisher.stdin.take().unwrap();
        (0..2000).for_each(|n| writeln!(lines, "{n}").unwrap());
        drop(lines);
        assert!(publisher.wait().unwrap().success());
        let expected: Vec<_> = (0..2000).map(|n| n.to_string()).collect();
        assert!(subscriber.messages() == expected, "QoS {qos}");
    }
}

fn a_will_is_published(driver: &str) {
    if !are_here() {
        return;
    }
    let broker = Broker::start(driver);
    let will_subscriber = Subscriber::start(&broker, &["-t", "wills", "-C", "1"]);
    let arguments = ["-t", "any", "--will-topic", "wills", "--will-payload", "gone"];
    drop(Subscriber::start(&broker, &arguments));
    assert_eq!(will_subscriber.messages(), ["gone"]);
}

/// mosquitto_sub itself rejects `#?…`.
fn a_filter_before_the_topic(driver: &str) {
    if !are_here() {
        return;
    }
    let broker = Broker::start(driver);
    for version in ["mqttv311", "mqttv5"] {
        let refused = command("mosquitto_sub", &broker, &[], &["-V", version, "-t", "#?k=1"]);
        assert!(!{ refused }.stderr(Stdio::null()).status().unwrap().success());
        for filter in [
            "$where/sign = '%2B'/doors/#",
            "$where/sign = '%2B'/doors/+",
            "$share/g/$where/sign = '%2B'/#",
        ] {
            let subscriber = Subscriber::start(&broker, &["-V", version, "-t", filter, "-C", "1"]);
            for (sign, text) in [("-", "no"), ("+", "yes")] {
                let property = ["-D", "publish", "user-property", "sign", sign];
                let message = ["-V", "mqttv5", "-q", "1", "-t", "doors/front", "-m", text];
                let arguments = [&message[..], &property].concat();
                assert!(publish(&broker, &arguments).status().unwrap().success());
            }
            assert_eq!(subscriber.messages(), ["yes"], "{version} {filter}");
        }
    }
}
