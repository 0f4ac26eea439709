//! Each caller's operations start in invocation order, for every schedule.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use phalanx::sim::{self, World};
use phalanx::{ExclusiveStage, Graph, PartitionedStage, SharedStage, sleep, yield_now};

/// Numbers of the invocations in the order of their start, by caller, stage and processor.
type Started = Arc<Mutex<HashMap<(u64, &'static str, usize), Vec<u32>>>>;

#[derive(Clone, Copy)]
struct Stages {
    callers: SharedStage<()>,
    shared: SharedStage<()>,
    lifo: SharedStage<()>,
    partitioned: PartitionedStage<()>,
    exclusive: ExclusiveStage<()>,
}

/// Invokes operations in sequence, with occasional waits.
async fn caller(stages: Stages, seed: u64, processors: usize, started: Started) {
    let mut rng = Rng::with_seed(seed);
    for n in 0..rng.u32(1..20) {
        let started = started.clone();
        let note = move |stage, place| {
            let mut started = started.lock().unwrap();
            started.entry((seed, stage, place)).or_default().push(n);
        };
        match rng.u8(..7) {
            0 => stages.shared.dispatch(move |_| async move { note("shared", 0) }).unwrap(),
            1 => stages.shared.run(move |_| async move { note("shared", 0) }).await.unwrap(),
            2 => {
                let at = rng.usize(..processors);
                drop(stages.shared.call_on(at, move |_| async move { note("shared on", at) }));
            }
            3 => stages.lifo.dispatch(move |_| async move { note("lifo", 0) }).unwrap(),
            4 => {
                let key = rng.u64(..2);
                let partition = stages.partitioned.partition_of(key);
                let note = move |_| async move { note("partitioned", partition) };
                let call = stages.partitioned.call(key, note);
                if rng.bool() {
                    call.await.unwrap();
                }
            }
            5 => stages.exclusive.dispatch(move |_| async move { note("exclusive", 0) }).unwrap(),
            _ => {
                if rng.bool() {
                    yield_now().await
                } else {
                    sleep(Duration::from_millis(rng.u64(..3))).await
                }
            }
        }
    }
}

fn program(world: &mut World, started: &Started) {
    let mut graph = Graph::new();
    let max_cohort = [1, 3, 256][world.draw(3) as usize];
    let stages = Stages {
        callers: graph.stage("callers").max_cohort(max_cohort).shared(()),
        shared: graph.stage("shared").max_cohort(max_cohort).shared(()),
        lifo: graph.stage("lifo").lifo().max_cohort(max_cohort).shared(()),
        partitioned: graph.stage("partitioned").max_cohort(max_cohort).partitioned(|_| ()),
        exclusive: graph.stage("exclusive").max_cohort(max_cohort).exclusive(()),
    };
    let (processors, started) = (world.processors(), started.clone());
    let seed = world.draw(u64::MAX);
    world.program(graph, move |start| {
        for number in 0..3 {
            let seed = seed.wrapping_add(100 * start.processor() as u64 + number);
            let caller = caller(stages, seed, processors, started.clone());
            stages.callers.dispatch(move |_| caller)?;
        }
        Ok(())
    });
}

#[test]
fn each_caller_is_served_in_order_and_a_lifo_stage_serves_in_any() {
    let overtaken = Mutex::new(0);
    sim::explore_each(500, |seed| {
        let started = Started::default();
        sim::run(seed, |world| program(world, &started));
        for ((caller, stage, place), numbers) in started.lock().unwrap().iter() {
            if *stage == "lifo" {
                *overtaken.lock().unwrap() += usize::from(!numbers.is_sorted());
            } else {
                assert!(
                    numbers.is_sorted(),
                    "seed {seed}: {stage} {place} of {caller}: {numbers:?}"
                );
            }
        }
    });
    assert!(overtaken.into_inner().unwrap() > 0);
}
