//! The side of the node to which a session moves.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::shutdown::is_draining;
use phalanx::task::Either;
use phalanx::time::{now, time_of_day};
use phalanx::{select, sleep};
use phalanx_store::Recovered;

use crate::access::Identity;
use crate::cluster::intervals::TICKS_PER_TIMEOUT;
use crate::cluster::moving::requests::{Request, Step, call, decode_state, send};
use crate::cluster::moving::{MIN_POLL_INTERVAL, Moves, next_interval};
use crate::cluster::node::Node;
use crate::cluster::session_query::SessionCopy;
use crate::durable::recovery::{RecoveredSession, RecoveredState};
use crate::durable::{Clocks, Lsn};
use crate::kept::questions::{Question, SessionLocation};
use crate::kept::state::Kept;
use crate::lock::lock;
use crate::model::moving::Moving;
use crate::requests::SubscriptionRequest;
use crate::session::operations::RETRY_DELAY;
use crate::session::partition::install::{Added, Arriving};
use crate::session::partition::moving::NotNow;

/// Maximum number of sessions that arrive at the same time. Each needs memory for its state. Other sessions wait.
const MAX_ARRIVING: usize = 64;

/// Begins to move a session to this node, and answers the question when the move has ended. Returns the question if it has
/// to wait.
pub(in crate::cluster) fn start_move(
    node: &Rc<Node>,
    moves: &Rc<Moves>,
    question: Question,
    from: SessionCopy,
) -> Result<(), Question> {
    let mut arriving = moves.arriving.borrow_mut();
    if arriving.len() >= MAX_ARRIVING || arriving.contains(&question.client) {
        return Err(question);
    }
    let client = question.client.clone();
    let offered = Rc::new(Cell::new(Some(question)));
    let (own, all, of, taken) = (node.clone(), moves.clone(), client.clone(), offered.clone());
    let dispatched = node.context.stages.control.dispatch(move |_| async move {
        let mut question = taken.take();
        let mut answer = |whereabouts| {
            if let Some(question) = question.take() {
                question.answer.send(whereabouts);
            }
        };
        let Some(kept) = own.context.kept.clone() else { return };
        let moved = move_here((&own, &kept, &all), (&of, &from), &mut answer).await;
        all.arriving.borrow_mut().remove(&of);
        let Some(question) = question else { return };
        let is_over = now() >= question.asked_at + own.timeout || is_draining();
        // Not after `Over`: the client may be back at the holder, and another attempt would disconnect it there.
        if is_over || moved != Err(NotNow::Again) {
            let is_full = moved == Err(NotNow::Full);
            let whereabouts =
                if is_full { SessionLocation::Full } else { SessionLocation::OtherNode };
            return question.answer.send(whereabouts);
        }
        sleep(own.timeout / TICKS_PER_TIMEOUT).await;
        kept.questions.requeue(question);
    });
    match (dispatched, offered.take()) {
        // The processor is full.
        (Err(_), Some(question)) => return Err(question),
        (_, question) => offered.set(question),
    }
    arriving.insert(client);
    Ok(())
}

/// Decodes a session and its subscriptions as sent by the holder.
fn decode(
    bytes: &[u8],
    client: &Identity,
    clocks: Clocks,
) -> Option<(RecoveredSession, Vec<SubscriptionRequest>)> {
    let state = RecoveredState::at(Recovered::from_entry(bytes)?, 1, clocks).ok()?;
    let session = state.sessions.into_iter().next()?.sessions.into_iter().next()?;
    // The messages have numbers of the holder's journal.
    session.messages().for_each(|message| message.set_number(0));
    let is_owner = session.client_id == client.client && session.user == client.user;
    let requests = state.routes.clients.into_iter().next().map(|(_, requests)| requests);
    is_owner.then_some((session, requests.unwrap_or_default()))
}

