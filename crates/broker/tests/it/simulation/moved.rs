//! Like `adopted`, but clients connect to any node, and their sessions move there. Connections to NATS break, nodes are cut
//! off for a moment, and NATS loses messages about moves. No session and no acknowledged message is lost, no QoS 2
//! message arrives twice, and the order of each publisher is preserved, even if the publisher moves.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx::sim::{self, Net, World};
use phalanx_broker::Broker;
use phalanx_nats::Passage;

use crate::simulation::adopted::{PACES, TIMEOUT, start_three};
use crate::simulation::gates::Gates;
use crate::simulation::wire::{Brokers, until};
use crate::simulation::{Shared, add_clients, are_done};

/// Suffixes of the NATS subjects whose messages may be lost: requests to move a session, some of the answers, questions
/// where a session is, and claims.
const LOST: [&str; 7] =
    ["moving.6.a", "moving.6.b", "moving.6.c", "moving.2", "moving.9", "find.6", "claims.6"];

/// The number of sessions that moved, over all runs. In a single run, all clients may happen to return to their nodes.
static MOVED: AtomicU64 = AtomicU64::new(0);

fn quiet(world: &mut World) {
    run_world(world, false);
}

fn disturbed(world: &mut World) {
    run_world(world, true);
}

fn run_world(world: &mut World, is_disturbed: bool) {
    world.set_max_steps(4_000_000);
    world.advance_only_when_idle();
    let shared = Rc::new(Shared::default());
    shared.breaks.set(true);
    shared.publishers_at.set(Brokers::NODES.roaming());
    shared.subscribers_at.set(Brokers::NODES.roaming());
    shared.pace.set(PACES[world.draw(2) as usize]);
    let (brokers, gates) = start_three(world);
    let count = 1 + world.draw(2) as usize;
    shared.absent.set(count);
    add_clients(world, &shared, count);
    let disturb = disturb(world.net(), shared, gates, is_disturbed);
    world.client(async move {
        disturb.await;
        MOVED.fetch_add(brokers.iter().map(Broker::moved_sessions).sum(), Ordering::Relaxed);
    });
}

/// If `is_disturbed`, cuts connections, cuts off nodes and loses messages. Drains the brokers when all clients have
/// finished.
async fn disturb(net: Net, shared: Rc<Shared>, gates: Gates, is_disturbed: bool) {
    let time = |most: Duration| Duration::from_millis(net.draw(most.as_millis() as u64));
    until(|| shared.absent.get() == 0 || are_done(&shared)).await;
    let count = if is_disturbed { 1 + net.draw(10) } else { 0 };
    for _ in 0..count {
        net.sleep(time(Duration::from_secs(20))).await;
        let at = net.draw(6) as usize;
        match gates.of_nodes.get(at) {
            None if at == 3 => _ = gates.model.cut(),
            None => gates.model.lose_next(LOST[net.draw(LOST.len() as u64) as usize]),
            Some(gate) => {
                gate.set([Passage::Frozen, Passage::Closed][net.draw(2) as usize]);
                net.sleep(time(TIMEOUT / 3)).await;
                gate.set(Passage::Open);
            }
        }
    }
    until(|| are_done(&shared)).await;
    gates.open_all();
    net.drain();
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(sim::run(1000, disturbed), sim::run(1000, disturbed));
}

#[test]
fn sessions_follow_their_clients() {
    sim::explore(6, quiet);
    assert!(MOVED.load(Ordering::Relaxed) > 0, "no session moved");
}

#[test]
fn sessions_follow_their_clients_while_connections_break() {
    sim::explore(6, disturbed);
}
