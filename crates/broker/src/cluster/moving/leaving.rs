//! The side of the node that holds a session and gives it away.

use std::cell::{Cell, RefCell};
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::Message;
use phalanx_store::{Record, SessionId};

use crate::access::Identity;
use crate::cluster::intervals::{HELLOS_PER_TIMEOUT, TICKS_PER_TIMEOUT};
use crate::cluster::moving::Moves;
use crate::cluster::moving::requests::{Answer, Request, StateHeader, Step, encode_state, subject};
use crate::cluster::moving::{MIN_POLL_INTERVAL, next_interval};
use crate::cluster::node::Node;
use crate::kept::state::Kept;
use crate::model::moving::{Cut, CutNodes};
use crate::requests::{self, Item};
use crate::session::partition::moving::{Left, NotNow};

/// Maximum number of sessions that leave this node at the same time. Each needs memory for its state.
const MAX_LEAVING: usize = 64;

/// Maximum number of subscriptions that one request to the router names.
const MAX_CHUNK: usize = 1024;

/// A session that leaves this node.
pub(super) struct Leaving {
    token: Arc<str>,
    owner: Identity,
    started: Duration,
    /// Whether an operation is serving a request of this move.
    is_busy: Cell<bool>,
    /// Whether the client has been disconnected.
    is_disconnected: Cell<bool>,
    /// Whether the new node has given up.
    is_over: Cell<bool>,
    /// The answers to completed steps.
    subscriptions: RefCell<Option<Rc<[u8]>>>,
    nodes: RefCell<Option<Vec<String>>>,
    state: RefCell<Option<Rc<[u8]>>>,
}

impl Leaving {
    /// Whether the move has lasted so long that the session must not be given any more.
    fn is_overdue(&self, node: &Node) -> bool {
        now().saturating_sub(self.started) > node.timeout / 2
    }
}

/// Receives requests about moves from other nodes.
pub(in crate::cluster) fn listen(node: &Rc<Node>, moves: &Rc<Moves>) {
    super::requests::listen(node, moves);
    let (own, moves) = (node.clone(), moves.clone());
    let filter = subject(node, &node.name);
    node.client.subscribe(&filter, None, move |message| handle_request(&own, &moves, &message));
}

fn handle_request(node: &Rc<Node>, moves: &Rc<Moves>, message: &Message<'_>) {
    let Ok(request) = serde_json::from_slice::<Request>(message.payload) else { return };
    let Some(kept) = node.context.kept.clone().filter(|kept| kept.is_open()) else { return };
    if kept.own_journal().is_none_or(|journal| journal.to_string() != request.from) || is_draining()
    {
        return;
    }
    let known = moves.leaving.borrow().get(&*request.token).cloned();
    if known.is_none() && request.step == Step::Leave {
        remove_given(node, moves);
    }
    let leaving = match (known, request.step) {
        (Some(known), _) => known,
        (None, Step::Leave) if moves.leaving.borrow().len() < MAX_LEAVING => {
            let user = request.user.as_deref().map(Arc::from);
            let own = Rc::new(Leaving {
                token: request.token.as_str().into(),
                owner: Identity { user, client: request.client.as_str().into() },
                started: now(),
                is_busy: Cell::new(false),
                is_disconnected: Cell::new(false),
                is_over: Cell::new(false),
                subscriptions: RefCell::default(),
                nodes: RefCell::default(),
                state: RefCell::default(),
            });
            moves.leaving.borrow_mut().insert(own.token.clone(), own.clone());
            own
        }
        (None, Step::Leave) => return reply(node, message.reply, &Answer::Wait),
        (None, Step::Stay) => return,
        (None, _) => return reply(node, message.reply, &Answer::Over),
    };
    if request.step == Step::Stay {
        leaving.is_over.set(true);
    }
    // The new node repeats its request. The step that is running checks `is_over` when it has finished.
    if leaving.is_busy.replace(true) {
        return;
    }
    let (own, of, to) = (node.clone(), leaving.clone(), message.reply.map(str::to_owned));
    let moves = moves.clone();
    let served = node.context.stages.control.dispatch(move |_| async move {
        let done = match of.is_over.get() {
            true => Err(NotNow::Over),
            false => serve((&own, &kept), &of, &request).await,
        };
        let answer = match &done {
            _ if of.is_over.get() => {
                end(&own, &moves, &of).await;
                Answer::Over
            }
            Ok(bytes) => Answer::part(bytes, request.offset),
            Err(NotNow::Busy | NotNow::Routing) => Answer::Wait,
            Err(reason) => {
                end(&own, &moves, &of).await;
                if *reason == NotNow::Again { Answer::Again } else { Answer::Over }
            }
        };
        of.is_busy.set(false);
        reply(&own, to.as_deref(), &answer);
    });
    if served.is_err() {
        leaving.is_busy.set(false);
    }
}

