//! Adds the sessions of an adopted journal to this node's.
//!
//! The journal stores a message that is queued for several sessions once. The sessions are added one by one, and the
//! first ones may complete a message before the last one is added. To keep such messages, a session `$adopted/JOURNAL`
//! holds them until all sessions are added.
//!
//! An operation that a full stage refuses is repeated, because the state that was read may be the only copy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use phalanx::shutdown::is_draining;
use phalanx::sleep;
use phalanx_mqtt::Reason;

use crate::access::{ADOPTED_CLIENTS, NODE_CLIENTS, is_reserved};
use crate::cluster::adoption::relay::is_relaying_here;
use crate::cluster_names::JournalName;
use crate::context::Context;
use crate::durable::recovery::{RecoveredSession, RecoveredState};
use crate::kept::lease::StepError;
use crate::kept::state::Kept;
use crate::lock::lock;
use crate::model::handed::adoption_id;
use crate::model::session::Adoptions;
use crate::peers::handovers::{handover_client, handover_of};
use crate::requests::SubscriptionRequest;
use crate::session::operations::RETRY_DELAY;
use crate::session::partition::install::{Added, Arriving, Offered};

/// Adds all sessions. Returns when they are on disk and in this node's stream.
pub(in crate::cluster) async fn install(
    context: &Context,
    kept: &Kept,
    journal: &JournalName,
    mut state: RecoveredState,
) -> Result<(), StepError> {
    let own = kept.own_journal().map(|journal| journal.to_string());
    let (handovers, awaited) = take_handovers(own.as_deref(), journal, &mut state);
    let all = state.sessions.iter().flat_map(|partition| &partition.sessions);
    kept.set_arriving(all.map(|session| session.client_id.clone()).collect());
    // Ends the holder of an earlier attempt.
    release_with_retries(context, journal).await?;
    let held = holding_session(journal, &mut state, &handovers);
    kept.set_deferred(Some(handovers.iter().map(|session| session.client_id.clone()).collect()));
    for session in held.into_iter().chain(handovers) {
        add(context, Arriving { session, requests: Vec::new(), place: None }).await?;
    }
    wait_for_relays(context, kept).await?;
    let subscriptions = state.routes.clients.into_iter();
    let mut subscriptions: HashMap<_, _> =
        subscriptions.map(|(session, requests)| (session.identity.client, requests)).collect();
    let (mut wills, mut of_others) = (Vec::new(), 0);
    for partition in state.sessions {
        wills.extend(partition.pending_wills.into_iter().map(|(_, _, will)| will));
        for mut session in partition.sessions {
            if is_reserved(&session.client_id) {
                continue;
            }
            let requests: Vec<SubscriptionRequest> =
                subscriptions.remove(&session.client_id).unwrap_or_default();
            session.adoptions =
                adoptions(&session, journal, &awaited).filter(|_| !requests.is_empty());
            match add(context, Arriving { session, requests, place: None }).await? {
                // Counted immediately, because this attempt may still fail.
                Added::Yes => kept.metrics.adopted.add(1),
                Added::BeyondLimit => {
                    kept.metrics.adopted.add(1);
                    kept.metrics.beyond_limit.add(1);
                }
                Added::Exists => (),
                Added::OfAnotherUser => of_others += 1,
            }
            if context.wal.is_backlogged() {
                wait_until_durable(context).await?;
            }
        }
    }
    if of_others > 0 {
        kept.log_once_about(journal, &format!(
            "{of_others} sessions of {journal} were dropped, because other users have sessions with their client identifiers here"
        ));
    }
    release_with_retries(context, journal).await?;
    // Published last, so that the adopted sessions get these wills.
    if !wills.is_empty() {
        let (stages, offered) = (context.stages, offer(wills));
        while stages.sessions.publish_wills(offered.clone(), stages.routing).await.is_err() {
            let was_refused = lock(&offered).is_some();
            wait_before_retry(was_refused).await?;
        }
    }
    if let Some(peers) = &context.counters.peers {
        peers.interest.wait_until_settled(kept.timeout()).await;
    }
    wait_until_durable(context).await
}

/// Waits until this node's sessions have the messages that lost nodes had queued for them. The sessions that are added
/// next got these messages at the lost node, and must not get them again.
async fn wait_for_relays(context: &Context, kept: &Kept) -> Result<(), StepError> {
    let Some(peers) = &context.counters.peers else { return Ok(()) };
    while is_relaying_here(&peers.handovers.awaited(), kept) {
        wait_before_retry(true).await?;
    }
    Ok(())
}

