//! The life of one lane: both nodes open their sessions for each other, and serve them.
//!
//! | file | contents |
//! |---|---|
//! | `retained.rs` | sends the retained messages that another node may lack |
//! | `members.rs` | exchanges the numbers of online members of shared subscriptions with other nodes |

mod members;
mod retained;

use std::cell::Cell;
use std::collections::HashSet;
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::runtime::report;
use phalanx::shutdown::{draining, is_draining};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_mqtt::Version;

use crate::access::{Identity, NODE_CLIENTS};
use crate::cluster::adoption::handover::ADOPTED_ERROR;
use crate::cluster::intervals::HELLOS_PER_TIMEOUT;
use crate::cluster::node::Node;
use crate::cluster::peer_node::PeerNode;
use crate::cluster::takeover;
use crate::config::Config;
use crate::connection::bridged::{Bridged, serve_bridged};
use crate::context::Context;
use crate::events::Origin;
use crate::lane::frame::{NodeFrame, Side};
use crate::lane::{Lane, LaneOptions};
use crate::limits::peer::Peer;
use crate::listen::{Scheme, interned};
use crate::model::client_key::ClientKey;
use crate::session::partition::close::Closing;
use crate::session::partition::open::{Opened, Opening};
use crate::transport::Transport;

/// Time for which the session for a disconnected node keeps its messages, in seconds.
pub(in crate::cluster) const SESSION_EXPIRY: u32 = 3600;

/// Bytes by which a message may grow on a lane, where the number of a shared subscription and a stamp are added.
const GROWTH: usize = 32;

/// A session for another node that a lane will serve.
struct LaneSession {
    opened: Opened,
    client: Arc<str>,
    side: Side,
    lane: Rc<Lane>,
}

/// Opens a lane to another node, and serves it until it ends.
pub(in crate::cluster) async fn open(node: &Rc<Node>, other: &Rc<PeerNode>) {
    let result = match attach(node, other, node.next_lane()).await {
        Ok(attached) => {
            let granted = request_lane(node, other, &attached).await;
            other.end_grant_wait();
            match granted {
                Some(side) if !attached.lane.is_closed() => {
                    serve(node, other, attached, &side).await;
                    return;
                }
                _ => {
                    attached.lane.close("the node does not grant the lane");
                    let reason = attached.lane.close_reason();
                    detach(&node.context, &attached.opened).await;
                    Err(reason.unwrap_or_default())
                }
            }
        }
        Err(reason) => Err(reason),
    };
    report_status(node, other, result);
}

/// Requests a lane, repeatedly, until it is granted or refused: NATS or the other node may only just have returned.
async fn request_lane(node: &Node, other: &PeerNode, attached: &LaneSession) -> Option<Side> {
    let mut granted = pin!(other.granted());
    for _ in 0..HELLOS_PER_TIMEOUT {
        attached.lane.send_frame(&NodeFrame::Open(attached.side.clone()));
        let outcome = select(granted.as_mut(), sleep(node.timeout / HELLOS_PER_TIMEOUT)).await;
        if let Either::Left(granted) = outcome {
            return granted;
        }
    }
    None
}

/// Grants a lane to another node, and serves it until it ends.
pub(in crate::cluster) async fn accept(node: &Rc<Node>, other: &Rc<PeerNode>, side: Side) {
    match attach(node, other, side.lane).await {
        Ok(attached) => {
            attached.lane.send_frame(&NodeFrame::Accept(attached.side.clone()));
            serve(node, other, attached, &side).await;
        }
        Err(reason) => report_status(node, other, Err(reason)),
    }
}

fn report_status(node: &Node, other: &PeerNode, result: Result<(), String>) {
    let status = node.peers.status.node(&other.name);
    let text = match &result {
        Ok(()) => "connected".to_owned(),
        Err(reason) => format!("not connected: {reason}"),
    };
    if status.set_connection(result, now()) && !is_draining() {
        report(format_args!("cluster: node {}: {text}", other.name));
    }
}