fn reply(node: &Node, to: Option<&str>, answer: &Answer<'_>) {
    if let Some(to) = to {
        // If the answer cannot be sent, the new node repeats its request.
        let _ = node.client.publish(to, None, None, &answer.encode());
    }
}

/// Performs a step, unless it has been performed already. Returns the complete answer.
async fn serve(
    (node, kept): (&Node, &Kept),
    own: &Leaving,
    request: &Request,
) -> Result<Rc<[u8]>, NotNow> {
    match request.step {
        Step::Leave => {
            let done = own.subscriptions.borrow().clone();
            match done {
                Some(done) => Ok(done),
                None => leave(node, own).await,
            }
        }
        Step::Cut => {
            let is_done = own.nodes.borrow().is_some();
            if !is_done {
                cut((node, kept), own, request).await?;
            }
            Ok([].into())
        }
        Step::Give => {
            let done = own.state.borrow().clone();
            match done {
                Some(done) => Ok(done),
                None => give((node, kept), own).await,
            }
        }
        Step::Stay => Err(NotNow::Over),
    }
}

async fn leave(node: &Node, own: &Leaving) -> Result<Rc<[u8]>, NotNow> {
    let (stages, busy) = (node.context.stages, |_| NotNow::Busy);
    let (owner, token) = (own.owner.clone(), (own.token.clone(), own.is_disconnected.get()));
    let left = stages.sessions.begin_leaving(owner, token, stages.routing).await.map_err(busy)?;
    if matches!(left, Ok(_) | Err(NotNow::Routing)) {
        own.is_disconnected.set(true);
    }
    let Left { key, number, mut record, keys } = left?;
    for keys in keys.chunks(MAX_CHUNK) {
        let (count, keys) = (keys.len(), keys.to_vec());
        let asked = stages.routing.call(Item::Subscriptions { client: key, keys }).await;
        let requests::Answer::Subscriptions(all) = asked.map_err(busy)? else {
            return Err(NotNow::Busy);
        };
        // The router has not processed one of the subscriptions yet.
        if all.len() < count {
            return Err(NotNow::Busy);
        }
        for (filter, subscription) in &all {
            record.push(&Record::Subscribe {
                session: SessionId(number),
                filter,
                options: subscription.options.to_byte(),
                identifier: subscription.identifier.map_or(0, NonZero::get),
            });
        }
    }
    node.peers.moves.begin(&own.token, key);
    let bytes: Rc<[u8]> = record.bytes().into();
    own.subscriptions.replace(Some(bytes.clone()));
    Ok(bytes)
}

async fn cut((node, kept): (&Node, &Kept), own: &Leaving, request: &Request) -> Result<(), NotNow> {
    if own.is_overdue(node) {
        return Err(NotNow::Over);
    }
    let (by, at) = (request.from.clone(), String::new());
    let (from, to) = (request.from.clone(), request.to.clone());
    let cut = Cut { token: own.token.to_string(), from, to, by: by.clone(), at };
    let (leased, mut unready) = kept.leased_and_adopted().ok_or(NotNow::Busy)?;
    // Nodes that are heard although they have no lease here: their leases were not read yet, or they do not keep sessions.
    unready.extend(node.others.borrow().values().map(|other| other.journal()));
    let known = CutNodes { leased, unready };
    let nodes = node.context.stages.routing.call(Item::Cut(Box::new((cut, known)))).await;
    let requests::Answer::Cut(mut nodes) = nodes.map_err(|_| NotNow::Busy)? else {
        return Err(NotNow::Busy);
    };
    if nodes.is_empty() {
        return Err(NotNow::Busy);
    }
    nodes.push(by);
    own.nodes.replace(Some(nodes));
    Ok(())
}

