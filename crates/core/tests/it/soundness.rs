//! User code at critical moments: destructors, wakers and panics that call back into the runtime, and handles
//! away from their processor.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::common::{Bench, settle, single_processor};
use phalanx_core::{Call, CallError, Graph, Session, join, sleep, yield_now};

/// Runs a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_join_dropped_away_from_its_processor_leaves_no_pointer() {
    let mut graph = Graph::new();
    let (a, b) = (graph.shared("a", ()), graph.shared("b", ()));
    let (processor, world) = (single_processor(graph), Bench::default());
    let (release, parked) = (Rc::new(Cell::new(false)), Rc::new(RefCell::new(None)));
    let (go, out) = (release.clone(), parked.clone());
    settle(&processor, &world, || {
        a.dispatch(move |_| async move {
            let child = || {
                let go = go.clone();
                b.call(move |_| async move {
                    while !go.get() {
                        sleep(Duration::from_millis(1)).await;
                    }
                })
            };
            let mut joined = Box::pin(join(vec![child(), child()]));
            std::future::poll_fn(|context| {
                assert!(joined.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            *out.borrow_mut() = Some(joined);
        })
        .unwrap();
    });
    drop(parked.take());
    release.set(true);
    world.now.set(5_000_000);
    settle(&processor, &world, || ());
}

#[test]
fn a_turn_enters_its_own_processor() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let mut builders = graph.build(2);
    let [one, two] =
        [builders.remove(0), builders.remove(0)].map(|builder| builder.build(Box::new(|| ())));
    let world = Bench::default();
    two.enter(|| {
        a.dispatch(move |_| async move { a.dispatch(|_| std::future::pending()).unwrap() })
    })
    .unwrap();
    one.enter(|| while two.turn(&world).ran > 0 {});
    assert_eq!((one.live(), two.live()), (0, 1));
}

#[test]
#[should_panic(expected = "inside its own turn")]
fn a_turn_inside_a_turn_panics() {
    struct Inner(Rc<RefCell<Option<Rc<phalanx_core::Processor>>>>);
    impl phalanx_core::World for Inner {
        fn now(&self) -> u64 {
            0
        }
        fn reap(&self) -> bool {
            let processor = self.0.borrow_mut().take();
            processor.is_some_and(|processor| processor.turn(self).ran > 0)
        }
        fn submit(&self) {}
        fn park(&self, _: Option<u64>) {}
    }
    let processor = Rc::new(single_processor(Graph::new()));
    processor.turn(&Inner(Rc::new(RefCell::new(Some(processor.clone())))));
}

#[test]
fn sessions_are_cloned_and_dropped_anywhere_on_their_thread() {
    let (processor, world) = (single_processor(Graph::new()), Bench::default());
    let session = processor.enter(Session::new);
    let clones = [session.clone(), session.clone()];
    settle(&processor, &world, || drop((session, clones)));
    processor.enter(|| assert_eq!(Session::new().operations(), 0));
}

#[test]
fn a_result_whose_destructor_panics_harms_no_other_operation() {
    let mut graph = Graph::new();
    let a = graph.exclusive("a", 0u32);
    let b = graph.shared("b", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        let panicking = a.call(|_| async { OnDrop(|| panic!("in a result")) });
        panicking.detach().unwrap();
        // It finished first, and the operation that waited for it drops it.
        b.dispatch(move |_| async move {
            let done = a.call(|_| async { OnDrop(|| panic!("in a result")) });
            yield_now().await;
            drop(done);
        })
        .unwrap();
        a.dispatch(|state| async move { state.with(|n| *n += 1) }).unwrap();
    });
    settle(&processor, &world, || {
        a.dispatch(|state| async move { state.with(|n| assert_eq!(*n, 1)) }).unwrap();
    });
    assert_eq!(processor.live(), 0);
    assert_eq!(processor.control().profile().processors[0].stages[0].panicked, 0);
}

