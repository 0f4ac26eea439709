//! The routing stage's cohort operation, and the delivery of what it comes to.

use std::sync::Arc;

use phalanx::{Call, Cohort, CohortStage, Graph, Place, Reply, SharedStage, join, now};

use crate::access::{Access, Policy};
use crate::counters::Counters;
use crate::durable::Ledger;
use crate::message::Message;
use crate::routing::delivery::Batch;
use crate::routing::{Answer, Item, Router};
use crate::session::SessionStage;
use crate::session::state::Begun;

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
    let mut batches: Vec<Batch> = (0..partitions).map(|_| Batch::default()).collect();
    let mut answers = Vec::with_capacity(cohort.len());
    let (mut run, mut all_begun) = (Run::default(), Vec::new());
    for (item, reply) in cohort.drain() {
        if let Item::Publish { messages, begun } = item {
            all_begun.extend(begun.clone());
            run.add(messages, (reply, begun));
            continue;
        }
        // What was published before is for those who have subscribed before.
        run.end(router, policy, &mut batches, &mut answers);
        match item {
            Item::Publish { .. } => (),
            Item::System(messages) => router.tell(&messages, &mut batches, policy),
            Item::Subscribe { client, wanted } => {
                let batch = &mut batches[usize::from(client.key.partition)];
                let left = router.subscribe(client, &wanted, (now, policy), batch);
                if left > 0 {
                    counters.dropped.add(left as u64);
                }
            }
            Item::Unsubscribe { client, keys } => router.unsubscribe(client, &keys),
            Item::Forget { client, keys } => router.forget(client, &keys),
            Item::Presence { client, online } => router.present(client, online),
        }
        answers.push((reply, Answer::Done));
    }
    run.end(router, policy, &mut batches, &mut answers);
    // Before anybody is handed anything: what sessions do then is noted behind it.
    let ticket = router.note();
    all_begun.iter().for_each(|begun: &Arc<Begun>| begun.set_routed());
    if ledger.is_durable(ticket) && batches.iter().all(|batch| batch.deliveries.is_empty()) {
        return answer_all(answers);
    }
    let ledger = ledger.clone();
    // Refused where the processor is full: the replies are dropped, so nobody takes a message for delivered.
    let _ = delivery.dispatch(move |_| async move {
        let each = batches.into_iter().enumerate();
        let calls: Vec<Call<()>> = each
            .filter(|(_, batch)| !batch.deliveries.is_empty())
            .map(|(partition, batch)| sessions.deliver(partition, batch))
            .collect();
        let are_delivered = join(calls).await.iter().all(Result::is_ok);
        if are_delivered && ledger.durable(ticket).await.is_ok() {
            answer_all(answers);
        }
    });
}

/// Messages of several publishers, with no change of the table between them: routed in one pass.
#[derive(Default)]
struct Run {
    messages: Vec<Arc<Message>>,
    /// Who has published them, and how many, and who is told of those of QoS 2.
    owed: Vec<(Reply<Answer>, usize, Option<Arc<Begun>>)>,
}

impl Run {
    fn add(
        &mut self,
        mut messages: Vec<Arc<Message>>,
        (reply, begun): (Reply<Answer>, Option<Arc<Begun>>),
    ) {
        self.owed.push((reply, messages.len(), begun));
        match self.messages.is_empty() {
            true => self.messages = messages,
            false => self.messages.append(&mut messages),
        }
    }

    fn end(
        &mut self,
        router: &mut Router,
        policy: &Policy,
        batches: &mut [Batch],
        answers: &mut Vec<(Reply<Answer>, Answer)>,
    ) {
        if self.owed.is_empty() {
            return;
        }
        let count = |batches: &[Batch]| batches.iter().map(|batch| batch.deliveries.len()).sum();
        let before: usize = count(batches);
        let mut reasons = router.publish(&self.messages, batches, policy).into_iter();
        let after: usize = count(batches);
        let each = (after - before).div_ceil(self.messages.len().max(1));
        let mut messages = self.messages.as_slice();
        for (reply, count, begun) in self.owed.drain(..) {
            let reasons: Vec<_> = reasons.by_ref().take(count).collect();
            let (own, others) = messages.split_at(count);
            messages = others;
            if let Some(begun) = begun
                && reasons.iter().any(|reason| reason.is_failure())
            {
                // Before they are said to be routed: its client may be back already, and send them again.
                let refused = own.iter().zip(&reasons).filter(|(_, reason)| reason.is_failure());
                begun.refuse(refused.filter_map(|(message, _)| message.begun.map(|(_, id)| id)));
            }
            answers.push((reply, Answer::Published(reasons, each)));
        }
        self.messages.clear();
    }
}

fn answer_all(answers: Vec<(Reply<Answer>, Answer)>) {
    answers.into_iter().for_each(|(reply, answer)| reply.send(answer));
}
