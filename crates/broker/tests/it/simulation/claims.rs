//! The announcement that a client connected to another node is lost between the servers of NATS.

use std::time::Duration;

use phalanx::Graph;
use phalanx::sim::{self, World};
use phalanx_broker::Broker;
use phalanx_mqtt::Reason;
use phalanx_nats::ModelServer;

use crate::simulation::clustered::{nats, node};
use crate::simulation::wire::{Asking, NODES, Wire};

/// The version of the protocol is the last part of the subject.
const CLAIMS: &str = "claims.4";

fn world(world: &mut World) {
    world.set_processors(1);
    world.set_steady();
    let mut graph = Graph::new();
    let brokers = ["a", "b"].map(|name| Broker::declare(&mut graph, &node(world, name)));
    let stage = graph.stage("nats").shared(());
    let listeners = [NODES[0], NODES[1]].map(|own| world.listen(own));
    let (of_nats, model) = (world.listen(nats()), ModelServer::default());
    let of_program = model.clone();
    world.program(graph, move |start| {
        let (own, listener) = (of_program.clone(), of_nats.listener(start)?);
        stage.dispatch(move |_| own.accept(listener, stage))?;
        for (broker, listeners) in brokers.iter().zip(&listeners) {
            broker.begin(start);
            broker.accept(listeners.listener(start)?)?;
        }
        Ok(())
    });
    let net = world.net();
    world.client(async move {
        // Longer than the timeout of the nodes: they have lanes then.
        let timeout = Duration::from_secs(3600);
        net.sleep(2 * timeout).await;
        let asking = Asking { name: "c", expiry: u32::MAX, clean_start: true, will: None };
        for is_lost in [false, true] {
            let Ok((mut first, Reason::SUCCESS)) = Wire::open_at(&net, asking, NODES[0]).await
            else {
                panic!("the first node refuses the client")
            };
            net.sleep(timeout).await;
            if is_lost {
                model.lose_next(CLAIMS);
            }
            let begun = net.now();
            let Ok((second, Reason::SUCCESS)) = Wire::open_at(&net, asking, NODES[1]).await else {
                panic!("the second node refuses the client")
            };
            while first.next().await.is_ok() {}
            let took = net.now() - begun;
            assert_eq!(took > timeout / 100, is_lost, "{took:?}");
            assert!(took < 2 * timeout, "{took:?}");
            second.reset();
        }
        net.drain();
    });
}

#[test]
fn a_client_is_disconnected_elsewhere_although_its_claim_was_lost() {
    sim::run(0, world);
}