fn busy_error() -> StepError {
    StepError::Retry("the broker is busy".into())
}

fn offer<T>(what: T) -> Offered<T> {
    Arc::new(Mutex::new(Some(what)))
}

/// Waits before an operation is repeated. Fails during shutdown, and if the operation was not refused: its outcome is
/// then unknown.
async fn wait_before_retry(was_refused: bool) -> Result<(), StepError> {
    if is_draining() || !was_refused {
        return Err(busy_error());
    }
    sleep(RETRY_DELAY).await;
    Ok(())
}

/// Adds a session, unless its client has one here. Returns whether it was added.
async fn add(context: &Context, arriving: Arriving) -> Result<Added, StepError> {
    let (stages, offered) = (context.stages, offer(arriving));
    loop {
        let added = stages.sessions.install(offered.clone(), stages.routing).await;
        if let Some(added) = added.ok().flatten() {
            return Ok(added);
        }
        let was_refused = lock(&offered).is_some();
        wait_before_retry(was_refused).await?;
    }
}

/// The session that holds the messages queued for several sessions, if there are any. Only messages stored with it keep a
/// number.
fn holding_session(
    journal: &JournalName,
    state: &mut RecoveredState,
    handovers: &[RecoveredSession],
) -> Option<RecoveredSession> {
    // After this, only sessions refer to messages.
    state.routes.retained.clear();
    let sessions =
        || handovers.iter().chain(state.sessions.iter().flat_map(|partition| &partition.sessions));
    let is_alone = |message: &&Arc<_>| Arc::strong_count(message) == 1;
    let all = || sessions().flat_map(RecoveredSession::messages);
    all().filter(is_alone).for_each(|message| message.set_number(0));
    let mut held = Vec::new();
    for message in all().filter(|message| message.number() != 0) {
        message.set_number(0);
        held.push(message.clone());
    }
    (!held.is_empty()).then(|| RecoveredSession::holder(holding_client(journal), held))
}

fn holding_client(journal: &JournalName) -> Arc<str> {
    format!("{ADOPTED_CLIENTS}{journal}").into()
}

/// Like [`release`], repeated until the broker is not busy.
async fn release_with_retries(context: &Context, journal: &JournalName) -> Result<(), StepError> {
    while release(context, journal).await.is_err() {
        wait_before_retry(true).await?;
    }
    Ok(())
}

/// Ends the session that holds messages of several sessions.
pub(in crate::cluster) async fn release(
    context: &Context,
    journal: &JournalName,
) -> Result<(), StepError> {
    let (stages, client) = (context.stages, holding_client(journal));
    // The messages are taken first, so that none counts as dropped.
    let taken = stages.sessions.take_messages(client.clone(), [].into(), usize::MAX).await;
    if taken.map_err(|_| busy_error())?.is_some() {
        let client = client.to_string();
        let ended = stages.sessions.end_session(client, Reason::SUCCESS, stages.routing).await;
        ended.map_err(|_| busy_error())?;
    }
    Ok(())
}

/// Takes the lost node's sessions for other nodes. Each represents a handover that this node, with journal `own`, awaits.
/// Returns them in the order of the adoptions, and the numbers of the adoptions.
fn take_handovers(
    own: Option<&str>,
    journal: &JournalName,
    state: &mut RecoveredState,
) -> (Vec<RecoveredSession>, Vec<u32>) {
    let (lost, mut all) = (journal.to_string(), Vec::new());
    for partition in &mut state.sessions {
        let of_nodes = partition.sessions.extract_if(.., |session| {
            let client = &*session.client_id;
            client.starts_with(NODE_CLIENTS) || handover_of(client).is_some()
        });
        all.extend(of_nodes);
    }
    // Handovers that the lost node itself awaited come first, because their adoptions are older.
    all.sort_by_key(|session| (handover_of(&session.client_id).is_none(), session.number));
    let (mut handovers, mut awaited) = (Vec::new(), Vec::new());
    for session in all {
        let client = session.client_id.clone();
        let (of, node) = match handover_of(&client) {
            Some(awaited) => awaited,
            None => (&*lost, client.strip_prefix(NODE_CLIENTS).unwrap_or_default()),
        };
        let node = match node {
            // A handover that the lost node awaited from itself: it has messages for the sessions of an earlier lost
            // node.
            "" => lost.as_str(),
            node if own == Some(node) => "",
            node => node,
        };
        awaited.push(adoption_id(of));
        handovers.push(session.into_handover(handover_client(of, node)));
    }
    (handovers, awaited)
}

