//! A node has as many sessions as `max-sessions` allows. Sessions of clients at another node do not move to it. It adopts
//! all sessions of that node when that is lost.

use phalanx::Graph;
use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{Packet, Reason};
use phalanx_nats::Passage;

use crate::simulation::adopted::{TIMEOUT, declare, declare_with, node, start};
use crate::simulation::clustered::probe;
use crate::simulation::wire::{ConnectOptions, NODES, Wire};

/// The session for the other node, and that of one client.
const SESSIONS: usize = 2;

fn world(world: &mut World) {
    world.set_processors(1);
    world.set_max_steps(4_000_000);
    world.advance_only_when_idle();
    let mut graph = Graph::new();
    let mut full = node(world, 1);
    full.limits.sessions = SESSIONS;
    let brokers = [declare(world, &mut graph, 0), declare_with(world, &mut graph, 1, &full)];
    let gates = start(world, graph, &brokers);
    let [_, adopter] = brokers;
    let net = world.net();
    world.client(async move {
        probe(&net, NODES[0], NODES[0], "probe").await;
        net.sleep(2 * TIMEOUT).await;
        let (mut first, _) = open(&net, 0, "c", u32::MAX).await;
        let (other, _) = open(&net, 1, "other", 0).await;
        let refused = open(&net, 1, "c", u32::MAX).await;
        assert_eq!(refused.1, Reason::QUOTA_EXCEEDED);
        assert!(first.send(&Packet::PingReq).await.is_ok());
        let answer = first.next().await.ok().expect("its session stays");
        assert!(matches!(answer.packet(), Packet::PingResp), "{:?}", answer.packet());
        other.reset();
        net.sleep(TIMEOUT / 5).await;
        let moved = open(&net, 1, "c", u32::MAX).await;
        assert_eq!((moved.1, moved.0.is_present), (Reason::SUCCESS, true));
        for client in ["d", "e"] {
            assert_eq!(open(&net, 0, client, u32::MAX).await.1, Reason::SUCCESS);
        }
        gates.of_nodes[0].set(Passage::Closed);
        net.sleep(3 * TIMEOUT).await;
        // Those of the probe, too.
        assert_eq!(adopter.adopted_sessions(), 4);
        assert_eq!(open(&net, 1, "f", u32::MAX).await.1, Reason::QUOTA_EXCEEDED);
        let adopted = open(&net, 1, "d", u32::MAX).await;
        assert_eq!((adopted.1, adopted.0.is_present), (Reason::SUCCESS, true));
        gates.open_all();
        net.drain();
    });
}

/// Connects to the node with this number, with a session expiry interval in seconds. Returns the CONNACK's reason too.
async fn open(net: &Net, at: usize, name: &str, expiry: u32) -> (Wire, Reason) {
    let options = ConnectOptions { name, expiry, ..ConnectOptions::default() };
    let opened = Wire::open_at(net, options, NODES[at]).await;
    opened.unwrap_or_else(|_| panic!("node {at} does not answer"))
}

#[test]
fn a_full_node_refuses_sessions_but_loses_none() {
    sim::run(0, world);
}
