//! Clients return while the sessions of another node are added.

use std::sync::Mutex;

use phalanx::sim;
use phalanx::task::yield_now;
use phalanx::{Graph, SharedStage, sleep};

use super::*;
use crate::durable::recovery::RecoveredSession;
use crate::lock::lock;
use crate::requests::{Answer, FirstIds, Item, Routes};
use crate::session::operations::SessionStage;
use crate::session::partition::install::{Added, Arriving};

fn arriving() -> Arriving {
    let request = SubscriptionRequest {
        key: "$share/g/t".into(),
        content: None,
        options: SubscribeOptions::default(),
        identifier: None,
        covered: Covered::UNKNOWN,
        only_at_most_once: false,
    };
    let session = RecoveredSession::holder("c".into(), Vec::new());
    Arriving { session, requests: vec![request], place: None }
}

/// Declares a router that records presence, and takes a second for a subscription.
fn router(graph: &mut Graph, control: SharedStage<()>, present: Arc<Mutex<Vec<bool>>>) -> Routes {
    graph.stage("routing").exclusive_cohort((), move |_, cohort| {
        for (item, reply) in cohort.drain() {
            match item {
                Item::Reserve(_) => {
                    reply.send(Answer::Reserved(FirstIds { message: 1, delivery: 1 }));
                }
                Item::Subscribe { .. } => drop(control.dispatch(move |_| async move {
                    sleep(Duration::from_secs(1)).await;
                    reply.send(Answer::Done);
                })),
                Item::Presence { online, .. } => lock(&present).push(online),
                _ => unreachable!("not asked for"),
            }
        }
    })
}

#[test]
fn a_client_that_connects_while_its_session_is_added_stays_present() {
    let present = Arc::new(Mutex::new(Vec::new()));
    let of_router = present.clone();
    sim::run(0, move |world| {
        world.set_processors(1);
        let mut graph = Graph::new();
        let control: SharedStage<()> = graph.stage("control").shared(());
        let stage = graph.stage("sessions").partitions(1).partitioned(|_| sessions());
        let stage = SessionStage::new(stage, 1);
        let routes = router(&mut graph, control, of_router);
        graph.calls(control, (stage, routes));
        graph.calls(stage, (stage, routes));
        graph.calls(routes, control);
        world.program(graph, move |_| {
            control.dispatch(move |_| async move {
                let added = stage.install(Arc::new(Mutex::new(Some(arriving()))), routes);
                let is_there = stage.0.call_partition(0, |sessions| async move {
                    let find =
                        |sessions: &mut Sessions| sessions.at(0).map(|session| session.shared = 1);
                    while sessions.with(find).is_none() {
                        yield_now().await;
                    }
                });
                is_there.await.unwrap();
                assert!(
                    stage.open(opening(), routes).await.unwrap().is_ok_and(|opened| opened.present)
                );
                assert_eq!(added.await.unwrap(), Some(Added::Yes));
            })?;
            Ok(())
        });
    });
    assert_eq!(*lock(&present), [true, true]);
}
