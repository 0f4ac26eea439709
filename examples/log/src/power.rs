//! The log in simulation, on a disk that is full, fails and writes partially: every acknowledged line is in the
//! log after a power failure at any moment, and after another one.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::Graph;
use phalanx::sim::{self, Client, Faults, Net, World};

use crate::client::accept;
use crate::commit::{Commits, Stages};

/// Acknowledged lines and their positions.
type Acknowledged = Rc<RefCell<Vec<(usize, String)>>>;

const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 7008);

/// A server with the surviving log, and clients that write to it.
fn server(world: &mut World, left: Option<Vec<u8>>) {
    if let Some(bytes) = left {
        world.file("log", bytes);
    }
    // Faults of connections are not tested here; a file that cannot be opened is not a log.
    let Faults { disk, full, short, uncached, slow, retry, .. } = Faults::random(world.seed());
    let (disk, full) = (disk / 8, full / 8);
    world.set_faults(Faults { disk, full, short, uncached, slow, retry, ..Faults::NONE });
    let mut graph = Graph::new();
    let stages = Stages::declare(&mut graph, &world.root(), &Arc::new(Commits::default()));
    let listeners = world.listen(ADDRESS);
    world.program(graph, move |start| {
        let listener = listeners.listener(start)?;
        stages.clients.dispatch(move |_| accept(listener, stages))?;
        Ok(())
    });
}

/// Sends lines, some of them pipelined, and records the acknowledgements.
async fn write(net: Net, name: String, acknowledged: Acknowledged) {
    let Ok(mut client) = net.connect(ADDRESS).await else { return };
    let mut input = Vec::new();
    for round in 0..4 {
        let lines: Vec<_> = (0..=net.draw(2)).map(|n| format!("{name}:{round}:{n}\n")).collect();
        if client.write_all(lines.concat().as_bytes()).await.is_err() {
            return;
        }
        for line in lines {
            let Some(place) = place(&mut client, &mut input).await else { return };
            acknowledged.borrow_mut().push((place, line));
        }
    }
}

/// One position; `None` when the server has disconnected. `input` holds the bytes after it.
async fn place(client: &mut Client, input: &mut Vec<u8>) -> Option<usize> {
    let end = loop {
        if let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            break end;
        }
        if !matches!(client.read(input).await, Ok(1..)) {
            return None;
        }
    };
    let line = input.drain(..=end).collect();
    Some(String::from_utf8(line).unwrap().trim().parse().unwrap())
}

/// Runs a server until a power failure at some moment. Returns the surviving log.
fn until_cut(
    seed: u64,
    life: u64,
    left: Option<Vec<u8>>,
    acknowledged: &Acknowledged,
) -> Option<Vec<u8>> {
    let cut = Rc::new(Cell::new(None));
    // Both lives have the seed that a failure prints.
    sim::run(seed, |world| {
        (0..life).for_each(|_| _ = world.draw(2));
        server(world, left);
        for n in 0..3 {
            world.client(write(world.net(), format!("{life}.{n}"), acknowledged.clone()));
        }
        let (net, acknowledged, cut) = (world.net(), acknowledged.clone(), cut.clone());
        world.client(async move {
            // After a number of answers, or when there are no more.
            let enough = acknowledged.borrow().len() + net.draw(20) as usize;
            for _ in 0..200 {
                if acknowledged.borrow().len() >= enough {
                    break;
                }
                net.sleep(std::time::Duration::from_micros(100)).await;
            }
            cut.set(Some((net.content_after_power_cut("log"), acknowledged.borrow().len())));
        });
    });
    let (left, known) = cut.take().expect("the power failure");
    // Later acknowledgements did not happen before the failure.
    acknowledged.borrow_mut().truncate(known);
    left
}

#[test]
fn acknowledged_lines_survive_power_failures() {
    let acknowledged_total = Cell::new(0);
    sim::explore_each(60, |seed| {
        let (acknowledged, mut left) = (Acknowledged::default(), None);
        for life in 0..2 {
            left = until_cut(seed, life, left, &acknowledged);
            let log = left.clone().unwrap_or_default();
            for (place, line) in acknowledged.borrow().iter() {
                let found = log.get(*place..place + line.len());
                assert_eq!(found, Some(line.as_bytes()), "seed {seed}, life {life}");
            }
        }
        acknowledged_total.set(acknowledged_total.get() + acknowledged.borrow().len());
    });
    assert!(acknowledged_total.get() > 0, "nothing was acknowledged");
}
