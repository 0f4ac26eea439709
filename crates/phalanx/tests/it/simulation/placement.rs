//! Connections that are served by a processor other than the one that accepted them. The loads are random numbers.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::IoTimeout;
use phalanx::runtime::ActiveProcessors;
use phalanx::sim::{self, Faults, World};

const CLIENTS: usize = 12;
const MESSAGE: &[u8] = b"hello to any processor";

/// Connections that each processor has served.
type Served = Rc<RefCell<Vec<usize>>>;

thread_local! {
    /// Connections that the last of all processors has got between two requests. Only a spread moves them upwards.
    static SPREAD: Cell<usize> = const { Cell::new(0) };
}

/// A server that echoes, and [offers](phalanx::net::Stream::offer) its connections if there is more than one round.
/// Clients connect one after another, send a message in each of `rounds`, and stay. Processor 0 closes its listener
/// after `accepts` connections. Calls `on_start` on each processor. Returns the number of clients that got an answer.
fn echo(
    world: &mut World,
    served: &Served,
    accepts: usize,
    rounds: usize,
    on_start: impl Fn(ActiveProcessors) + 'static,
) -> Rc<Cell<usize>> {
    world.set_faults(Faults { reset: 0, accept: 0, ..Faults::random(world.seed()) });
    let address: SocketAddr = "10.0.0.1:80".parse().unwrap();
    let listeners = world.listen(address);
    let mut graph = Graph::new();
    let stage = graph.shared("echo", ());
    let (count, offers, processors) = (served.clone(), rounds > 1, world.processors());
    world.program(graph, move |start| {
        on_start(start.active());
        let listener = listeners.listener(start)?;
        let (processor, count) = (start.processor(), count.clone());
        stage.dispatch(move |_| async move {
            let mut left = if processor == 0 { accepts } else { usize::MAX };
            while left > 0
                && let Some(stream) = listener.accept_next().await
            {
                left -= 1;
                count.borrow_mut()[processor] += 1;
                if stream.has_moved() && processor > 0 && processor + 1 == processors {
                    SPREAD.set(SPREAD.get() + 1);
                }
                let echo = stage.dispatch(move |_| async move {
                    let mut bytes = Vec::new();
                    while let Ok(1..) =
                        stream.read(&mut bytes, IoTimeout::NONE.until_shutdown()).await
                    {
                        bytes = stream.write(bytes, IoTimeout::NONE).await.unwrap();
                        bytes.clear();
                        if offers && stream.offer() {
                            return;
                        }
                    }
                });
                echo.unwrap();
            }
        })?;
        Ok(())
    });
    let answered = Rc::new(Cell::new(0));
    for number in 0..CLIENTS {
        let (net, answered) = (world.net(), answered.clone());
        world.client(async move {
            net.sleep(Duration::from_millis(20 * number as u64)).await;
            // The address is closed once, and connections that nobody has accepted are then reset.
            let Ok(mut client) = net.connect(address).await else { return };
            for _ in 0..rounds {
                let Ok(()) = client.write_all(MESSAGE).await else { return };
                let mut answer = Vec::new();
                while answer.len() < MESSAGE.len() {
                    let Ok(1..) = client.read(&mut answer).await else { return };
                }
                assert_eq!(answer, MESSAGE);
                net.sleep(Duration::from_millis(5 + number as u64)).await;
            }
            answered.set(answered.get() + 1);
        });
    }
    answered
}

#[test]
fn every_connection_is_served_once_and_few_share_a_processor() {
    let (first, all) = (Cell::new(0), Cell::new(0));
    sim::explore_each(200, |seed| {
        let served = Served::default();
        let answered = Cell::new(None);
        sim::run(seed, |world| {
            served.borrow_mut().resize(world.processors(), 0);
            answered.set(Some(echo(world, &served, usize::MAX, 1, |_| ())));
        });
        assert_eq!(answered.take().map(|answered| answered.get()), Some(CLIENTS));
        let served = served.borrow();
        assert_eq!(served.iter().sum::<usize>(), CLIENTS);
        if served.len() > 1 {
            first.set(first.get() + served[0]);
            all.set(all.get() + CLIENTS);
        }
    });
    // The network chooses between two and three listeners at random, and so gives the first 5 of 12.
    assert!(first.get() * 2 > all.get() || all.get() < 100 * CLIENTS, "{first:?} of {all:?}");
}

