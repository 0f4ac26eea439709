//! Balanced stages: idle processors steal from busy ones, in order, and each operation runs once.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::common::{Program, run};
use phalanx_core::{Graph, join, oneshot};

#[test]
fn a_processor_with_little_takes_a_share_of_anothers_oldest() {
    let mut graph = Graph::new();
    let list = Arc::new(Mutex::new(Vec::new()));
    let work = graph.stage("work").max_cohort(4).balanced(list.clone());
    let program = Program::new(graph, 4);
    let last = program.processors[0].enter(|| {
        for n in 0..40u32 {
            work.dispatch(move |seen| async move { seen.lock().unwrap().push(n) }).unwrap();
        }
        work.call(|seen| async move { seen.lock().unwrap().len() })
    });
    let profile = || program.processors[0].control().profile();
    let ran = |at: usize| profile().processors[at].stages[0].completed.count;
    program.turn(1);
    assert_eq!(ran(1), 0, "not before they have left the outbox");
    // One cohort goes forward and one backward. Of the 33 operations left, one of four processors takes a quarter,
    // rounded up, and runs it in two cohorts.
    program.turn(0);
    assert_eq!(ran(0), 8);
    program.turn(2);
    assert_eq!((ran(2), program.processors[2].live()), (8, 1));
    program.turn(3);
    assert_eq!((ran(3), program.processors[3].live()), (6, 0));
    program.settle(3);
    assert_eq!(program.processors[0].live(), 1, "the result");
    program.processors[0].enter(|| drop(last));
    // The processors were turned one after the other, so each has taken the oldest operations and run them in order.
    assert_eq!(list.lock().unwrap()[..16], (0..16).collect::<Vec<_>>());
    assert_eq!((0..4).map(ran).sum::<u64>(), 41);
}

#[test]
fn each_balanced_operation_runs_once_on_one_of_many_threads() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let ran: Arc<Vec<AtomicUsize>> =
        Arc::new((0..20_000).map(|_| AtomicUsize::default()).collect());
    let work = graph.stage("work").max_cohort(16).balanced(ran.clone());
    run(graph, 3, move |index, control| {
        if index > 0 {
            return;
        }
        main.dispatch(move |_| async move {
            for round in 0..20 {
                let calls = (0..1000).map(|n| {
                    work.call(move |ran| async move {
                        ran[round * 1000 + n].fetch_add(1, Relaxed);
                        std::hint::black_box((0..200).sum::<u32>());
                        n
                    })
                });
                let results = join(calls.collect::<Vec<_>>()).await;
                let sum: usize = results.into_iter().map(Result::unwrap).sum();
                assert_eq!(sum, (0..1000).sum());
            }
            control.drain();
        })
        .unwrap();
    });
    assert!(ran.iter().all(|ran| ran.load(Relaxed) == 1));
}

/// Operations that were admitted on one processor are not rejected by the queue of the processor that steals them.
#[test]
fn a_processor_steals_no_more_than_its_queue_holds() {
    let mut graph = Graph::new();
    let work = graph.stage("work").capacity(3).balanced(());
    let program = Program::new(graph, 2);
    let ran = Arc::new(AtomicUsize::new(0));
    let [first, second] = &program.processors[..] else { unreachable!() };
    // Two operations of the second one are in its queue again.
    let (senders, events): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::shared()).unzip();
    second.enter(|| {
        for event in events {
            let ran = ran.clone();
            let waits = work.dispatch(move |_| async move {
                event.await.unwrap();
                ran.fetch_add(1, Relaxed);
            });
            waits.unwrap();
        }
    });
    program.turn(1);
    program.turn(1);
    second.enter(|| senders.into_iter().for_each(|sender| sender.send(())));
    first.enter(|| {
        for _ in 0..3 {
            let ran = ran.clone();
            work.dispatch(move |_| async move { _ = ran.fetch_add(1, Relaxed) }).unwrap();
        }
    });
    first.stepping().flush();
    program.turn(1);
    program.settle(3);
    assert_eq!((ran.load(Relaxed), program.live()), (5, vec![0, 0]));
}
