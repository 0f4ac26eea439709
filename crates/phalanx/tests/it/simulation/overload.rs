//! Overload in virtual time: admission rejects requests during overload and none afterwards. Not every seed's
//! schedule causes congestion.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use phalanx::overload::Ingress;
use phalanx::sim::{self, busy_for};
use phalanx::{Graph, SharedStage, join, sleep};

/// Processing time of a request.
const SERVICE: Duration = Duration::from_micros(100);
const TARGET: Duration = Duration::from_millis(5);

type Stage = SharedStage<()>;

/// Sends `count` requests at once. Returns the number rejected.
async fn burst(entry: Stage, work: Stage, count: usize) -> usize {
    let refused = Rc::new(Cell::new(0));
    let calls: Vec<_> = (0..count)
        .map(|_| {
            let refused = refused.clone();
            entry.call(move |_| async move {
                let Ok(_permit) = Ingress::admit() else {
                    return refused.set(refused.get() + 1);
                };
                work.call(|_| async { busy_for(SERVICE) }).await.unwrap();
            })
        })
        .collect();
    join(calls).await.into_iter().for_each(|outcome| outcome.unwrap());
    refused.get()
}

#[test]
fn overload_is_shed_and_gets_over() {
    let (shed, finished) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    sim::explore_each(16, |seed| {
        sim::run(seed, |world| {
            world.set_processors(1);
            let mut graph = Graph::new();
            graph.ingress(Ingress::Admit { max_queue_delay: TARGET });
            let entry = graph.shared("entry", ());
            let work = graph.shared("work", ());
            let main = graph.shared("main", ());
            let (shed, finished) = (shed.clone(), finished.clone());
            world.program(graph, move |_| {
                let (shed, finished) = (shed.clone(), finished.clone());
                main.dispatch(move |_| async move {
                    // Six times as much as the target allows, repeatedly, until some are rejected.
                    for _ in 0..8 {
                        if burst(entry, work, 300).await > 0 {
                            shed.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                    }
                    // Then almost no load, until the limit is gone.
                    let mut rounds = 0;
                    while let Some(limit) = Ingress::limit() {
                        rounds += 1;
                        assert!(rounds < 1000, "never recovered: {limit}");
                        sleep(Duration::from_millis(20)).await;
                        burst(entry, work, 2).await;
                    }
                    assert_eq!(burst(entry, work, 2).await, 0);
                    finished.fetch_add(1, Ordering::Relaxed);
                })?;
                Ok(())
            });
        });
    });
    let (shed, finished) = (shed.load(Ordering::Relaxed), finished.load(Ordering::Relaxed));
    if std::env::var_os("PHALANX_SEED").is_none() {
        assert!(shed > 0, "{shed} have shed");
        assert!(finished >= 16, "{finished} have got over it; a panic is above");
    }
}

#[test]
fn a_start_may_take_time() {
    const TIME: Duration = Duration::from_secs(7);
    let started = Rc::new(Cell::new(Duration::ZERO));
    let seen = started.clone();
    sim::run(1, |world| {
        world.set_processors(1);
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        world.program(graph, move |_| {
            busy_for(TIME);
            let started = started.clone();
            stage.dispatch(move |_| async move { started.set(phalanx::time::now()) })?;
            Ok(())
        });
    });
    assert!(seen.get() >= TIME, "{seen:?}");
}
