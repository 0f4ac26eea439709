//! Exhaustive simulation: which schedules it covers, and where it ends.

use std::collections::BTreeSet;

use phalanx::Graph;
use phalanx::sim::{self, Bounds, Faults, World};

use super::exhaustive::{bounds, failure, outcomes, versioned_cache};

/// A processor takes over partitions only from a sleeping processor, and the other processor may or may not be asleep
/// at that time.
#[test]
fn falling_asleep_is_a_choice_if_partitions_migrate() {
    let (all, coverage) = outcomes(Bounds::default(), |world, outcome| {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let table = graph.stage("table").partitions(2).migrating(|_| 0);
        world.program(graph, move |start| {
            let outcome = outcome.clone();
            if start.processor() == 0 {
                stage.dispatch(move |_| async move {
                    table
                        .call_partition(1, |part| async move { part.with(|n| *n += 1) })
                        .await
                        .unwrap();
                    outcome.borrow_mut().push(table.owner(1));
                })?;
            }
            Ok(())
        });
    });
    assert!(coverage.is_complete(), "{coverage}");
    assert_eq!(all, BTreeSet::from([vec![0], vec![1]]));
}

#[test]
fn faults_are_refused() {
    for change in [
        |world: &mut World| world.set_panics(5),
        |world: &mut World| world.set_faults(Faults::MILD),
    ] {
        let refused = failure(|| _ = sim::explore_all(Bounds::default(), change));
        assert!(refused.unwrap().contains("simulates no faults"));
    }
}

#[test]
fn a_search_that_ends_at_the_bound_of_runs_has_ended() {
    let build = |world: &mut World| versioned_cache(world, 8);
    let all = sim::explore_all(Bounds::default(), build);
    let exactly = sim::explore_all(bounds(|bounds| bounds.runs = all.runs), build);
    assert_eq!(exactly, all);
    let fewer = sim::explore_all(bounds(|bounds| bounds.runs = all.runs - 1), build);
    assert!(!fewer.ended && fewer.runs == all.runs - 1);
}
