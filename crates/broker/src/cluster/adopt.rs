//! Adopts the sessions of a lost node: takes its lease, seals its stream, and makes its sessions this node's.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use phalanx::shutdown::is_draining;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::{Expected, JetStream, JetStreamError};

use crate::access::{NODE_CLIENTS, is_reserved};
use crate::cluster_names::{BATCH, JournalName, OPEN, SEAL};
use crate::context::Context;
use crate::durable::Clocks;
use crate::durable::recovery::{RecoveredSession, RecoveredState};
use crate::kept::lease::{Failed, Lease, Record};
use crate::kept::part::{Head, Joined};
use crate::kept::state::{Kept, RENEWALS};
use crate::model::handed::adoption_id;
use crate::model::session::Adoptions;
use crate::peers::handovers::{handover_client, handover_of};
use crate::requests::SubscriptionRequest;
use crate::session::partition::install::Arriving;

/// Pauses before a failed step is repeated, in parts of the timeout.
const RETRIES: u32 = 25;

/// Adopts a journal whose lease has expired, if this node is the first to take the lease. Returns whether it did.
pub(super) async fn adopt(
    context: &Context,
    kept: &Kept,
    streams: &JetStream,
    journal: &JournalName,
    number: u64,
) -> bool {
    let Some(own) = kept.own() else { return false };
    let Some(known) = kept.others(|others| others.get(journal).cloned()) else { return false };
    // If it is missing for another holder, that one has deleted it.
    let has_no_stream = known.holder == journal.to_string()
        && streams.state(&kept.names.stream(journal).name).await == Err(JetStreamError::NoStream);
    if known.is_incomplete || has_no_stream {
        let node = &journal.node;
        kept.tell(&format!(
            "node {node} is lost, and NATS does not have its journal: its sessions are only on its disk; start it again"
        ));
        return false;
    }
    let (holder, start) = (own.to_string(), kept.start.clone());
    let record = Record { holder, start, is_adopted: false, is_incomplete: false };
    let lease = Lease::new(streams, &kept.names, journal, record, number);
    if lease.renew().await.is_err() {
        return false;
    }
    kept.adopts(&known.start);
    let begun = now();
    kept.tell(&format!("node {} is lost: adopting its sessions", journal.node));
    let work = Box::pin(async {
        loop {
            let why = match adopt_all(context, kept, streams, journal).await {
                Ok(count) => match lease.finish().await {
                    Ok(()) => break Ok(count),
                    Err(failed) => failed,
                },
                Err(failed) => failed,
            };
            match why {
                Failed::Lost(why) => break Err(why),
                Failed::Again(why) => {
                    kept.tell(&format!("adoption of {journal}: {why}; trying again"))
                }
            }
            if is_draining() {
                break Err("the broker shuts down".into());
            }
            sleep(kept.timeout() / RETRIES).await;
        }
    });
    let renewed = Box::pin(async {
        loop {
            // During shutdown, too: the adoption ends with its next failure.
            sleep(kept.timeout() / RENEWALS).await;
            if let Err(Failed::Lost(why)) = lease.renew().await {
                return why;
            }
        }
    });
    let adopted = select(work, renewed).await;
    if let (Either::Left(Ok(_)), Some(peers)) = (&adopted, &context.counters.peers) {
        peers.handovers.note_adopted(&journal.to_string());
    }
    kept.set_arriving(HashSet::new());
    let is_adopted = matches!(adopted, Either::Left(Ok(_)));
    let line = match adopted {
        Either::Left(Ok(count)) => {
            kept.metrics.adopted.add(count as u64);
            let took = now().saturating_sub(begun).as_secs_f64();
            format!("adopted {count} sessions of node {} in {took:.1} s", journal.node)
        }
        Either::Left(Err(why)) | Either::Right(why) => {
            format!("adoption of {journal} ended: {why}")
        }
    };
    kept.tell(&line);
    is_adopted
}

/// Adopts all sessions, and deletes the stream. Returns their number.
async fn adopt_all(
    context: &Context,
    kept: &Kept,
    streams: &JetStream,
    journal: &JournalName,
) -> Result<usize, Failed> {
    let stream = kept.names.stream(journal).name;
    let count = match seal(kept, streams, journal).await {
        Ok(last) => {
            let state = read(context, streams, kept, journal, last).await?;
            install(context, kept, journal, state).await?
        }
        // An earlier adoption ended before it was recorded.
        Err(JetStreamError::NoStream) => 0,
        Err(error) => return Err(error.into()),
    };
    match streams.delete(&stream).await {
        Ok(()) | Err(JetStreamError::NoStream) => Ok(count),
        Err(error) => Err(error.into()),
    }
}

/// Appends the seal: no batch of the lost node can follow. Returns its number.
async fn seal(
    kept: &Kept,
    streams: &JetStream,
    journal: &JournalName,
) -> Result<u64, JetStreamError> {
    // If streams are not available at all, this fails in another way.
    streams.state(&kept.names.stream(journal).name).await?;
    let start = u64::from_str_radix(&kept.start, 16).unwrap_or_default();
    let head = Head { start, batch: 0, place: 0, count: 0 };
    let subject = kept.names.subject(journal, SEAL);
    streams.append(&subject, Expected::Any, &head.encode(b"")).await
}

