//! `phalanx pub` and `phalanx sub`: messages, output and exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use phalanx_testkit::authority::Authority;
use phalanx_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::broker::process::Broker;

crate::on_one_driver!(
    messages_arrive,
    lines_arrive_in_order,
    filters_are_applied,
    a_wrong_filter_is_marked,
    exit_codes,
    retained_messages_have_the_flag,
    a_signal_ends_a_wait_for_a_reader,
    messages_arrive_over_tls
);

fn phalanx(command: &str, url: &str, arguments: &[&str]) -> Command {
    let mut phalanx = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    phalanx.env_remove("PHALANX_PASSWORD").env_remove("PHALANX_BROKER");
    phalanx.args([command, "--broker", url]).args(arguments).stdin(Stdio::null());
    phalanx
}

fn url(broker: &Broker) -> String {
    format!("mqtt://{}", broker.address)
}

fn publish(broker: &Broker, arguments: &[&str]) {
    let output = phalanx("pub", &url(broker), arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A subscriber with an active subscription.
struct Subscriber(Child, BufReader<ChildStderr>);

impl Subscriber {
    fn start(broker: &Broker, arguments: &[&str]) -> Self {
        let mut command = phalanx("sub", &url(broker), arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(line.starts_with("phalanx sub: subscribed to "), "{line}");
        Self(child, errors)
    }

    /// The output up to its exit.
    fn lines(mut self) -> Vec<String> {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let mut rest = String::new();
        self.1.read_to_string(&mut rest).unwrap();
        assert!(self.0.wait().unwrap().success(), "{rest}");
        text.lines().map(str::to_owned).collect()
    }

    /// The exit code.
    fn code(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn messages_arrive(driver: &str) {
    let broker = Broker::start(driver);
    for qos in ["0", "1", "2"] {
        for v311 in [&[][..], &["--v311"]] {
            let arguments = [&["-t", "doors/+/state", "-q", qos, "-n", "1", "-v"], v311].concat();
            let subscriber = Subscriber::start(&broker, &arguments);
            let arguments = ["-t", "doors/front/state", "-q", qos, "-m", "open"];
            publish(&broker, &[&arguments, v311].concat());
            assert_eq!(subscriber.lines(), ["doors/front/state open"], "QoS {qos} {v311:?}");
        }
    }
    let subscriber = Subscriber::start(&broker, &["-t", "j", "--count=2", "--json", "-q1"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, [0xff, 0x00]).unwrap();
    publish(&broker, &["-t", "j", "-f", file.path().to_str().unwrap(), "-q1"]);
    publish(&broker, &["-t", "j", "-m", "", "-q2", "--user-property", "k=v=w", "-U", "k=2"]);
    let lines = subscriber.lines();
    let json: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = json!({"topic": "j", "payload_hex": "ff00", "qos": 1, "retain": false});
    assert_eq!(json[0], first);
    assert_eq!(json[1]["user_properties"], json!([["k", "v=w"], ["k", "2"]]));
    assert_eq!((&json[1]["payload"], &json[1]["qos"]), (&json!(""), &json!(1)));
}

fn lines_arrive_in_order(driver: &str) {
    let broker = Broker::start(driver);
    for qos in ["1", "2"] {
        let subscriber = Subscriber::start(&broker, &["-q", qos, "-t", "#", "-n", "3000"]);
        let mut command = phalanx("pub", &url(&broker), &["-q", qos, "-t", "lines", "-l"]);
        let mut publisher = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut lines = publisher.stdin.take().unwrap();
        (0..3000).for_each(|n| writeln!(lines, "{n}").unwrap());
        drop(lines);
        assert!(publisher.wait().unwrap().success());
        let expected: Vec<_> = (0..3000).map(|n| n.to_string()).collect();
        assert!(subscriber.lines() == expected, "QoS {qos}");
    }
}

fn filters_are_applied(driver: &str) {
    let broker = Broker::start(driver);
    let of_properties = Subscriber::start(&broker, &["-t", "t", "--filter", "k > 5", "-n", "1"]);
    let fields = ["-t", "t", "--filter", "k > 5", "--json-payload", "-n", "2"];
    let of_payload = Subscriber::start(&broker, &fields);
    publish(&broker, &["-t", "t", "-q1", "-m", "few", "-U", "k=5"]);
    publish(&broker, &["-t", "t", "-q1", "-m", r#"{"k": 6}"#]);
    publish(&broker, &["-t", "t", "-q1", "-m", "many", "-U", "k=5.5"]);
    assert_eq!(of_properties.lines(), ["many"]);
    assert_eq!(of_payload.lines(), [r#"{"k": 6}"#, "many"]);
}

fn a_wrong_filter_is_marked(driver: &str) {
    let broker = Broker::start(driver);
    for (arguments, with_caret) in [
        (&["-t", "t", "--filter", "k >> 5"][..], "\n  k >> 5\n     ^\n"),
        (&["-t", "t?k=v&x"], "\n  k=v&x\n      ^\n"),
        (&["-t", "t?$json&k=v&x"], "\n  k=v&x\n      ^\n"),
        (&["-t", "$share/g/$where-json/k %2B 1 >> 5/t"], "\n  k + 1 >> 5\n         ^\n"),
        (&["-t", "t?a=v&b", "-t", "u?c=v&dd=v&e"], "\n  a=v&b\n      ^\n"),
    ] {
        let output = phalanx("sub", &url(&broker), arguments).output().unwrap();
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.starts_with("phalanx sub: the broker rejected "), "{stderr}");
        assert!(stderr.contains("column") && stderr.ends_with(with_caret), "{stderr}");
    }
}

fn exit_codes(driver: &str) {
    let broker = Broker::start(driver);
    let end = |command: &str, url: &str, arguments: &[&str]| {
        let output = phalanx(command, url, arguments).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let url = url(&broker);
    assert_eq!(end("sub", &url, &["-t", "t", "--timeout=3s", "--quiet"]), (Some(0), String::new()));
    let (code, stderr) = end("sub", &url, &["-t", "t", "--timeout=3s", "-n2"]);
    assert!(code == Some(3) && stderr.ends_with("timeout; 2 messages are missing\n"), "{stderr}");
    let (code, stderr) = end("sub", &url, &["-t", "a#"]);
    assert!(code == Some(1) && stderr.contains("topic filter invalid"), "{stderr}");
    for (arguments, expected) in [
        (&["-t", "a/#", "-m", "x"][..], "wildcard"),
        (&["-t", "a", "-m", "x", "--v311", "-U", "k=v"], "3.1.1"),
        (&["-t", "a", "-f", "/no/such/file"], "/no/such/file"),
        (
            &["-t", "a", "-m", "x", "--v311", "--password-file", "/dev/null"],
            "requires a user name with MQTT 3.1.1",
        ),
        (&["-t", "a", "-m", "x", "--broker", "mqtt://ann:pw@localhost"], "PHALANX_PASSWORD"),
        (&["-t", "a"], "--stdin-lines"),
    ] {
        // The last of several --broker options counts.
        let url = if arguments.contains(&"--broker") { None } else { Some(&*url) };
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.arg("pub").args(url.map(|url| format!("--broker={url}"))).args(arguments);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && stderr.contains(expected),
            "{arguments:?}: {stderr}"
        );
    }
    // Bound but not listening: the port is reserved, and connections are refused.
    let occupied =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    occupied.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let unused_address = occupied.local_addr().unwrap().as_socket().unwrap();
    let (code, stderr) = end("pub", &format!("{unused_address}"), &["-t", "a", "-m", "x"]);
    assert!(code == Some(1) && stderr.contains("cannot reach mqtt://"), "{stderr}");
    // Larger than the broker accepts, without an acknowledgement: the error is reported all the same.
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(2 << 20).unwrap();
    let large = ["-t", "a", "-q0", "-f", file.path().to_str().unwrap()];
    let (code, stderr) = end("pub", &url, &large);
    assert!(code == Some(1) && !stderr.is_empty(), "{code:?}: {stderr}");
    let interrupted = Subscriber::start(&broker, &["-t", "t"]);
    kill_process(Pid::from_child(&interrupted.0), Signal::INT).unwrap();
    assert_eq!(interrupted.code(), Some(130));
    drop(broker);
}

fn retained_messages_have_the_flag(driver: &str) {
    let broker = Broker::start(driver);
    publish(&broker, &["-t", "r", "-m", "kept", "--retain", "-q1", "--expiry", "100s"]);
    let lines = Subscriber::start(&broker, &["-t", "r", "-n1", "--json"]).lines();
    let message: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&message["retain"], &message["payload"]), (&json!(true), &json!("kept")));
    assert!(message["expiry"].as_u64().is_some_and(|left| left <= 100), "{message}");
    publish(&broker, &["-t", "r", "-m", "", "--retain", "-q1"]);
    let mut silent = phalanx("sub", &url(&broker), &["-t", "r", "--timeout=1s", "--quiet"]);
    assert!(silent.output().unwrap().stdout.is_empty());
}

fn a_signal_ends_a_wait_for_a_reader(driver: &str) {
    let broker = Broker::start(driver);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(500_000).unwrap();
    let mut subscriber = Subscriber::start(&broker, &["-t", "r"]);
    let stdout = subscriber.0.stdout.take().unwrap();
    publish(&broker, &["-t", "r", "-q1", "-f", file.path().to_str().unwrap()]);
    // The message is longer than the pipe.
    eventually("output", || (rustix::io::ioctl_fionread(&stdout).unwrap() > 0).then_some(()));
    kill_process(Pid::from_child(&subscriber.0), Signal::INT).unwrap();
    let code = eventually("its end", || subscriber.0.try_wait().unwrap());
    assert_eq!(code.code(), Some(130));
}

fn messages_arrive_over_tls(driver: &str) {
    let authority = Authority::new();
    let pair = authority.sign("a", &["localhost"]);
    let arguments = [&["--listen", "mqtts://127.0.0.1:0"], &pair.arguments()[..]].concat();
    let broker = Broker::start_with(driver, &arguments);
    let url = format!("mqtts://localhost:{}", broker.next_address().port());
    let ca = authority.certificate();
    let ca = ["--ca", ca.to_str().unwrap()];
    let arguments = [&["--broker", &url, "-t", "t", "-q", "1", "-n", "5"], &ca[..]].concat();
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    let mut child = command
        .arg("sub")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("subscribed"), "{line}");
    let subscriber = Subscriber(child, errors);
    // Larger than a TLS record and than the buffers.
    let sizes = [1, 300, 16_384, 100_000, 900_000];
    let file = tempfile::NamedTempFile::new().unwrap();
    for size in sizes {
        std::fs::write(&file, "x".repeat(size)).unwrap();
        let path = file.path().to_str().unwrap();
        let arguments = [&["-t", "t", "-q", "1", "-f", path], &ca[..]].concat();
        let output = phalanx("pub", &url, &arguments).output().unwrap();
        assert!(output.status.success(), "{size}: {}", stderr(&output));
    }
    let received: Vec<usize> = subscriber.lines().iter().map(String::len).collect();
    assert_eq!(received, sizes);
    // A client that trusts another authority sends nothing.
    let other = Authority::new();
    let other = other.certificate();
    let arguments = ["-t", "t", "-m", "x", "--ca", other.to_str().unwrap()];
    let output = phalanx("pub", &url, &arguments).output().unwrap();
    let stderr = stderr(&output);
    assert!(output.status.code() == Some(1) && stderr.contains("no TLS with mqtts://"), "{stderr}");
}

/// A broker that supports only 3.1.1.
#[test]
fn brokers_of_3_1_1_are_supported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    let old = std::thread::spawn(move || {
        for (version, answer) in [(5, 1), (4, 0)] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 9];
            stream.read_exact(&mut head).unwrap();
            assert_eq!((&head[4..8], head[8]), (&b"MQTT"[..], version));
            stream.write_all(&[0x20, 2, 0, answer]).unwrap();
            let mut rest = Vec::new();
            if answer == 0 {
                stream.read_to_end(&mut rest).unwrap();
                assert!(rest.ends_with(&[0xe0, 0]), "DISCONNECT: {rest:x?}");
            }
        }
    });
    let output = phalanx("pub", &url, &["-t", "a", "-m", "x"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    old.join().unwrap();
}

/// A broker of 3.1.1 that reads everything, but not immediately.
#[test]
fn a_message_that_exceeds_the_buffers_of_sockets_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    let slow = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 14]).unwrap();
        stream.write_all(&[0x20, 2, 0, 0]).unwrap();
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 << 20).unwrap();
    let arguments = ["--v311", "-t", "a", "-f", file.path().to_str().unwrap()];
    let output = phalanx("pub", &url, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    // PUBLISH with its header and topic, DISCONNECT.
    assert_eq!(slow.join().unwrap(), (64 << 20) + 5 + 3 + 2);
}

#[test]
fn a_broker_that_is_silent_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for (command, arguments) in [("pub", &["-t", "a", "-m", "x"][..]), ("sub", &["-t", "a"])] {
        for scheme in ["mqtt", "mqtts"] {
            let arguments = [arguments, &["--timeout", "1s"]].concat();
            let output = phalanx(command, &format!("{scheme}://{address}"), &arguments).output();
            let output = output.unwrap();
            assert_eq!(output.status.code(), Some(3), "{scheme}: {}", stderr(&output));
        }
    }
}

/// A broker that imposes a shorter keep-alive than the client's.
#[test]
fn the_keep_alive_of_the_broker_overrides() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let mut packet = || {
            let mut head = [0; 2];
            stream.read_exact(&mut head).unwrap();
            let mut body = vec![0; head[1].into()];
            stream.read_exact(&mut body).unwrap();
            match head[0] {
                // CONNACK: server keep alive, one second. SUBACK: granted.
                0x10 => stream.write_all(&[0x20, 6, 0, 0, 3, 0x13, 0, 1]).unwrap(),
                0x82 => stream.write_all(&[0x90, 4, body[0], body[1], 0, 0]).unwrap(),
                _ => (),
            }
            head
        };
        [packet(), packet(), packet()].map(|head| head[0])
    });
    let mut subscriber = phalanx("sub", &url, &["-t", "a"]);
    let mut subscriber = subscriber.stderr(Stdio::null()).spawn().unwrap();
    let result = server.join();
    let _ = subscriber.kill();
    let _ = subscriber.wait();
    // CONNECT, SUBSCRIBE, PINGREQ.
    assert_eq!(result.unwrap(), [0x10, 0x82, 0xc0]);
}