#[test]
fn a_foreign_waker_that_panics_stops_no_other_operation() {
    struct PanicsOnDrop;
    impl Wake for PanicsOnDrop {
        fn wake(self: Arc<Self>) {
            panic!("in a waker")
        }
    }
    let mut graph = Graph::new();
    let a = graph.exclusive("a", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let panicking = Waker::from(Arc::new(PanicsOnDrop));
    let mut call: Option<Call<()>> = None;
    settle(&processor, &world, || {
        let mut waiting = a.call(|_| async {});
        assert!(poll_once(&mut waiting, &panicking).is_pending());
        call = Some(waiting);
        let mut timer = pin!(sleep(Duration::ZERO + Duration::from_nanos(1)));
        assert!(poll_once(&mut timer, &panicking).is_pending());
        let session = Session::new();
        let guard = session.guard();
        assert!(poll_once(&mut session.end(), &panicking).is_pending());
        drop(guard);
        world.now.set(10_000_000);
        processor.turn(&world);
    });
    settle(&processor, &world, || a.dispatch(|state| async move { state.with(|()| ()) }).unwrap());
    processor.enter(|| drop(call));
    assert_eq!(processor.control().profile().processors[0].stages[0].completed.count, 2);
}

#[test]
fn a_foreign_wakers_destructor_may_use_timers() {
    struct Timer;
    impl Wake for Timer {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Timer {
        fn drop(&mut self) {
            let mut timer = pin!(sleep(Duration::from_secs(1)));
            let _ = poll_once(&mut timer, Waker::noop());
        }
    }
    let (processor, world) = (single_processor(Graph::new()), Bench::default());
    settle(&processor, &world, || {
        let mut timer = pin!(sleep(Duration::from_millis(3)));
        for _ in 0..2 {
            // The second takes the place of the first, whose last reference is dropped with that.
            assert!(poll_once(&mut timer, &Waker::from(Arc::new(Timer))).is_pending());
        }
    });
    settle(&processor, &world, || {
        let (sender, receiver) = phalanx_core::oneshot::local::<u8>();
        let mut receiver = pin!(receiver);
        assert!(poll_once(&mut receiver, &Waker::from(Arc::new(Timer))).is_pending());
        assert!(poll_once(&mut receiver, Waker::noop()).is_pending());
        sender.send(1);
    });
}

#[test]
fn a_panic_payload_may_panic_when_dropped() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let (processor, world, ran) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    let count = ran.clone();
    settle(&processor, &world, || {
        a.dispatch(|_| async {
            struct PanicsOnDrop;
            impl Drop for PanicsOnDrop {
                fn drop(&mut self) {
                    panic!("in what a panic carried")
                }
            }
            std::panic::panic_any(PanicsOnDrop)
        })
        .unwrap();
        a.dispatch(move |_| async move { count.set(1) }).unwrap();
    });
    assert_eq!((ran.get(), processor.live()), (1, 0));
}

#[test]
fn invocations_by_destructors_are_rejected_when_the_processor_is_dropped() {
    let alive = Rc::new(());
    let mut graph = Graph::new();
    let (a, b) = (graph.shared("a", ()), graph.shared("b", ()));
    let processor = single_processor(graph);
    let result = Rc::new(Cell::new(None));
    processor.enter(|| {
        let (inner, seen) = (alive.clone(), result.clone());
        let invokes_on_drop = OnDrop(move || {
            let inner = inner.clone();
            seen.set(Some(a.dispatch(move |_| async move { drop(inner) })));
        });
        b.dispatch(move |_| async move { drop(invokes_on_drop) }).unwrap();
    });
    drop(processor);
    assert_eq!(result.take(), Some(Err(CallError::Cancelled)));
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn ending_a_program_cancels_the_invocations_of_its_destructors() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    processor.enter(|| {
        let invokes_on_drop = OnDrop(move || drop(a.dispatch(|_| std::future::pending())));
        a.dispatch(move |_| async move {
            let _last_words = invokes_on_drop;
            std::future::pending().await
        })
        .unwrap();
        processor.turn(&world);
        processor.control().end();
    });
    processor.run(&world, 0);
    assert_eq!(processor.live(), 0);
}

#[test]
fn an_operation_that_holds_its_own_call_ends_with_its_session() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let (processor, world, own) =
        (single_processor(graph), Bench::default(), Rc::new(RefCell::new(None)));
    settle(&processor, &world, || {
        let session = Session::new();
        let calls: Rc<RefCell<Option<Call<()>>>> = own.clone();
        session
            .scope(|| {
                a.dispatch(move |_| async move {
                    let inner = calls.clone();
                    let call = a.call(move |_| async move {
                        let own = inner.take();
                        yield_now().await;
                        // The destructor of the future asks, after the future is gone.
                        let _own = own;
                        std::future::pending().await
                    });
                    *calls.borrow_mut() = Some(call);
                })
            })
            .unwrap();
        for _ in 0..4 {
            processor.turn(&world);
        }
        assert_eq!(session.operations(), 1);
        drop(session.end());
        assert_eq!(session.operations(), 0);
    });
    assert_eq!(processor.live(), 0);
}