/// Opens the session for another node, and prepares its lane.
async fn attach(node: &Rc<Node>, other: &Rc<PeerNode>, id: u64) -> Result<LaneSession, String> {
    let hello = other.hello.borrow().clone();
    let client = hello.client();
    let is_adopted = || {
        hello
            .journal
            .as_ref()
            .is_some_and(|journal| node.adopted_journals.borrow().contains(journal))
    };
    if is_adopted() {
        return Err(ADOPTED_ERROR.into());
    }
    let opening = Opening {
        client_id: client.clone(),
        origin: None,
        user: None,
        version: Version::V5,
        clean_start: false,
        expiry: SESSION_EXPIRY,
        receive_maximum: hello.receive_maximum,
        most: hello.packet_size as usize + GROWTH,
        must_exist: false,
        most_aliases: 0,
        will: None,
    };
    let stages = node.context.stages;
    let opened = match stages.sessions.open(opening, stages.routing).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(reason)) => return Err(format!("cannot keep the node's session: {reason}")),
        Err(error) => return Err(format!("this broker is busy: {error}")),
    };
    let (key, connection_id) = (opened.key, opened.connection_id);
    // Before the lane begins with the messages retained so far: later ones are sent to the session.
    let registered = stages.sessions.register(key, connection_id, stages.routing).await;
    let keys = stages.sessions.subscription_keys(client.clone()).await;
    let (Ok(true), Ok(keys)) = (registered, keys) else {
        detach(&node.context, &opened).await;
        return Err("this broker is busy".into());
    };
    if is_adopted() {
        // The node's sessions were adopted meanwhile.
        detach(&node.context, &opened).await;
        return Err(ADOPTED_ERROR.into());
    }
    let session = match opened.durable_id {
        // A session that is not stored ends with this process.
        0 => {
            let ClientKey { partition, slot, generation } = opened.key;
            format!("{}/{partition}/{slot}/{generation}", node.start)
        }
        id => format!("stored/{id}"),
    };
    if !opened.present {
        node.unsynced.borrow_mut().insert(other.name.clone());
    }
    // A new session stays fresh until the other node has all retained messages.
    let is_fresh = node.unsynced.borrow().contains(&other.name);
    let side = Side { lane: id, from: node.start.clone(), to: other.start(), is_fresh, session };
    let packet_size = node.settings.load().limits.packet_size;
    let (own, to) = (node.clone(), other.name.clone());
    let lane = Lane::new(LaneOptions {
        id,
        node: other.name.clone(),
        peers: node.peers.clone(),
        status: node.peers.status.node(&other.name),
        send: Box::new(move |payload| own.send(&to, payload)),
        max_payload: node.client.max_payload().unwrap_or_default(),
        max_incoming_packet: packet_size + GROWTH,
        max_outgoing_packet: hello.packet_size as usize + GROWTH,
        timeout: node.timeout,
        known: keys.into_iter().collect::<HashSet<_>>(),
    });
    node.peers.status.node(&other.name).set_client(&client);
    other.connection.set(node.connections());
    // From now on, the lane receives data.
    other.lane.replace(Some(lane.clone()));
    Ok(LaneSession { opened, client, side, lane })
}

