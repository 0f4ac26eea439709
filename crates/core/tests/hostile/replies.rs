//! Replies of cohort operations that are kept for longer than their item.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use phalanx_core::{CallError, Cohort, CohortStage, Graph, Processor, Reply, Session};

use crate::support::{HostileWorld, build, poll_once, settle};

/// Replies that a handler has put aside, stored by thread: the handler must be `Send`, but `Reply` is not.
macro_rules! kept {
    ($name:ident: $type:ty) => {
        thread_local! {
            static $name: RefCell<Vec<Reply<$type>>> = const { RefCell::new(Vec::new()) };
        }
    };
}

kept!(NUMBERS: u64);
kept!(TEXTS: String);

fn stages(graph: &mut Graph) -> (CohortStage<(), u64>, CohortStage<(), String>) {
    let numbers = graph.stage("numbers").cohort(
        |_| (),
        |(), cohort: &mut Cohort<(), u64>| {
            NUMBERS.with_borrow_mut(|kept| kept.extend(cohort.drain().map(|(_, reply)| reply)));
        },
    );
    let texts = graph.stage("texts").cohort(
        |_| (),
        |(), cohort: &mut Cohort<(), String>| {
            TEXTS.with_borrow_mut(|kept| kept.extend(cohort.drain().map(|(_, reply)| reply)));
        },
    );
    (numbers, texts)
}

/// Keeps an item's reply and ends the item, so that its slot is free.
fn stale_reply(
    processor: &Processor,
    world: &HostileWorld,
    stage: CohortStage<(), u64>,
) -> Reply<u64> {
    processor.enter(|| {
        let session = Session::new();
        session.scope(|| stage.dispatch(())).unwrap();
        processor.turn(world);
        drop(session.end());
    });
    NUMBERS.take().pop().expect("kept")
}

/// A stale reply affects no caller after `uses` other operations in its slot.
fn a_stale_reply_reaches_no_caller(uses: u32) {
    let mut graph = Graph::new();
    let (numbers, texts) = stages(&mut graph);
    let shared_stage = graph.shared("plain", ());
    let ([processor], world) = (build(graph), HostileWorld::default());
    let stale = stale_reply(&processor, &world, numbers);
    processor.enter(|| {
        for _ in 0..uses {
            shared_stage.dispatch(|_| async {}).unwrap();
            processor.turn(&world);
        }
        // In the same slot, with a result of another type.
        let call = texts.call(());
        processor.turn(&world);
        stale.send(0x4141_4141_4141_4141);
        TEXTS.take().pop().expect("kept").send("in time".to_owned());
        let result = Rc::new(RefCell::new(None));
        let out = result.clone();
        shared_stage
            .dispatch(move |_| async move { *out.borrow_mut() = Some(call.await) })
            .unwrap();
        settle(std::slice::from_ref(&processor), &world);
        assert_eq!(result.take(), Some(Ok("in time".to_owned())));
    });
    assert_eq!(processor.live(), 0);
}

#[test]
fn a_reply_is_stale_after_one_more_use_of_its_slot() {
    a_stale_reply_reaches_no_caller(0);
    a_stale_reply_reaches_no_caller(1);
}

/// A waker's name has 24 bits for the uses of its slot, so the count wraps around here. `slab.rs` has the same test
/// without the wait.
#[test]
#[cfg_attr(any(debug_assertions, miri), ignore = "sixteen million operations: in release only")]
fn a_reply_is_stale_after_as_many_uses_as_a_waker_can_tell() {
    a_stale_reply_reaches_no_caller((1 << 24) - 1);
}

#[test]
fn a_reply_sent_elsewhere_panics_and_the_caller_gets_an_error() {
    let mut graph = Graph::new();
    let (numbers, _) = stages(&mut graph);
    let ([one, two], world) = (build(graph), HostileWorld::default());
    let mut call = one.enter(|| numbers.call(()));
    one.turn(&world);
    let reply = NUMBERS.take().pop().expect("kept");
    let sent = catch_unwind(AssertUnwindSafe(|| two.enter(|| reply.send(1))));
    let panic = sent.expect_err("refused");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("on a processor other than the one that created it"), "{text}");
    one.enter(|| assert!(!call.is_finished()));
    one.turn(&world);
    let panics = one.enter(|| poll_once(&mut call, Waker::noop()));
    assert!(matches!(panics, Poll::Ready(Err(CallError::ReplyDropped { .. }))), "{panics:?}");
}

/// The value that nobody awaits any more has a destructor that ends the item of another reply.
#[test]
fn a_destructor_of_an_answer_may_answer() {
    struct Answers(Option<Reply<u64>>);
    impl Drop for Answers {
        fn drop(&mut self) {
            self.0.take().into_iter().for_each(|reply| reply.send(7));
        }
    }
    let inner = Arc::new(Mutex::new(0));
    let mut graph = Graph::new();
    let (numbers, _) = stages(&mut graph);
    let outer = graph.stage("outer").cohort(
        |_| (),
        |(), cohort: &mut Cohort<(), Answers>| {
            for (_, reply) in cohort.drain() {
                reply.send(Answers(NUMBERS.take().pop()));
            }
        },
    );
    let result = inner.clone();
    let shared_stage = graph.shared("plain", ());
    let ([processor], world) = (build(graph), HostileWorld::default());
    processor.enter(|| {
        let call = numbers.call(());
        outer.dispatch(()).unwrap();
        shared_stage
            .dispatch(move |_| async move { *result.lock().unwrap() = call.await.unwrap() })
            .unwrap();
    });
    settle(std::slice::from_ref(&processor), &world);
    assert_eq!((*inner.lock().unwrap(), processor.live()), (7, 0));
}

#[test]
fn a_forgotten_reply_is_answered_with_its_session() {
    let mut graph = Graph::new();
    let (numbers, _) = stages(&mut graph);
    let ([processor], world) = (build(graph), HostileWorld::default());
    processor.enter(|| {
        let session = Session::new();
        let mut call = session.scope(|| numbers.call(()));
        processor.turn(&world);
        NUMBERS.take().into_iter().for_each(std::mem::forget);
        drop(session.end());
        let polled = crate::support::poll_once(&mut call, std::task::Waker::noop());
        assert_eq!(polled, std::task::Poll::Ready(Err(CallError::Cancelled)));
    });
    assert_eq!(processor.live(), 0);
}
