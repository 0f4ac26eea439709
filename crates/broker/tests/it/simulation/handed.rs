//! Like `nemesis`, but with two faults only. The subscribers' node is cut off until another node has adopted its sessions.
//! The publishers' node loses power after it has handed over its messages for that node. Its publishers reuse the packet
//! identifiers of those messages for other messages.

use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;
use phalanx::sim::{self, World};
use phalanx_nats::Passage;

use crate::simulation::adopted::{PACES, TIMEOUT};
use crate::simulation::clustered::begin;
use crate::simulation::gates::Gates;
use crate::simulation::nodes::Node;
use crate::simulation::wire::{Brokers, until};
use crate::simulation::{Shared, add_clients, are_done};

/// Maximum time without power. It is too short for another node to adopt the sessions.
const OUTAGE: Duration = Duration::from_secs(5);

fn world(world: &mut World) {
    world.set_processors(1);
    world.set_max_steps(4_000_000);
    world.advance_only_when_idle();
    let shared = Rc::new(Shared::default());
    shared.breaks.set(world.draw(3) > 0);
    shared.publishers_at.set(Brokers::one(1).restarting());
    shared.subscribers_at.set(Brokers::NODES.restarting());
    // Some messages come before the adoption, and some after the restart.
    shared.pace.set(PACES[2]);
    let mut graph = Graph::new();
    let (gates, accept) = Gates::declare(world, &mut graph);
    world.program(graph, accept);
    let nodes = Rc::new([0, 1, 2].map(|number| Node::start(world, number)));
    for number in 0..3 {
        let nodes = nodes.clone();
        world.client(async move { nodes[number].start_anew().await });
    }
    let count = 1 + world.draw(2) as usize;
    shared.absent.set(count + 1);
    world.client(begin(world.net(), shared.clone()));
    let (publishers, _) = add_clients(world, &shared, count);
    let net = world.net();
    world.client(async move {
        let time = |most: Duration| Duration::from_millis(net.draw(most.as_millis() as u64));
        until(|| publishers.iter().all(|publisher| publisher.borrow().packets_received() > 0))
            .await;
        gates.of_nodes[0].set(Passage::Closed);
        net.sleep(3 * TIMEOUT / 2 + time(TIMEOUT)).await;
        nodes[1].cut_power(time(OUTAGE)).await;
        until(|| are_done(&shared)).await;
        gates.open_all();
        net.drain();
    });
}

#[test]
fn packet_identifiers_of_messages_that_were_handed_over_are_free_after_a_restart() {
    sim::explore(4, world);
}
