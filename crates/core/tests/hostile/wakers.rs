//! Foreign wakers whose wake and whose destructor panic, or use the scheduler.

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use phalanx_core::{Call, Graph, Session, join, oneshot, sleep};

use crate::support::{HostileWorld, build, poll_once, settle, silence_expected_panics};

/// Panics in every method.
struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("hostile waker");
    }
}

#[test]
fn a_waker_that_panics_does_not_stop_its_callers() {
    silence_expected_panics();
    let panicking_waker = Waker::from(Arc::new(PanickingWaker));
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ([processor], world) = (build(graph), HostileWorld::default());
    processor.enter(|| {
        let (sender, mut receiver) = oneshot::local();
        assert!(poll_once(&mut receiver, &panicking_waker).is_pending());
        sender.send(1);
        let (sender, mut receiver) = oneshot::shared();
        assert!(poll_once(&mut receiver, &panicking_waker).is_pending());
        sender.send(1);
        let (sender, mut receiver) = oneshot::shared::<u8>();
        assert!(poll_once(&mut receiver, &panicking_waker).is_pending());
        drop(sender);
        let mut joined = join(vec![stage.call(|_| async {}), stage.call(|_| async {})]);
        assert!(poll_once(&mut joined, &panicking_waker).is_pending());
        let mut timer = sleep(Duration::from_nanos(1));
        assert!(poll_once(&mut timer, &panicking_waker).is_pending());
        processor.turn(&world);
        world.now.set(2_000_000);
        processor.turn(&world);
        assert!(poll_once(&mut timer, &panicking_waker).is_ready());
        assert!(poll_once(&mut joined, &panicking_waker).is_ready());
    });
    settle(std::slice::from_ref(&processor), &world);
    assert_eq!(processor.live(), 0);
}

/// Uses everything that may be borrowed at places where a waker is woken or dropped.
struct Busy;

impl Busy {
    fn use_everything() {
        let session = Session::new();
        let mut end = session.end();
        assert!(poll_once(&mut end, Waker::noop()).is_ready());
        let mut timer = sleep(Duration::from_secs(1));
        assert!(poll_once(&mut timer, Waker::noop()).is_pending());
        let (sender, mut receiver) = oneshot::local::<()>();
        assert!(poll_once(&mut receiver, Waker::noop()).is_pending());
        drop(sender);
    }
}

impl Wake for Busy {
    fn wake(self: Arc<Self>) {
        Self::use_everything();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        Self::use_everything();
    }
}

#[test]
fn a_waker_may_use_everything_where_it_is_woken_and_dropped() {
    let busy = || Waker::from(Arc::new(Busy));
    let mut graph = Graph::new();
    let stage = graph.stage("stage").capacity(1).shared(());
    let ([processor], world) = (build(graph), HostileWorld::default());
    processor.enter(|| {
        let mut timer = sleep(Duration::from_millis(1));
        let mut call = stage.call(|_| async {});
        let mut room = stage.wait_for_capacity();
        let session = Session::new();
        let guard = session.guard();
        let mut end = session.end();
        let (sender, mut receiver) = oneshot::local::<()>();
        // Each waker takes the place of another.
        for _ in 0..3 {
            assert!(poll_once(&mut timer, &busy()).is_pending());
            assert!(poll_once(&mut call, &busy()).is_pending());
            assert!(poll_once(&mut room, &busy()).is_pending());
            assert!(poll_once(&mut end, &busy()).is_pending());
            assert!(poll_once(&mut receiver, &busy()).is_pending());
        }
        drop(guard);
        drop(sender);
        processor.turn(&world);
        world.now.set(5_000_000);
        processor.turn(&world);
        assert!(poll_once(&mut end, &busy()).is_ready());
        assert!(poll_once(&mut call, &busy()).is_ready());
        assert!(poll_once(&mut timer, &busy()).is_ready());
    });
    assert_eq!(processor.live(), 0);
}

/// Ends a session when it is dropped.
struct EndsSession(Mutex<Option<u64>>, std::thread::ThreadId);

thread_local! {
    static SESSIONS: std::cell::RefCell<Vec<Session>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Wake for EndsSession {
    fn wake(self: Arc<Self>) {}
}

impl Drop for EndsSession {
    fn drop(&mut self) {
        assert_eq!(self.1, std::thread::current().id());
        let session = SESSIONS.with_borrow_mut(Vec::pop);
        session.into_iter().for_each(|session| drop(session.end()));
        self.0.get_mut().unwrap().take();
    }
}

/// A child's former waker ends the child's sibling, at the moment when a join takes its place.
#[test]
fn a_join_hears_of_children_that_end_while_it_begins() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ([processor], world) = (build(graph), HostileWorld::default());
    let done = std::rc::Rc::new(std::cell::Cell::new(false));
    let out = done.clone();
    processor.enter(|| {
        let session = Session::new();
        let (sender, receiver) = oneshot::local::<()>();
        let mut first: Call<()> = stage.call(move |_| async move { _ = receiver.await });
        let second = session.scope(|| stage.call(|_| std::future::pending::<()>()));
        processor.turn(&world);
        let waker = EndsSession(Mutex::new(None), std::thread::current().id());
        assert!(poll_once(&mut first, &Waker::from(Arc::new(waker))).is_pending());
        SESSIONS.with_borrow_mut(|sessions| sessions.push(session));
        let parent = stage.dispatch(move |_| async move {
            let (first, second) = join((first, second)).await;
            assert!(first.is_ok() && second.is_err());
            out.set(true);
        });
        parent.unwrap();
        processor.turn(&world);
        sender.send(());
    });
    settle(std::slice::from_ref(&processor), &world);
    assert!(done.get());
    assert_eq!(processor.live(), 0);
}