/// A connection that arrives at a processor whose listener is closed returns, or is closed; it does not get lost.
#[test]
fn a_listener_may_close_while_connections_are_on_their_way() {
    let (lost, all) = (Cell::new(0), Cell::new(0));
    sim::explore_each(300, |seed| {
        let (served, answered) = (Served::default(), Cell::new(None));
        sim::run(seed, |world| {
            if world.processors() == 1 {
                world.set_processors(2);
            }
            served.borrow_mut().resize(world.processors(), 0);
            answered.set(Some(echo(world, &served, seed as usize % 6, 1, |_| ())));
        });
        lost.set(lost.get() + CLIENTS - answered.take().expect("it ran").get());
        all.set(all.get() + CLIENTS);
    });
    // Connections in the backlog of the listener that closes are reset, as a kernel resets them.
    assert!(lost.get() * 10 < all.get() || all.get() < 100 * CLIENTS, "{lost:?} of {all:?}");
}

#[test]
fn only_active_processors_get_new_connections() {
    sim::explore_each(200, |seed| {
        let served = Served::default();
        sim::run(seed, |world| {
            world.set_processors(4);
            served.borrow_mut().resize(4, 0);
            echo(world, &served, usize::MAX, 1, |active| active.set(0));
        });
        assert_eq!(*served.borrow(), [CLIENTS, 0, 0, 0]);
    });
}

/// Processors become active and inactive while connections arrive and are handed over: every client gets its answer.
#[test]
fn processors_may_rest_and_return_while_connections_arrive() {
    let served_by_all = Cell::new(0);
    sim::explore_each(500, |seed| {
        let (served, answered) = (Served::default(), Cell::new(None));
        sim::run(seed, |world| {
            let processors = 2 + seed as usize % 7;
            world.set_processors(processors);
            served.borrow_mut().resize(processors, 0);
            let slot: Rc<RefCell<Option<ActiveProcessors>>> = Rc::default();
            let (active, net) = (slot.clone(), world.net());
            let on_start = move |active| *slot.borrow_mut() = Some(active);
            answered.set(Some(echo(world, &served, usize::MAX, 1, on_start)));
            world.client(async move {
                for step in 0..50 {
                    net.sleep(Duration::from_millis(1 + (seed ^ step) % 10)).await;
                    let active = active.borrow();
                    let active = active.as_ref().expect("the program has started");
                    active.set((seed.wrapping_mul(step + 7) >> 3) as usize % 10);
                    assert!((1..=processors).contains(&active.count()));
                }
            });
        });
        assert_eq!(answered.take().map(|answered| answered.get()), Some(CLIENTS));
        assert_eq!(served.borrow().iter().sum::<usize>(), CLIENTS);
        let all = served.borrow().iter().filter(|served| **served > 0).count() > 2;
        served_by_all.set(served_by_all.get() + usize::from(all));
    });
    assert!(served_by_all.get() > 0, "no seed used three processors");
}

/// Connections move between their requests, among processors that become active and inactive; every request is
/// answered.
#[test]
fn offered_connections_move_and_lose_nothing() {
    let (moved, all) = (Cell::new(0), Cell::new(0));
    sim::explore_each(24, |seed| {
        let (served, answered) = (Served::default(), Cell::new(None));
        sim::run(seed, |world| {
            let processors = 2 + seed as usize % 3;
            world.set_processors(processors);
            served.borrow_mut().resize(processors, 0);
            let on_start = move |active: ActiveProcessors| {
                active.set(if seed % 4 == 0 { 1 } else { processors });
            };
            answered.set(Some(echo(world, &served, usize::MAX, 8, on_start)));
        });
        assert_eq!(answered.take().map(|answered| answered.get()), Some(CLIENTS));
        moved.set(moved.get() + served.borrow().iter().sum::<usize>() - CLIENTS);
        all.set(all.get() + CLIENTS);
    });
    assert!(moved.get() > 0 || all.get() < 10 * CLIENTS, "no connection has moved");
}

/// A processor whose core is full gives connections to one with an idle core, and every request is answered.
#[test]
fn connections_spread_from_a_full_core() {
    let (spread, all) = (Cell::new(0), Cell::new(0));
    sim::explore_each(24, |seed| {
        let (served, answered) = (Served::default(), Cell::new(None));
        SPREAD.set(0);
        sim::run(seed, |world| {
            world.set_processors(2);
            served.borrow_mut().resize(2, 0);
            answered.set(Some(echo(world, &served, usize::MAX, 8, |_| ())));
        });
        assert_eq!(answered.take().map(|answered| answered.get()), Some(CLIENTS));
        spread.set(spread.get() + SPREAD.get());
        all.set(all.get() + CLIENTS);
    });
    assert!(spread.get() > 0 || all.get() < 10 * CLIENTS, "no connection has spread");
}

/// A listener that closes while connections move: a client gets all answers, or is disconnected.
#[test]
fn a_listener_may_close_while_connections_move() {
    sim::explore_each(16, |seed| {
        let served = Served::default();
        sim::run(seed, |world| {
            world.set_processors(3);
            served.borrow_mut().resize(3, 0);
            echo(world, &served, 1 + seed as usize % 9, 8, |_| ());
        });
    });
}