#[test]
fn a_session_ended_by_its_own_operation_wakes_outside_waiters() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let (processor, world, seen) =
        (single_processor(graph), Bench::default(), Rc::new(RefCell::new(None)));
    let (out, calls) = (seen.clone(), Rc::new(RefCell::new(Vec::new())));
    settle(&processor, &world, || {
        let (session, inside) = (Session::new(), calls.clone());
        session
            .scope(|| {
                a.dispatch(move |_| async move {
                    let ender = a.call(|_| async {
                        let session = Session::current().expect("inside");
                        session.end().await;
                        unreachable!("ended at its own await")
                    });
                    let waiting = a.call(|_| std::future::pending::<()>());
                    inside.borrow_mut().extend([ender, waiting]);
                    std::future::pending().await
                })
            })
            .unwrap();
        a.dispatch(move |_| async move {
            while calls.borrow().is_empty() {
                yield_now().await;
            }
            let results = join(calls.take()).await;
            *out.borrow_mut() = Some(results);
            drop(session);
        })
        .unwrap();
    });
    assert_eq!(*seen.borrow(), Some(vec![Err(CallError::Cancelled), Err(CallError::Cancelled)]));
    assert_eq!(processor.live(), 0);
}

#[test]
fn a_processor_that_goes_first_answers_those_that_wait() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let mut builders = graph.build(2);
    let [one, two] =
        [builders.remove(0), builders.remove(0)].map(|builder| builder.build(Box::new(|| ())));
    let (world, results) = (Bench::default(), Rc::new(RefCell::new(Vec::new())));
    let (out, count) = (results.clone(), dropped.clone());
    settle(&one, &world, || {
        a.dispatch(move |_| async move {
            // More than a ring holds, so some never leave their processor.
            let calls = (0..3_000).map(|_| {
                let count = count.clone();
                let guard = OnDrop(move || _ = count.fetch_add(1, Ordering::Relaxed));
                a.call_on(1, move |_| async move {
                    let _guard = guard;
                    std::future::pending::<()>().await
                })
            });
            let calls = join(calls.collect::<Vec<_>>()).await;
            out.borrow_mut().extend(calls);
        })
        .unwrap();
    });
    two.enter(|| two.turn(&world));
    drop(two);
    settle(&one, &world, || ());
    assert!(results.borrow().is_empty(), "operations that never left are still running");
    drop(one);
    assert_eq!(dropped.load(Ordering::Relaxed), 3_000, "with the program at the latest");
}

#[test]
fn a_call_that_strays_is_over() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let mut builders = graph.build(2);
    let [one, two] =
        [builders.remove(0), builders.remove(0)].map(|builder| builder.build(Box::new(|| ())));
    let mut call = one.enter(|| a.call(|_| async { 1 }));
    let mut late = one.enter(|| a.call(|_| async { 2 }));
    let elsewhere = two.enter(|| poll_once(&mut call, Waker::noop()));
    assert_eq!(elsewhere, Poll::Ready(Err(CallError::WrongProcessor)));
    drop(one);
    assert_eq!(poll_once(&mut late, Waker::noop()), Poll::Ready(Err(CallError::Cancelled)));
}

#[test]
fn a_destructor_in_a_cohort_wakes_the_operation_that_just_suspended() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let (processor, world, done) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    let out = done.clone();
    settle(&processor, &world, || {
        let (session, (sender, receiver)) = (Session::new(), phalanx_core::oneshot::local::<u8>());
        session.scope(|| a.dispatch(move |_| async move { drop(sender) })).unwrap();
        // The newest is taken first, and then the one that was ended in the queue.
        a.dispatch(move |_| async move {
            assert_eq!(receiver.await, None);
            out.set(1);
        })
        .unwrap();
        drop(session.end());
    });
    assert_eq!((done.get(), processor.live()), (1, 0));
}
