//! Blocking stages: calls on threads.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx::blocking::{BlockingError, BlockingStage, PerThread, blocking};
use phalanx::runtime::DriverChoice;
use phalanx::{Graph, Session, SharedStage, join, sleep, timeout, yield_now};

use crate::runtime::harness::runtime;
use crate::runtime::on_each_driver;

on_each_driver!(
    many_calls,
    no_more_than_may_wait,
    panics_are_contained,
    given_up_before_it_began,
    a_session_waits_for_its_threads,
    the_end_waits_for_threads,
    used_again_by_another_program,
    each_thread_has_a_state,
);

/// Runs an operation in a program with a blocking stage of one thread and a queue of two.
fn with_one_thread<F, Fut>(driver: DriverChoice, operation: F)
where
    F: FnOnce(SharedStage<()>, BlockingStage<Slow>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let slow = blocking(&mut graph, "slow").threads(1).queue(2).state(Slow);
    let operation = Mutex::new(Some(operation));
    let passed = Arc::new(AtomicBool::new(false));
    let ran = runtime(driver, 1).run(graph, |start| {
        let (control, passed) = (start.control(), passed.clone());
        let operation = operation.lock().unwrap().take().unwrap();
        stage.dispatch(move |_| async move {
            let done = stage.call(move |_| operation(stage, slow)).await;
            passed.store(done.is_ok(), Ordering::SeqCst);
            control.end();
        })?;
        Ok(())
    });
    ran.unwrap();
    assert!(passed.load(Ordering::SeqCst), "the operation's panic is above");
}

/// Calls that block until they are released.
struct Slow;

impl Slow {
    fn wait(&self, started: &AtomicBool, go: &Receiver<()>) {
        started.store(true, Ordering::SeqCst);
        let _ = go.recv();
    }
}

/// Blocks the only thread until the sender is used or dropped.
async fn occupy(slow: BlockingStage<Slow>) -> (phalanx::blocking::BlockingCall<()>, Sender<()>) {
    let (go, wait) = channel();
    let started = Arc::new(AtomicBool::new(false));
    let flag = started.clone();
    let call = slow.call(move |slow| slow.wait(&started, &wait));
    until(&flag).await;
    (call, go)
}

async fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        sleep(Duration::from_millis(1)).await;
    }
}

fn many_calls(driver: DriverChoice) {
    const THREADS: usize = 3;
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let at_once = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let work = blocking(&mut graph, "work").threads(THREADS).state(at_once.clone());
    let open = Arc::new(AtomicUsize::new(2));
    let ran = runtime(driver, 2).run(graph, |start| {
        let (control, open) = (start.control(), open.clone());
        stage.dispatch(move |_| async move {
            let calls: Vec<_> = (0..200usize)
                .map(|n| {
                    stage.call(move |_| async move {
                        let call = work.call(move |counts| {
                            let (now, max) = &**counts;
                            max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            thread::sleep(Duration::from_micros(200));
                            now.fetch_sub(1, Ordering::SeqCst);
                            vec![n; 3]
                        });
                        assert_eq!(call.await, Ok(vec![n; 3]));
                    })
                })
                .collect();
            for result in join(calls).await {
                result.unwrap();
            }
            if open.fetch_sub(1, Ordering::SeqCst) == 1 {
                control.drain();
            }
        })?;
        Ok(())
    });
    ran.unwrap();
    assert_eq!(open.load(Ordering::SeqCst), 0);
    assert_eq!(at_once.0.load(Ordering::SeqCst), 0);
    let max = at_once.1.load(Ordering::SeqCst);
    assert!((1..=THREADS).contains(&max), "{max} at once");
}

fn no_more_than_may_wait(driver: DriverChoice) {
    with_one_thread(driver, |_, slow| async move {
        let (first, go) = occupy(slow).await;
        // The processor is free while its call blocks, so these run.
        let mut waiting: Vec<_> = (0..3).map(|n| Box::pin(slow.call(move |_| n))).collect();
        yield_now().await;
        let (mut full, mut done) = (0, 0);
        sleep(Duration::from_millis(2)).await;
        go.send(()).unwrap();
        for (n, call) in waiting.iter_mut().enumerate() {
            match call.await {
                Ok(value) => {
                    assert_eq!(value, n);
                    done += 1;
                }
                Err(BlockingError::Full { stage: "slow", bound: 2 }) => full += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((done, full), (2, 1));
        first.await.unwrap();
        assert_eq!(slow.call(|_| 7).await, Ok(7), "there is room again");
    });
}

fn panics_are_contained(driver: DriverChoice) {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a destructor");
        }
    }
    with_one_thread(driver, |_, slow| async move {
        for message in ["one", "two"] {
            let result = slow.call(move |_| -> u32 { panic!("number {message}") }).await;
            let message = format!("number {message}").into();
            assert_eq!(result, Err(BlockingError::Panicked { stage: "slow", message }));
        }
        // A panic payload and a result that panic when they are dropped.
        let result = slow.call(|_| -> u32 { std::panic::panic_any(Bomb) }).await;
        assert!(matches!(result, Err(BlockingError::Panicked { .. })));
        let (first, go) = occupy(slow).await;
        drop(first);
        go.send(()).unwrap();
        let (go, wait) = channel();
        let started = Arc::new(AtomicBool::new(false));
        let flag = started.clone();
        let bomb = slow.call(move |slow| {
            slow.wait(&flag, &wait);
            Bomb
        });
        // If no thread had started the call, dropping it would withdraw it.
        until(&started).await;
        drop(bomb);
        go.send(()).unwrap();
        assert_eq!(slow.call(|_| 7).await, Ok(7), "the thread goes on");
    });
}

