//! Operations on the session stage, called by connections and other stages.
//!
//! | file | contents |
//! |---|---|
//! | `by_client.rs` | operations on the session of a client identifier |
//! | `apply.rs` | the effects of changes, and timers |
//! | `install.rs` | adds sessions of another node |
//! | `moving.rs` | moves of sessions between nodes |
//! | `handover.rs` | takes the messages for a lost node |
//! | `inspect.rs` | lists sessions for the admin pages |

mod apply;
mod by_client;
mod handover;
mod inspect;
mod install;
mod moving;

use std::future::poll_fn;
use std::rc::Weak;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use phalanx::stage::{Handles, Partition, Pooled};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{Call, PartitionedStage, select};
use phalanx_mqtt::{PacketId, Reason};

use crate::durable::wal::NotDurable;
use crate::durable::{Lsn, Wal, disk_timeout};
use crate::model::client_key::ClientKey;
use crate::model::delivery::DeliveryBatch;
use crate::model::subscriptions::subscription_size::SubscriptionSize;
use crate::model::waiting_sender::WaitingSender;
use crate::requests::{Answer, Item, PendingRetained, Routes, SubscriptionRequest};
use crate::session::partition::Sessions;
use crate::session::partition::close::Closing;
use crate::session::partition::incoming::Qos2Begun;
use crate::session::partition::subscriptions::NOT_TAKEN;
use crate::session::state::effects::Pulled;
use crate::session::state::outgoing::Answered;

/// A handle to the session stage.
#[derive(Clone, Copy, Handles)]
pub(crate) struct SessionStage(
    pub(super) PartitionedStage<Sessions>,
    #[handles(skip)] pub(super) usize,
);

/// Delay before an operation refused by a full stage is retried.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(10);

impl SessionStage {
    /// A handle to a stage of `partitions` partitions.
    pub(crate) fn new(stage: PartitionedStage<Sessions>, partitions: usize) -> Self {
        Self(stage, partitions)
    }

    /// Resumes the recovered sessions of a partition.
    pub(crate) fn resume(self, partition: usize, routes: Routes) -> Call<()> {
        self.0.call_partition(partition, move |sessions| async move {
            let effects = sessions.with(|sessions| sessions.resume(now()));
            self.apply_effects(&sessions, effects, routes).await;
        })
    }

