//! Connections move between processors that become active and inactive. Limits of connections hold at every moment.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;
use phalanx::runtime::ActiveProcessors;
use phalanx::sim::{self, Client, Faults, Net, World};
use phalanx_web::{Config, Scheme, Server};

use crate::simulation::site::{self, address};

/// The limit of connections per address, or of all connections.
const LIMIT: usize = 3;
/// Requests of each connection.
const REQUESTS: usize = 30;

/// Connections up to the limit send requests, and another client tries to connect until they are done.
fn world(world: &mut World) {
    world.set_processors(2 + world.seed() as usize % 3);
    world.set_faults(Faults::NONE);
    site::write_files(world);
    let mut config = Config::new();
    config.runtime.workers = world.processors();
    config.listen = vec![Scheme::Http.at(address())];
    config.max_queue_delay = None;
    let day = Duration::from_secs(24 * 3600);
    (config.timeouts.request, config.timeouts.idle, config.timeouts.send) = (day, day, day);
    match world.draw(2) {
        0 => config.max_connections = LIMIT,
        _ => config.per_address.connections = Some(LIMIT as u32),
    }
    let mut graph = Graph::new();
    let server = Server::declare(&mut graph, &config, [world.root()]).expect("all is there");
    let listeners = world.listen(address());
    let active: Rc<RefCell<Option<ActiveProcessors>>> = Rc::default();
    let of_program = active.clone();
    world.program(graph, move |start| {
        of_program.replace(Some(start.active()));
        Ok(server.accept([listeners.listener(start)?])?)
    });
    let (served, left) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(LIMIT)));
    for _ in 0..LIMIT {
        let (net, served, left) = (world.net(), served.clone(), left.clone());
        world.client(async move {
            let mut wire = net.connect(address()).await.unwrap();
            for number in 0..REQUESTS {
                assert!(ask(&mut wire).await.starts_with("HTTP/1.1 200 "));
                served.set(served.get() + usize::from(number == 0));
                net.sleep(Duration::from_micros(net.draw(2000))).await;
            }
            left.set(left.get() - 1);
            // The connection stays open until the others are done, which rely on the limit being reached.
            while left.get() > 0 {
                net.sleep(Duration::from_millis(1)).await;
            }
        });
    }
    world.client(move_all(world.net(), active, left.clone()));
    let net = world.net();
    world.client(async move {
        while served.get() < LIMIT {
            net.sleep(Duration::from_millis(1)).await;
        }
        while left.get() == LIMIT {
            let mut wire = net.connect(address()).await.unwrap();
            let answer = ask(&mut wire).await;
            let is_served = answer.starts_with("HTTP/1.1 200 ");
            assert!(!is_served || left.get() < LIMIT, "one connection too many: {answer}");
            net.sleep(Duration::from_micros(net.draw(500))).await;
        }
    });
}

/// Sends a request and reads to the end of its response, or of the connection.
async fn ask(wire: &mut Client) -> String {
    // A refused connection may be reset before the request is written.
    let _ = wire.write_all(b"GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut got = Vec::new();
    let small = &site::FILES["/small.txt"][0];
    while !got.ends_with(small) && matches!(wire.read(&mut got).await, Ok(1..)) {}
    String::from_utf8_lossy(&got).into_owned()
}

/// Changes the number of active processors until a client is done.
async fn move_all(net: Net, active: Rc<RefCell<Option<ActiveProcessors>>>, left: Rc<Cell<usize>>) {
    while left.get() == LIMIT {
        net.sleep(Duration::from_micros(net.draw(2000))).await;
        let active = active.borrow().clone().expect("it has started");
        active.set(1 + net.draw(active.all() as u64) as usize);
    }
}

#[test]
fn limits_of_connections_hold_while_they_move() {
    sim::explore(60, world);
}
