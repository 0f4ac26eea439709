//! Three brokers keep their sessions in a simulated NATS server, over an unreliable network. Nodes are cut off from NATS,
//! permanently or for a while. Other nodes adopt their sessions, and the clients return to these. The guarantees of a
//! single broker hold: no session and no acknowledged message is lost, no QoS 2 message arrives twice, and order is
//! preserved.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;
use phalanx::sim::{self, Net, World};
use phalanx_broker::{Broker, Config};
use phalanx_nats::Passage;
use phalanx_store::{Options, Store};

use crate::simulation::clustered::begin;
use crate::simulation::gates::{Gates, draw_cut, gate_of};
use crate::simulation::power_cuts::Files;
use crate::simulation::wire::{Brokers, NODES, until};
use crate::simulation::{Clients, Shared, add_clients, are_done, config, serve};

/// The cluster's timeout: a lease that is not renewed for this time has expired.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum intervals between messages of a publisher. With the shortest, all messages are sent before the loss of a node
/// is noticed. With the longest, some are sent after its sessions were adopted.
pub(crate) const PACES: [Duration; 3] =
    [Duration::ZERO, Duration::from_secs(15), Duration::from_secs(40)];

/// The configuration of a node.
pub(crate) fn node(world: &World, number: usize) -> Config {
    let mut own = config(world);
    let name = ["a", "b", "c"][number];
    own.cluster.servers = vec![gate_of(number).to_string().parse().unwrap()];
    own.cluster.node = name.to_owned();
    own.cluster.timeout = TIMEOUT;
    own.cluster.keep_sessions = true;
    own.persistence_dir = Some(name.into());
    own.seed = Some(world.seed() << 20 | number as u64);
    own
}

/// The options of a node's journal.
pub(crate) fn options(world: &World, number: usize) -> Options {
    Options {
        segment_bytes: [2000, 1 << 20][world.seed() as usize % 2],
        max_bytes: u64::MAX,
        max_pending_bytes: usize::MAX,
        reserve_bytes: 0,
        accept_loss: false,
        salt: Some(world.seed() << 20 | number as u64),
    }
}

/// Declares a node, with an empty journal.
pub(crate) fn declare(world: &World, graph: &mut Graph, number: usize) -> Broker {
    declare_with(world, graph, number, &node(world, number))
}

/// The same with this configuration.
pub(crate) fn declare_with(
    world: &World,
    graph: &mut Graph,
    number: usize,
    config: &Config,
) -> Broker {
    let name = config.cluster.node.as_str();
    let options = options(world, number);
    let store = Store::open_in(&Files::new(), world.directory(name), Path::new(name), options);
    let store = store.unwrap_or_else(|error| panic!("{error}"));
    Broker::declare_on(graph, config, store, world.time_of_day()).unwrap()
}

/// Starts three nodes, each connected to NATS through its gate.
pub(crate) fn start_three(world: &mut World) -> ([Broker; 3], Gates) {
    let mut graph = Graph::new();
    let brokers = [0, 1, 2].map(|number| declare(world, &mut graph, number));
    let gates = start(world, graph, &brokers);
    (brokers, gates)
}

/// Starts the first nodes, which were declared in `graph`, each connected to NATS through its gate.
pub(crate) fn start<const N: usize>(
    world: &mut World,
    mut graph: Graph,
    brokers: &[Broker; N],
) -> Gates {
    let (gates, accept) = Gates::declare(world, &mut graph);
    let listeners: Vec<_> = NODES[..N].iter().map(|name| world.listen(*name)).collect();
    let brokers = brokers.clone();
    world.program(graph, move |start| {
        accept(start)?;
        serve(start, &brokers, &listeners)
    });
    gates
}

/// Publishers and subscribers begin at the same node, and that node is lost.
fn together(world: &mut World) {
    run_world(world, Stays::None, Loss::Nodes);
}

/// Publishers are at a node that is not lost.
fn apart(world: &mut World) {
    let publishers = 1 + world.draw(2) as usize;
    run_world(world, Stays::Publishers(publishers), Loss::Nodes);
}

/// Subscribers are at a node that is not lost.
fn across(world: &mut World) {
    let subscribers = 1 + world.draw(2) as usize;
    run_world(world, Stays::Subscribers(subscribers), Loss::Nodes);
}

/// The adopting node cannot reach NATS for a while, except over its journal's connection.
fn interrupted(world: &mut World) {
    let stays = [Stays::Publishers(1), Stays::None][world.draw(2) as usize];
    run_world(world, stays, Loss::Adopter);
}

/// NATS loses all streams.
fn emptied(world: &mut World) {
    let stays = [Stays::Publishers(1), Stays::None][world.draw(2) as usize];
    run_world(world, stays, Loss::Streams);
}

