//! Cycles of operations that wait for each other, and waits without a cycle.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx_core::{
    Call, Gate, Graph, OperationName, Policy, Processor, SharedStage, WaitCycle, WaitReason, Waits,
    join, oneshot, select_all, sleep,
};

use crate::common::{Bench, Program, settle, single_processor};

/// Operations that each await the call of the next one. The last one awaits `end`, or the first one's call.
fn ring(stages: &[SharedStage<()>], end: Option<oneshot::LocalReceiver<()>>) {
    let pairs: Vec<_> = stages.iter().map(|_| oneshot::local::<Call<()>>()).collect();
    let (mut senders, receivers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    senders.rotate_right(1);
    let last = stages.len() - 1;
    let mut end = end;
    for (at, ((stage, sender), receiver)) in stages.iter().zip(senders).zip(receivers).enumerate() {
        let end = if at == last { end.take() } else { None };
        sender.send(stage.call(move |_| async move {
            match end {
                Some(end) => _ = end.await,
                None => _ = receiver.await.expect("sent").await,
            }
        }));
    }
}

fn find_cycles(processor: &Processor) -> Vec<WaitCycle> {
    Waits::cycles(&[processor.waits()])
}

fn stages(cycle: &WaitCycle) -> Vec<&'static str> {
    cycle.operations.iter().map(|operation| operation.stage).collect()
}

#[test]
fn two_calls_that_await_each_other() {
    let mut graph = Graph::new();
    let both = ["one", "two"].map(|name| graph.shared(name, ()));
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || ring(&both, None));
    let cycles = find_cycles(&processor);
    assert_eq!(cycles.iter().map(stages).collect::<Vec<_>>(), [["one", "two"]]);
    let [one, two] = &cycles[0].operations[..] else { panic!("{cycles:?}") };
    assert!(one.operation.contains("waits::ring") && two.site.file().ends_with("it/waits.rs"));
    assert_eq!(one.reason, WaitReason::Call);
    let text = cycles[0].to_string();
    assert!(text.starts_with("2 operations wait for each other in a cycle:\n"), "{text}");
    assert!(text.contains(&format!("stage \"two\": {} ({})", two.operation, two.site)), "{text}");
}

#[test]
fn a_cycle_through_three_stages_and_one_that_ends() {
    let mut graph = Graph::new();
    let three = ["a", "b", "c"].map(|name| graph.shared(name, ()));
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || ring(&three, None));
    assert_eq!(find_cycles(&processor).iter().map(stages).collect::<Vec<_>>(), [["a", "b", "c"]]);

    let mut graph = Graph::new();
    let three = ["a", "b", "c"].map(|name| graph.shared(name, ()));
    let (processor, world) = (single_processor(graph), Bench::default());
    let (sender, end) = oneshot::local();
    settle(&processor, &world, || ring(&three, Some(end)));
    assert!(
        processor.live() == 3 && find_cycles(&processor).is_empty(),
        "the last one may yet continue"
    );
    settle(&processor, &world, || sender.send(()));
}

#[test]
fn slow_operations_and_timeouts_are_no_cycle() {
    let mut graph = Graph::new();
    let both = ["one", "two"].map(|name| graph.shared(name, ()));
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        let slow = both[1].call(|_| async { sleep(Duration::from_secs(9)).await });
        both[0].dispatch(|_| async move { _ = slow.await }).unwrap();
        // Two operations await each other, but one of them only for a second.
        let (to_two, from_one) = oneshot::local::<Call<()>>();
        let (to_one, from_two) = oneshot::local::<Call<()>>();
        to_two.send(both[0].call(|_| async {
            let call = from_two.await.unwrap();
            _ = phalanx_core::timeout(Duration::from_secs(1), call).await;
        }));
        to_one.send(both[1].call(|_| async { _ = from_one.await.unwrap().await }));
    });
    assert!(processor.live() == 4 && find_cycles(&processor).is_empty());
    world.now.set(2_000_000_000);
    settle(&processor, &world, || ());
    assert_eq!(processor.live(), 2, "the two are over");
}

#[test]
fn a_join_needs_all_children_and_a_select_one() {
    for (all, expected) in [(true, 1), (false, 0)] {
        let mut graph = Graph::new();
        let (parent, child) = (graph.shared("parent", ()), graph.shared("child", ()));
        let (processor, world) = (single_processor(graph), Bench::default());
        let (sender, release) = oneshot::local::<()>();
        settle(&processor, &world, || {
            let (to_child, from_parent) = oneshot::local::<Call<()>>();
            let free = child.call(|_| async { _ = release.await });
            let waits = child.call(|_| async { _ = from_parent.await.unwrap().await });
            to_child.send(parent.call(move |_| async move {
                if all {
                    _ = join((free, waits)).await
                } else {
                    _ = select_all(vec![free, waits]).await
                }
            }));
        });
        let cycles = find_cycles(&processor);
        assert_eq!(cycles.len(), expected, "{cycles:?}");
        drop(sender);
        settle(&processor, &world, || ());
    }
}

