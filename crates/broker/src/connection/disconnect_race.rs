//! A client that disconnects, waits for the end of its connection and reconnects at once on another processor
//! must not find its old session: DISCONNECT is applied to the session before the connection is closed.

use std::cell::RefCell;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::Listener;
use phalanx::sim;
use phalanx_mqtt::{Disconnect, Packet, Reason};

use crate::wire::{Wire, address};
use crate::{Broker, Config};

const CLIENTS: usize = 8;

#[test]
fn the_session_is_detached_before_the_connection_closes() {
    sim::explore_each(60, |seed| {
        sim::run(seed, |world| {
            let mut config = Config::new();
            config.runtime.workers = world.processors();
            let hour = Duration::from_secs(3600);
            (config.limits.connect, config.limits.send) = (hour, hour);
            let mut graph = Graph::new();
            let broker = Broker::declare(&mut graph, &config);
            let counters = broker.context().counters.clone();
            let listeners = RefCell::new(world.listen(address()));
            world.program(graph, move |_| {
                let listener = listeners.borrow_mut().pop().expect("one listener for each worker");
                Ok(broker.accept(Listener::new(listener)?)?)
            });
            let net = world.net();
            world.client(async move {
                for number in 0..CLIENTS {
                    // The session ends with its connection.
                    let asked = Wire::ask(&net, &format!("client {number}"), 0).await;
                    let (mut wire, _) = asked.ok().expect("the broker accepts the connection");
                    assert_eq!(counters.sessions.get(), 1);
                    let goodbye = Packet::Disconnect(Disconnect::because(Reason::SUCCESS));
                    assert!(wire.say(&goodbye).await.is_ok() && wire.is_closed().await);
                    assert_eq!(
                        counters.sessions.get(),
                        0,
                        "the session of client {number} still exists"
                    );
                }
            });
        });
    });
}
