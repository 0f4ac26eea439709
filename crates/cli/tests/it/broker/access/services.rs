//! HTTP services of the access control: keys of tokens at a URL, and logins that a service decides.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use phalanx_mqtt::{Delivery, QoS, Reason, SubscribeOptions, Version};
use phalanx_testkit::authority::Authority;
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};
use phalanx_testkit::process::Signal;
use phalanx_testkit::site::Site;

use crate::broker::access::policy::{KEYS, TOKEN};
use crate::broker::process::Broker;
use crate::server::Server;

crate::on_one_driver!(
    keys_of_tokens_are_fetched,
    keys_are_fetched_from_a_trusted_server_only,
    a_service_decides_about_logins,
    a_silent_service_delays_only_its_logins,
    a_service_decides_about_topics,
    a_service_that_fails_denies_topics,
);

/// A service with one answer at a time: status and body; none for status 0. It ends with the test's process.
struct Service {
    address: SocketAddr,
    answer: Arc<Mutex<(u16, &'static str)>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (answer, requests) = (Arc::new(Mutex::new((200, ""))), Arc::<Mutex<Vec<_>>>::default());
        let (of_server, kept) = (answer.clone(), requests.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, requests) = (of_server.clone(), kept.clone());
                thread::spawn(move || serve(stream.unwrap(), &answer, &requests));
            }
        });
        Self { address, answer, requests }
    }

    fn answers(&self, status: u16, body: &'static str) {
        *self.answer.lock().unwrap() = (status, body);
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &Mutex<(u16, &'static str)>,
    requests: &Mutex<Vec<String>>,
) {
    let (mut input, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        input.extend_from_slice(&bytes[..count]);
        let text = String::from_utf8(input.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
            continue;
        }
        requests.lock().unwrap().push(text);
        input.clear();
        let (status, body) = *answer.lock().unwrap();
        if status == 0 {
            continue;
        }
        let length = body.len();
        let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
    }
}

fn options<'a>(version: Version, user: &'a str, password: &'a str) -> ConnectOptions<'a> {
    ConnectOptions { login: Some((user, password)), ..ConnectOptions::new(version, "c") }
}

fn keys_of_tokens_are_fetched(driver: &str) {
    let service = Service::start();
    service.answers(200, KEYS);
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("broker.toml");
    let with = |url: &str| fs::write(&config, format!("[jwt]\nkeys-url = \"{url}\"\n")).unwrap();
    with(&format!("http://{}/keys", service.address));
    let broker = Broker::start_with(driver, &["--config", config.to_str().unwrap()]);
    for version in [Version::V5, Version::V3] {
        Client::connect_with(&broker, &options(version, "eve", TOKEN));
        let refused =
            Client::expect_rejection(&broker, &options(version, "eve", &TOKEN[..TOKEN.len() - 4]));
        assert_eq!(refused, Reason::BAD_USER_NAME_OR_PASSWORD);
    }
    assert_eq!(service.count(), 1);
    assert!(service.requests.lock().unwrap()[0].starts_with("GET /keys HTTP/1.1\r\n"));
    // After a failed fetch, the keys of the last one stay in use.
    service.answers(500, "");
    broker.rereads("reloaded: ");
    eventually("a fetch after the reload", || (service.count() > 1).then_some(()));
    Client::connect_with(&broker, &options(Version::V5, "eve", TOKEN));
    let line = "the keys of the last fetch stay in use";
    eventually(line, || broker.stderr().contains(line).then_some(()));
    // Keys of another URL are not those of this one.
    with(&format!("http://{}/other", service.address));
    broker.rereads("reloaded: ");
    let refused = Client::expect_rejection(&broker, &options(Version::V5, "eve", TOKEN));
    assert_eq!(refused, Reason::SERVER_UNAVAILABLE);
    assert!(service.requests.lock().unwrap().last().unwrap().starts_with("GET /other HTTP/1.1"));
}

fn keys_are_fetched_from_a_trusted_server_only(driver: &str) {
    let (site, authority) = (Site::new(), Authority::new());
    site.file("keys", KEYS);
    let start = |name: &str| {
        let pair = authority.sign(name, &[name]);
        Server::start_with(driver, &site.root(), &pair.arguments())
    };
    let (right, of_other_name) = (start("localhost"), start("a.test"));
    let (own, other) = (authority.certificate(), Authority::new());
    let (own, other) = (own.to_str().unwrap(), other.certificate());
    for (server, authorities, is_trusted) in [
        (&right, own, true),
        (&right, other.to_str().unwrap(), false),
        (&of_other_name, own, false),
    ] {
        let url = format!("https://localhost:{}/keys", server.address.port());
        let arguments = ["--jwt-keys-url", &url, "--jwt-keys-ca", authorities];
        let broker = Broker::start_with(driver, &arguments);
        let options = options(Version::V5, "eve", TOKEN);
        if is_trusted {
            Client::connect_with(&broker, &options);
        } else {
            assert_eq!(Client::expect_rejection(&broker, &options), Reason::SERVER_UNAVAILABLE);
            let line = "cannot fetch the keys: ";
            eventually(line, || broker.stderr().contains(line).then_some(()));
        }
    }
}

fn a_service_decides_about_logins(driver: &str) {
    let service = Service::start();
    let url = format!("http://{}/login", service.address);
    let mut arguments = vec!["--auth-http-login-url", &*url, "--auth-http-timeout", "1m"];
    arguments.extend(["--auth-http-allow-lifetime", "1h", "--auth-http-deny-lifetime", "1h"]);
    let broker = Broker::start_with(driver, &arguments);
    for version in [Version::V5, Version::V3] {
        service.answers(200, r#"{"result": "allow"}"#);
        Client::connect_with(&broker, &options(version, "eve", "apple"));
        service.answers(403, "");
        let refused = Client::expect_rejection(&broker, &options(version, "eve", "pear"));
        assert_eq!(refused, Reason::BAD_USER_NAME_OR_PASSWORD);
        // A client without a user name is not anonymous.
        let refused = Client::expect_rejection(&broker, &ConnectOptions::new(version, "c"));
        assert_eq!(refused, Reason::NOT_AUTHORIZED);
        service.answers(500, "");
        let refused = Client::expect_rejection(&broker, &options(version, "eve", "plum"));
        assert_eq!(refused, Reason::SERVER_UNAVAILABLE);
        Client::connect_with(&broker, &options(version, "eve", "apple"));
    }
    // One each for apple and pear, and two for plum.
    assert_eq!(service.count(), 4);
    let first = service.requests.lock().unwrap()[0].clone();
    assert!(
        first.ends_with(
            r#"{"clientid":"c","password":"apple","peerhost":"127.0.0.1","username":"eve"}"#
        ),
        "{first}"
    );
}

fn a_silent_service_delays_only_its_logins(driver: &str) {
    let service = Service::start();
    let url = format!("http://{}/login", service.address);
    let mut arguments = vec!["--auth-http-login-url", &*url, "--auth-http-timeout", "1m"];
    arguments.extend(["--auth-http-max-requests", "1", "--auth-http-allow-lifetime", "1h"]);
    let mut broker = Broker::start_with(driver, &arguments);
    Client::connect_with(&broker, &options(Version::V5, "eve", "apple"));
    service.answers(0, "");
    // One request is sent, and the other logins wait.
    let waiting = ["pear", "plum", "fig"].map(|password| {
        let mut client = Client::open(&broker, Version::V5);
        client.send_connect(&options(Version::V5, "eve", password));
        client
    });
    eventually("a request", || (service.count() == 2).then_some(()));
    // A login with a kept answer does not wait.
    Client::connect_with(&broker, &options(Version::V3, "eve", "apple"));
    assert_eq!(service.count(), 2);
    // Neither does a shutdown.
    broker.signal(Signal::TERM);
    broker.expect_success();
    assert!(!broker.stderr().contains("requests are refused"), "{}", broker.stderr());
    drop(waiting);
}

/// A broker whose service decides about topics.
fn start_with_access(driver: &str, service: &Service) -> Broker {
    let url = format!("http://{}/access", service.address);
    let mut arguments = vec!["--auth-http-access-url", &*url, "--auth-http-timeout", "1m"];
    arguments.extend(["--auth-http-allow-lifetime", "1h", "--auth-http-deny-lifetime", "1h"]);
    Broker::start_with(driver, &arguments)
}

fn a_service_decides_about_topics(driver: &str) {
    let service = Service::start();
    let broker = start_with_access(driver, &service);
    service.answers(200, r#"{"result": "allow"}"#);
    let mut reader = Client::new(&broker, "reader");
    reader.subscribe("a/#", QoS::AtLeastOnce);
    let mut writer = Client::new(&broker, "writer");
    for payload in ["one", "two"] {
        assert_eq!(writer.publish("a/b", payload), Reason::SUCCESS);
        reader.expect_message("a/b", payload);
    }
    // One each for the filter and the topic.
    assert_eq!(service.count(), 2);
    service.answers(403, "");
    assert_eq!(writer.publish("a/c", "three"), Reason::NOT_AUTHORIZED);
    assert_eq!(writer.publish("a/c", "four"), Reason::NOT_AUTHORIZED);
    assert_eq!(service.count(), 3);
    let options = SubscribeOptions { qos: QoS::AtMostOnce, ..SubscribeOptions::default() };
    let answers = reader.subscribe_with(&[("$share/g/b/+", options), ("a/#", options)], &[]);
    assert_eq!(answers, [Reason::NOT_AUTHORIZED, Reason(0)]);
    let last = service.requests.lock().unwrap().last().cloned().unwrap();
    assert!(
        last.contains(r#""topic":"b/+""#) && last.contains(r#""action":"subscribe""#),
        "{last}"
    );
    // A will is a message.
    let will = Some(("a/c", "gone", QoS::AtMostOnce, false, Vec::new()));
    let refused = Client::expect_rejection(
        &broker,
        &ConnectOptions { will, ..ConnectOptions::new(Version::V5, "other") },
    );
    assert_eq!(refused, Reason::NOT_AUTHORIZED);
    assert_eq!(writer.publish("a/b", "five"), Reason::SUCCESS);
    reader.expect_message("a/b", "five");
}

fn a_service_that_fails_denies_topics(driver: &str) {
    let service = Service::start();
    let broker = start_with_access(driver, &service);
    service.answers(500, "");
    let mut writer = Client::new(&broker, "writer");
    assert_eq!(writer.publish("a/b", "one"), Reason::IMPLEMENTATION_SPECIFIC_ERROR);
    let options = SubscribeOptions { qos: QoS::AtMostOnce, ..SubscribeOptions::default() };
    let request_count = service.count();
    let answers = writer.subscribe_with(&[("x", options), ("y", options)], &[]);
    assert_eq!(answers, [Reason::IMPLEMENTATION_SPECIFIC_ERROR; 2]);
    assert_eq!(service.count(), request_count + 1, "once for each packet");
    // MQTT 3.1.1 would take the message for delivered.
    let (mut old, _) = Client::connect_with(&broker, &ConnectOptions::new(Version::V3, "old"));
    old.publish_with("a/b", "two", Delivery::AtLeastOnce(id(7)), false, &[]);
    assert_eq!(old.read_to_end(), b"");
    eventually("a message", || broker.stderr().contains("not_decided").then_some(()));
}
