//! A node is cut off until another one has adopted its sessions. It returns at the moment at which NATS loses all streams,
//! with the record of the adoption. It does not take its sessions back.

use phalanx::sim::{self, World};
use phalanx_broker::Broker;
use phalanx_nats::Passage;

use crate::simulation::adopted::{TIMEOUT, start_three};
use crate::simulation::clustered::probe;
use crate::simulation::gates::draw_cut;
use crate::simulation::wire::NODES;

fn world(world: &mut World) {
    world.set_processors(1);
    world.set_max_steps(4_000_000);
    world.advance_only_when_idle();
    let ([lost, others @ ..], gates) = start_three(world);
    let net = world.net();
    world.client(async move {
        // The node has the probe's sessions.
        probe(&net, NODES[0], NODES[0], "probe").await;
        gates.of_nodes[0].set(draw_cut(&net));
        net.sleep(3 * TIMEOUT).await;
        let adopted = || others.iter().map(Broker::adopted_sessions).sum::<u64>();
        assert_eq!(adopted(), 2);
        gates.model.lose_streams();
        gates.of_nodes[0].set(Passage::Open);
        net.sleep(3 * TIMEOUT).await;
        assert!(lost.has_lost_sessions(), "two nodes have the sessions");
        net.drain();
    });
}

#[test]
fn a_node_whose_sessions_were_adopted_does_not_take_them_back() {
    sim::explore(4, world);
}
