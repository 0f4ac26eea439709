//! What others ask of sessions: operations on the partition that has them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::stage::{CohortStage, Partition};
use phalanx::sync::event;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{Call, PartitionedStage, select, sleep};
use phalanx_mqtt::{PacketId, Reason};

use crate::drops::DropReason;
use crate::durable::wal::NotDurable;
use crate::durable::{Lsn, disk_timeout};
use crate::routing::delivery::DeliveryBatch;
use crate::routing::{Answer, Item, PendingRetained, Publication, SubscriptionRequest};
use crate::session::close::{Closing, Effects};
use crate::session::key::{ClientKey, partition_of};
use crate::session::open::{Opened, Opening};
use crate::session::outgoing::Answered;
use crate::session::pending_wills::PendingWill;
use crate::session::qos2::Qos2Begun;
use crate::session::table::Sessions;

/// A handle on the routing stage.
pub(crate) type Routes = CohortStage<Item, Answer>;

/// A handle on the session stage.
#[derive(Clone, Copy)]
pub(crate) struct SessionStage(PartitionedStage<Sessions>, usize);

/// What a connection that asks for something to send is told.
pub(crate) enum Pulled {
    /// Send this.
    Bytes(Vec<u8>),
    /// Nothing any more, for this reason.
    Closed(Reason),
}

/// So many wills are published at once.
const MAX_WILLS_AT_ONCE: usize = 256;

/// What could not be handed over for want of room is tried again after so long.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(10);

impl SessionStage {
    /// Of so many partitions.
    pub(crate) fn new(stage: PartitionedStage<Sessions>, partitions: usize) -> Self {
        Self(stage, partitions)
    }

    /// Looks after what there was when the program began.
    pub(crate) fn resume(self, partition: usize, routes: Routes) -> Call<()> {
        self.0.call_partition(partition, move |sessions| async move {
            let effects = sessions.with(|sessions| sessions.resume(now()));
            self.apply_effects(&sessions, effects, routes).await;
        })
    }

