//! Bridges between brokers in this process, and to mosquitto.

mod clean_start;
mod full;
mod limits;
mod mosquitto;
mod owing;
mod pairs;
mod released;
mod retained;
mod suback;
mod tls;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use phalanx::runtime::Control;
use phalanx_broker::{Bridge, BridgeTopic, Config, Direction, Scheme, Serving, serve};
use phalanx_mqtt::{Ack, Delivery, Packet, QoS, Reason};
use phalanx_testkit::mqtt::Client;
use phalanx_testkit::{TIMEOUT, eventually, tcp};

/// A running broker.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    control: Control,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Node {
    pub(crate) fn start(config: Config) -> Self {
        let (up, is_up) = channel();
        let thread = thread::spawn(move || {
            let ready = |serving: &Serving<'_>| {
                up.send((serving.addresses[0], serving.up.control.clone())).unwrap();
            };
            serve(config, ready).map(drop).map_err(|error| error.to_string())
        });
        match is_up.recv_timeout(TIMEOUT) {
            Ok((address, control)) => Self { address, control, thread: Some(thread) },
            Err(_) => panic!("{:?}", thread.join().unwrap()),
        }
    }

    /// A subscriber to all topics except those below `$SYS`.
    fn subscriber(&self, filter: &str, qos: QoS) -> Client {
        let mut client = Client::new(self.address, "subscriber");
        client.subscribe(filter, qos);
        client
    }

    /// Waits until the bridge `name` is connected.
    fn wait_for_bridge(&self, name: &str) {
        await_state(self.address, name, "1");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.control.drain();
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.unwrap().unwrap().unwrap();
        }
    }
}

/// Waits until the state topic of the bridge at the broker at `address` has this value.
fn await_state(address: SocketAddr, name: &str, state: &str) {
    let topic = format!("$SYS/broker/connection/{name}/state");
    let mut client = Client::new(address, "watcher");
    client.subscribe(&topic, QoS::AtMostOnce);
    while client.next().message().payload != state.as_bytes() {}
}

/// An address that a restarted broker can use again.
fn unique_loopback() -> SocketAddr {
    (tcp::unique_loopback(), 1883).into()
}

/// A broker's configuration with this listen address.
pub(crate) fn config(address: SocketAddr, bridges: Vec<Bridge>) -> Config {
    let mut config = Config::new();
    config.listen = vec![Scheme::Mqtt.at(address)];
    // Below `$SYS` only the states of bridges are published.
    config.system_interval = Duration::ZERO;
    config.runtime.signals = false;
    config.runtime.workers = 2;
    config.bridges = bridges;
    config
}

pub(crate) fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A bridge that reconnects quickly.
fn bridge(name: &str, remote: SocketAddr, topics: Vec<BridgeTopic>) -> Bridge {
    let mut bridge = Bridge::default();
    bridge.name = name.to_owned();
    bridge.address = vec![remote.to_string().parse().unwrap()];
    bridge.client_id = format!("bridge-{name}");
    bridge.reconnect_delay = Duration::from_millis(20);
    bridge.max_reconnect_delay = Duration::from_millis(100);
    bridge.topics = topics;
    bridge
}

fn topic(pattern: &str, direction: Direction, qos: u16) -> BridgeTopic {
    BridgeTopic { pattern: pattern.to_owned(), direction, qos, ..BridgeTopic::default() }
}

/// The next message, completed with its QoS: topic, payload, QoS and retain flag.
pub(crate) fn next(client: &mut Client) -> (String, String, QoS, bool) {
    let received = client.next();
    let message = received.message();
    let payload = String::from_utf8(message.payload.to_vec()).unwrap();
    let found = (message.topic.to_owned(), payload, message.delivery.qos(), message.retain);
    match message.delivery {
        Delivery::AtMostOnce => (),
        Delivery::AtLeastOnce(id) => client.send(&Packet::PubAck(Ack::success(id))),
        Delivery::ExactlyOnce(id) => {
            client.send(&Packet::PubRec(Ack::success(id)));
            assert!(matches!(client.next().packet(), Packet::PubRel(_)));
            client.send(&Packet::PubComp(Ack::success(id)));
        }
    }
    found
}

/// Publishes with this QoS, and completes the delivery.
pub(crate) fn publish(client: &mut Client, topic: &str, payload: &str, qos: QoS, retain: bool) {
    let id = phalanx_testkit::mqtt::id(9);
    let delivery = match qos {
        QoS::AtMostOnce => Delivery::AtMostOnce,
        QoS::AtLeastOnce => Delivery::AtLeastOnce(id),
        QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
    };
    client.publish_with(topic, payload, delivery, retain, &[]);
    match qos {
        QoS::AtMostOnce => (),
        QoS::AtLeastOnce => assert!(!client.expect_puback().is_failure()),
        QoS::ExactlyOnce => {
            assert!(matches!(client.next().packet(), Packet::PubRec(_)));
            client.send(&Packet::PubRel(Ack::success(id)));
            assert!(matches!(client.next().packet(), Packet::PubComp(_)));
        }
    }
}

/// Waits until nothing listens at `address`.
fn await_free(address: SocketAddr) {
    eventually("the port is free", || TcpListener::bind(address).ok().map(drop));
}

pub(crate) const ALL_QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

/// More messages than a small journal can store.
const MESSAGES: usize = 50;

/// Publishes messages at a broker, until the journal of another one is full.
pub(crate) fn fill(from: SocketAddr, full: SocketAddr) {
    let (mut publisher, padding) = (Client::new(from, "publisher"), "x".repeat(10_000));
    for number in 0..MESSAGES {
        assert_eq!(publisher.publish("t", &format!("{number} {padding}")), Reason::SUCCESS);
    }
    let mut prober = Client::new(full, "prober");
    eventually("the journal is full", || {
        (prober.publish("probe", "") == Reason::QUOTA_EXCEEDED).then_some(())
    });
}

/// Receives these messages, perhaps some of them twice.
pub(crate) fn receive_all(subscriber: &mut Client) {
    let mut count = 0;
    while count < MESSAGES {
        let (_, payload, ..) = next(subscriber);
        let number: usize = payload.split(' ').next().unwrap().parse().unwrap();
        assert!(number <= count, "{number} after {count} messages");
        count = count.max(number + 1);
    }
}
