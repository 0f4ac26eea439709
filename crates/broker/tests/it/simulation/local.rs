//! A client's session is on the processor that serves the client's first connection, so that the operations of both do
//! not call another processor.

use std::cell::RefCell;
use std::rc::Rc;

use phalanx::Graph;
use phalanx::sim::{self, Faults};
use phalanx_broker::Broker;

use crate::simulation::config;
use crate::simulation::wire::{Wire, address};

const CLIENTS: usize = 12;

#[test]
fn new_sessions_are_on_the_processors_of_their_clients() {
    sim::explore(30, |world| {
        let processors = 2 + world.draw(3) as usize;
        world.set_processors(processors);
        world.set_faults(Faults::NONE);
        let config = config(world);
        let mut graph = Graph::new();
        let broker = Broker::declare(&mut graph, &config);
        let listeners = world.listen(address());
        let control = Rc::new(RefCell::new(None));
        let of_program = control.clone();
        world.program(graph, move |start| {
            of_program.replace(Some(start.control()));
            Ok(broker.accept(listeners.listener(start)?)?)
        });
        let net = world.net();
        world.client(async move {
            let mut connected = Vec::new();
            for number in 0..CLIENTS {
                connected.push(Wire::connect(&net, &format!("client {number}")).await);
            }
            let profile = control.borrow().as_ref().expect("the program has started").profile();
            let sessions = profile.stages.iter().position(|name| *name == "sessions");
            let control = profile.stages.iter().position(|name| *name == "control");
            let crossings = profile.processors.iter().flat_map(|processor| &processor.crossings);
            let crossings = crossings
                .filter(|crossing| Some(crossing.to) == sessions && crossing.from == control);
            assert_eq!(crossings.map(|crossing| crossing.count).sum::<u64>(), 0);
            // A known client may reconnect on any processor.
            for number in 0..CLIENTS {
                let wire = Wire::connect(&net, &format!("client {number}")).await;
                assert!(wire.is_present, "client {number} has lost its session");
            }
        });
    });
}
