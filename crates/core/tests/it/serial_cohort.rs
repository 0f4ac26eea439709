//! Asynchronous cohort operations: one cohort at a time, in order, and never stuck.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Bench, run, settle, single_processor};
use phalanx_core::{
    CallError, Cohort, CohortStage, Graph, Session, SharedStage, WaitReason, Waits, sleep,
};

/// An event of the handler: a cohort begins, or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Begin(Vec<u32>),
    End(usize),
}

type Log = Arc<Mutex<Vec<Event>>>;

const MS: Duration = Duration::from_millis(1);

/// A journal whose commit takes 10 ms. Item 13 panics in the middle of one.
fn journal(graph: &mut Graph, log: &Log, capacity: usize) -> CohortStage<u32, usize> {
    let commit = graph.shared("commit", ());
    let log = log.clone();
    graph.stage("journal").max_cohort(4).capacity(capacity).serial_cohort(
        |_| 0,
        commit,
        async move |written: &mut usize, mut cohort: Cohort<u32, usize>| {
            let items: Vec<_> = cohort.iter().map(|entry| entry.item).collect();
            log.lock().unwrap().push(Event::Begin(items.clone()));
            sleep(10 * MS).await;
            assert!(!items.contains(&13), "by intent");
            for entry in cohort.iter_mut().filter(|entry| entry.item != 0) {
                *written += 1;
                entry.reply(*written);
            }
            log.lock().unwrap().push(Event::End(*written));
        },
    )
}

type Replies = Rc<RefCell<Vec<(u32, Result<usize, CallError>)>>>;

/// Calls the stage with each item, in order, and records the outcome.
fn call_each(
    front: SharedStage<()>,
    journal: CohortStage<u32, usize>,
    items: impl IntoIterator<Item = u32>,
    replies: &Replies,
) {
    for item in items {
        let replies = replies.clone();
        let call = journal.call(item);
        let done = front.dispatch(move |_| async move {
            let reply = call.await;
            replies.borrow_mut().push((item, reply));
        });
        done.unwrap();
    }
}

/// Turns the processor until all timers have fired.
fn until_rest(processor: &phalanx_core::Processor, world: &Bench) {
    while processor.live() > 0 {
        settle(processor, world, || ());
        world.now.set(world.now.get() + 1_000_000);
    }
}

#[test]
fn one_cohort_is_under_way_and_the_next_gathers_in_order() {
    let (mut graph, log, replies) = (Graph::new(), Log::default(), Replies::default());
    let front = graph.shared("front", ());
    let journal = journal(&mut graph, &log, usize::MAX);
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || call_each(front, journal, [1, 2], &replies));
    settle(&processor, &world, || call_each(front, journal, 3..9, &replies));
    assert_eq!(*log.lock().unwrap(), [Event::Begin(vec![1, 2])], "the others wait");
    until_rest(&processor, &world);
    let cohorts = [vec![1, 2], vec![3, 4, 5, 6], vec![7, 8]];
    let ends = [2, 6, 8];
    let expected: Vec<_> = cohorts
        .into_iter()
        .zip(ends)
        .flat_map(|(items, end)| [Event::Begin(items), Event::End(end)])
        .collect();
    assert_eq!(*log.lock().unwrap(), expected, "none overlaps another");
    let expected: Vec<_> = (1..9).map(|item| (item, Ok(item as usize))).collect();
    assert_eq!(*replies.borrow(), expected);
    let stage = &processor.control().profile().processors[0].stages[2];
    assert_eq!((stage.completed.count, stage.suspended_now(), stage.cohorts), (8, 0, 3));
}

#[test]
fn the_queue_is_bounded_by_the_capacity() {
    let (mut graph, log, replies) = (Graph::new(), Log::default(), Replies::default());
    let front = graph.shared("front", ());
    let journal = journal(&mut graph, &log, 2);
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || call_each(front, journal, [1], &replies));
    settle(&processor, &world, || {
        call_each(front, journal, 2..5, &replies);
        assert!(!journal.has_capacity());
    });
    assert_eq!(*replies.borrow(), [(4, Err(CallError::Full { stage: Some("journal"), bound: 2 }))]);
    until_rest(&processor, &world);
    assert_eq!(replies.borrow()[1..], [(1, Ok(1)), (2, Ok(2)), (3, Ok(3))]);
}

#[test]
fn a_panic_fails_its_items_and_the_next_cohort_begins() {
    let (mut graph, log, replies) = (Graph::new(), Log::default(), Replies::default());
    let front = graph.shared("front", ());
    let journal = journal(&mut graph, &log, usize::MAX);
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || call_each(front, journal, [1, 13], &replies));
    // The next cohort is answered, except for one item, whose reply the handler drops.
    settle(&processor, &world, || call_each(front, journal, [5, 0], &replies));
    until_rest(&processor, &world);
    let panicked = || CallError::Panicked { stage: "journal", message: "by intent".into() };
    let unanswered = CallError::ReplyDropped { stage: "journal" };
    let expected = [(1, Err(panicked())), (13, Err(panicked())), (5, Ok(1)), (0, Err(unanswered))];
    let mut replies = replies.take();
    replies[2..].sort_by_key(|(item, _)| std::cmp::Reverse(*item));
    assert_eq!(replies, expected);
}

