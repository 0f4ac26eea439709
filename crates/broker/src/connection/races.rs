//! Simulated races of a client with its earlier connection, and with an operator.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, World};
use phalanx::time::now;
use phalanx::{Graph, sleep};
use phalanx_mqtt::{Disconnect, Packet, Reason};

use crate::access::bans::Banned;
use crate::context::Context;
use crate::session::partition::inspect::Kick;
use crate::wire::{Wire, address};
use crate::{Broker, Config};

const CLIENTS: usize = 8;

/// Starts a broker whose timeouts are not reached. `begin` is called on each processor.
fn start(world: &mut World, begin: impl Fn(usize, &Context) + 'static) -> Context {
    let mut config = Config::new();
    config.runtime.workers = world.processors();
    let hour = Duration::from_secs(3600);
    (config.limits.connect, config.limits.send) = (hour, hour);
    let mut graph = Graph::new();
    let broker = Broker::declare(&mut graph, &config);
    let context = broker.context().clone();
    let listeners = world.listen(address());
    world.program(graph, move |start| {
        begin(start.processor(), broker.context());
        Ok(broker.accept(listeners.listener(start)?)?)
    });
    context
}

/// DISCONNECT is applied to the session before the connection is closed. So a client that waits for the end of its
/// connection and immediately reconnects on another processor must not find its old session.
#[test]
fn the_session_is_detached_before_the_connection_closes() {
    sim::explore_each(60, |seed| {
        sim::run(seed, |world| {
            let sessions = start(world, |_, _| ()).counters.sessions.clone();
            let net = world.net();
            world.client(async move {
                for number in 0..CLIENTS {
                    // The session ends with its connection.
                    let asked = Wire::open_with_expiry(&net, &format!("client {number}"), 0).await;
                    let (mut wire, _) = asked.ok().expect("the broker accepts the connection");
                    assert_eq!(sessions.get(), 1);
                    let goodbye = Packet::Disconnect(Disconnect::new(Reason::SUCCESS));
                    assert!(wire.send(&goodbye).await.is_ok() && wire.wait_for_close().await);
                    assert_eq!(sessions.get(), 0, "the session of client {number} still exists");
                }
            });
        });
    });
}

/// A client that connects while an operator bans it is either refused, or found and disconnected. Its session may be on
/// another processor, so CONNECT may take longer than the operator's call.
#[test]
fn a_banned_client_does_not_stay_connected() {
    sim::explore_each(200, |seed| {
        sim::run(seed, |world| {
            world.set_processors(3);
            let [has_session, is_banned] = [(); 2].map(|()| Rc::new(Cell::new(false)));
            let of_operator = (has_session.clone(), is_banned.clone());
            let (net, wait) = (world.net(), Duration::from_micros(world.draw(300)));
            let context = start(world, move |processor, context| {
                let (own, (has_session, is_banned)) = (context.clone(), of_operator.clone());
                if processor != 0 {
                    return;
                }
                let ban = move |_| async move {
                    while !has_session.get() {
                        sleep(Duration::from_micros(20)).await;
                    }
                    sleep(wait).await;
                    own.bans.add(Banned::Client("c".into()), None, now());
                    for partition in 0..own.stages.sessions.partitions() {
                        let kick = Kick::Client("c".into());
                        own.stages.sessions.kick(partition, kick).await.unwrap();
                    }
                    is_banned.set(true);
                };
                context.stages.control.dispatch(ban).unwrap();
            });
            world.client(async move {
                let (mut earlier, _) =
                    Wire::open_with_expiry(&net, "c", 3600).await.ok().expect("not banned");
                let goodbye = Packet::Disconnect(Disconnect::new(Reason::SUCCESS));
                assert!(earlier.send(&goodbye).await.is_ok() && earlier.wait_for_close().await);
                has_session.set(true);
                let client = Wire::open_with_expiry(&net, "c", 3600).await;
                // Longer than the ban takes, and than the broker waits for the client to read DISCONNECT.
                net.sleep(Duration::from_secs(60)).await;
                assert!(is_banned.get() && context.counters.connected.get() == 0);
                drop(client);
            });
        });
    });
}
