//! On real processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use phalanx::{CallError, Graph, Runtime, join};
use phalanx_matcher::{Filter, Index};
use phalanx_matching::{Matching, Options};

use crate::publishers::Program;
use crate::world::World;

#[test]
fn many_publishers_while_the_index_changes() {
    const PROCESSORS: usize = 2;
    let world = World { names: 5, constants: 9, depth: 1 };
    let mut graph = Graph::new();
    let program =
        Program::declare(&mut graph, Options { capacity: 100, ..Options::default() }, world);
    let (done, checked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks = PROCESSORS + 1;
    let counted = checked.clone();
    let runtime = Runtime::new().processors(PROCESSORS).signals(false);
    let report = runtime.run(graph, move |start| {
        let (at, main, control) = (start.processor(), program.main, start.control());
        let (done, checked) = (done.clone(), counted.clone());
        let finished = move || {
            if done.fetch_add(1, Ordering::Relaxed) + 1 == tasks {
                control.drain();
            }
        };
        let (publishers, ends) = (program.clone(), finished.clone());
        main.dispatch(move |_| async move {
            publishers.run(20, 100, Rng::with_seed(at as u64)).await;
            checked.fetch_add(1, Ordering::Relaxed);
            ends();
        })?;
        if at == 0 {
            let (writer, checked) = (program.clone(), counted.clone());
            main.dispatch(move |_| async move {
                writer.change_index(60, Rng::with_seed(9)).await;
                checked.fetch_add(1, Ordering::Relaxed);
                finished();
            })?;
        }
        Ok(())
    });
    drop(report.unwrap());
    assert_eq!(checked.load(Ordering::Relaxed), tasks, "all publishers have checked all answers");
}

/// A program of one processor that runs `work` and then drains.
fn run_single<Fut>(work: impl Fn(Matching<i64>) -> Fut + Send + Sync + 'static)
where
    Fut: Future<Output = ()> + 'static,
{
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let matching = Matching::declare(&mut graph, Options::default(), |n: &i64, snapshot| {
        assert!(*n != 13, "unlucky");
        snapshot.event(&[("n", (*n).into())])
    });
    let (work, through) = (Arc::new(work), Arc::new(AtomicUsize::new(0)));
    let counter = through.clone();
    let runtime = Runtime::new().processors(1).signals(false);
    let report = runtime.run(graph, move |start| {
        let (control, work, through) = (start.control(), work.clone(), counter.clone());
        main.dispatch(move |_| async move {
            work(matching).await;
            through.fetch_add(1, Ordering::Relaxed);
            control.drain();
        })?;
        Ok(())
    });
    drop(report.unwrap());
    assert_eq!(through.load(Ordering::Relaxed), 1, "the work was done");
}

#[test]
fn a_panic_in_coding_fails_one_event() {
    run_single(|matching| async move {
        let mut index = Index::new(phalanx_matcher::Options::default());
        let all = index.insert(&Filter::parse("n IS NOT NULL").unwrap());
        matching.publish(&index.snapshot()).await.unwrap();
        let answers =
            join([11, 13, 15].map(|n| matching.call(n)).into_iter().collect::<Vec<_>>()).await;
        let matched = |n: usize| answers[n].as_ref().map(|found| found.subscriptions.clone());
        assert_eq!(matched(0), Ok(vec![all]).as_ref().map(|all| (*all).clone()));
        assert!(matches!(matched(1), Err(CallError::Panicked { .. })));
        assert_eq!(matched(2).ok(), Some(vec![all]));
    });
}

#[test]
fn an_older_snapshot_is_skipped() {
    run_single(|matching| async move {
        let mut index = Index::new(phalanx_matcher::Options::default());
        let before = index.snapshot();
        let one = index.insert(&Filter::parse("n = 1").unwrap());
        matching.publish(&index.snapshot()).await.unwrap();
        matching.publish(&before).await.unwrap();
        assert_eq!(matching.call(1).await.unwrap().subscriptions, [one]);
    });
}
