//! Operations on the session stage, called by connections and other stages.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::stage::{Handles, Partition, Pooled};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{Call, PartitionedStage, select, sleep};
use phalanx_mqtt::{PacketId, Reason};

use crate::durable::wal::NotDurable;
use crate::durable::{Lsn, Wal, disk_timeout};
use crate::events::drops::{DropReason, Dropped};
use crate::model::client_key::ClientKey;
use crate::model::delivery::DeliveryBatch;
use crate::requests::{Answer, Item, PendingRetained, Publication, Routes, SubscriptionRequest};
use crate::session::close::Closing;
use crate::session::effects::{Effects, Pulled};
use crate::session::incoming::Qos2Begun;
use crate::session::outgoing::Answered;
use crate::session::pending_wills::PendingWill;
use crate::session::table::Sessions;

/// A handle to the session stage.
#[derive(Clone, Copy, Handles)]
pub(crate) struct SessionStage(
    pub(super) PartitionedStage<Sessions>,
    #[handles(skip)] pub(super) usize,
);

/// Maximum number of wills published at once.
const MAX_WILLS_AT_ONCE: usize = 256;

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

    /// Delivers a batch to the sessions of a partition at once, if that is on this processor.
    pub(crate) fn try_deliver(self, partition: usize, batch: &DeliveryBatch) -> bool {
        self.0.try_with_partition(partition, |sessions| sessions.deliver(batch, now())).is_some()
    }

    /// Takes output of the session in exchange for the connection's buffer, or registers `waiting`. `None` if the
    /// partition is on another processor.
    pub(crate) fn try_pull(
        self,
        of: (ClientKey, u64),
        spare: &mut Vec<u8>,
        waiting: &Waker,
    ) -> Option<Poll<(Pulled, Lsn)>> {
        self.0.try_with_partition(of.0.partition.into(), |sessions| {
            sessions.pull(of, spare, now(), waiting)
        })
    }

    /// Waits for output of the session, and exchanges it for the connection's buffer.
    pub(crate) fn pull(self, of: (ClientKey, u64), mut spare: Vec<u8>) -> Call<Pulled> {
        self.0.call_partition(of.0.partition.into(), move |sessions| async move {
            let pull = poll_fn(|context| {
                let waiting = context.waker();
                sessions.with(|sessions| sessions.pull(of, &mut spare, now(), waiting))
            });
            let (pulled, lsn) = pull.await;
            if lsn == Lsn::default() {
                return pulled;
            }
            let wal = sessions.with(|sessions| sessions.wal.clone());
            // Pooled: an idle connection holds no memory for it.
            Pooled::pin(self.fenced(of, (pulled, lsn), wal)).await
        })
    }

    /// Returns output of the session once the changes before it are on disk, unless the connection is to end. Runs on the
    /// partition's processor.
    pub(crate) async fn fenced(
        self,
        of: (ClientKey, u64),
        (pulled, lsn): (Pulled, Lsn),
        wal: Wal,
    ) -> Pulled {
        // The disk, or the copy in NATS, may take long.
        let ended = poll_fn(|context| {
            let ended = |sessions: &mut Sessions| sessions.poll_ended(of, context.waker());
            let here = self.0.try_with_partition(of.0.partition.into(), ended);
            here.unwrap_or(Poll::Pending)
        });
        match select(wal.durable(lsn), ended).await {
            Either::Left(Ok(())) => pulled,
            Either::Left(Err(NotDurable)) => Pulled::Closed(Reason::SERVER_UNAVAILABLE),
            Either::Right(reason) => Pulled::Closed(reason),
        }
    }

    /// Lets the pull of a connection that is about to move return.
    pub(crate) fn interrupt(self, key: ClientKey, connection_id: u64) -> Call<()> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            sessions.with(|sessions| sessions.interrupt(key, connection_id));
        })
    }

    /// Processes a client's acknowledgements at once. Returns false if the partition is on another processor.
    pub(crate) fn try_answered(self, of: (ClientKey, u64), answers: &[Answered]) -> bool {
        let answered = |sessions: &mut Sessions| sessions.answered(of, answers);
        self.0.try_with_partition(of.0.partition.into(), answered).is_some()
    }

    /// Processes a client's acknowledgements.
    pub(crate) fn answered(self, of: (ClientKey, u64), answers: Vec<Answered>) -> Call<()> {
        self.0.call_partition(of.0.partition.into(), move |sessions| async move {
            sessions.with(|sessions| sessions.answered(of, &answers));
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

    /// Forgets all QoS 2 messages of a client that has lost its state. Returns whether that is on disk.
    pub(crate) fn forget_received(self, key: ClientKey, connection_id: u64) -> Call<bool> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let lsn = sessions.with(|sessions| sessions.forget_received(key, connection_id));
            durable_within_timeout(&sessions, lsn).await.is_ok()
        })
    }

    /// Abandons QoS 2 messages of a client: when they are retransmitted, they are new. They were not
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

    /// Adds subscriptions of a client. Returns the reason code of each.
    pub(crate) fn subscribe(
        self,
        key: ClientKey,
        connection_id: u64,
        requests: Vec<Result<SubscriptionRequest, Reason>>,
        routes: Routes,
    ) -> Call<Vec<Reason>> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let (reasons, granted) =
                sessions.with(|sessions| sessions.subscribe(key, connection_id, requests));
            let Some((client, requests)) = granted else { return reasons };
            let lsn = sessions.with(Sessions::append);
            let limit = sessions.with(|sessions| sessions.wal.timeout());
            // Called before other operations run here, so that a later end of the session follows it.
            let routed = routes.call(Item::Subscribe { client, requests });
            let is_routed = match soon(routed, limit).await {
                // Boxed: rare.
                Some(Answer::PendingRetained(pending)) => {
                    Box::pin(send_pending_retained(&sessions, pending, routes)).await
                }
                routed => routed.is_some(),
            };
            match is_routed && durable_within_timeout(&sessions, lsn).await.is_ok() {
                true => reasons,
                // Whether the router has the subscriptions is unknown. The session keeps their keys, so that
                // they are removed when it ends.
                false => {
                    if is_routed {
                        let count = reasons.iter().filter(|reason| !reason.is_failure()).count();
                        sessions.with(|sessions| sessions.refused_subscriptions(key, count));
                    }
                    let failed = |reason: Reason| match reason.is_failure() {
                        true => reason,
                        false => Reason::SERVER_BUSY,
                    };
                    reasons.into_iter().map(failed).collect()
                }
            }
        })
    }

    /// Removes subscriptions of a client. Returns the reason code of each.
    pub(crate) fn unsubscribe(
        self,
        key: ClientKey,
        keys: Vec<Box<str>>,
        routes: Routes,
    ) -> Call<Vec<Reason>> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let reasons = sessions.with(|sessions| sessions.unsubscribe(key, &keys));
            let limit = sessions.with(|sessions| sessions.wal.timeout());
            let routed = routes.call(Item::Unsubscribe { client: key, keys: keys.clone() });
            let routed = soon(routed, limit);
            let is_routed = routed.await.is_some();
            let lsn = sessions.with(|sessions| match is_routed {
                true => sessions.unsubscribed(key, &keys, &reasons),
                false => sessions.append(),
            });
            match is_routed && durable_within_timeout(&sessions, lsn).await.is_ok() {
                true => reasons,
                // The router may still have the subscriptions.
                false => {
                    let gone = keys.into_iter().zip(&reasons);
                    let gone = gone.filter(|(_, reason)| **reason == Reason::SUCCESS);
                    sessions.with(|sessions| {
                        sessions.restore_subscriptions(key, gone.map(|(name, _)| name))
                    });
                    vec![Reason::SERVER_BUSY; reasons.len()]
                }
            }
        })
    }

    /// Applies the effects of a change of sessions.
    pub(super) async fn apply_effects(
        self,
        sessions: &Partition<Sessions>,
        effects: Effects,
        routes: Routes,
    ) {
        let Effects { wills, forget, present } = effects;
        for (client, keys) in forget {
            loop {
                let item = Item::Forget { client, keys: keys.clone() };
                if routes.dispatch(item).is_ok() {
                    break;
                }
                sleep(RETRY_DELAY).await;
            }
        }
        if let Some((client, online)) = present {
            // Lost presence only affects which member of a group is preferred.
            let _ = routes.dispatch(Item::Presence { client, online });
        }
        self.ensure_timers(sessions, routes);
        if wills.is_empty() {
            return;
        }
        let mut wills = wills.into_iter().map(|PendingWill { message, id }| {
            let messages = vec![Arc::new(message.postponed(now()))];
            (Publication { messages, ..Publication::default() }, id)
        });
        let (delivery_limiter, mut left) =
            (sessions.with(|sessions| sessions.delivery_limiter.clone()), Vec::new());
        loop {
            left.extend(wills.by_ref().take(MAX_WILLS_AT_ONCE - left.len()));
            if left.is_empty() {
                return;
            }
            // One item per will, so that each is accepted or refused separately.
            let calls = left.drain(..).map(|(own, id): (Publication, _)| {
                let topic = own.messages.first().cloned();
                (routes.call(Item::Publish(own)), id, topic)
            });
            let calls: Vec<_> = calls.collect();
            let mut timeout = pin!(disk_timeout(sessions.with(|own| own.wal.timeout())));
            for (call, id, message) in calls {
                let is_routed = match select(call, timeout.as_mut()).await {
                    // It did not fit the delivery limit.
                    Either::Left(Ok(Answer::Published(own))) if own.reasons.is_empty() => {
                        left.push((own, id));
                        continue;
                    }
                    // Refused: the broker is busy. The will is published at most once, or by the next broker
                    // that finds it in the journal.
                    Either::Left(routed) => routed.is_ok(),
                    // The disk is slow. The router has accepted and recorded the will, before any record that
                    // follows here.
                    Either::Right(()) => true,
                };
                if !is_routed {
                    let topic = message.as_ref().map(|own| own.topic.as_str());
                    let what = || Dropped { topic, ..Dropped::default() };
                    sessions
                        .with(|sessions| sessions.counters.drops.add(DropReason::Will, 1, what));
                }
                sessions.with(|sessions| match id {
                    Some(id) if is_routed => sessions.will_published(id),
                    Some(id) => sessions.will_rejected(id),
                    None => (),
                });
            }
            // One permit for all of them: its holder must not wait for another.
            if !left.is_empty() {
                left[0].0.permit = delivery_limiter.acquire(left.len(), 1).await;
            }
        }
    }

    /// Starts the operation that runs the timers, unless it is running.
    fn ensure_timers(self, sessions: &Partition<Sessions>, routes: Routes) {
        let begin = sessions.with(|sessions| {
            // Wakes the running operation for the new next timer.
            drop(sessions.timer_wake.take());
            let begin = !sessions.has_timer_task && sessions.next_due().is_some();
            sessions.has_timer_task |= begin;
            begin
        });
        let partition = sessions.index();
        if begin
            && self
                .0
                .call_partition(partition, move |sessions| self.run_timers(sessions, routes))
                .detach()
                .is_err()
        {
            // Retried when the next client disconnects.
            sessions.with(|sessions| sessions.has_timer_task = false);
        }
    }

    /// Runs timers until none is scheduled.
    async fn run_timers(self, partition: Partition<Sessions>, routes: Routes) {
        let mut drained = std::pin::pin!(draining());
        loop {
            let next = partition.with(|sessions| {
                let next = sessions.next_due();
                sessions.has_timer_task = next.is_some();
                let (sender, receiver) = oneshot::local();
                sessions.timer_wake = next.map(|_| sender);
                next.map(|next| (next, receiver))
            });
            let Some((next, changed)) = next else { return };
            let wait = async {
                select(sleep(next.saturating_sub(now())), changed).await;
            };
            if let Either::Right(()) = select(wait, drained.as_mut()).await {
                return partition.with(|sessions| sessions.has_timer_task = false);
            }
            let effects = partition.with(|sessions| sessions.expire(now()));
            // Boxed, because the call is recursive.
            Box::pin(self.apply_effects(&partition, effects, routes)).await;
        }
    }
}

/// Waits for the router's answer, with the timeout for the disk. Returns `None` on failure.
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
