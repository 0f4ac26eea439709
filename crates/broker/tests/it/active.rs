//! Workers become active and inactive while clients publish and receive.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use phalanx::runtime::{ActiveProcessors, DriverChoice, Started};
use phalanx_broker::{Config, Scheme, Serving, serve};
use phalanx_mqtt::{Delivery, Packet, QoS};
use phalanx_testkit::driver::is_selected;
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};
use phalanx_testkit::{Steps, TIMEOUT, eventually, http};

const WORKERS: usize = 8;
/// Pairs of a publisher and a subscriber.
const PAIRS: usize = 4;
/// Maximum number of a publisher's unacknowledged messages.
const WINDOW: u16 = 16;
/// Maximum number of messages between a publisher and its subscriber. The broker drops what a full queue cannot hold, and a
/// busy machine may delay a subscriber.
const MAX_LAG: usize = 500;
/// The payload after the last message.
const END: &str = "end";

#[test]
fn no_acknowledged_message_is_lost() {
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let mut config = Config::new();
        config.listen = vec![Scheme::Mqtt.at((Ipv4Addr::LOCALHOST, 0))];
        config.runtime.workers = WORKERS;
        (config.runtime.driver, config.runtime.signals) = (driver, false);
        config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
        let (up, is_up) = channel();
        let server = thread::spawn(move || {
            let ready = |serving: &Serving<'_>| {
                let Started { control, active, admin, .. } = serving.up;
                let addresses = (serving.addresses[0], admin.expect("it has admin pages"));
                up.send(((control.clone(), active.clone()), addresses)).unwrap();
            };
            serve(config, ready).map(drop).map_err(|error| error.to_string())
        });
        let Ok(((control, active), addresses)) = is_up.recv_timeout(TIMEOUT) else {
            let error = server.join().unwrap().unwrap_err();
            assert!(!is_selected(&driver.to_string(), || Err::<(), _>(error)));
            continue;
        };
        let driven = thread::spawn(move || drive(&active, addresses)).join();
        control.drain();
        server.join().unwrap().unwrap();
        driven.expect("every client got its messages");
    }
}

fn drive(active: &ActiveProcessors, (address, admin): (SocketAddr, SocketAddr)) {
    let steps = Steps::from_environment();
    let mut idle: Vec<_> = (0..steps.connections)
        .map(|number| {
            let mut client = Client::new(address, &format!("idle {number}"));
            client.subscribe(&format!("idle/{number}"), QoS::AtLeastOnce);
            client
        })
        .collect();
    let (ended, acknowledged) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    thread::scope(|scope| {
        for pair in 0..PAIRS {
            let topic = format!("pair/{pair}");
            let mut subscriber = Client::new(address, &format!("subscriber {pair}"));
            subscriber.subscribe(&topic, QoS::AtLeastOnce);
            let mut publisher = Client::new(address, &format!("publisher {pair}"));
            let (under_way, arrived) = sync_channel(MAX_LAG);
            scope.spawn(move || receive(&mut subscriber, &arrived));
            scope.spawn(move || {
                let sent = publish(&mut publisher, &topic, &under_way, ended);
                acknowledged.fetch_add(sent, Ordering::Relaxed);
            });
        }
        scope.spawn(move || come_and_go(address, ended));
        for step in 0..steps.count {
            active.set(1 + step * 5 % WORKERS);
            thread::sleep(steps.length);
        }
        active.set(1);
        eventually("a connection moves", || (moved(admin) > 0).then_some(()));
        ended.store(true, Ordering::Relaxed);
    });
    let mut publisher = Client::new(address, "last");
    for (number, client) in idle.iter_mut().enumerate() {
        let topic = format!("idle/{number}");
        assert!(!publisher.publish(&topic, "hello").is_failure());
        client.expect_message(&topic, "hello");
    }
    let acknowledged = acknowledged.load(Ordering::Relaxed);
    println!("{acknowledged} messages acknowledged, {} connections moved", moved(admin));
}

/// The number of connections that have left an inactive worker.
fn moved(admin: SocketAddr) -> u64 {
    let metrics = http::get(admin, "/metrics").text().to_owned();
    let gathered = "phalanx_connections_moved_total{reason=\"gathered\"} ";
    let moved = metrics.lines().find_map(|line| line.strip_prefix(gathered));
    moved.expect("a metric").parse().unwrap()
}

/// Publishes numbers with QoS 1 until `ended`, and then [`END`]. Checks that each is acknowledged once, in order. Returns
/// the number of messages.
fn publish(
    client: &mut Client,
    topic: &str,
    under_way: &SyncSender<()>,
    ended: &AtomicBool,
) -> usize {
    let number_of = |count: usize| id((count % usize::from(WINDOW)) as u16 + 1);
    let (mut sent, mut acknowledged) = (0, 0);
    loop {
        let is_over = ended.load(Ordering::Relaxed);
        while !is_over && sent - acknowledged < usize::from(WINDOW) {
            under_way.send(()).expect("the subscriber receives");
            let delivery = Delivery::AtLeastOnce(number_of(sent));
            client.publish_with(topic, &sent.to_string(), delivery, false, &[]);
            sent += 1;
        }
        if acknowledged == sent {
            assert!(!client.publish(topic, END).is_failure());
            return sent;
        }
        match client.next().packet() {
            Packet::PubAck(ack) => assert_eq!(ack.id, number_of(acknowledged)),
            other => panic!("expected a PUBACK, got {other:?}"),
        }
        acknowledged += 1;
    }
}

/// Receives and acknowledges each number once, in order, until [`END`].
fn receive(client: &mut Client, arrived: &Receiver<()>) {
    for number in 0.. {
        let packet = client.next();
        let message = packet.message();
        let expected = number.to_string();
        client.acknowledge(&message);
        if message.payload == END.as_bytes() {
            return;
        }
        assert!(!message.duplicate, "message {number} again");
        assert_eq!(String::from_utf8_lossy(message.payload), expected);
        arrived.recv().expect("the publisher publishes");
    }
}

/// A client with a persistent session connects, subscribes and disconnects. Then another client publishes. The
/// acknowledged messages arrive when the first client reconnects.
fn come_and_go(address: SocketAddr, ended: &AtomicBool) {
    let lasting = ConnectOptions::persistent("comes and goes");
    let (mut client, _) = Client::connect_with(address, &lasting);
    client.subscribe("away", QoS::AtLeastOnce);
    client.disconnect();
    for round in 0.. {
        let mut publisher = Client::new(address, "meanwhile");
        for number in 0..3 {
            assert!(!publisher.publish("away", &format!("{round} {number}")).is_failure());
        }
        publisher.disconnect();
        let (mut client, is_present) = Client::connect_with(address, &lasting);
        assert!(is_present, "the session is kept");
        for number in 0..3 {
            client.expect_message("away", &format!("{round} {number}"));
        }
        client.disconnect();
        if ended.load(Ordering::Relaxed) {
            return;
        }
    }
}