/// Serves a lane that both nodes agreed on.
async fn serve(node: &Rc<Node>, other: &Rc<PeerNode>, attached: LaneSession, remote_side: &Side) {
    let LaneSession { opened, client, lane, .. } = attached;
    let context = &node.context;
    let previous = node.sessions.borrow().get(&other.name).cloned();
    // If the other node's session changed, the received packet identifiers belong to other messages.
    if previous.map_or(remote_side.is_fresh, |previous| previous != remote_side.session) {
        let sessions = context.stages.sessions;
        let forgotten = sessions.forget_received(opened.key, opened.connection_id).await;
        if !forgotten.unwrap_or(false) {
            lane.close("the disk makes no progress");
        }
    }
    if !lane.is_closed() {
        node.sessions.borrow_mut().insert(other.name.clone(), remote_side.session.clone());
    }
    // The node may lack any retained message if either session is new.
    if remote_side.is_fresh {
        node.unsynced.borrow_mut().insert(other.name.clone());
    }
    report_status(node, other, Ok(()));
    other.session.set(Some(opened.key));
    let (started, since) =
        (now(), node.missed_since.borrow_mut().remove(&other.name).unwrap_or_default());
    node.peers.interest.begin(&other.name);
    node.peers.members.begin(&other.name);
    let config = lane_config(&node.settings.load().config);
    let listen = interned(Scheme::Mqtt.at(([0, 0, 0, 0], 0)));
    let origin = Origin { address: None, listen };
    // Labelled by node: its sessions may belong to several journals, one after the other.
    let label = format!("{NODE_CLIENTS}{}", other.name);
    let metrics = context.counters.bridges.named(*origin.listen, &label);
    let bridged = Bridged {
        stream: Rc::new(Transport::Lane(lane.clone())),
        opened,
        identity: Identity { user: None, client },
        peer: Peer::of_bridge(origin, metrics),
        most: other.hello.borrow().packet_size as usize + GROWTH,
        persistent: true,
    };
    let served = serve_bridged(bridged, Context { config: config.into(), ..context.clone() });
    // A lost connection is noticed only after the timeout, so messages and claims of that time may be lost.
    let (detection_time, is_synced) = (2 * node.timeout, Cell::new(false));
    let max_outgoing_packet = other.hello.borrow().packet_size as usize + GROWTH;
    let mut syncing = pin!(async {
        takeover::repeat(node, &lane, since).await;
        // The node may lack messages that were published while there was no lane.
        // This process may have had no lane to it; then `since` is zero.
        let is_unsynced = node.unsynced.borrow().contains(&other.name);
        let since = if is_unsynced { Duration::ZERO } else { since };
        retained::send(context, &lane, (since, max_outgoing_packet)).await;
        if lane.wait_until_processed().await {
            node.unsynced.borrow_mut().remove(&other.name);
            is_synced.set(true);
        }
        pending::<()>().await;
    });
    let mut announcing = pin!(async {
        loop {
            let changed = node.peers.interest.changed(&other.name);
            if node.peers.interest.is_late(&other.name) {
                lane.close("the node does not take the filters");
            }
            if node.peers.interest.has_changes(&other.name) {
                lane.wake_sender();
            }
            if changed.await.is_none() {
                // Another lane to this node has begun; the session of this one ends.
                pending::<()>().await;
            }
        }
    });
    let mut ending = pin!(async {
        draining().await;
        lane.close("the node shuts down");
        pending::<()>().await;
    });
    let others = select(announcing.as_mut(), ending.as_mut());
    select(Box::pin(served), select(syncing.as_mut(), pin!(others))).await;
    node.peers.interest.end(&other.name);
    node.peers.members.end(&other.name);
    if let Some(journal) = &other.hello.borrow().journal {
        node.peers.handovers.mark_unreachable(journal);
    }
    lane.close("the session ended");
    // A lane that lasted no longer may not even have sent what the node lacked before.
    let until = now().saturating_sub(detection_time);
    let was_stable = is_synced.get() && now().saturating_sub(started) > detection_time;
    let missed_since = if was_stable { until } else { since.min(until) };
    node.missed_since.borrow_mut().insert(other.name.clone(), missed_since);
    let reason = lane.close_reason().unwrap_or_default();
    report_status(node, other, Err(reason));
}

async fn detach(context: &Context, opened: &Opened) {
    let (stages, closing) = (context.stages, Closing { will: false, expiry: None });
    let (key, number) = (opened.key, opened.connection_id);
    // If the broker is busy, the next lane takes the session over.
    let _ = stages.sessions.close(key, number, closing, stages.routing).await;
}

/// The configuration of a lane: limits on clients that do not apply to nodes are changed.
fn lane_config(config: &Config) -> Config {
    let mut own = config.clone();
    own.limits.packet_size = own.limits.packet_size.saturating_add(GROWTH);
    own
}
