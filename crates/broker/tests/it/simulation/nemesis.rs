//! Like `adopted`, but each node is a separate program, and the seed draws the faults. Nodes lose power, are stopped, cut
//! off from NATS or restarted. NATS closes all connections, is unreachable, or loses its streams.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;
use phalanx::sim::{self, Net, World};
use phalanx_nats::Passage;

use crate::simulation::adopted::{PACES, TIMEOUT};
use crate::simulation::clustered::begin;
use crate::simulation::gates::{Gates, draw_cut};
use crate::simulation::nodes::Node;
use crate::simulation::wire::{Brokers, until};
use crate::simulation::{Shared, add_clients, are_done};

/// Number of sources of faults, which act concurrently.
const SOURCES: u64 = 2;

/// Maximum durations of faults. The last one is long enough for other nodes to adopt the sessions.
const DURATIONS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(15), Duration::from_secs(150)];

/// The cluster and its clients.
struct Scene {
    net: Net,
    nodes: [Node; 3],
    gates: Gates,
    /// The node of the publishers or of the subscribers, if they are at different nodes. Its faults are too short for its
    /// sessions to be adopted.
    stays: Option<usize>,
    /// Whether all faults are too short for sessions to be adopted.
    is_short: bool,
    /// Each unfinished client holds a reference.
    shared: Rc<Shared>,
}

fn world(world: &mut World) {
    run_world(world, false);
}

/// Clients connect to any node, and take their sessions along.
fn roaming(world: &mut World) {
    run_world(world, true);
}

fn run_world(world: &mut World, roams: bool) {
    world.set_processors(1);
    world.set_max_steps(4_000_000);
    world.advance_only_when_idle();
    let shared = Rc::new(Shared::default());
    shared.breaks.set(world.draw(3) > 0);
    let all = if roams { Brokers::NODES.roaming() } else { Brokers::NODES };
    let of = [&shared.publishers_at, &shared.subscribers_at];
    of.iter().for_each(|place| place.set(all.restarting()));
    let stays = (world.draw(2) == 0).then(|| 1 + world.draw(2) as usize);
    if let Some(at) = stays {
        of[world.draw(2) as usize].set(Brokers::one(at).restarting());
    }
    shared.pace.set(PACES[world.draw(PACES.len() as u64) as usize]);
    let mut graph = Graph::new();
    let (gates, accept) = Gates::declare(world, &mut graph);
    world.program(graph, accept);
    let nodes = [0, 1, 2].map(|number| Node::start(world, number));
    let count = 1 + world.draw(2) as usize;
    shared.absent.set(count + usize::from(stays.is_some()));
    if stays.is_some() {
        world.client(begin(world.net(), shared.clone()));
    }
    let (publishers, _) = add_clients(world, &shared, count);
    let is_short = roams && stays.is_none();
    let scene = Rc::new(Scene { net: world.net(), nodes, gates, stays, is_short, shared });
    for number in 0..3 {
        let scene = scene.clone();
        world.client(async move { scene.nodes[number].start_anew().await });
    }
    for source in 0..SOURCES {
        let (scene, publishers) = (scene.clone(), publishers.clone());
        world.client(async move {
            let are_known =
                || publishers.iter().all(|publisher| publisher.borrow().packets_received() > 0);
            until(|| are_known() || scene.is_over()).await;
            scene.faults(source == 0).await;
        });
    }
    world.client(async move {
        until(|| scene.is_over()).await;
        scene.gates.open_all();
        scene.net.drain();
    });
}

impl Scene {
    /// Whether all publishers and subscribers have finished.
    fn is_over(&self) -> bool {
        are_done(&self.shared)
    }

    /// Draws a time below `bound`.
    fn time(&self, bound: Duration) -> Duration {
        Duration::from_millis(self.net.draw(bound.as_millis() as u64))
    }

    /// Causes several faults, one after the other. If it `begins`, the first one is at the node where the subscribers
    /// begin.
    async fn faults(&self, begins: bool) {
        let pause = self.time(if begins { Duration::from_secs(4) } else { 2 * TIMEOUT });
        self.net.sleep(pause).await;
        for number in 0..1 + self.net.draw(3) {
            if self.is_over() {
                return;
            }
            let at = if begins && number == 0 { 0 } else { self.net.draw(3) as usize };
            self.fault(at).await;
            // A pause, in which the nodes renew their leases.
            self.net.sleep(Duration::from_secs(30) + self.time(Duration::from_secs(30))).await;
        }
    }

    /// Causes a fault of this node, or of NATS.
    async fn fault(&self, at: usize) {
        let kind = self.net.draw(11);
        let (is_shared, stays) = (kind == 8, self.stays);
        let is_short = self.is_short || stays == Some(at) || is_shared && stays.is_some();
        let time = self.time(DURATIONS[self.net.draw(if is_short { 2 } else { 3 }) as usize]);
        match kind {
            0..3 => self.nodes[at].cut_power(time).await,
            3 => self.nodes[at].restart(time).await,
            4..6 => self.nodes[at].stop(time).await,
            6..8 => self.close(at..at + 1, time).await,
            8 => self.close(0..3, time).await,
            9 => _ = self.gates.model.cut(),
            _ => self.gates.model.lose_streams(),
        }
    }

    /// Closes the gates of these nodes for this time.
    async fn close(&self, nodes: Range<usize>, time: Duration) {
        let passage = draw_cut(&self.net);
        let gates = &self.gates.of_nodes[nodes];
        gates.iter().for_each(|gate| gate.set(passage));
        self.net.sleep(time).await;
        gates.iter().for_each(|gate| gate.set(Passage::Open));
    }
}

#[test]
fn kept_sessions_follow_their_clients_in_spite_of_drawn_faults() {
    sim::explore(2, roaming);
}

#[test]
fn kept_sessions_survive_drawn_faults() {
    sim::explore(1, world);
}