    /// Opens a session; what is told of it then is on the disk, if it is kept. Where the disk takes too long its client is
    /// not let in, and the session is left again.
    pub(crate) fn open(self, opening: Opening, routes: Routes) -> Call<Result<Opened, Reason>> {
        let partition = partition_of(&opening.client_id, self.1);
        self.0.call_partition(partition, move |sessions| async move {
            let client = opening.client_id.clone();
            let (opened, effects, lsn) = sessions.with(|sessions| sessions.open(opening, now()));
            self.apply_effects(&sessions, effects, routes).await;
            let opened = opened?;
            if durable_within_timeout(&sessions, lsn).await.is_err() {
                sessions.with(|sessions| sessions.refused_session(&client));
                let closing = Closing { will: false, expiry: None };
                self.leave(&sessions, (opened.key, opened.connection_id), closing, routes).await;
                return Err(Reason::SERVER_UNAVAILABLE);
            }
            Ok(opened)
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

    async fn leave(
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

    /// Hands a batch to a partition's sessions. Nobody has it any more when that is answered.
    pub(crate) fn deliver(self, partition: usize, batch: Arc<DeliveryBatch>) -> Call<()> {
        self.0.call_partition(partition, move |sessions| async move {
            sessions.with(|sessions| sessions.deliver(&batch, now()));
            drop(batch);
        })
    }

    /// Waits for something to send, and takes it into memory that the connection had before.
    pub(crate) fn pull(
        self,
        key: ClientKey,
        connection_id: u64,
        mut spare: Vec<u8>,
    ) -> Call<Pulled> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let pull = poll_fn(|context| {
                let waiting = context.waker();
                sessions.with(|sessions| {
                    sessions.pull((key, connection_id), &mut spare, now(), waiting)
                })
            });
            let (pulled, lsn) = pull.await;
            match durable(&sessions, lsn).await {
                Ok(()) => pulled,
                Err(NotDurable) => Pulled::Closed(Reason::SERVER_UNAVAILABLE),
            }
        })
    }

    /// What a client says of messages that were sent to it.
    pub(crate) fn answered(
        self,
        key: ClientKey,
        connection_id: u64,
        answers: Vec<Answered>,
    ) -> Call<()> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            sessions.with(|sessions| sessions.answered(key, connection_id, &answers));
        })
    }

    /// Notes that a client has begun messages of QoS 2, and says of each whether that is new.
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

    /// Notes that a client will not send messages of QoS 2 again. For each whether it had begun it; none if the disk
    /// does not take that.
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

    /// Messages of QoS 2 that a client has begun have not arrived: when they come again, they are new. Nothing of that
    /// was noted, so there is nothing to wait for.
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

    /// Subscribes a client, and says for each subscription how it went.
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
            // Asked for before anything else runs here, so that a session's end comes behind it.
            let routed = routes.call(Item::Subscribe { client, requests });
            let is_routed = match soon(routed).await {
                // Boxed, as what is seldom is not to be held by all.
                Some(Answer::PendingRetained(pending)) => {
                    Box::pin(send_pending_retained(&sessions, pending, routes)).await
                }
                routed => routed.is_some(),
            };
            match is_routed && durable_within_timeout(&sessions, lsn).await.is_ok() {
                true => reasons,
                // The router may have them or not: the session keeps what they are known by, so that it is
                // asked to forget them in the end.
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

    /// Takes subscriptions of a client away, and says for each how it went.
    pub(crate) fn unsubscribe(
        self,
        key: ClientKey,
        keys: Vec<Box<str>>,
        routes: Routes,
    ) -> Call<Vec<Reason>> {
        self.0.call_partition(key.partition.into(), move |sessions| async move {
            let reasons = sessions.with(|sessions| sessions.unsubscribe(key, &keys));
            let routed = soon(routes.call(Item::Unsubscribe { client: key, keys: keys.clone() }));
            let is_routed = routed.await.is_some();
            let lsn = sessions.with(|sessions| match is_routed {
                true => sessions.unsubscribed(key, &keys, &reasons),
                false => sessions.append(),
            });
            match is_routed && durable_within_timeout(&sessions, lsn).await.is_ok() {
                true => reasons,
                // The router may have them still.
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

    /// Does what a change of sessions has made necessary.
    async fn apply_effects(self, sessions: &Partition<Sessions>, effects: Effects, routes: Routes) {
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
            // Only which member of a group is better asked first depends on it.
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
            // Each by itself, so that each is taken or not.
            let calls = left.drain(..).map(|(own, id): (Publication, _)| {
                let topic = own.messages.first().cloned();
                (routes.call(Item::Publish(own)), id, topic)
            });
            let calls: Vec<_> = calls.collect();
            let mut timeout = pin!(disk_timeout());
            for (call, id, message) in calls {
                let is_routed = match select(call, timeout.as_mut()).await {
                    // There was no room for it, which is said at once.
                    Either::Left(Ok(Answer::Published(own))) if own.reasons.is_empty() => {
                        left.push((own, id));
                        continue;
                    }
                    // Refused where there is room for nothing: a will is sent at most once then, or by the next broker
                    // that finds it in the wal.
                    Either::Left(routed) => routed.is_ok(),
                    // Where the disk takes long the router has it, and has noted it before what is noted here.
                    Either::Right(()) => true,
                };
                if !is_routed {
                    let example = || format!("{:?}", message.map(|own| own.topic.clone()));
                    sessions
                        .with(|sessions| sessions.counters.drops.add(DropReason::Will, 1, example));
                }
                sessions.with(|sessions| match id {
                    Some(id) if is_routed => sessions.will_published(id),
                    Some(id) => sessions.will_rejected(id),
                    None => (),
                });
            }
            // One for all of them, as nobody may wait who has one.
            if !left.is_empty() {
                left[0].0.permit = delivery_limiter.acquire(left.len(), 1).await;
            }
        }
    }

    /// Sees to it that somebody looks after what is due later.
    fn ensure_timers(self, sessions: &Partition<Sessions>, routes: Routes) {
        let begin = sessions.with(|sessions| {
            // It looks again, and waits for whatever is next.
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
            // The next client that leaves tries again.
            sessions.with(|sessions| sessions.has_timer_task = false);
        }
    }

    /// Waits for what is due later, until nothing is.
    async fn run_timers(self, partition: Partition<Sessions>, routes: Routes) {
        let mut drained = std::pin::pin!(draining());
        loop {
            let next = partition.with(|sessions| {
                let next = sessions.next_due();
                sessions.has_timer_task = next.is_some();
                let (trigger, event) = event();
                sessions.timer_wake = next.map(|_| trigger);
                next.map(|next| (next, event))
            });
            let Some((next, changed)) = next else { return };
            let wait = async {
                select(sleep(next.saturating_sub(now())), changed).await;
            };
            if let Either::Right(()) = select(wait, drained.as_mut()).await {
                return partition.with(|sessions| sessions.has_timer_task = false);
            }
            let effects = partition.with(|sessions| sessions.expire(now()));
            // Boxed: it would have itself within it.
            Box::pin(self.apply_effects(&partition, effects, routes)).await;
        }
    }
}

/// Waits until the router has done something, or for as long as a client waits for the disk. None if it has not.
async fn soon(routed: Call<Answer>) -> Option<Answer> {
    match select(routed, disk_timeout()).await {
        Either::Left(Ok(answer)) => Some(answer),
        _ => None,
    }
}

/// Waits until there is room for the retained messages that a client has subscribed to. Whether it is sent them.
async fn send_pending_retained(
    sessions: &Partition<Sessions>,
    mut pending: PendingRetained,
    routes: Routes,
) -> bool {
    let delivery_limiter = sessions.with(|sessions| sessions.delivery_limiter.clone());
    loop {
        let permit = delivery_limiter.acquire(1, 1).await;
        match soon(routes.call(Item::Retained(pending, permit))).await {
            Some(Answer::PendingRetained(again)) => pending = again,
            routed => return routed.is_some(),
        }
    }
}

/// Waits until a change is on the disk, and not for long.
async fn durable_within_timeout(
    sessions: &Partition<Sessions>,
    lsn: Lsn,
) -> Result<(), NotDurable> {
    if lsn == Lsn::default() {
        return Ok(());
    }
    let wal = sessions.with(|sessions| sessions.wal.clone());
    wal.durable_within_timeout(lsn).await
}

/// Waits until a change is on the disk.
async fn durable(sessions: &Partition<Sessions>, lsn: Lsn) -> Result<(), NotDurable> {
    if lsn == Lsn::default() {
        return Ok(());
    }
    let wal = sessions.with(|sessions| sessions.wal.clone());
    wal.durable(lsn).await
}