#[test]
fn a_session_that_ends_takes_its_items_along_and_nothing_else() {
    let (mut graph, log, replies) = (Graph::new(), Log::default(), Replies::default());
    let front = graph.shared("front", ());
    let journal = journal(&mut graph, &log, usize::MAX);
    let (processor, world) = (single_processor(graph), Bench::default());
    let mut session = None;
    settle(&processor, &world, || {
        let ends = session.insert(Session::new());
        ends.scope(|| drop(journal.call(1)));
        call_each(front, journal, [2], &replies);
    });
    settle(&processor, &world, || {
        let ends = session.take().unwrap();
        ends.scope(|| drop(journal.call(3)));
        call_each(front, journal, [4], &replies);
        drop(ends.end());
    });
    until_rest(&processor, &world);
    // The first cohort has both items, because it had begun; the second has the remaining ones.
    let begins: Vec<_> = log.lock().unwrap().iter().step_by(2).cloned().collect();
    assert_eq!(begins, [Event::Begin(vec![1, 2]), Event::Begin(vec![4])]);
    assert_eq!(*replies.borrow(), [(2, Ok(2)), (4, Ok(3))]);
}

#[test]
fn a_drain_completes_queued_items_and_an_end_drops_them() {
    for ends in [false, true] {
        let (mut graph, log) = (Graph::new(), Log::default());
        let journal = journal(&mut graph, &log, usize::MAX);
        run(graph, 1, |_, control| {
            for item in 1..7 {
                journal.dispatch(item).unwrap();
            }
            if ends { control.end() } else { control.drain() }
        });
        let ended =
            log.lock().unwrap().iter().filter(|event| matches!(event, Event::End(_))).count();
        assert_eq!(ended, if ends { 0 } else { 2 });
    }
}

#[test]
fn items_of_other_processors_wait_too() {
    let (mut graph, log) = (Graph::new(), Log::default());
    let commit = graph.shared("commit", ());
    let front = graph.shared("front", ());
    let begins = log.clone();
    let journal = graph.stage("journal").max_cohort(2).partitioned_serial_cohort(
        |_| (),
        commit,
        async move |(): &mut (), mut cohort: Cohort<u32, u32>| {
            begins.lock().unwrap().push(Event::Begin(Vec::new()));
            sleep(MS).await;
            cohort.iter_mut().for_each(|entry| {
                let item = entry.item;
                entry.reply(item);
            });
            begins.lock().unwrap().push(Event::End(0));
        },
    );
    run(graph, 2, |_, control| {
        let done = front.dispatch(move |_| async move {
            let calls: Vec<_> = (0..20).map(|item| journal.call(0, item)).collect();
            for (item, reply) in (0..).zip(phalanx_core::join(calls).await) {
                assert_eq!(reply, Ok(item));
            }
            control.drain();
        });
        done.unwrap();
    });
    let log = log.lock().unwrap();
    let alternate = log.chunks(2).all(|pair| pair == [Event::Begin(Vec::new()), Event::End(0)]);
    assert!(alternate && log.len() >= 40, "{log:?}");
}

/// The handler awaits an operation that waits behind the handler's own cohort.
#[test]
fn a_handler_that_waits_for_its_own_queue_is_a_cycle() {
    let mut graph = Graph::new();
    let (front, commit) = (graph.shared("front", ()), graph.shared("commit", ()));
    let place = graph.reserve("journal");
    let index = graph.shared("index", ());
    // The handler has the index's handle, and the index gets the journal's.
    let handle: Arc<Mutex<Option<CohortStage<u32, ()>>>> = Arc::default();
    let own = handle.clone();
    let journal = graph.declare(place).serial_cohort(
        |_| (),
        commit,
        async move |_: &mut (), mut cohort: Cohort<u32, ()>| {
            let journal = own.lock().unwrap().expect("declared");
            if cohort[0].item == 1 {
                _ = index.call(move |_| async move { _ = journal.call(2).await }).await;
            }
            cohort.iter_mut().for_each(|entry| entry.reply(()));
        },
    );
    *handle.lock().unwrap() = Some(journal);
    graph.calls(commit, index);
    graph.calls(index, journal);
    let declared = graph.call_graph().cycles();
    assert!(declared.len() == 1 && declared[0].can_deadlock(), "{declared:?}");

    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        front
            .dispatch(move |_| async move {
                _ = journal.call(1).await;
            })
            .unwrap()
    });
    let cycles = Waits::cycles(&[processor.waits()]);
    let stages: Vec<_> =
        cycles.iter().flat_map(|cycle| &cycle.operations).map(|it| it.stage).collect();
    assert_eq!(stages, ["commit", "index", "journal"], "{cycles:?}");
    assert_eq!(cycles[0].operations[2].reason, WaitReason::Gate("journal"));
    // The observed call graph has the cycle, too.
    let observed = processor.control().call_graph();
    assert!(
        observed.undeclared_calls().is_empty() && observed.unobserved_calls().is_empty(),
        "{observed:?}"
    );
}
