//! The routing stage's cohort operation, and the delivery of what it comes to.

use phalanx::{Call, Cohort, CohortStage, Graph, Place, Reply, SharedStage, join, now};

use crate::config::Limits;
use crate::routing::delivery::Batch;
use crate::routing::{Answer, Item, Router};
use crate::session::SessionStage;

/// Declares the stage; what it routes is handed to the sessions' partitions, a batch for each and cohort.
pub(crate) fn declare(
    graph: &mut Graph,
    place: Place,
    limits: &Limits,
    partitions: usize,
    delivery: SharedStage<()>,
    sessions: SessionStage,
) -> CohortStage<Item, Answer> {
    let router = Router::new(limits);
    graph.stage_at(place).in_order().exclusive_cohort(router, move |router, cohort| {
        route(router, cohort, partitions, delivery, sessions);
    })
}

/// One pass over a cohort. Callers are answered once what they have published is with those whom it is for.
fn route(
    router: &mut Router,
    cohort: &mut Cohort<Item, Answer>,
    partitions: usize,
    delivery: SharedStage<()>,
    sessions: SessionStage,
) {
    let now = now();
    let mut batches: Vec<Batch> = (0..partitions).map(|_| Batch::default()).collect();
    let mut answers = Vec::with_capacity(cohort.len());
    for (item, reply) in cohort.drain() {
        let answer = match item {
            Item::Publish(messages) => {
                let route = |message| router.publish(message, &mut batches);
                Answer::Published(messages.iter().map(route).collect())
            }
            Item::Subscribe { client, wanted } => {
                router.subscribe(client, &wanted, now, &mut batches[usize::from(client.partition)]);
                Answer::Done
            }
            Item::Unsubscribe { client, filters } => {
                router.unsubscribe(client, &filters);
                Answer::Done
            }
            Item::Forget { client, filters } => {
                router.forget(client, &filters);
                Answer::Done
            }
            Item::Presence { client, online } => {
                router.present(client, online);
                Answer::Done
            }
        };
        answers.push((reply, answer));
    }
    if batches.iter().all(|batch| batch.deliveries.is_empty()) {
        return answer_all(answers);
    }
    // Refused where the processor is full: the replies are dropped, so nobody takes a message for delivered.
    let _ = delivery.dispatch(move |_| async move {
        let each = batches.into_iter().enumerate();
        let calls: Vec<Call<()>> = each
            .filter(|(_, batch)| !batch.deliveries.is_empty())
            .map(|(partition, batch)| sessions.deliver(partition, batch))
            .collect();
        if join(calls).await.iter().all(Result::is_ok) {
            answer_all(answers);
        }
    });
}

fn answer_all(answers: Vec<(Reply<Answer>, Answer)>) {
    answers.into_iter().for_each(|(reply, answer)| reply.send(answer));
}
