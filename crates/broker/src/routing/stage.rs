//! The routing stage's cohort operation, and the delivery of what it comes to.

use phalanx::{Cohort, CohortStage, Graph, Place, SharedStage, now};

use crate::access::{Access, Policy};
use crate::counters::Counters;
use crate::durable::Ledger;
use crate::routing::pass::Pass;
use crate::routing::{Answer, Item, Router};
use crate::session::SessionStage;

/// Declares the stage; what it routes is handed to the sessions' partitions, a batch for each and cohort.
pub(crate) fn declare(
    graph: &mut Graph,
    place: Place,
    (router, access, counters): (Router, &Access, &Counters),
    partitions: usize,
    delivery: SharedStage<()>,
    (sessions, ledger): (SessionStage, Ledger),
) -> CohortStage<Item, Answer> {
    let state = (router, access.current());
    let (access, counters) = (access.clone(), counters.clone());
    graph.stage_at(place).in_order().exclusive_cohort(state, move |(router, policy), cohort| {
        let policy = policy.refresh(&access);
        route(router, cohort, (policy, &counters), partitions, delivery, (sessions, &ledger));
        counters.retained.set(router.retained());
    })
}

/// One pass over a cohort. Callers are answered once what they have published is with those whom it is for, and on
/// the disk if somebody's session is kept.
fn route(
    router: &mut Router,
    cohort: &mut Cohort<Item, Answer>,
    (policy, counters): (&Policy, &Counters),
    partitions: usize,
    delivery: SharedStage<()>,
    (sessions, ledger): (SessionStage, &Ledger),
) {
    let now = now();
    let mut pass = Pass::new(partitions);
    for (item, reply) in cohort.drain() {
        if let Item::Publish(own) = item {
            pass.add(own, reply);
            continue;
        }
        // What was published before is for those who have subscribed before.
        pass.route(router, (policy, now));
        match item {
            Item::Publish(_) => (),
            Item::System(messages) => router.tell(&messages, &mut pass.batches, (policy, now)),
            Item::Subscribe { client, wanted } => {
                let batch = &mut pass.batches[usize::from(client.key.partition)];
                let left = router.subscribe(client, &wanted, (now, policy), batch);
                if left > 0 {
                    counters.dropped.add(left as u64);
                }
            }
            Item::Unsubscribe { client, keys } => router.unsubscribe(client, &keys),
            Item::Forget { client, keys } => router.forget(client, &keys),
            Item::Presence { client, online } => router.present(client, online),
        }
        pass.answers.push((reply, Answer::Done));
    }
    pass.route(router, (policy, now));
    router.tend();
    // Before anybody is handed anything: what sessions do then is noted behind it.
    let ticket = router.note();
    if ledger.is_durable(ticket) && pass.is_for_nobody() {
        pass.set_routed();
        return pass.answer();
    }
    let ledger = ledger.clone();
    // Refused where the processor is full: the replies are dropped, so nobody takes a message for delivered.
    let _ = delivery.dispatch(move |_| async move {
        if !pass.deliver(sessions).await {
            return;
        }
        // Not before: what a client that is back sends next is to come behind these.
        pass.set_routed();
        if ledger.durable(ticket).await.is_ok() {
            pass.answer();
        }
    });
}
