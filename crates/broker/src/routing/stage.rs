//! The routing stage's cohort operation, and the delivery of its result.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use arc_swap::Cache;
use phalanx::stage::{Cohort, CohortStage, StageSlot};
use phalanx::time::now;
use phalanx::{Graph, SharedStage};

use crate::access::{Access, Policy};
use crate::counters::Counters;
use crate::durable::wal::NotDurable;
use crate::durable::{Lsn, Wal};
use crate::limits::delivery_limiter::DeliveryLimiter;
use crate::limits::settings::LiveLimits;
use crate::requests::{Answer, Item, PendingRetained};
use crate::routing::retained::RetainedBudget;
use crate::routing::router::Router;
use crate::routing::routing_batch::RoutingBatch;
use crate::session::operations::SessionStage;

/// Declares the stage. For each cohort, it sends one batch to each session partition.
pub(crate) fn declare(
    graph: &mut Graph,
    place: StageSlot,
    (router, access, counters): (Router, &Access, &Counters),
    (partitions, limits): (usize, LiveLimits),
    delivery: SharedStage<()>,
    (sessions, wal, delivery_limiter): (SessionStage, Wal, DeliveryLimiter),
) -> CohortStage<Item, Answer> {
    let state = (router, Cache::new(access.clone()), limits);
    let counters = counters.clone();
    graph.declare(place).exclusive_cohort(state, move |(router, policy, limits), cohort| {
        let policy = policy.load();
        limits.refresh();
        router.set_queued_messages(limits.queued_messages);
        let context = (sessions, &wal, &delivery_limiter);
        route(router, cohort, policy, partitions, delivery, context);
        router.tend();
        let retained = router.retained();
        counters.retained.set(retained.count() as i64);
        counters.retained_bytes.set(retained.bytes() as i64);
    })
}

/// Routes a cohort. A publisher is answered when its messages were delivered to the sessions and, if durability is
/// promised, are on disk.
fn route(
    router: &mut Router,
    cohort: &mut Cohort<Item, Answer>,
    policy: &Policy,
    partitions: usize,
    delivery: SharedStage<()>,
    (sessions, wal, delivery_limiter): (SessionStage, &Wal, &DeliveryLimiter),
) {
    let now = now();
    let mut batch = RoutingBatch::new(partitions, delivery_limiter);
    let mut budget = RetainedBudget::default();
    // Recorded changes cannot be refused, so the operation that delivers them is reserved before they are recorded.
    let place = wal.is_enabled().then(|| Reserved::new(delivery, sessions, wal));
    let has_none = place.as_ref().is_some_and(Option::is_none);
    for (item, reply) in cohort.drain() {
        if has_none && item.may_append_or_deliver() {
            // Dropping the reply reports that the broker is busy.
            continue;
        }
        if let Item::Publish(own) = item {
            batch.add(own, reply, delivery_limiter);
            continue;
        }
        // Messages published before a change of the table are routed before it.
        batch.route(router, (policy, now));
        batch.settle(router);
        let mut is_durable = false;
        match item {
            Item::Publish(_) => (),
            Item::System(messages) => router.tell(&messages, &mut batch.batches, (policy, now)),
            Item::Subscribe { client, requests } => {
                is_durable = client.durable_id != 0;
                let mut pending = router.subscribe(client, requests);
                if !pending.requests.is_empty()
                    && (delivery_limiter.must_wait(None)
                        || batch.capacity_left() == 0
                        || !retained(router, &mut batch, &mut pending, (now, policy), &mut budget))
                {
                    reply.send(Answer::PendingRetained(pending));
                    continue;
                }
            }
            Item::Retained(mut pending, permit) => {
                batch.add_permit(permit);
                is_durable = router.is_durable(pending.client);
                if batch.capacity_left() == 0
                    || !retained(router, &mut batch, &mut pending, (now, policy), &mut budget)
                {
                    reply.send(Answer::PendingRetained(pending));
                    continue;
                }
            }
            Item::Unsubscribe { client, keys } => router.unsubscribe(client, &keys),
            Item::Forget { client, keys, is_last: false } => router.unsubscribe(client, &keys),
            Item::Forget { client, keys, is_last: true } => router.forget(client, &keys),
            Item::Presence { client, online } => router.present(client, online),
            Item::Members { node, counts } => router.set_online(node, counts),
            Item::Browse(request) => {
                let (messages, next) = router.browse(&request, now);
                reply.send(Answer::Retained(messages, next));
                continue;
            }
            Item::HandOver(own) => router.hand_over(own, &mut batch.batches, (policy, now)),
            Item::Cut(own) => {
                let (cut, known) = *own;
                let nodes = router.cut(&cut, &known, &mut batch.batches);
                batch.add_answer(reply, Answer::Cut(nodes));
                continue;
            }
            Item::Subscriptions { client, keys } => {
                reply.send(Answer::Subscriptions(router.subscriptions(client, keys)));
                continue;
            }
            Item::Reserve(count) => {
                reply.send(Answer::Reserved(router.reserve(count)));
                continue;
            }
            Item::Sweep => {
                reply.send(Answer::Swept(router.sweep(now)));
                continue;
            }
            Item::Changed(request) => {
                let (messages, next) = router.retained().changed(&request);
                reply.send(Answer::Retained(messages, next));
                continue;
            }
        }
        batch.add_completed(reply, is_durable);
    }
    batch.route(router, (policy, now));
    batch.begin();
    // Before the deliveries, because the sessions' records must follow the router's.
    let lsn = router.end_cohort();
    let is_durable = wal.is_durable(lsn);
    if is_durable {
        batch.deliver_here(sessions);
    }
    // After the deliveries, which this step would delay.
    batch.settle(router);
    if is_durable && batch.is_for_nobody() {
        batch.set_routed();
        return batch.answer();
    }
    match place.flatten() {
        Some(place) => place.begin(batch, lsn),
        // If the processor is full, the replies are dropped, and no publisher believes that its messages were delivered.
        None => drop(delivery.dispatch({
            let wal = wal.clone();
            move |_| deliver(batch, lsn, sessions, wal)
        })),
    }
}