fn given_up_before_it_began(driver: DriverChoice) {
    with_one_thread(driver, |_, slow| async move {
        let (first, go) = occupy(slow).await;
        let done = Arc::new(AtomicUsize::new(0));
        let call = || {
            let done = done.clone();
            slow.call(move |_| done.fetch_add(1, Ordering::SeqCst))
        };
        drop(call());
        let (mut kept, cancelled) = (call(), call());
        assert!(timeout(Duration::from_millis(5), &mut kept).await.is_err());
        drop(cancelled);
        sleep(Duration::from_millis(2)).await;
        assert_eq!(Arc::strong_count(&done), 2, "what was given up is dropped immediately");
        // Dropping it frees a place in the queue.
        let another = call();
        go.send(()).unwrap();
        kept.await.unwrap();
        another.await.unwrap();
        first.await.unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 2);
    });
}

fn a_session_waits_for_its_threads(driver: DriverChoice) {
    with_one_thread(driver, |stage, slow| async move {
        let session = Session::new();
        let (started, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 {
            let (started, done) = (started.clone(), done.clone());
            let caller = move |_| async move {
                let (_go, wait) = channel::<()>();
                let call = slow.call(move |slow| {
                    slow.wait(&started, &wait);
                    thread::sleep(Duration::from_millis(50));
                    done.fetch_add(1, Ordering::SeqCst);
                });
                let _ = call.await;
            };
            session.scope(|| stage.dispatch(caller)).unwrap();
        }
        until(&started).await;
        // The started call continues, because its sender is dropped with its caller. The other never starts.
        session.end().await;
        assert_eq!(session.operations(), 0);
        assert_eq!(done.load(Ordering::SeqCst), 1, "the end waited for the thread");
        assert_eq!(Arc::strong_count(&done), 1, "and what it worked with is back");
    });
}

fn the_end_waits_for_threads(driver: DriverChoice) {
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let slow = blocking(&mut graph, "slow").threads(1).state(());
    let (started, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let ran = runtime(driver, 2).run(graph, |start| {
        if start.processor() > 0 {
            return Ok(());
        }
        let (control, started, done) = (start.control(), started.clone(), done.clone());
        stage.dispatch(move |_| async move {
            let count = done.clone();
            let flag = started.clone();
            // Dropped with this operation, after the calls. Until then the first call blocks and the second
            // waits.
            let (_go, wait) = channel::<()>();
            let first = slow.call(move |()| {
                Slow.wait(&started, &wait);
                thread::sleep(Duration::from_millis(100));
                count.fetch_add(1, Ordering::SeqCst);
            });
            until(&flag).await;
            let second = slow.call(move |()| done.fetch_add(100, Ordering::SeqCst));
            sleep(Duration::from_millis(2)).await;
            control.end();
            let _ = (first.await, second.await);
        })?;
        Ok(())
    });
    ran.unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 1, "the first is done, the second never was");
    assert_eq!(Arc::strong_count(&done), 1);
}

/// Programs that run one after another, and two at the same time, each with its own threads.
fn used_again_by_another_program(driver: DriverChoice) {
    let program = move || {
        with_one_thread(driver, |_, slow| async move {
            assert_eq!(slow.call(|_| 1).await, Ok(1));
        });
    };
    program();
    thread::scope(|scope| {
        scope.spawn(program);
        scope.spawn(program);
    });
}

/// The state is created, dropped, and used after a panic in a call.
fn each_thread_has_a_state(driver: DriverChoice) {
    const THREADS: usize = 2;

    /// A state that may not leave its thread.
    struct ThreadState(thread::ThreadId, Arc<AtomicUsize>, PhantomData<*const ()>);

    impl Drop for ThreadState {
        fn drop(&mut self) {
            assert_eq!(self.0, thread::current().id());
            self.1.fetch_sub(1, Ordering::SeqCst);
        }
    }

    let (alive, created) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, counted) = (alive.clone(), created.clone());
    let own = PerThread::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        count.fetch_add(1, Ordering::SeqCst);
        ThreadState(thread::current().id(), count.clone(), PhantomData)
    });
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let work = blocking(&mut graph, "work").threads(THREADS).state(own);
    let checked = created.clone();
    let ran = runtime(driver, 1).run(graph, move |start| {
        let (control, created) = (start.control(), checked.clone());
        stage.dispatch(move |_| async move {
            let call = move || work.call(|state| state.with(|id| id.0 == thread::current().id()));
            let calls: Vec<_> =
                (0..50).map(|_| stage.call(move |_| async move { call().await })).collect();
            for result in join(calls).await {
                assert_eq!(result.unwrap(), Ok(true));
            }
            let before = created.load(Ordering::SeqCst);
            assert!((1..=THREADS).contains(&before), "{before} states");
            let panicked = work.call(|state| state.with(|_| panic!("by intent")));
            assert!(matches!(panicked.await, Err::<(), _>(BlockingError::Panicked { .. })));
            for _ in 0..4 {
                assert_eq!(call().await, Ok(true));
            }
            control.drain();
        })?;
        Ok(())
    });
    ran.unwrap();
    assert!(created.load(Ordering::SeqCst) <= THREADS + 1);
    assert_eq!(alive.load(Ordering::SeqCst), 0, "every state was dropped on its thread");
}
