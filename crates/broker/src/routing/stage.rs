//! The routing stage's cohort operation, and the delivery of what it comes to.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use phalanx::stage::{Cohort, CohortStage, Place};
use phalanx::time::now;
use phalanx::{Graph, SharedStage};

use crate::access::{Access, Policy};
use crate::counters::Counters;
use crate::durable::ledger::Broken;
use crate::durable::{Ledger, Ticket};
use crate::routing::pass::Pass;
use crate::routing::{Answer, Item, Owing, Router, UnderWay};
use crate::session::SessionStage;

/// Declares the stage; what it routes is handed to the sessions' partitions, a batch for each and cohort.
pub(crate) fn declare(
    graph: &mut Graph,
    place: Place,
    (router, access, counters): (Router, &Access, &Counters),
    partitions: usize,
    delivery: SharedStage<()>,
    (sessions, ledger, under_way): (SessionStage, Ledger, UnderWay),
) -> CohortStage<Item, Answer> {
    let state = (router, access.current());
    let (access, counters) = (access.clone(), counters.clone());
    graph.stage_at(place).exclusive_cohort(state, move |(router, policy), cohort| {
        let policy = policy.refresh(&access);
        let kept = (sessions, &ledger, &under_way);
        route(router, cohort, policy, partitions, delivery, kept);
        counters.retained.set(router.retained());
    })
}

/// One pass over a cohort. Callers are answered once what they have published is with those whom it is for, and on
/// the disk if anything is promised of it that may be kept.
fn route(
    router: &mut Router,
    cohort: &mut Cohort<Item, Answer>,
    policy: &Policy,
    partitions: usize,
    delivery: SharedStage<()>,
    (sessions, ledger, under_way): (SessionStage, &Ledger, &UnderWay),
) {
    let now = now();
    let mut pass = Pass::new(partitions, under_way);
    // What is noted has happened and cannot be refused: so whoever delivers it has its place before.
    let place = ledger.keeps().then(|| Reserved::new(delivery, sessions, ledger));
    let has_none = place.as_ref().is_some_and(Option::is_none);
    for (item, reply) in cohort.drain() {
        if has_none && item.may_be_noted() {
            // The reply is dropped: whoever has asked is told that there is no room.
            continue;
        }
        if let Item::Publish(own) = item {
            pass.add(own, reply, under_way);
            continue;
        }
        // What was published before is for those who have subscribed before.
        pass.route(router, (policy, now));
        let mut is_kept = false;
        match item {
            Item::Publish(_) => (),
            Item::System(messages) => router.tell(&messages, &mut pass.batches, (policy, now)),
            Item::Subscribe { client, wanted } => {
                is_kept = client.kept != 0;
                let owing = router.subscribe(client, wanted);
                if !owing.wanted.is_empty() {
                    if under_way.holds_back(None) || pass.room() == 0 {
                        reply.send(Answer::Owing(owing));
                        continue;
                    }
                    retained(router, &mut pass, &owing, (now, policy));
                }
            }
            Item::Retained(owing, share) => {
                pass.is_let_in(share);
                if pass.room() == 0 {
                    reply.send(Answer::Owing(owing));
                    continue;
                }
                is_kept = router.is_kept(owing.client);
                retained(router, &mut pass, &owing, (now, policy));
            }
            Item::Unsubscribe { client, keys } => router.unsubscribe(client, &keys),
            Item::Forget { client, keys } => router.forget(client, &keys),
            Item::Presence { client, online } => router.present(client, online),
        }
        pass.is_done(reply, is_kept);
    }
    pass.route(router, (policy, now));
    pass.begin();
    router.tend();
    // Before anybody is handed anything: what sessions do then is noted behind it.
    let ticket = router.note();
    if ledger.is_durable(ticket) && pass.is_for_nobody() {
        pass.set_routed();
        return pass.answer();
    }
    match place.flatten() {
        Some(place) => place.begin(pass, ticket),
        // Refused where the processor is full: the replies are dropped, so nobody takes a message for delivered.
        None => drop(delivery.dispatch({
            let ledger = ledger.clone();
            move |_| deliver(pass, ticket, sessions, ledger)
        })),
    }
}

/// Delivers what a pass has come to, and answers.
async fn deliver(mut pass: Box<Pass>, ticket: Ticket, sessions: SessionStage, ledger: Ledger) {
    if !pass.deliver(sessions).await {
        return;
    }
    // Not before: what a client that is back sends next is to come behind these.
    pass.set_routed();
    if !ledger.is_durable(ticket) {
        pass.answer_unkept(ledger.is_long());
    }
    match ledger.durable_while_written(ticket).await {
        Ok(()) => pass.answer(),
        Err(Broken) => pass.answer_late(),
    }
}

/// The place of an operation that will deliver what a pass comes to, if that is anything.
struct Reserved(Handed);

type Handed = Rc<Cell<Option<(Box<Pass>, Ticket)>>>;

/// So many are used again.
const KEPT: usize = 8;

thread_local! {
    static IDLE: RefCell<Vec<Handed>> = const { RefCell::new(Vec::new()) };
}

impl Reserved {
    /// None if there is no room for it.
    fn new(stage: SharedStage<()>, sessions: SessionStage, ledger: &Ledger) -> Option<Self> {
        let handed = IDLE.with_borrow_mut(Vec::pop).unwrap_or_default();
        let (own, ledger) = (Self(handed.clone()), ledger.clone());
        let delivers = stage.dispatch(move |_| async move {
            let pass = handed.take();
            IDLE.with_borrow_mut(|idle| {
                if idle.len() < KEPT {
                    idle.push(handed);
                }
            });
            if let Some((pass, ticket)) = pass {
                deliver(pass, ticket, sessions, ledger).await;
            }
        });
        delivers.is_ok().then_some(own)
    }

    fn begin(self, pass: Box<Pass>, ticket: Ticket) {
        self.0.set(Some((pass, ticket)));
    }
}

/// Adds the retained messages to a pass that somebody is to be sent.
fn retained(
    router: &mut Router,
    pass: &mut Pass,
    owing: &Owing,
    (now, policy): (Duration, &Policy),
) {
    let batch = &mut pass.batches[usize::from(owing.client.partition)];
    router.send_retained(owing, (now, policy), batch);
}