/// A stage whose cohorts run only while no operation has locked it.
#[derive(Default)]
struct Lockable(Arc<Mutex<Option<OperationName>>>);

struct Local(Arc<Mutex<Option<OperationName>>>);

impl Gate for Local {
    fn enter(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }

    fn leave(&self) {}

    fn holder(&self) -> Option<OperationName> {
        *self.0.lock().unwrap()
    }
}

impl Policy for Lockable {
    type Key = usize;
    type Local = Local;
    type Access = ();

    fn local(&self, _: usize, _: usize) -> Local {
        Local(self.0.clone())
    }

    fn place(&self, key: &usize, _: usize, _: usize) -> usize {
        *key
    }

    fn gate(local: &Rc<Local>) -> Option<Rc<dyn Gate>> {
        Some(local.clone())
    }

    fn access(_: &Rc<Local>, _: usize) {}
}

#[test]
fn the_holder_of_a_gate_that_calls_its_stage_waits_for_itself() {
    let (lock, mut graph) = (Lockable::default(), Graph::new());
    let holder = lock.0.clone();
    let main = graph.shared("main", ());
    let guarded = graph.stage("guarded").policy(lock);
    let (processor, world) = (single_processor(graph), Bench::default());
    let held = holder.clone();
    settle(&processor, &world, || {
        let call = main.dispatch(move |_| async move {
            *held.lock().unwrap() = OperationName::current();
            guarded.call(0, |()| async {}).await.unwrap();
        });
        call.unwrap();
    });
    let cycles = find_cycles(&processor);
    assert_eq!(cycles.iter().map(stages).collect::<Vec<_>>(), [["main", "guarded"]]);
    let reasons: Vec<_> = cycles[0].operations.iter().map(|one| one.reason).collect();
    assert_eq!(reasons, [WaitReason::Call, WaitReason::Gate("guarded")]);
    *holder.lock().unwrap() = None;
    settle(&processor, &world, || ());
    assert!(find_cycles(&processor).is_empty() && processor.live() == 0);
}

#[test]
fn capacity_that_returns_only_after_the_one_who_waits_for_it() {
    let (lock, mut graph) = (Lockable::default(), Graph::new());
    let holder = lock.0.clone();
    let main = graph.shared("main", ());
    let guarded = graph.stage("guarded").capacity(2).policy(lock);
    let (processor, world) = (single_processor(graph), Bench::default());
    let held = holder.clone();
    settle(&processor, &world, || {
        main.dispatch(move |_| async move {
            *held.lock().unwrap() = OperationName::current();
            (0..2).for_each(|_| guarded.dispatch(0, |()| async {}).unwrap());
            guarded.wait_for_capacity().await;
        })
        .unwrap();
    });
    let cycles = find_cycles(&processor);
    assert_eq!(cycles.iter().map(stages).collect::<Vec<_>>(), [["main"]]);
    assert_eq!(cycles[0].operations[0].reason, WaitReason::Capacity("guarded"));
    assert!(cycles[0].to_string().starts_with("an operation waits for itself:"), "{}", cycles[0]);
    *holder.lock().unwrap() = None;
    settle(&processor, &world, || ());
    assert_eq!(processor.live(), 0);
}

#[test]
fn a_cycle_over_two_processors() {
    let (lock, mut graph) = (Lockable::default(), Graph::new());
    let holder = lock.0.clone();
    let main = graph.shared("main", ());
    let guarded = graph.stage("guarded").policy(lock);
    let program = Program::new(graph, 2);
    let held = holder.clone();
    program.processors[0].enter(|| {
        main.dispatch(move |_| async move {
            *held.lock().unwrap() = OperationName::current();
            guarded.call(1, |()| async {}).await.unwrap();
        })
        .unwrap();
    });
    (0..8).for_each(|at| _ = program.turn(at));
    let waits = || program.processors.iter().map(Processor::waits).collect::<Vec<_>>();
    let cycles = Waits::cycles(&waits());
    assert_eq!(cycles.iter().map(stages).collect::<Vec<_>>(), [["main"]], "{cycles:?}");
    assert!(Waits::cycles(&waits()[..1]).is_empty(), "what is not reported may continue");
    *holder.lock().unwrap() = None;
    program.settle(2);
    assert_eq!(program.live(), [0, 0]);
}
