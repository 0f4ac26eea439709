//! The client with a model of the server, in simulation: connections break, and the client returns. Messages
//! arrive in order and at most once; at the end, published messages arrive.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::Resolver;
use phalanx::runtime::StartError;
use phalanx::sim::{self, Faults, World};
use phalanx::time::now;
use phalanx::{Graph, SharedStage, sleep};
use phalanx_nats::{Access, Client, ModelServer, Options, Passage};

const LAST: u64 = u64::MAX;

pub(crate) fn address() -> SocketAddr {
    ([10, 0, 0, 9], 4222).into()
}

pub(crate) fn options(name: &str) -> Options {
    let servers = vec![address().to_string().parse().unwrap()];
    Options {
        access: Access { servers, ..Access::default() },
        name: name.into(),
        reconnect_delay: (Duration::from_millis(5), Duration::from_millis(50)),
        ..Options::default()
    }
}

/// Sets the program: a modelled server, and the clients that `begin` dispatches at the stage.
pub(crate) fn program(
    world: &mut World,
    begin: impl Fn(ModelServer, SharedStage<()>, Resolver) -> Result<(), StartError> + 'static,
) {
    let mut graph = Graph::new();
    let resolver = Resolver::declare(&mut graph);
    let stage = graph.stage("control").shared(());
    let listeners = world.listen(address());
    world.program(graph, move |start| {
        let listener = listeners.listener(start)?;
        let model = ModelServer::default();
        let accepting = model.clone();
        stage.dispatch(move |_| accepting.accept(listener, stage))?;
        begin(model, stage, resolver)
    });
}

fn world(world: &mut World) {
    world.set_processors(1);
    // One seed in thousands draws so many faults that the messages need more than the default number of steps.
    world.set_max_steps(4_000_000);
    if world.draw(2) == 0 {
        world.set_faults(Faults { full: 0, ..Faults::random(world.seed()) });
    }
    let (cuts, net) = (world.draw(4), world.net());
    program(world, move |model, stage, resolver| {
        let received = Rc::new(RefCell::new(Vec::new()));
        let (subscriber, publisher) =
            (Client::new(options("s"), resolver), Client::new(options("p"), resolver));
        let all = received.clone();
        subscriber.subscribe("a.*", None, move |message| {
            all.borrow_mut().push(u64::from_be_bytes(message.payload.try_into().unwrap()));
        });
        for client in [&subscriber, &publisher] {
            let client = client.clone();
            stage.dispatch(move |_| async move { client.run().await })?;
        }
        let net = net.clone();
        stage.dispatch(move |_| async move {
            for number in 0..50u64 {
                // Without a connection it is dropped.
                let _ = publisher.publish("a.b", None, None, &number.to_be_bytes());
                if cuts > 0 && number % 20 == cuts {
                    model.cut();
                }
                sleep(Duration::from_millis(number % 7)).await;
            }
            while received.borrow().last() != Some(&LAST) {
                let _ = publisher.publish("a.b", None, None, &LAST.to_be_bytes());
                sleep(Duration::from_millis(20)).await;
            }
            let mut all = received.borrow().clone();
            all.retain(|number| *number != LAST);
            assert!(all.is_sorted_by(|one, other| one < other), "{all:?}");
            net.drain();
        })?;
        Ok(())
    });
}

#[test]
fn the_client_returns_and_messages_stay_in_order() {
    sim::explore(100, world);
}

#[test]
fn the_server_after_a_lost_one_is_tried_first() {
    sim::run(0, |world| {
        world.set_processors(1);
        world.advance_only_when_idle();
        let other = SocketAddr::from(([10, 0, 0, 10], 4222));
        let mut graph = Graph::new();
        let resolver = Resolver::declare(&mut graph);
        let stage = graph.stage("control").shared(());
        let (listeners, net) =
            ([address(), other].map(|address| world.listen(address)), world.net());
        world.program(graph, move |start| {
            let model = ModelServer::default();
            for (listeners, server) in listeners.iter().zip([model.clone(), model.gated()]) {
                let listener = listeners.listener(start)?;
                stage.dispatch(move |_| server.accept(listener, stage))?;
            }
            let mut options = options("c");
            options.access.servers.push(other.to_string().parse().unwrap());
            let limit = options.ping_interval * 3 + options.connect_timeout / 2;
            let (client, net) = (Client::new(options, resolver), net.clone());
            let running = client.clone();
            stage.dispatch(move |_| async move { running.run().await })?;
            stage.dispatch(move |_| async move {
                client.connected().await;
                model.set(Passage::Frozen);
                let started = now();
                while client.is_connected() {
                    sleep(Duration::from_millis(10)).await;
                }
                client.connected().await;
                assert!(now() - started < limit);
                net.drain();
            })?;
            Ok(())
        });
    });
}