/// Moves the session of a client to this node, and answers its question.
///
/// # Errors
/// If the session did not move. The question has not been answered then.
async fn move_here(
    (node, kept, moves): (&Rc<Node>, &Kept, &Moves),
    (client, from): (&Identity, &SessionCopy),
    answer: &mut dyn FnMut(SessionLocation),
) -> Result<(), NotNow> {
    let own = kept.own_journal().ok_or(NotNow::Over)?.to_string();
    let limit = now() + node.timeout / 2;
    moves.count.set(moves.count.get() + 1);
    let token: Arc<str> = format!("{}.{}", node.start, moves.count.get()).into();
    let request = Request {
        token: token.to_string(),
        from: from.journal.clone(),
        to: own.clone(),
        client: client.client.to_string(),
        user: client.user.as_deref().map(str::to_owned),
        step: Step::Leave,
        offset: 0,
    };
    let step = async |step| {
        call((node, moves), &from.node, &Request { step, ..request.clone() }, limit).await
    };
    let (stages, interest) = (node.context.stages, &node.peers.interest);
    let may_have_arrived = Cell::new(false);
    let joined = async {
        check_wal_capacity(node)?;
        let reserved = stages.sessions.reserve(client.clone()).await;
        let place = reserved.map_err(|_| NotNow::Over)??;
        // If a node did not answer, the move would fail after it had disconnected the client.
        wait_until_filters_known(node, kept, (0, limit)).await.ok_or(NotNow::Over)?;
        let left = step(Step::Leave).await?;
        let (mut session, requests) = decode(&left, client, Clocks::read()).ok_or(NotNow::Over)?;
        session.moving = Moving::Arriving { token: token.clone(), message: 0, delivery: 0 };
        if install(node, Arriving { session, requests, place }).await != Some(Added::Yes) {
            return Err(NotNow::Over);
        }
        wait_until_filters_known(node, kept, (interest.version(), limit))
            .await
            .ok_or(NotNow::Over)?;
        step(Step::Cut).await?;
        let given = step(Step::Give).await?;
        let (head, state) = decode_state(&given).ok_or(NotNow::Over)?;
        node.peers.claims.advance(head.claimed);
        let (session, _) = decode(state, client, Clocks::read()).ok_or(NotNow::Over)?;
        let mut nodes: BTreeSet<_> = head.nodes.into_iter().collect();
        nodes.extend(kept.other_journals().ok_or(NotNow::Over)?);
        nodes.insert(own.clone());
        let nodes: Vec<_> = nodes.into_iter().collect();
        while node.context.wal.is_backlogged() && now() < limit {
            sleep(RETRY_DELAY).await;
        }
        check_wal_capacity(node)?;
        let offered = Arc::new(Mutex::new(Some(session)));
        let mut pause = MIN_POLL_INTERVAL;
        while now() < limit {
            let (client, token) = (client.clone(), token.clone());
            let arrived = stages.sessions.arrive(client, token, (offered.clone(), nodes.clone()));
            match arrived.await {
                Ok(Ok(lsn)) => return Ok(lsn),
                Ok(Err(NotNow::Busy)) => {
                    sleep(pause).await;
                    pause = next_interval(pause);
                }
                Err(_) if lock(&offered).is_some() => sleep(RETRY_DELAY).await,
                Ok(Err(reason)) => return Err(reason),
                Err(_) => {
                    may_have_arrived.set(true);
                    return Err(NotNow::Over);
                }
            }
        }
        Err(NotNow::Over)
    };
    let joined: Result<Lsn, NotNow> = joined.await;
    let Ok(lsn) = joined else {
        let give_up = || stages.sessions.give_up(client.clone(), token.clone(), stages.routing);
        while give_up().await.is_err() && !is_draining() {
            sleep(RETRY_DELAY).await;
        }
        // Sent after the copy was removed, because the holder resumes its session immediately. Not sent if this node
        // may have the session; the holder then asks all nodes.
        if !may_have_arrived.get() {
            send(node, &from.node, &Request { step: Step::Stay, ..request.clone() });
        }
        return joined.map(|_| ());
    };
    let wal = node.context.wal.clone();
    let mut durable = Box::pin(wal.durable(lsn));
    let stored = match select(durable.as_mut(), sleep(node.timeout)).await {
        Either::Left(stored) => stored,
        Either::Right(()) => {
            answer(SessionLocation::Unknown);
            durable.await
        }
    };
    if stored.is_err() {
        answer(SessionLocation::Unknown);
        return Ok(());
    }
    // Makes the holder remove its copy, even if the client has gone. The claim precedes the use of the session, so that an
    // earlier claim which arrives late does not end this copy.
    node.peers.claims.add(client, time_of_day(), now());
    let arrived = || stages.sessions.arrived(client.clone(), token.clone());
    let has_arrived = loop {
        match arrived().await {
            Ok(arrived) => break arrived,
            Err(_) if is_draining() => break false,
            Err(_) => sleep(RETRY_DELAY).await,
        }
    };
    if !has_arrived {
        answer(SessionLocation::Unknown);
        return Ok(());
    }
    kept.metrics.moved.add(1);
    answer(SessionLocation::Here);
    Ok(())
}