/// Which clients are at a node that is not lost, and the number of that node. All other clients begin at the first node.
#[derive(Clone, Copy, PartialEq)]
enum Stays {
    None,
    Publishers(usize),
    Subscribers(usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Loss {
    Nodes,
    Streams,
    /// A node is lost, and then the adopting node is cut off, except for its journal's connection.
    Adopter,
}

fn run_world(world: &mut World, stays: Stays, loss: Loss) {
    world.set_max_steps(4_000_000);
    world.advance_only_when_idle();
    let shared = Rc::new(Shared::default());
    shared.breaks.set(world.draw(3) > 0);
    for place in [&shared.publishers_at, &shared.subscribers_at] {
        place.set(Brokers::NODES);
    }
    match stays {
        Stays::None => (),
        Stays::Publishers(at) => shared.publishers_at.set(Brokers::one(at)),
        Stays::Subscribers(at) => shared.subscribers_at.set(Brokers::one(at)),
    }
    let are_apart = stays != Stays::None;
    if are_apart {
        shared.pace.set(PACES[world.draw(PACES.len() as u64) as usize]);
    }
    let (brokers, gates) = start_three(world);
    if loss == Loss::Adopter {
        world.after_shutdown(move || {
            let adopted = brokers.each_ref().map(Broker::adopted_sessions);
            let adopters = adopted.iter().filter(|count| **count > 0).count();
            assert!(adopters <= 1, "adopted sessions by node: {adopted:?}");
        });
    }
    let count = 1 + world.draw(2) as usize;
    shared.absent.set(count + usize::from(are_apart));
    if are_apart {
        // The publishers begin when their node knows the subscriptions.
        world.client(begin(world.net(), shared.clone()));
    }
    let clients = add_clients(world, &shared, count);
    let stays = match stays {
        Stays::None => usize::MAX,
        Stays::Publishers(at) | Stays::Subscribers(at) => at,
    };
    world.client(nemesis(world.net(), (shared, stays, loss), gates, clients));
}

/// Cuts off nodes, first the one where most clients begin, but never node `stays`. Drains the brokers when all clients
/// have finished.
async fn nemesis(
    net: Net,
    (shared, stays, loss): (Rc<Shared>, usize, Loss),
    gates: Gates,
    clients: Clients,
) {
    let (publishers, subscribers) = clients;
    let packet_count = || -> u64 {
        let of_publishers =
            publishers.iter().map(|publisher| publisher.borrow().packets_received());
        of_publishers
            .chain(subscribers.iter().map(|subscriber| subscriber.borrow().packets_received()))
            .sum()
    };
    let are_all_known =
        || publishers.iter().all(|publisher| publisher.borrow().packets_received() > 0);
    let all_done = || are_done(&shared);
    until(|| are_all_known() || all_done()).await;
    let enough = packet_count() + net.draw(60);
    until(|| packet_count() >= enough || all_done()).await;
    let mut cut = BTreeSet::new();
    if loss == Loss::Streams {
        gates.model.lose_streams();
    }
    if loss == Loss::Adopter {
        gates.model.interrupt_publisher(".seal");
        gates.of_nodes[0].set(Passage::Closed);
        // After the timeout, another node adopts the sessions.
        net.sleep(TIMEOUT + Duration::from_millis(net.draw(4 * TIMEOUT.as_millis() as u64))).await;
        gates.model.end_interruption();
        if net.draw(2) == 0 {
            gates.of_nodes[0].set(Passage::Open);
        }
    }
    let nodes = if loss == Loss::Nodes { 1 + net.draw(2) as usize } else { 0 };
    for number in 0..nodes {
        let at = if number == 0 { 0 } else { net.draw(3) as usize };
        if at == stays {
            continue;
        }
        gates.of_nodes[at].set(draw_cut(&net));
        cut.insert(at);
        net.sleep(Duration::from_millis(net.draw(2 * TIMEOUT.as_millis() as u64))).await;
        // A majority of the nodes has to remain. Otherwise this node may return or stay lost.
        if cut.len() > 1 || net.draw(2) == 0 {
            gates.of_nodes[at].set(Passage::Open);
            cut.remove(&at);
        }
    }
    until(&all_done).await;
    gates.open_all();
    net.drain();
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(sim::run(1000, together), sim::run(1000, together));
}

#[test]
fn acknowledged_messages_survive_the_loss_of_nodes() {
    sim::explore(6, together);
}

#[test]
fn acknowledged_messages_survive_the_loss_of_nats_streams() {
    sim::explore(4, emptied);
}

#[test]
fn sessions_are_adopted_once_if_their_adopter_is_interrupted() {
    sim::explore(4, interrupted);
}

#[test]
fn messages_of_other_nodes_reach_adopted_sessions() {
    sim::explore(6, apart);
}

#[test]
fn acknowledged_messages_for_other_nodes_survive_the_loss_of_nodes() {
    sim::explore(12, across);
}
