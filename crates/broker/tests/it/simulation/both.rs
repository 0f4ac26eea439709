//! Like `adopted`, but with publishers and subscribers at all nodes, so each node has messages for the two others. Two
//! nodes are lost at about the same time, and the third node adopts the sessions of both, in either order. Or the second
//! node is lost while it adopts the first one.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Net, World};

use crate::simulation::adopted::{PACES, TIMEOUT, start_three};
use crate::simulation::clustered::probe;
use crate::simulation::gates::{Gates, draw_cut};
use crate::simulation::power_cuts::handles;
use crate::simulation::wire::{Brokers, NODES, until};
use crate::simulation::{PUBLISHERS, Shared, publisher, subscriber};

/// Maximum times between the two losses, if the second one comes before the first node is adopted.
const DELAYS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_secs(2), Duration::from_secs(50)];

/// Time after the timeout within which a node is adopted.
const ADOPTION: Duration = Duration::from_secs(20);

/// Two nodes are lost before the first one is adopted.
fn at_once(world: &mut World) {
    let delay = DELAYS[world.draw(DELAYS.len() as u64) as usize];
    run_world(world, Duration::ZERO..delay);
}

/// The second node is lost while the first one is being adopted, or after that.
fn in_turn(world: &mut World) {
    run_world(world, TIMEOUT..TIMEOUT + ADOPTION);
}

/// Two nodes are lost, with a time in this range between the losses.
fn run_world(world: &mut World, apart: Range<Duration>) {
    world.set_max_steps(6_000_000);
    world.advance_only_when_idle();
    let (breaks, pace) = (world.draw(3) > 0, PACES[world.draw(PACES.len() as u64) as usize]);
    let (_, gates) = start_three(world);
    // The publishers also wait until the subscriptions are known.
    let absent = Rc::new(Cell::new(NODES.len() + 1));
    let at = |number| {
        let own = Shared { absent: absent.clone(), ..Shared::default() };
        own.breaks.set(breaks);
        own.pace.set(pace);
        own.publishers_at.set(Brokers::from(number));
        own.subscribers_at.set(Brokers::from(number));
        Rc::new(own)
    };
    let mut clients = Vec::new();
    for (number, state) in handles(&vec![Default::default(); NODES.len()]).iter().enumerate() {
        clients.push(at(number));
        subscriber::add_one(world, &clients[number], number, state);
    }
    let publishers = handles(&[(); PUBLISHERS].map(|()| Default::default()));
    let first = world.draw(NODES.len() as u64) as usize;
    for (number, state) in publishers.iter().enumerate() {
        let own = at((first + number) % NODES.len());
        publisher::add_one(world, &own, (number, publisher::numbered_message), state);
        clients.push(own);
    }
    world.client(begin(world.net(), absent));
    let net = world.net();
    world.client(async move {
        // Each unfinished client holds a reference to its state.
        let are_done = || clients.iter().all(|client| Rc::strong_count(client) == 1);
        let packet_count = || {
            publishers.iter().map(|publisher| publisher.borrow().packets_received()).sum::<u64>()
        };
        until(|| {
            publishers.iter().all(|publisher| publisher.borrow().packets_received() > 0)
                || are_done()
        })
        .await;
        let enough = packet_count() + net.draw(40);
        until(|| packet_count() >= enough || are_done()).await;
        lose_two(&net, &gates, apart).await;
        until(are_done).await;
        gates.open_all();
        net.drain();
    });
}

/// Lets the publishers begin when all nodes know the subscribers.
async fn begin(net: Net, absent: Rc<Cell<usize>>) {
    until(|| absent.get() == 1).await;
    for (to, there) in NODES.iter().enumerate() {
        for (from, here) in NODES.iter().enumerate().filter(|(from, _)| *from != to) {
            probe(&net, *here, *there, &format!("probe {from} {to}")).await;
        }
    }
    absent.set(0);
}

/// Cuts off two nodes, with a time in this range between them.
async fn lose_two(net: &Net, gates: &Gates, apart: Range<Duration>) {
    let stays = net.draw(3) as usize;
    let mut lost = [(stays + 1) % 3, (stays + 2) % 3];
    if net.draw(2) == 0 {
        lost.reverse();
    }
    for at in lost {
        gates.of_nodes[at].set(draw_cut(net));
        let length = (apart.end - apart.start).as_micros() as u64;
        net.sleep(apart.start + Duration::from_micros(net.draw(length))).await;
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(sim::run(1000, at_once), sim::run(1000, at_once));
}

#[test]
fn acknowledged_messages_survive_the_loss_of_two_nodes_at_once() {
    sim::explore(6, at_once);
}

#[test]
fn acknowledged_messages_survive_the_loss_of_an_adopting_node() {
    sim::explore(5, in_turn);
}

/// The adopting node has handed over some of its own messages for the adopted sessions.
#[test]
fn acknowledged_messages_survive_the_loss_of_a_node_that_hands_over() {
    sim::run(56, in_turn);
}
