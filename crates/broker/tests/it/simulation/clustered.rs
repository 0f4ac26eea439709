//! Three brokers form a cluster over a simulated NATS server, whose connections break, over an unreliable network.
//! Publishers are at one node, subscribers at another. The guarantees of a single broker hold over the cluster.
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::sim::{self, Faults, Net, World};
use phalanx::task::Either;
use phalanx::{Graph, select, sleep};
use phalanx_broker::{Broker, Config};
use phalanx_mqtt::{Delivery, Packet, PacketId, Properties, Publish, Reason};
use phalanx_nats::ModelServer;

use crate::simulation::subscriber::send_subscribe;
use crate::simulation::wire::{Brokers, Lost, NODES, Wire, until};
use crate::simulation::{Shared, add_clients, are_done, config, serve};

/// The address of NATS.
pub(crate) fn nats() -> SocketAddr {
    ([10, 0, 0, 9], 4222).into()
}

/// The timeout of the nodes, from which their intervals derive. It is long because in simulation much time can pass
/// during a few steps.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3600);

/// The configuration of a node.
pub(crate) fn node(world: &World, name: &str) -> Config {
    let mut own = config(world);
    own.cluster.servers = vec![nats().to_string().parse().unwrap()];
    own.cluster.node = name.to_owned();
    own.cluster.timeout = TIMEOUT;
    own.seed = Some(world.seed() << 20 | u64::from(name.as_bytes()[0]));
    own
}

/// Starts nodes with these names over a reliable network. They have lanes after two timeouts. Returns the NATS server.
pub(crate) fn start_nodes(world: &mut World, names: &[&str]) -> ModelServer {
    start_brokers(world, names).0
}

/// The same. Returns the nodes, too.
pub(crate) fn start_brokers(world: &mut World, names: &[&str]) -> (ModelServer, Vec<Broker>) {
    start_with(world, names, |_| ())
}

/// The same, after a change of the configurations.
pub(crate) fn start_with(
    world: &mut World,
    names: &[&str],
    change: impl Fn(&mut Config),
) -> (ModelServer, Vec<Broker>) {
    world.set_processors(1);
    world.advance_only_when_idle();
    let mut graph = Graph::new();
    let of = |name: &&str| {
        let mut config = node(world, name);
        change(&mut config);
        Broker::declare(&mut graph, &config)
    };
    let brokers: Vec<_> = names.iter().map(of).collect();
    let stage = graph.stage("nats").shared(());
    let listeners: Vec<_> =
        NODES[..names.len()].iter().map(|address| world.listen(*address)).collect();
    let (of_nats, model) = (world.listen(nats()), ModelServer::default());
    let (of_program, nodes) = (model.clone(), brokers.clone());
    world.program(graph, move |start| {
        let (own, listener) = (of_program.clone(), of_nats.listener(start)?);
        stage.dispatch(move |_| own.accept(listener, stage))?;
        serve(start, &nodes, &listeners)
    });
    (model, brokers)
}

fn world(world: &mut World) {
    world.set_max_steps(4_000_000);
    let shared = Rc::new(Shared::default());
    if world.draw(2) == 0 {
        // No random resets, because no lane would last: connections to NATS are cut below, and clients cut their own.
        world.set_faults(Faults { full: 0, reset: 0, ..Faults::random(world.seed()) });
    }
    shared.breaks.set(world.draw(3) > 0);
    let at = 1 + world.draw(2) as usize;
    shared.subscribers_at.set(Brokers::one(at));
    let mut graph = Graph::new();
    // Either of two nodes may open the lane.
    let names = [["a", "b", "c"], ["c", "b", "a"]][world.draw(2) as usize];
    let brokers = names.map(|name| Broker::declare(&mut graph, &node(world, name)));
    let stage = graph.stage("nats").shared(());
    let listeners = NODES.map(|node| world.listen(node));
    let of_nats = world.listen(nats());
    let (cuts, net, model) = (world.draw(3), world.net(), ModelServer::default());
    world.program(graph, move |start| {
        let (own, listener) = (model.clone(), of_nats.listener(start)?);
        stage.dispatch(move |_| own.accept(listener, stage))?;
        if start.processor() == 0 {
            let (model, net) = (model.clone(), net.clone());
            stage.dispatch(move |_| async move {
                for _ in 0..cuts {
                    let delay = Duration::from_millis(net.draw(4000));
                    if let Either::Right(()) = select(sleep(delay), draining()).await {
                        return;
                    }
                    model.cut();
                }
            })?;
        }
        serve(start, &brokers, &listeners)
    });
    let count = 1 + world.draw(2) as usize;
    // The publishers also wait until the subscriptions are known.
    shared.absent.set(count + 1);
    world.client(begin(world.net(), shared.clone()));
    add_clients(world, &shared, count);
    world.client(end(world.net(), shared));
}

/// Lets the publishers begin when their node knows the subscribers. The probe's filter is announced after theirs, so its
/// arrival shows this.
pub(crate) async fn begin(net: Net, shared: Rc<Shared>) {
    until(|| shared.absent.get() == 1).await;
    let [here, there] = [&shared.publishers_at, &shared.subscribers_at].map(|place| place.get());
    probe(&net, here.first(), there.first(), "probe").await;
    shared.absent.set(0);
}

/// Waits until node `here` has the filters of node `there`. `name` is the topic of the probe and the prefix of its client
/// identifiers.
pub(crate) async fn probe(net: &Net, here: SocketAddr, there: SocketAddr, name: &str) {
    while probe_once(net, here, there, name).await.is_err() {
        net.sleep(Duration::from_millis(50)).await;
    }
}

async fn probe_once(
    net: &Net,
    here: SocketAddr,
    there: SocketAddr,
    name: &str,
) -> Result<(), Lost> {
    let mut there = Wire::connect_at(net, name, there).await;
    send_subscribe(&mut there, &[name]).await?;
    while !matches!(there.next().await?.packet(), Packet::SubAck(_)) {}
    let mut here = Wire::connect_at(net, &format!("{name}r"), here).await;
    loop {
        let (topic, payload, retain, duplicate) = (name, &b""[..], false, false);
        let delivery = Delivery::AtLeastOnce(PacketId::MIN);
        let properties = Properties::NONE;
        let own = Publish { topic, payload, delivery, retain, duplicate, properties };
        here.send(&Packet::Publish(own)).await?;
        let received = here.next().await?;
        match received.packet() {
            Packet::PubAck(ack) if ack.reason == Reason::SUCCESS => return Ok(()),
            _ => net.sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Drains the brokers when all other clients have finished. Otherwise the world would never be at rest.
async fn end(net: Net, shared: Rc<Shared>) {
    until(|| are_done(&shared)).await;
    net.drain();
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(sim::run(1000, world), sim::run(1000, world));
}

#[test]
fn acknowledged_messages_arrive_over_a_cluster() {
    sim::explore(4, world);
}
