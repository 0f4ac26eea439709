//! An operator gives up a lost node by deleting its lease. The sessions of the other nodes for the lost one remain, with
//! messages that nobody will ask for. Sessions of clients still move.

use phalanx::sim::{self, World};
use phalanx_mqtt::Reason;
use phalanx_nats::Passage;

use crate::simulation::adopted::{TIMEOUT, start_three};
use crate::simulation::clustered::probe;
use crate::simulation::wire::{ConnectOptions, NODES, Wire};

fn world(world: &mut World) {
    world.set_processors(1);
    world.set_max_steps(4_000_000);
    world.advance_only_when_idle();
    let (brokers, gates) = start_three(world);
    let net = world.net();
    world.client(async move {
        // Until each of the two nodes has a session for the third one.
        for from in [0, 1] {
            probe(&net, NODES[from], NODES[2], &format!("probe {from}")).await;
        }
        gates.of_nodes[2].set(Passage::Closed);
        gates.model.remove_stored(".lease.c.");
        net.sleep(2 * TIMEOUT).await;
        let options =
            ConnectOptions { name: "client", expiry: u32::MAX, ..ConnectOptions::default() };
        for (number, broker) in [NODES[0], NODES[1], NODES[0]].into_iter().enumerate() {
            let Ok((wire, reason)) = Wire::open_at(&net, options, broker).await else {
                panic!("{broker} does not answer")
            };
            assert_eq!((reason, wire.is_present), (Reason::SUCCESS, number > 0));
        }
        let moved: u64 = brokers.iter().map(|broker| broker.moved_sessions()).sum();
        let adopted: u64 = brokers.iter().map(|broker| broker.adopted_sessions()).sum();
        assert_eq!((moved, adopted), (2, 0));
        gates.open_all();
        net.drain();
    });
}

#[test]
fn sessions_move_after_a_lost_node_was_given_up() {
    sim::run(0, world);
}
