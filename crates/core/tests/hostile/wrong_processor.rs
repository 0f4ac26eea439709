//! Handles away from the processor that created them: on a processor of another program, on no processor, and after
//! their own processor has ended.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use phalanx_core::{
    Call, CallError, Graph, Join, Pooled, Processor, ProcessorId, Session, SessionEnd,
    SessionGuard, SharedStage, Sleep, join, sleep,
};

use crate::support::{Count, HostileWorld, build, poll_once, settle};

/// A program of one processor whose stage is the first of its graph: in two such programs every
/// number is the same.
fn single_processor() -> (Processor, SharedStage<()>) {
    let mut graph = Graph::new();
    let stage = graph.stage("stage").shared(());
    let [processor] = build(graph);
    (processor, stage)
}

/// One handle of each kind.
#[allow(dead_code, reason = "some are only dropped")]
struct Handles {
    timer: Sleep,
    call: Call<Rc<()>>,
    finished: Call<Rc<()>>,
    join: Join<(Call<u8>, Call<u8>)>,
    session: Session,
    guard: SessionGuard,
    end: SessionEnd,
    pooled: Pooled<[Rc<()>; 2]>,
}

fn handles(processor: &Processor, stage: SharedStage<()>, count: &Count) -> Handles {
    let token = || count.token();
    let (one, two, three) = (token(), token(), token());
    let handles = processor.enter(|| {
        let session = Session::new();
        let second = Session::new();
        let guard = second.guard();
        let mut handles = Handles {
            timer: sleep(Duration::from_secs(3600)),
            call: session.scope(|| {
                stage.call(move |_| async move {
                    std::future::pending::<()>().await;
                    one
                })
            }),
            finished: stage.call(move |_| async move { two }),
            join: join((
                stage.call(|_| std::future::pending()),
                session.scope(|| stage.call(|_| async { 1 })),
            )),
            end: second.end(),
            session,
            guard,
            pooled: Pooled::new([three, token()]),
        };
        assert!(poll_once(&mut handles.timer, Waker::noop()).is_pending());
        assert!(poll_once(&mut handles.call, Waker::noop()).is_pending());
        assert!(poll_once(&mut handles.join, Waker::noop()).is_pending());
        assert!(poll_once(&mut handles.end, Waker::noop()).is_pending());
        handles
    });
    settle(std::slice::from_ref(processor), &HostileWorld::default());
    handles
}

/// Asserts that of `handles` only the two operations that never complete remain.
fn assert_given_back(processor: &Processor, count: &Count) {
    settle(std::slice::from_ref(processor), &HostileWorld::default());
    assert_eq!((processor.live(), processor.timers()), (2, 0), "{:?}", processor.leaks());
    let left = processor.leaks();
    let operations = left.iter().filter(|left| left.to_string().contains("an operation of"));
    let sessions = left.iter().filter(|left| left.to_string().contains("1 operations, 0 guards"));
    assert_eq!((operations.count(), sessions.count(), left.len()), (2, 1, 3), "{left:?}");
    assert_eq!(count.alive(), 1, "the one in the operation");
    processor.check_invariants().unwrap();
}

#[test]
fn handles_are_dropped_on_another_processor() {
    let ((one, stage), (other, _), count) =
        (single_processor(), single_processor(), Count::default());
    let handles = handles(&one, stage, &count);
    other.enter(|| drop(handles));
    assert_given_back(&one, &count);
    assert!(other.leaks().is_empty());
}

#[test]
fn handles_are_dropped_on_no_processor() {
    let ((one, stage), count) = (single_processor(), Count::default());
    drop(handles(&one, stage, &count));
    assert_given_back(&one, &count);
}

#[test]
fn handles_outlive_their_processor() {
    let ((one, stage), (other, other_stage), count) =
        (single_processor(), single_processor(), Count::default());
    let mut own = handles(&one, stage, &count);
    drop(one);
    // The other program has the same handles, with the same numbers.
    let other_count = Count::default();
    let other_handles = handles(&other, other_stage, &other_count);
    other.enter(|| {
        assert_eq!(poll_once(&mut own.call, Waker::noop()), Poll::Ready(Err(CallError::Cancelled)));
        let joined = poll_once(&mut own.join, Waker::noop());
        assert_eq!(joined, Poll::Ready((Err(CallError::Cancelled), Err(CallError::Cancelled))));
        assert_eq!(poll_once(&mut own.end, Waker::noop()), Poll::Ready(()));
        own.finished.cancel();
        assert_eq!(own.session.operations(), 0);
        drop(own.session.end());
        drop(own);
    });
    assert_eq!((count.alive(), other_count.alive()), (0, 4), "the others are untouched");
    drop(other_handles);
    assert_given_back(&other, &other_count);
}