/// Gives the session to the new node when the marks of all nodes have arrived.
async fn give((node, kept): (&Node, &Kept), own: &Leaving) -> Result<Rc<[u8]>, NotNow> {
    let sessions = node.context.stages.sessions;
    let (until, mut pause) = (now() + node.timeout / TICKS_PER_TIMEOUT / 2, MIN_POLL_INTERVAL);
    let (entry, lsn, nodes) = loop {
        let Some(mut nodes) = own.nodes.borrow().clone() else { return Err(NotNow::Over) };
        if own.is_overdue(node) {
            return Err(NotNow::Over);
        }
        let journals = kept.other_journals().ok_or(NotNow::Busy)?;
        let this = kept.own_journal().map(|journal| journal.to_string());
        let is_lost = |node: &String| !journals.contains(node) && this.as_ref() != Some(node);
        if nodes.iter().any(is_lost) {
            // A node's journal was adopted, and its messages are being handed over.
            return Err(NotNow::Again);
        }
        // Nodes without a lane to this node may have messages for the session as well.
        nodes.extend(journals);
        nodes.sort_unstable();
        nodes.dedup();
        let given = sessions.give(own.owner.clone(), own.token.clone(), nodes.clone()).await;
        match given.map_err(|_| NotNow::Busy)? {
            Ok((entry, lsn)) => break (entry, lsn, nodes),
            Err(NotNow::Busy) if now() < until => {
                sleep(pause).await;
                pause = next_interval(pause);
            }
            Err(reason) => return Err(reason),
        }
    };
    // If this node crashed before the record was on disk, it would continue the session after a restart.
    if node.context.wal.durable(lsn).await.is_err() {
        return Err(NotNow::Over);
    }
    let head = StateHeader { nodes, claimed: node.peers.claims.latest() };
    let bytes: Rc<[u8]> = encode_state(&head, entry.bytes()).into();
    own.state.replace(Some(bytes.clone()));
    Ok(bytes)
}

/// Ends a move: the session stays at this node.
async fn end(node: &Node, moves: &Moves, own: &Leaving) {
    let stay = || node.context.stages.sessions.stay(own.owner.clone(), own.token.clone());
    while stay().await.is_err() && !is_draining() {
        sleep(node.timeout / TICKS_PER_TIMEOUT).await;
    }
    node.peers.moves.end(&own.token);
    moves.leaving.borrow_mut().remove(&own.token);
}

/// Removes the moves whose session now belongs to the new node, to make space for other moves.
fn remove_given(node: &Node, moves: &Moves) {
    let is_here = |leaving: &Leaving| node.peers.moves.session(&leaving.token).is_some();
    let has_given = |leaving: &Leaving| leaving.state.borrow().is_some() && !leaving.is_busy.get();
    moves.leaving.borrow_mut().retain(|_, leaving| !has_given(leaving) || is_here(leaving));
}

/// Ends moves that take too long, until shutdown.
pub(in crate::cluster) async fn end_overdue_moves(node: Rc<Node>, moves: Rc<Moves>) {
    loop {
        remove_given(&node, &moves);
        let all: Vec<_> = moves.leaving.borrow().values().cloned().collect();
        for leaving in all {
            if leaving.is_busy.get() || !leaving.is_overdue(&node) {
                continue;
            }
            if leaving.state.borrow().is_none() {
                end(&node, &moves, &leaving).await;
            } else if now().saturating_sub(leaving.started) > 2 * node.timeout {
                // The new node either has the state by now or has given up.
                node.peers.moves.end(&leaving.token);
                moves.leaving.borrow_mut().remove(&leaving.token);
            }
        }
        if let Either::Right(()) =
            select(sleep(node.timeout / HELLOS_PER_TIMEOUT), draining()).await
        {
            return;
        }
    }
}
