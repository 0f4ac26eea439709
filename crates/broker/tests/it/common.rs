//! A broker in the test's process, on each driver in turn, and clients that read and write packets directly:
//! shared by the test suites in this folder.

#![allow(dead_code, reason = "each suite uses a part of it")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use phalanx::runtime::{Control, DriverChoice};
use phalanx_broker::{Config, Listen, Serving, serve};
use phalanx_mqtt::{
    Connect, Packet, PacketId, Properties, Subscribe, SubscribeOptions, SubscriptionBuffer, Version,
};

/// Longer than any step takes on a loaded machine: only a failing test waits for this long.
const LONG: Duration = Duration::from_secs(30);

/// Runs `test` with a broker in this process, on each driver in turn.
pub(crate) fn on_each_driver(processors: usize, test: impl Fn(SocketAddr)) {
    let named = std::env::var("PHALANX_DRIVER").unwrap_or_default();
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        if ["uring", "poll"].contains(&named.as_str()) && named != driver.to_string() {
            continue;
        }
        let mut config = Config::new();
        config.listen = vec![Listen::mqtt((Ipv4Addr::LOCALHOST, 0))];
        // No `$SYS` messages: they would change the counts.
        config.system_interval = Duration::ZERO;
        let runtime = &mut config.runtime;
        (runtime.driver, runtime.pin, runtime.signals) = (driver, false, false);
        runtime.workers = processors;
        let (up, is_up) = channel::<(SocketAddr, Control)>();
        let broker = thread::spawn(move || {
            let ready = |serving: &Serving<'_>| {
                up.send((serving.addresses[0], serving.up.control.clone())).unwrap();
            };
            serve(config, ready).map_err(|error| error.to_string())
        });
        let Ok((address, control)) = is_up.recv_timeout(LONG) else {
            let error = broker.join().unwrap().unwrap_err();
            assert!(driver == DriverChoice::Uring && error.contains("io_uring"), "{error}");
            println!("skipped: {error}");
            continue;
        };
        test(address);
        control.drain();
        broker.join().unwrap().unwrap();
    }
}

pub(crate) fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(Version::V5, &mut bytes).unwrap();
    bytes
}

/// Connects a client.
pub(crate) fn client(address: SocketAddr, name: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_nodelay(true).unwrap();
    let connect = Connect {
        version: Version::V5,
        client_id: name,
        clean_start: true,
        keep_alive: 0,
        username: None,
        password: None,
        will: None,
        properties: Properties::NONE,
    };
    stream.write_all(&bytes(&Packet::Connect(connect))).unwrap();
    answer(&mut stream);
    stream
}

/// Reads one packet whose remaining length fits in one byte.
pub(crate) fn answer(stream: &mut TcpStream) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; head[1].into()];
    stream.read_exact(&mut body).unwrap();
}

pub(crate) fn subscriber(address: SocketAddr, name: &str) -> TcpStream {
    let mut stream = client(address, name);
    let mut wanted = SubscriptionBuffer::new();
    wanted.push("a/+/c", SubscribeOptions::default()).unwrap();
    let (id, filters) = (PacketId::new(1).unwrap(), wanted.to_subscribe());
    let subscribe = Subscribe { id, filters, properties: Properties::NONE };
    stream.write_all(&bytes(&Packet::Subscribe(subscribe))).unwrap();
    answer(&mut stream);
    stream
}