/// Fails if this node's journal is full or its disk does not keep up. The session is of more use at its node then.
fn check_wal_capacity(node: &Node) -> Result<(), NotNow> {
    let wal = &node.context.wal;
    if wal.is_full() || wal.is_behind() { Err(NotNow::Over) } else { Ok(()) }
}

/// Adds the copy of a session. Returns `None` if it is unknown whether the copy was added.
async fn install(node: &Node, arriving: Arriving) -> Option<Added> {
    let (stages, offered) = (node.context.stages, Arc::new(Mutex::new(Some(arriving))));
    loop {
        let added = stages.sessions.install(offered.clone(), stages.routing).await;
        if let Some(added) = added.ok().flatten() {
            return Some(added);
        }
        if is_draining() || lock(&offered).is_none() {
            return None;
        }
        sleep(RETRY_DELAY).await;
    }
}

/// Waits until all nodes whose journals are not adopted know this version of this node's filters.
async fn wait_until_filters_known(
    node: &Node,
    kept: &Kept,
    (version, limit): (u64, Duration),
) -> Option<()> {
    let interest = &node.peers.interest;
    while now() < limit && !is_draining() {
        let journals = kept.other_journals()?;
        let is_known = |journal: &String| {
            let others = node.others.borrow();
            others.values().any(|other| {
                other.hello.borrow().journal.as_ref() == Some(journal)
                    && interest.is_known(&other.name, version)
            })
        };
        if journals.iter().all(is_known) {
            return Some(());
        }
        sleep(MIN_POLL_INTERVAL).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use phalanx_store::{DeliveryId, Entry, MessageId, Phase, Record, SessionId};

    use super::*;

    #[test]
    fn messages_get_numbers_of_this_node() {
        let (session, message, mut entry) = (SessionId(3), MessageId(7), Entry::new());
        entry.push(&Record::Session { session, client: "c", expiry: 9, left: 1, will: b"" });
        let (topic, payload, properties) = ("t", &b"x"[..], &b""[..]);
        let (flags, expires, delivery, phase) = (1, 0, DeliveryId(5), Phase::Queued);
        entry.push(&Record::Message { message, topic, payload, properties, flags, expires });
        let options = 1;
        entry.push(&Record::Queue { session, delivery, message, options, properties, phase });
        let client = |client: &str| Identity { user: None, client: client.into() };
        let clocks = Clocks::default();
        let (session, _) = decode(entry.bytes(), &client("c"), clocks).unwrap();
        // Messages with a number count as stored in this node's journal, and these are not.
        assert!(session.messages().map(|message| message.number()).eq([0]));
        assert!(decode(entry.bytes(), &client("d"), clocks).is_none());
        assert!(decode(b"x", &client("c"), clocks).is_none());
    }
}
