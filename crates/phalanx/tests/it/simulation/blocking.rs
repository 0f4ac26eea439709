//! Blocking stages in simulation: no threads, virtual time, and an order determined by the seed.

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx::blocking::{BlockingCall, BlockingError, BlockingStage, blocking};
use phalanx::sim::{self, World};
use phalanx::{Graph, Session, sleep, yield_now};

const CALLS: u32 = 6;

/// Numbers of the finished calls in order.
type Done = Arc<Mutex<Vec<u32>>>;

fn program(world: &mut World, done: Done) {
    let here = thread::current().id();
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let slow = blocking(&mut graph, "slow").threads(2).queue(CALLS as usize).state(done.clone());
    world.set_processors(1);
    world.program(graph, move |_| {
        let done = done.clone();
        main.dispatch(move |_| async move {
            let calls: Vec<_> = (0..CALLS).map(|n| call(slow, n, here)).collect();
            for (n, call) in (0..CALLS).zip(calls) {
                assert_eq!(call.await, Ok(n), "each has its own result");
            }
            let mut ran = done.lock().unwrap().clone();
            ran.sort_unstable();
            assert!(ran.into_iter().eq(0..CALLS), "each ran once");
            let panics: Result<(), _> = slow.call(|_| resume_unwind(Box::new("of its own"))).await;
            assert!(matches!(panics, Err(BlockingError::Panicked { .. })));
            // This call is dropped and may or may not run; its session's end waits for it.
            let session = Session::new();
            session
                .scope(|| {
                    main.dispatch(move |_| async move {
                        let _ = call(slow, 100, here).await;
                    })
                })
                .unwrap();
            for _ in 0..3 {
                yield_now().await;
            }
            session.end().await;
            let after = done.lock().unwrap().len();
            sleep(Duration::from_secs(5)).await;
            assert_eq!(done.lock().unwrap().len(), after, "nothing runs after the session's end");
            done.lock().unwrap().push(u32::MAX);
        })?;
        Ok(())
    });
}

fn call(slow: BlockingStage<Done>, n: u32, here: thread::ThreadId) -> BlockingCall<u32> {
    slow.call(move |done| {
        assert_eq!(thread::current().id(), here, "on the one thread");
        done.lock().unwrap().push(n);
        n
    })
}

#[test]
fn blocking_calls_run_in_virtual_time() {
    let orders = RefCell::new(HashSet::new());
    let (cancelled, created) = (RefCell::new(0), RefCell::new(0));
    sim::explore_each(60, |seed| {
        let done = Done::default();
        let first = sim::run(seed, |world| program(world, done.clone()));
        let ran = std::mem::take(&mut *done.lock().unwrap());
        assert_eq!(ran.last(), Some(&u32::MAX), "the program came to its end");
        assert_eq!(sim::run(seed, |world| program(world, done.clone())), first, "the same again");
        *(if ran.contains(&100) { &created } else { &cancelled }).borrow_mut() += 1;
        orders.borrow_mut().insert(ran[..CALLS as usize].to_vec());
    });
    if std::env::var_os("PHALANX_SEED").is_none() {
        assert!(orders.borrow().len() > 10, "{} orders", orders.borrow().len());
        let (cancelled, created) = (cancelled.take(), created.take());
        assert!(cancelled > 0 && created > 0, "{cancelled} given up, {created} made");
    }
}