/// Delivers a routed batch, and answers.
async fn deliver(mut batch: Box<RoutingBatch>, lsn: Lsn, sessions: SessionStage, wal: Wal) {
    if !batch.deliver(sessions).await {
        return;
    }
    // After the delivery, because the next messages of a reconnected client must follow these.
    batch.set_routed();
    if !wal.is_durable(lsn) {
        batch.answer_unkept(wal.is_backlogged());
    }
    match wal.durable_with_progress(lsn).await {
        Ok(()) => batch.answer(),
        Err(NotDurable) => batch.answer_late(),
    }
}

/// A reserved operation, which delivers the batch if it has deliveries.
struct Reserved(Handed);

type Handed = Rc<Cell<Option<(Box<RoutingBatch>, Lsn)>>>;

/// Maximum number of cells kept for reuse.
const POOL_CAP: usize = 8;

thread_local! {
    static POOL: RefCell<Vec<Handed>> = const { RefCell::new(Vec::new()) };
}

impl Reserved {
    /// `None` if the processor has no capacity for the operation.
    fn new(stage: SharedStage<()>, sessions: SessionStage, wal: &Wal) -> Option<Self> {
        let handed = POOL.with_borrow_mut(Vec::pop).unwrap_or_default();
        let (own, wal) = (Self(handed.clone()), wal.clone());
        let delivers = stage.dispatch(move |_| async move {
            let batch = handed.take();
            POOL.with_borrow_mut(|idle| {
                if idle.len() < POOL_CAP {
                    idle.push(handed);
                }
            });
            if let Some((batch, lsn)) = batch {
                deliver(batch, lsn, sessions, wal).await;
            }
        });
        delivers.is_ok().then_some(own)
    }

    fn begin(self, batch: Box<RoutingBatch>, lsn: Lsn) {
        self.0.set(Some((batch, lsn)));
    }
}

/// Adds deliveries of retained messages to the batch. Returns whether none is left.
fn retained(
    router: &mut Router,
    batch: &mut RoutingBatch,
    pending: &mut PendingRetained,
    at: (Duration, &Policy),
    budget: &mut RetainedBudget,
) -> bool {
    let deliveries = &mut batch.batches[usize::from(pending.client.partition)];
    router.send_retained(pending, at, deliveries, budget)
}
