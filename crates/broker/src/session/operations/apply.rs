//! Applies the effects of session changes on other stages, and runs a partition's timers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::stage::Partition;
use phalanx::sync::oneshot;
use phalanx::task::{Either, yield_now};
use phalanx::time::now;
use phalanx::{select, sleep};

use crate::durable::disk_timeout;
use crate::events::drops::{DropReason, Dropped};
use crate::model::session::Session;
use crate::requests::{Answer, Item, Publication, Routes};
use crate::session::operations::{RETRY_DELAY, SessionStage};
use crate::session::partition::Sessions;
use crate::session::state::effects::Effects;
use crate::session::state::pending_wills::PendingWill;

/// Maximum number of wills published at once.
const MAX_WILLS_AT_ONCE: usize = 256;

/// Pause between two chunks of an ended session's subscriptions. The router removes a chunk in less time.
const CHUNK_PAUSE: Duration = Duration::from_millis(10);

impl SessionStage {
    /// Applies the effects of a session change on other stages.
    pub(in crate::session) async fn apply_effects(
        self,
        sessions: &Partition<Sessions>,
        effects: Effects,
        routes: Routes,
    ) {
        let Effects { wills, forget, present } = effects;
        for (client, chunks) in forget {
            let mut left = chunks.into_iter().peekable();
            while let Some(keys) = left.next() {
                let is_last = left.peek().is_none();
                let item = || Item::Forget { client, keys: keys.clone(), is_last };
                while routes.dispatch(item()).is_err() {
                    sleep(RETRY_DELAY).await;
                }
                if !is_last {
                    // The pause lets the router serve others.
                    sleep(CHUNK_PAUSE).await;
                }
            }
        }
        if let Some((client, mut online)) = present {
            while routes.dispatch(Item::Presence { client, online }).is_err() {
                sleep(RETRY_DELAY).await;
                // The client may have connected or disconnected meanwhile.
                let is_there = |session: &mut Session| session.attachment.is_some();
                online = sessions.with(|sessions| sessions.get(client).is_some_and(is_there));
            }
        }
        self.ensure_timers(sessions, routes).await;
        if wills.is_empty() {
            return;
        }
        let publication =
            |message| Publication { messages: vec![message], ..Publication::default() };
        let mut wills = wills.into_iter().map(|PendingWill { message, id }| {
            (publication(Arc::new(message.postponed(now()))), id)
        });
        let (delivery_limiter, mut left) =
            (sessions.with(|sessions| sessions.delivery_limiter.clone()), Vec::new());
        loop {
            let mut is_busy = false;
            left.extend(wills.by_ref().take(MAX_WILLS_AT_ONCE - left.len()));
            if left.is_empty() {
                return;
            }
            // One item per will, so that each is accepted or refused separately.
            let calls = left.drain(..).map(|(publication, id): (Publication, _)| {
                let message = publication.messages.first().cloned();
                (routes.call(Item::Publish(publication)), id, message)
            });
            let calls: Vec<_> = calls.collect();
            let mut timeout = pin!(disk_timeout(sessions.with(|sessions| sessions.wal.timeout())));
            for (call, id, message) in calls {
                let is_routed = match select(call, timeout.as_mut()).await {
                    // The will did not fit the delivery limit.
                    Either::Left(Ok(Answer::Published(own))) if own.reasons.is_empty() => {
                        left.push((own, id));
                        continue;
                    }
                    // The broker was busy and refused the will. A will in the journal is retried.
                    Either::Left(Err(_)) if id.is_some() && !is_draining() => {
                        left.extend(message.map(|message| (publication(message), id)));
                        is_busy = true;
                        continue;
                    }
                    // Other wills are published at most once. At shutdown, wills in the journal are left to the next
                    // start.
                    Either::Left(routed) => routed.is_ok(),
                    // The disk is slow, but the router has accepted and recorded the will, before any record that follows
                    // here.
                    Either::Right(()) => true,
                };
                if !is_routed {
                    let topic = message.as_ref().map(|message| message.topic.as_str());
                    let what = || Dropped { topic, ..Dropped::default() };
                    sessions
                        .with(|sessions| sessions.counters.drops.add(DropReason::Will, 1, what));
                }
                if let Some(id) = id.filter(|_| is_routed) {
                    sessions.with(|sessions| sessions.will_published(id));
                }
            }
            if is_busy {
                sleep(RETRY_DELAY).await;
            }
            // One permit for all remaining wills, because the holder of a permit must not wait for another one.
            if !left.is_empty() {
                left[0].0.permit = delivery_limiter.acquire(left.len(), 1).await;
            }
        }
    }

    /// Starts the operation that runs the timers, unless it is running.
    async fn ensure_timers(self, sessions: &Partition<Sessions>, routes: Routes) {
        loop {
            let begin = sessions.with(|sessions| {
                // Wakes the running operation, so that it notices an earlier timer.
                drop(sessions.timer_wake.take());
                let begin = !sessions.has_timer_task && sessions.next_due().is_some();
                sessions.has_timer_task |= begin;
                begin
            });
            if !begin {
                return;
            }
            let run = move |sessions| self.run_timers(sessions, routes);
            if self.0.call_partition(sessions.index(), run).detach().is_ok() {
                return;
            }
            sessions.with(|sessions| sessions.has_timer_task = false);
            sleep(RETRY_DELAY).await;
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
                match next.saturating_sub(now()) {
                    // More timers are due than one step processes. Other operations run in between.
                    Duration::ZERO => yield_now().await,
                    left => _ = select(sleep(left), changed).await,
                }
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
