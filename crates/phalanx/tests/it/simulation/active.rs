//! Processors that become active and inactive while clients call operations on partitions that migrate, on connections
//! that move.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::IoTimeout;
use phalanx::runtime::ActiveProcessors;
use phalanx::sim::{self, Faults, World};

const CLIENTS: u8 = 8;
const REQUESTS: u8 = 12;
const STEPS: u64 = 40;

/// The number of requests with each key.
type Counts = HashMap<u8, u8>;

#[derive(Default)]
struct Outcome {
    answered: Cell<usize>,
    active: RefCell<Option<ActiveProcessors>>,
    /// Requests that found another owner of their partition than the request before on the same connection.
    moved: Cell<usize>,
    /// Connections that have moved.
    connections_moved: Cell<usize>,
}

/// A server that answers each byte, a key, with the number of requests with this key.
fn server(world: &mut World, outcome: &Rc<Outcome>, address: SocketAddr) {
    let listeners = world.listen(address);
    let mut graph = Graph::new();
    let stage = graph.shared("connections", ());
    let table = graph.stage("table").migrating(|_| Counts::new());
    let outcome = outcome.clone();
    world.program(graph, move |start| {
        outcome.active.replace(Some(start.active()));
        let outcome = outcome.clone();
        let listener = listeners.listener(start)?;
        stage.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let outcome = outcome.clone();
                let moves = &outcome.connections_moved;
                moves.set(moves.get() + usize::from(stream.has_moved()));
                let connection = stage.dispatch(move |_| async move {
                    let (mut keys, mut last_location) = (Vec::new(), None);
                    while let Ok(1..) =
                        stream.read(&mut keys, IoTimeout::NONE.until_shutdown()).await
                    {
                        let mut answers = Vec::new();
                        for key in keys.drain(..) {
                            let is_here = table.is_local(key.into());
                            let moved = last_location.replace(is_here) == Some(!is_here);
                            outcome.moved.set(outcome.moved.get() + usize::from(moved));
                            let count = table.call(u64::from(key), move |part| async move {
                                part.with(|counts| {
                                    let count = counts.entry(key).or_default();
                                    *count += 1;
                                    *count
                                })
                            });
                            answers.push(count.await.expect("each is answered"));
                        }
                        stream.write(answers, IoTimeout::NONE).await.unwrap();
                        if stream.offer() {
                            return;
                        }
                    }
                });
                connection.unwrap();
            })
        })?;
        Ok(())
    });
}

/// Every request is counted once, and answered in order, wherever its partition is.
#[test]
fn nothing_is_lost_or_done_twice_while_processors_come_and_go() {
    explore(15, |seed| 2 + seed as usize % 7);
}

#[test]
fn nothing_is_lost_or_done_twice_while_64_processors_come_and_go() {
    explore(2, |_| 64);
}

fn explore(seeds: u64, processors: impl Fn(u64) -> usize) {
    let (moved, connections_moved) = (Cell::new(0), Cell::new(0));
    sim::explore_each(seeds, |seed| {
        let outcome = Rc::new(Outcome::default());
        sim::run(seed, |world| {
            world.set_processors(processors(seed));
            world.set_faults(Faults { reset: 0, accept: 0, ..Faults::random(seed) });
            let address = "10.0.0.1:80".parse().unwrap();
            server(world, &outcome, address);
            for key in 0..CLIENTS {
                let (net, outcome) = (world.net(), outcome.clone());
                world.client(async move {
                    let mut client = net.connect(address).await.unwrap();
                    let mut answers = Vec::new();
                    // Requests in pairs, so that some wait at a partition that moves.
                    for _ in 0..REQUESTS / 2 {
                        client.write_all(&[key; 2]).await.unwrap();
                        let due = answers.len() + 2;
                        while answers.len() < due {
                            assert_ne!(client.read(&mut answers).await.unwrap(), 0, "an end");
                        }
                        net.sleep(Duration::from_millis(net.draw(4))).await;
                    }
                    assert_eq!(answers, (1..=REQUESTS).collect::<Vec<_>>());
                    outcome.answered.set(outcome.answered.get() + 1);
                });
            }
            let (net, stepping) = (world.net(), outcome.clone());
            world.client(async move {
                for step in 0..STEPS {
                    net.sleep(Duration::from_micros(net.draw(2_000))).await;
                    let active = stepping.active.borrow().clone().expect("it has started");
                    let number =
                        if step == STEPS - 1 { 1 } else { 1 + net.draw(active.all() as u64) };
                    active.set(number as usize);
                }
            });
        });
        assert_eq!(outcome.answered.get(), usize::from(CLIENTS));
        moved.set(moved.get() + outcome.moved.get());
        connections_moved.set(connections_moved.get() + outcome.connections_moved.get());
    });
    assert!(moved.get() > 0, "no partition moved");
    assert!(connections_moved.get() > 0, "no connection moved");
}