/// Reads the stream up to the seal.
async fn read(
    context: &Context,
    streams: &JetStream,
    kept: &Kept,
    journal: &JournalName,
    last: u64,
) -> Result<RecoveredState, Failed> {
    let stream = kept.names.stream(journal).name;
    let [batch, open] = [BATCH, OPEN].map(|kind| kept.names.subject(journal, kind));
    let first = streams.state(&stream).await?.first;
    let (mut range, mut joined) = (streams.range(&stream, first, last), Joined::new(journal.id));
    while let Some(message) = range.next().await? {
        if message.subject == batch {
            joined.push(&message.payload).map_err(|what| Failed::Again(what.into()))?;
        } else if message.subject == open {
            joined.open(&message.payload);
        }
    }
    let (partitions, clocks) = (context.stages.sessions.partitions(), Clocks::read());
    // On a thread: it may take seconds.
    let recovered = context.bridges.files.call(move |()| {
        let recovered = joined.batches.recover(Path::new(&stream));
        let recovered = recovered.map_err(|error| error.to_string())?;
        RecoveredState::at(recovered, partitions, clocks)
    });
    let recovered = recovered.await.map_err(|error| Failed::Again(error.to_string()))?;
    // Other journals are adopted before the next attempt. With the lease, the node would give its journal up.
    recovered.map_err(|error| {
        let (lease, node) = (kept.names.lease(journal), &journal.node);
        Failed::Lost(format!(
            "{error}; delete this stream of NATS and the message {lease}, and start node {node} again"
        ))
    })
}

/// Adds all sessions of clients. Returns their number, when they are on disk and in this node's stream.
async fn install(
    context: &Context,
    kept: &Kept,
    journal: &JournalName,
    mut state: RecoveredState,
) -> Result<usize, Failed> {
    let (handovers, awaited) = handovers(kept, journal, &mut state);
    for session in handovers {
        let arriving = Arriving { session, requests: Vec::new() };
        match context.stages.sessions.install(arriving, context.stages.routing).await {
            Ok(Some(_)) => (),
            _ => return Err(Failed::Again("the broker is busy".into())),
        }
    }
    let all = state.sessions.iter().flat_map(|own| &own.sessions);
    kept.set_arriving(all.map(|session| session.client_id.clone()).collect());
    let (stages, mut count) = (context.stages, 0);
    let subscriptions = state.routes.clients.into_iter();
    let mut subscriptions: HashMap<_, _> =
        subscriptions.map(|(own, requests)| (own.identity.client, requests)).collect();
    let mut wills = Vec::new();
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
            let arriving = Arriving { session, requests };
            match stages.sessions.install(arriving, stages.routing).await {
                Ok(Some(is_new)) => count += usize::from(is_new),
                _ => return Err(Failed::Again("the broker is busy".into())),
            }
            if context.wal.is_backlogged() {
                durable(context).await?;
            }
        }
    }
    // The sessions get these wills, and from now on what is published at other nodes.
    if !wills.is_empty() && stages.sessions.publish_wills(wills, stages.routing).await.is_err() {
        return Err(Failed::Again("the broker is busy".into()));
    }
    if let Some(peers) = &context.counters.peers {
        peers.interest.settled(kept.timeout()).await;
    }
    durable(context).await?;
    Ok(count)
}

/// Takes the sessions of the lost node for other nodes: each stands for a handover that this node awaits. Returns them
/// in the order of the adoptions, and the numbers of the adoptions.
fn handovers(
    kept: &Kept,
    journal: &JournalName,
    state: &mut RecoveredState,
) -> (Vec<RecoveredSession>, Vec<u32>) {
    let (own, lost) = (kept.own().map(|own| own.to_string()), journal.to_string());
    let mut all = Vec::new();
    for partition in &mut state.sessions {
        let of_nodes = partition.sessions.extract_if(.., |session| {
            let client = &*session.client_id;
            client.starts_with(NODE_CLIENTS) || handover_of(client).is_some()
        });
        all.extend(of_nodes);
    }
    // Handovers that the lost node awaited itself come first: their adoptions are older.
    all.sort_by_key(|session| (handover_of(&session.client_id).is_none(), session.number));
    let (mut handovers, mut awaited) = (Vec::new(), Vec::new());
    for session in all {
        let client = session.client_id.clone();
        let (of, node) = match handover_of(&client) {
            Some(awaited) => awaited,
            None => (&*lost, client.strip_prefix(NODE_CLIENTS).unwrap_or_default()),
        };
        // The lost node has nothing to hand over any more.
        if node.is_empty() || node == lost {
            continue;
        }
        let node = if own.as_deref() == Some(node) { "" } else { node };
        awaited.push(adoption_id(of));
        handovers.push(session.into_handover(handover_client(of, node)));
    }
    (handovers, awaited)
}

/// The adoptions of a session: those before, and that of the lost node's journal; as far as handovers are awaited.
fn adoptions(session: &RecoveredSession, journal: &JournalName, awaited: &[u32]) -> Adoptions {
    let before = session.adoptions.iter().flat_map(|own| own.iter().copied());
    let all = before.chain([adoption_id(&journal.to_string())]);
    let all: Vec<_> = all.filter(|own| awaited.contains(own)).collect();
    (!all.is_empty()).then(|| all.into())
}

async fn durable(context: &Context) -> Result<(), Failed> {
    let kept = context.wal.durable(context.wal.latest()).await;
    kept.map_err(|_| Failed::Lost("this node's journal is closed".into()))
}