/// The adoptions of a session: the earlier ones and that of the lost node's journal, if their handovers are awaited.
fn adoptions(session: &RecoveredSession, journal: &JournalName, awaited: &[u32]) -> Adoptions {
    let before = session.adoptions.iter().flat_map(|adoptions| adoptions.iter().copied());
    let all = before.chain([adoption_id(&journal.to_string())]);
    let all: Vec<_> = all.filter(|adoption| awaited.contains(adoption)).collect();
    (!all.is_empty()).then(|| all.into())
}

async fn wait_until_durable(context: &Context) -> Result<(), StepError> {
    let kept = context.wal.durable(context.wal.latest()).await;
    kept.map_err(|_| StepError::Lost("this node's journal is closed".into()))
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Properties, QoS};

    use super::*;
    use crate::durable::recovery::RecoveredSessions;
    use crate::model::message::{Message, StoredMessage};

    fn message(number: u64) -> Arc<Message> {
        let (payload, properties) = (&b"x"[..], Properties::NONE);
        let stored =
            StoredMessage { topic: "t", payload, properties, qos: QoS::AtLeastOnce, retain: false };
        Arc::new(Message::from_stored(number, &stored, None))
    }

    /// Node a had adopted node l, but was lost before it had relayed l's messages for a.
    #[test]
    fn the_handovers_that_a_lost_node_awaited_remain() {
        let messages = [("$adopted/l.1/", 1), ("$adopted/m.1/", 0), ("$adopted/l.1/p.1", 1)];
        let more = [("$adopted/l.1/own.1", 1), ("$cluster/p.1", 0), ("client", 1)];
        let all = messages.into_iter().chain(more).map(|(client, count)| {
            RecoveredSession::holder(client.into(), (0..count).map(message).collect())
        });
        let sessions = vec![RecoveredSessions { sessions: all.collect(), ..Default::default() }];
        let mut state = RecoveredState { sessions, ..RecoveredState::default() };
        let lost = JournalName { node: "a".into(), id: 7 };
        let (handovers, awaited) = take_handovers(Some("own.1"), &lost, &mut state);
        let of = |session: &RecoveredSession| (session.client_id.to_string(), session.deliveries());
        let found: Vec<_> = handovers.iter().map(of).collect();
        let expected = [
            ("$adopted/l.1/a.0000000000000007", 1),
            ("$adopted/m.1/a.0000000000000007", 0),
            ("$adopted/l.1/p.1", 1),
            ("$adopted/l.1/", 1),
            ("$adopted/a.0000000000000007/p.1", 0),
        ];
        assert_eq!(found, expected.map(|(client, count)| (client.to_owned(), count)));
        assert_eq!(awaited.len(), 5);
        assert_eq!(&*state.sessions[0].sessions[0].client_id, "client");
    }

    #[test]
    fn a_message_of_several_sessions_is_stored_once() {
        let (shared, own) = (message(5), message(6));
        let sessions = vec![
            RecoveredSession::holder("a".into(), vec![shared.clone(), own]),
            RecoveredSession::holder("b".into(), vec![shared]),
        ];
        let sessions = vec![RecoveredSessions { sessions, ..RecoveredSessions::default() }];
        let mut state = RecoveredState { sessions, ..RecoveredState::default() };
        let held =
            holding_session(&JournalName { node: "a".into(), id: 7 }, &mut state, &[]).unwrap();
        assert_eq!(&*held.client_id, "$adopted/a.0000000000000007");
        let mut ids = (20.., 40..);
        let all = [held].into_iter().chain(state.sessions.remove(0).sessions);
        let records = all.map(|mut session| {
            let all = session.renumber(&mut ids).into_iter();
            all.map(|delivery| (delivery.message.unwrap().number(), delivery.is_new))
                .collect::<Vec<_>>()
        });
        let records: Vec<_> = records.collect();
        assert_eq!(records, [vec![(20, true)], vec![(20, false), (22, true)], vec![(20, false)]]);
    }
}
