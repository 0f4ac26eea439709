//! How often the broker calls the general allocator for a message of QoS 0, once some have gone the same way before.
//!
//! The clients of this test say the same bytes again and again, and call none. Calls are counted in the whole process,
//! the broker's threads included; with `PHALANX_ALLOCATIONS=1` it is shown where they come from.

#[path = "../../web/tests/common/counted.rs"]
mod counted;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use phalanx::{Choice, Control};
use phalanx_broker::{Config, Listen, Serving, serve};
use phalanx_mqtt::{
    Connect, Delivery, Packet, PacketId, Properties, Property, PropertyBuffer, Publish, Subscribe,
    SubscribeOptions, SubscriptionBuffer, Version,
};

/// Longer than anything takes on a loaded machine; only a test that fails waits for so long.
const LONG: Duration = Duration::from_secs(30);

/// A broker in this process, on each driver in turn.
fn on_each_driver(processors: usize, test: impl Fn(SocketAddr)) {
    let named = std::env::var("PHALANX_DRIVER").unwrap_or_default();
    for driver in [Choice::Uring, Choice::Poll] {
        if ["uring", "poll"].contains(&named.as_str()) && named != driver.to_string() {
            continue;
        }
        let mut config = Config::new();
        config.listen = vec![Listen::mqtt((Ipv4Addr::LOCALHOST, 0))];
        // What it tells of itself is not of a message.
        config.system_interval = Duration::ZERO;
        let runtime = &mut config.runtime;
        (runtime.driver, runtime.pin, runtime.signals) = (driver, false, false);
        runtime.processors = processors;
        let (up, is_up) = channel::<(SocketAddr, Control)>();
        let broker = thread::spawn(move || {
            let ready = |serving: &Serving<'_>| {
                up.send((serving.addresses[0], serving.up.control.clone())).unwrap();
            };
            serve(config, ready).map_err(|error| error.to_string())
        });
        let Ok((address, control)) = is_up.recv_timeout(LONG) else {
            let error = broker.join().unwrap().unwrap_err();
            assert!(driver == Choice::Uring && error.contains("io_uring"), "{error}");
            println!("skipped: {error}");
            continue;
        };
        test(address);
        control.drain();
        broker.join().unwrap().unwrap();
    }
}

fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(Version::V5, &mut bytes).unwrap();
    bytes
}

/// A client that was let in.
fn client(address: SocketAddr, name: &str) -> TcpStream {
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

/// An answer whose length is in one byte, and that it went well.
fn answer(stream: &mut TcpStream) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; head[1].into()];
    stream.read_exact(&mut body).unwrap();
}

fn subscriber(address: SocketAddr, name: &str) -> TcpStream {
    let mut stream = client(address, name);
    let mut wanted = SubscriptionBuffer::new();
    wanted.push("a/+/c", SubscribeOptions::default()).unwrap();
    let (id, filters) = (PacketId::new(1).unwrap(), wanted.to_subscribe());
    let subscribe = Subscribe { id, filters, properties: Properties::NONE };
    stream.write_all(&bytes(&Packet::Subscribe(subscribe))).unwrap();
    answer(&mut stream);
    stream
}

/// Calls of the allocator while so many messages, `burst` of them at once, go to so many subscribers.
fn calls(
    address: SocketAddr,
    (messages, burst): (usize, usize),
    subscribers: usize,
    properties: &[Property<'_>],
) -> u64 {
    let mut readers: Vec<_> =
        (0..subscribers).map(|n| subscriber(address, &format!("reader {n}"))).collect();
    let mut writer = client(address, "writer");
    let mut buffer = PropertyBuffer::new();
    properties.iter().for_each(|property| buffer.push(*property).unwrap());
    let publish = Publish {
        topic: "a/b/c",
        payload: b"a reading of some sensor, neither long nor short",
        delivery: Delivery::AtMostOnce,
        retain: false,
        duplicate: false,
        properties: buffer.get(),
    };
    // Subscribers get the bytes that the publisher has sent.
    let said = bytes(&Packet::Publish(publish)).repeat(burst);
    let mut came = vec![0; said.len()];
    let mut pass = |messages: usize| {
        for _ in 0..messages / burst {
            writer.write_all(&said).unwrap();
            for reader in &mut readers {
                reader.read_exact(&mut came).unwrap();
                assert!(came == said, "another message");
            }
        }
    };
    // Pools grow.
    pass(messages);
    let fewest = counted::fewest(|| pass(messages));
    println!("{fewest} calls of the allocator for {messages} messages by {burst} to {subscribers}");
    counted::show(|| pass(2 * burst));
    fewest
}

/// All in one test: what another one does meanwhile would be counted, too.
#[test]
fn a_message_that_is_passed_on_calls_no_allocator() {
    let user = [Property::User("unit", "°C"), Property::User("place", "cellar")];
    on_each_driver(1, |address| {
        assert!(calls(address, (500, 1), 1, &[]) < 10, "one for one");
        assert!(calls(address, (500, 1), 5, &[]) < 10, "one for some");
        assert!(calls(address, (500, 1), 1, &user) < 10, "with properties");
        assert!(calls(address, (3000, 50), 1, &[]) < 60, "many at once");
    });
}
