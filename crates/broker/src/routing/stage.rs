//! The routing stage's cohort operation, and the delivery of what it comes to.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use arc_swap::Cache;
use phalanx::stage::{Cohort, CohortStage, Place};
use phalanx::time::now;
use phalanx::{Graph, SharedStage};

use crate::access::{Access, Policy};
use crate::counters::Counters;
use crate::durable::wal::NotDurable;
use crate::durable::{Lsn, Wal};
use crate::routing::routing_batch::RoutingBatch;
use crate::routing::{Answer, DeliveryLimiter, Item, PendingRetained, Router};
use crate::session::SessionStage;

/// Declares the stage; what it routes is handed to the sessions' partitions, a batch for each and cohort.
pub(crate) fn declare(
    graph: &mut Graph,
    place: Place,
    (router, access, counters): (Router, &Access, &Counters),
    partitions: usize,
    delivery: SharedStage<()>,
    (sessions, wal, delivery_limiter): (SessionStage, Wal, DeliveryLimiter),
) -> CohortStage<Item, Answer> {
    let state = (router, Cache::new(access.clone()));
    let counters = counters.clone();
    graph.stage_at(place).exclusive_cohort(state, move |(router, policy), cohort| {
        let policy = policy.load();
        let context = (sessions, &wal, &delivery_limiter);
        route(router, cohort, policy, partitions, delivery, context);
        counters.retained.set(router.retained());
    })
}

/// One batch over a cohort. Callers are answered once what they have published is with those whom it is for, and on
/// the disk if anything is promised of it that may be kept.
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
    // What is noted has happened and cannot be refused: so whoever delivers it has its place before.
    let place = wal.is_enabled().then(|| Reserved::new(delivery, sessions, wal));
    let has_none = place.as_ref().is_some_and(Option::is_none);
    for (item, reply) in cohort.drain() {
        if has_none && item.may_be_noted() {
            // The reply is dropped: whoever has asked is told that there is no room.
            continue;
        }
        if let Item::Publish(own) = item {
            batch.add(own, reply, delivery_limiter);
            continue;
        }
        // What was published before is for those who have subscribed before.
        batch.route(router, (policy, now));
        let mut is_durable = false;
        match item {
            Item::Publish(_) => (),
            Item::System(messages) => router.tell(&messages, &mut batch.batches, (policy, now)),
            Item::Subscribe { client, requests } => {
                is_durable = client.durable_id != 0;
                let pending = router.subscribe(client, requests);
                if !pending.requests.is_empty() {
                    if delivery_limiter.must_wait(None) || batch.room() == 0 {
                        reply.send(Answer::PendingRetained(pending));
                        continue;
                    }
                    retained(router, &mut batch, &pending, (now, policy));
                }
            }
            Item::Retained(pending, permit) => {
                batch.is_let_in(permit);
                if batch.room() == 0 {
                    reply.send(Answer::PendingRetained(pending));
                    continue;
                }
                is_durable = router.is_durable(pending.client);
                retained(router, &mut batch, &pending, (now, policy));
            }
            Item::Unsubscribe { client, keys } => router.unsubscribe(client, &keys),
            Item::Forget { client, keys } => router.forget(client, &keys),
            Item::Presence { client, online } => router.present(client, online),
        }
        batch.is_done(reply, is_durable);
    }
    batch.route(router, (policy, now));
    batch.begin();
    router.tend();
    // Before anybody is handed anything: what sessions do then is noted behind it.
    let lsn = router.end_cohort();
    if wal.is_durable(lsn) && batch.is_for_nobody() {
        batch.set_routed();
        return batch.answer();
    }
    match place.flatten() {
        Some(place) => place.begin(batch, lsn),
        // Refused where the processor is full: the replies are dropped, so nobody takes a message for delivered.
        None => drop(delivery.dispatch({
            let wal = wal.clone();
            move |_| deliver(batch, lsn, sessions, wal)
        })),
    }
}

/// Delivers what a batch has come to, and answers.
async fn deliver(mut batch: Box<RoutingBatch>, lsn: Lsn, sessions: SessionStage, wal: Wal) {
    if !batch.deliver(sessions).await {
        return;
    }
    // Not before: what a client that is back sends next is to come behind these.
    batch.set_routed();
    if !wal.is_durable(lsn) {
        batch.answer_unkept(wal.is_backlogged());
    }
    match wal.durable_with_progress(lsn).await {
        Ok(()) => batch.answer(),
        Err(NotDurable) => batch.answer_late(),
    }
}

/// The place of an operation that will deliver what a batch comes to, if that is anything.
struct Reserved(Handed);

type Handed = Rc<Cell<Option<(Box<RoutingBatch>, Lsn)>>>;

/// So many are used again.
const POOL_CAP: usize = 8;

thread_local! {
    static POOL: RefCell<Vec<Handed>> = const { RefCell::new(Vec::new()) };
}

impl Reserved {
    /// None if there is no room for it.
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

/// Adds the retained messages to a batch that somebody is to be sent.
fn retained(
    router: &mut Router,
    batch: &mut RoutingBatch,
    pending: &PendingRetained,
    (now, policy): (Duration, &Policy),
) {
    let deliveries = &mut batch.batches[usize::from(pending.client.partition)];
    router.send_retained(pending, (now, policy), deliveries);
}