    pub(crate) fn close(
        self,
        key: ClientKey,
        connection_id: u64,
        closing: Closing,
        routes: Routes,
    ) -> Call<()> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            self.leave(&sessions, (key, connection_id), closing, routes).await;
        })
    }

    pub(super) async fn leave(
        self,
        sessions: &Partition<Sessions>,
        (key, connection_id): (ClientKey, u64),
        closing: Closing,
        routes: Routes,
    ) {
        let effects = sessions.with(|sessions| {
            let effects = sessions.close(key, connection_id, closing, now());
            sessions.append();
            effects
        });
        self.apply_effects(sessions, effects, routes).await;
    }

    /// Delivers a batch to the sessions of a partition. No reference to the batch remains after completion.
    pub(crate) fn deliver(self, partition: usize, batch: Arc<DeliveryBatch>) -> Call<()> {
        self.0.call_partition(partition, move |sessions| async move {
            sessions.with(|sessions| sessions.deliver(&batch, now()));
            drop(batch);
        })
    }

    /// Delivers a batch immediately if the partition is on this processor. Returns whether it is.
    pub(crate) fn try_deliver(self, partition: usize, batch: &DeliveryBatch) -> bool {
        self.0.try_with_partition(partition, |sessions| sessions.deliver(batch, now())).is_some()
    }

    /// Swaps the session's output with the connection's buffer, or registers the waker `waiting` if there is no output.
    /// `None` if the partition is on another processor.
    pub(crate) fn try_pull(
        self,
        connection: (ClientKey, u64),
        spare: &mut Vec<u8>,
        waiting: &Waker,
        sender: &dyn Fn() -> Weak<dyn WaitingSender>,
    ) -> Option<Poll<(Pulled, Lsn)>> {
        self.0.try_with_partition(connection.0.partition.into(), |sessions| {
            sessions.pull(connection, spare, now(), (waiting, Some(sender)))
        })
    }

    /// Waits for output of the session, and swaps it with the connection's buffer.
    pub(crate) fn pull(self, connection: (ClientKey, u64), mut spare: Vec<u8>) -> Call<Pulled> {
        self.0.call_partition(connection.0.partition.into(), move |sessions| async move {
            let pull = poll_fn(|context| {
                let waiting = context.waker();
                sessions
                    .with(|sessions| sessions.pull(connection, &mut spare, now(), (waiting, None)))
            });
            let (mut pulled, lsn) = pull.await;
            if lsn == Lsn::default() {
                // The sender may have dropped the call, so count the output as lost unless it arrives.
                sessions.with(|sessions| sessions.guard(connection.0, &mut pulled));
                return pulled;
            }
            let wal = sessions.with(|sessions| sessions.wal.clone());
            // Pooled, so that an idle connection holds no memory for this future.
            Pooled::pin(self.fenced(connection, (pulled, lsn), wal)).await
        })
    }

    /// Returns the output once the changes before it are on disk, or the reason if the connection is to end first. If the
    /// future is dropped earlier, the QoS 0 messages of the output count as lost. Called and run on the partition's
    /// processor.
    pub(crate) fn fenced(
        self,
        connection: (ClientKey, u64),
        (mut pulled, lsn): (Pulled, Lsn),
        wal: Wal,
    ) -> impl Future<Output = Pulled> {
        let guard = |sessions: &mut Sessions| sessions.guard(connection.0, &mut pulled);
        self.0.try_with_partition(connection.0.partition.into(), guard);
        self.durable(connection, (pulled, lsn), wal)
    }

    async fn durable(
        self,
        connection: (ClientKey, u64),
        (pulled, lsn): (Pulled, Lsn),
        wal: Wal,
    ) -> Pulled {
        // The disk, or the copy in NATS, may take long, so the end of the connection is noticed meanwhile.
        let ended = poll_fn(|context| {
            let ended = |sessions: &mut Sessions| sessions.poll_ended(connection, context.waker());
            let here = self.0.try_with_partition(connection.0.partition.into(), ended);
            here.unwrap_or(Poll::Pending)
        });
        match select(wal.durable(lsn), ended).await {
            Either::Left(Ok(())) => pulled,
            Either::Left(Err(NotDurable)) => Pulled::Closed(Reason::SERVER_UNAVAILABLE),
            Either::Right(reason) => Pulled::Closed(reason),
        }
    }

    /// Makes the pull of a connection return, because the connection is about to move to another processor.
    pub(crate) fn interrupt(self, key: ClientKey, connection_id: u64) -> Call<()> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            sessions.with(|sessions| sessions.interrupt(key, connection_id));
        })
    }

    /// Processes a client's acknowledgements immediately. Returns false if the partition is on another processor.
    pub(crate) fn try_answered(self, connection: (ClientKey, u64), answers: &[Answered]) -> bool {
        let answered = |sessions: &mut Sessions| sessions.answered(connection, answers);
        self.0.try_with_partition(connection.0.partition.into(), answered).is_some()
    }

    /// Processes a client's acknowledgements.
    pub(crate) fn answered(self, connection: (ClientKey, u64), answers: Vec<Answered>) -> Call<()> {
        self.0.call_partition(connection.0.partition.into(), move |sessions| async move {
            sessions.with(|sessions| sessions.answered(connection, &answers));
        })
    }

    /// Registers QoS 2 messages of a client. Returns for each whether it is new.
    pub(crate) fn begin(
        self,
        key: ClientKey,
        connection_id: u64,
        ids: Vec<PacketId>,
    ) -> Call<Result<Qos2Begun, Reason>> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            sessions.with(|sessions| sessions.begin(key, connection_id, &ids))
        })
    }

    /// Releases QoS 2 messages of a client. Returns for each whether it was registered; `None` if the disk
    /// makes no progress.
    pub(crate) fn release(
        self,
        key: ClientKey,
        connection_id: u64,
        ids: Vec<PacketId>,
    ) -> Call<Option<Vec<bool>>> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let (known, lsn) = sessions.with(|sessions| sessions.release(key, connection_id, &ids));
            let wal = sessions.with(|sessions| sessions.wal.clone());
            wal.durable_with_progress(lsn).await.ok().map(|()| known)
        })
    }

    /// Forgets all QoS 2 messages of a client that has lost its state. Returns whether this change is on disk.
    pub(crate) fn forget_received(self, key: ClientKey, connection_id: u64) -> Call<bool> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let lsn = sessions.with(|sessions| sessions.forget_received(key, connection_id));
            durable_within_timeout(&sessions, lsn).await.is_ok()
        })
    }

    /// Abandons QoS 2 messages of a client, so that a retransmission counts as a new message. The messages were not
    /// recorded, so there is nothing to wait for.
    pub(crate) fn abandon(
        self,
        key: ClientKey,
        connection_id: u64,
        ids: Vec<PacketId>,
    ) -> Call<()> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            sessions.with(|sessions| sessions.release(key, connection_id, &ids));
        })
    }

    /// Adds subscriptions of a client. Returns the reason code of each. If there are more retained messages than one cohort
    /// delivers, `has_many` is sent before the others.
    pub(crate) fn subscribe(
        self,
        (key, connection_id): (ClientKey, u64),
        requests: Vec<Result<SubscriptionRequest, Reason>>,
        routes: Routes,
        has_many: Option<oneshot::Sender<()>>,
    ) -> Call<Vec<Reason>> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let (reasons, granted) =
                sessions.with(|sessions| sessions.subscribe(key, connection_id, requests));
            let Some((client, requests)) = granted else { return reasons };
            let lsn = sessions.with(|sessions| sessions.append_of(client.durable_id != 0));
            let limit = sessions.with(|sessions| sessions.wal.timeout());
            // Called before other operations run on this partition, so that a later end of the session reaches the router
            // after this.
            let routed = routes.call(Item::Subscribe { client, requests });
            let is_routed = match soon(routed, limit).await {
                // Boxed, because it is rare.
                Some(Answer::PendingRetained(pending)) => {
                    if let Some(has_many) = has_many {
                        has_many.send(());
                    }
                    Box::pin(send_pending_retained(&sessions, pending, routes)).await
                }
                routed => routed.is_some(),
            };
            match is_routed && durable_within_timeout(&sessions, lsn).await.is_ok() {
                true => reasons,
                // It is unknown whether the router has the subscriptions. The session keeps their keys, so they are
                // removed when the session ends.
                false => {
                    if is_routed {
                        let count = reasons.iter().filter(|reason| !reason.is_failure()).count();
                        sessions.with(|sessions| sessions.refused_subscriptions(key, count));
                    }
                    let failed = |reason: Reason| match reason.is_failure() {
                        true => reason,
                        false => NOT_TAKEN,
                    };
                    reasons.into_iter().map(failed).collect()
                }
            }
        })
    }

    /// Makes a node's session known to the router, which sends it all messages to be retained from then on, also while the
    /// node has announced no filter. Returns whether the router knows it.
    pub(crate) fn register(self, key: ClientKey, connection_id: u64, routes: Routes) -> Call<bool> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let client = sessions.with(|sessions| sessions.subscriber(key, connection_id));
            let Some(client) = client else { return false };
            routes.call(Item::Subscribe { client, requests: Vec::new() }).await.is_ok()
        })
    }

    /// Removes subscriptions of a client. Returns the reason code of each.
    pub(crate) fn unsubscribe(
        self,
        (key, connection_id): (ClientKey, u64),
        keys: Vec<Box<str>>,
        routes: Routes,
    ) -> Call<Vec<Reason>> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let (mut reasons, mut left) = (Vec::with_capacity(keys.len()), keys);
            while !left.is_empty() {
                // Checked before anything is appended, because the client repeats a refused request.
                if sessions.with(|sessions| sessions.must_wait_for_disk(key)) {
                    reasons.resize(reasons.len() + left.len(), NOT_TAKEN);
                    break;
                }
                let removed =
                    sessions.with(|sessions| sessions.unsubscribe(key, connection_id, &left));
                // Another connection has taken the session over.
                let Some(removed) = removed else {
                    reasons.resize(reasons.len() + left.len(), Reason::UNSPECIFIED_ERROR);
                    break;
                };
                let keys = left.drain(..removed.len()).collect();
                reasons.extend(route_removed(&sessions, key, (keys, removed), routes).await);
            }
            reasons
        })
    }
}

