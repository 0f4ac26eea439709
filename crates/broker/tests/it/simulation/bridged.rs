//! Two brokers with a bridge between them, over an unreliable network. Publishers are at one broker, subscribers at the
//! other. The guarantees of a single broker hold over the bridge.
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;
use phalanx::sim::{self, Faults, Net, World};
use phalanx_broker::{Bridge, BridgeTopic, Broker, Direction};
use phalanx_mqtt::Packet;

use crate::simulation::subscriber::send_subscribe;
use crate::simulation::wire::{Brokers, Lost, NODES, Wire, address, until};
use crate::simulation::{Shared, add_clients, are_done, config, serve};

/// The address of the subscribers' broker.
const OTHER: SocketAddr = NODES[1];

/// The bridge of one broker to `remote`.
fn bridge(remote: SocketAddr, direction: Direction) -> Bridge {
    let mut bridge = Bridge::default();
    bridge.name = "b".into();
    bridge.client_id = "bridge".into();
    bridge.address = vec![remote.to_string().parse().unwrap()];
    bridge.reconnect_delay = Duration::from_millis(50);
    bridge.max_reconnect_delay = Duration::from_millis(400);
    let (pattern, qos) = ("from/#".to_owned(), 2);
    bridge.topics = vec![BridgeTopic { pattern, direction, qos, ..BridgeTopic::default() }];
    bridge
}

fn world(world: &mut World) {
    // If the answer to the first CONNECT is lost, the bridge has to release all packet identifiers. With buffers of five
    // bytes and many resets, this takes up to 19,000 connections.
    world.set_max_steps(60_000_000);
    let shared = Rc::new(Shared::default());
    if world.draw(2) == 0 {
        world.set_faults(Faults { full: 0, ..Faults::random(world.seed()) });
    }
    shared.breaks.set(world.draw(3) > 0);
    shared.subscribers_at.set(Brokers::one(1));
    let (mut publishers, mut subscribers) = (config(world), config(world));
    publishers.seed = Some(world.seed() << 1);
    subscribers.seed = Some(world.seed() << 1 | 1);
    // The bridge is configured at either broker or at both. With two bridges, each must not return the other's messages.
    let sides = world.draw(3);
    if sides != 1 {
        let direction = if sides == 2 { Direction::Both } else { Direction::Out };
        publishers.bridges = vec![bridge(OTHER, direction)];
    } else {
        subscribers.bridges = vec![bridge(address(), Direction::In)];
    }
    let mut graph = Graph::new();
    let brokers = [&publishers, &subscribers].map(|config| Broker::declare(&mut graph, config));
    let listeners = [address(), OTHER].map(|address| world.listen(address));
    world.program(graph, move |start| serve(start, &brokers, &listeners));
    let count = 1 + world.draw(2) as usize;
    // The publishers also wait for the bridge.
    shared.absent.set(count + 1);
    let of_bridge = if sides == 1 { OTHER } else { address() };
    world.client(begin(world.net(), shared.clone(), of_bridge));
    add_clients(world, &shared, count);
    world.client(end(world.net(), shared, of_bridge));
}

/// Lets the publishers begin when the bridge has connected.
async fn begin(net: Net, shared: Rc<Shared>, broker: SocketAddr) {
    await_bridge(&net, broker).await;
    shared.absent.set(shared.absent.get() - 1);
}

/// Drains the brokers when all other clients have finished. Otherwise the world would never be at rest, because bridges
/// ping at intervals.
async fn end(net: Net, shared: Rc<Shared>, broker: SocketAddr) {
    // Each unfinished client holds a reference.
    until(|| are_done(&shared)).await;
    await_bridge(&net, broker).await;
    net.sleep(Duration::from_secs([0, 100][net.draw(2) as usize])).await;
    net.drain();
}

/// Waits until the bridge of the broker at this address is connected, as its topic shows.
async fn await_bridge(net: &Net, broker: SocketAddr) {
    while watch(net, broker).await.is_err() {
        net.sleep(Duration::from_millis(10)).await;
    }
}

/// Like [`await_bridge`], over one connection.
async fn watch(net: &Net, broker: SocketAddr) -> Result<(), Lost> {
    let mut wire = Wire::connect_at(net, "watcher", broker).await;
    send_subscribe(&mut wire, &["$SYS/broker/connection/b/state"]).await?;
    loop {
        if let Packet::Publish(publish) = wire.next().await?.packet()
            && publish.payload == b"1"
        {
            return Ok(());
        }
    }
}

#[test]
fn acknowledged_messages_arrive_over_a_bridge() {
    sim::explore(40, world);
}