#[test]
fn handles_are_used_on_another_processor() {
    let ((one, stage), (other, other_stage), count) =
        (single_processor(), single_processor(), Count::default());
    let mut own = handles(&one, stage, &count);
    let other_count = Count::default();
    let other_handles = handles(&other, other_stage, &other_count);
    other.enter(|| {
        let panics = |f: &mut dyn FnMut()| {
            let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            assert!(text.is_some_and(|text| text.contains("on a processor other than the one")));
        };
        panics(&mut || _ = poll_once(&mut own.timer, Waker::noop()));
        panics(&mut || own.timer.reset(Duration::ZERO));
        panics(&mut || _ = poll_once(&mut own.end, Waker::noop()));
        panics(&mut || drop(own.session.end()));
        panics(&mut || drop(own.session.guard()));
        panics(&mut || _ = own.session.operations());
        panics(&mut || own.session.scope(|| ()));
        let elsewhere = Err(CallError::WrongProcessor);
        assert_eq!(poll_once(&mut own.finished, Waker::noop()), Poll::Ready(elsewhere.clone()));
        assert_eq!(poll_once(&mut own.call, Waker::noop()), Poll::Ready(elsewhere));
        let elsewhere = Err(CallError::WrongProcessor);
        let both = (elsewhere.clone(), elsewhere);
        assert_eq!(poll_once(&mut own.join, Waker::noop()), Poll::Ready(both));
    });
    drop(own);
    assert_given_back(&one, &count);
    assert_eq!(other_count.alive(), 4, "the others are untouched");
    drop(other_handles);
    assert_given_back(&other, &other_count);
}

#[test]
fn a_release_goes_to_its_processor_alone() {
    let ((one, _), (other, _)) = (single_processor(), single_processor());
    let ids: [ProcessorId; 2] = [one.id(), other.id()];
    assert_ne!(ids[0], ids[1]);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let hostile = || panic!("hostile release");
        ids[0].run_later(hostile);
        ids[0].run_later(move || sender.send(1).unwrap());
    })
    .join()
    .unwrap();
    crate::support::silence_expected_panics();
    settle(&[other], &HostileWorld::default());
    assert!(receiver.try_recv().is_err());
    assert!(ids[0].is_alive() && !ids[1].is_alive());
    settle(std::slice::from_ref(&one), &HostileWorld::default());
    assert_eq!(receiver.try_recv(), Ok(1));
    drop(one);
    // Dropped without being run.
    ids[0].run_later(|| unreachable!());
}

#[test]
fn a_part_of_its_caller_goes_to_another_program() {
    let declare = || {
        let mut graph = Graph::new();
        let stages: Vec<_> = (0..8).map(|_| graph.stage("direct").direct().shared(())).collect();
        let [processor] = build(graph);
        (processor, stages)
    };
    let ((one, stages), (other, _)) = (declare(), single_processor());
    let stage = stages[7];
    let future = Rc::new(RefCell::new(None));
    let out = future.clone();
    one.enter(|| {
        stages[0]
            .dispatch(move |_| async move {
                let mut inside = Box::pin(stage.run(|_| std::future::pending::<()>()));
                let pending = std::future::poll_fn(|context| {
                    Poll::Ready(inside.as_mut().poll(context).is_pending())
                });
                assert!(pending.await);
                *out.borrow_mut() = Some(inside);
            })
            .unwrap();
    });
    settle(std::slice::from_ref(&one), &HostileWorld::default());
    let mut inside = future.take().expect("it suspends");
    let polled = Cell::new(false);
    let result = catch_unwind(AssertUnwindSafe(|| {
        other.enter(|| polled.set(poll_once(&mut inside, Waker::noop()).is_pending()));
    }));
    assert!(result.is_err() && !polled.get());
    drop(inside);
    assert_eq!(one.live(), 0);
}