/// Removes from the router the subscriptions that were removed from session `key`. Returns the reason code of each.
async fn route_removed(
    sessions: &Partition<Sessions>,
    key: ClientKey,
    (keys, removed): (Vec<Box<str>>, Vec<Option<SubscriptionSize>>),
    routes: Routes,
) -> Vec<Reason> {
    let limit = sessions.with(|sessions| sessions.wal.timeout());
    let routed = routes.call(Item::Unsubscribe { client: key, keys: keys.clone() });
    let is_routed = soon(routed, limit).await.is_some();
    let lsn = sessions.with(|sessions| match is_routed {
        true => sessions.unsubscribed(key, &keys, &removed),
        false => sessions.append(),
    });
    if is_routed && durable_within_timeout(sessions, lsn).await.is_ok() {
        let reason = |size: &Option<_>| match size {
            Some(_) => Reason::SUCCESS,
            None => Reason::NO_SUBSCRIPTION_EXISTED,
        };
        return removed.iter().map(reason).collect();
    }
    // The router may still have the subscriptions.
    let reasons = vec![NOT_TAKEN; removed.len()];
    let gone = keys.into_iter().zip(removed).filter_map(|(name, size)| Some((name, size?)));
    sessions.with(|sessions| sessions.restore_subscriptions(key, gone));
    reasons
}

/// Waits for the router's answer, at most for the disk timeout. Returns `None` on failure.
async fn soon(routed: Call<Answer>, limit: Duration) -> Option<Answer> {
    match select(routed, disk_timeout(limit)).await {
        Either::Left(Ok(answer)) => Some(answer),
        _ => None,
    }
}

/// Delivers retained messages that did not fit the delivery limit. Returns whether they were delivered.
async fn send_pending_retained(
    sessions: &Partition<Sessions>,
    mut pending: PendingRetained,
    routes: Routes,
) -> bool {
    let delivery_limiter = sessions.with(|sessions| sessions.delivery_limiter.clone());
    let limit = sessions.with(|sessions| sessions.wal.timeout());
    loop {
        let permit = delivery_limiter.acquire(1, 1).await;
        match soon(routes.call(Item::Retained(pending, permit)), limit).await {
            Some(Answer::PendingRetained(again)) => pending = again,
            routed => return routed.is_some(),
        }
    }
}

/// Waits until a change is on disk, with a timeout.
pub(super) async fn durable_within_timeout(
    sessions: &Partition<Sessions>,
    lsn: Lsn,
) -> Result<(), NotDurable> {
    if lsn == Lsn::default() {
        return Ok(());
    }
    let wal = sessions.with(|sessions| sessions.wal.clone());
    wal.durable_within_timeout(lsn).await
}
