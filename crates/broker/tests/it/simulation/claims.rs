//! NATS loses the claim that a client has connected to another node.

use phalanx::sim::{self, World};
use phalanx_mqtt::Reason;

use crate::simulation::clustered::{TIMEOUT, start_nodes};
use crate::simulation::wire::{ConnectOptions, NODES, Wire};

/// The version of the protocol is the last part of the subject.
const CLAIMS: &str = "claims.6";

fn world(world: &mut World) {
    let model = start_nodes(world, &["a", "b"]);
    let net = world.net();
    world.client(async move {
        // By then the nodes have lanes.
        net.sleep(2 * TIMEOUT).await;
        let options = ConnectOptions { name: "c", expiry: u32::MAX, clean_start: true, will: None };
        for is_lost in [false, true] {
            let Ok((mut first, Reason::SUCCESS)) = Wire::open_at(&net, options, NODES[0]).await
            else {
                panic!("the first node refuses the client")
            };
            net.sleep(TIMEOUT).await;
            if is_lost {
                model.lose_next(CLAIMS);
            }
            let begun = net.now();
            let Ok((second, Reason::SUCCESS)) = Wire::open_at(&net, options, NODES[1]).await else {
                panic!("the second node refuses the client")
            };
            while first.next().await.is_ok() {}
            let elapsed = net.now() - begun;
            assert_eq!(elapsed > TIMEOUT / 100, is_lost, "{elapsed:?}");
            assert!(elapsed < 2 * TIMEOUT, "{elapsed:?}");
            second.reset();
        }
        net.drain();
    });
}

#[test]
fn a_client_is_disconnected_elsewhere_although_its_claim_was_lost() {
    sim::run(0, world);
}
