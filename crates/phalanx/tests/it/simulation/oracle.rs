//! Injected faults in the scheduler and in programs: the oracle finds each within a few seeds.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use phalanx::sim::{self, Faults, World};
use phalanx::sync::oneshot;
use phalanx::time::now;
use phalanx::{Call, Graph, Session, SharedStage, sleep, yield_now};
use phalanx_core::fault_injection::{Fault, clear, inject};

/// A world with calls within a processor and between two, and with sleeps.
fn busy_world(world: &mut World) {
    world.set_processors(2);
    let mut graph = Graph::new();
    let near = graph.shared("near", ());
    let far = graph.shared("far", ());
    world.program(graph, move |start| {
        if start.processor() == 0 {
            for number in 0..6 {
                near.dispatch(move |_| async move {
                    sleep(Duration::from_millis(number % 3)).await;
                    let there = far.call_on(1, move |_| async move { number });
                    let here = far.call(move |_| async move {
                        yield_now().await;
                        number
                    });
                    assert_eq!((there.await.unwrap(), here.await.unwrap()), (number, number));
                })?;
            }
        }
        Ok(())
    });
}

/// The failure of a run.
fn failure(seed: u64, build: impl Fn(&mut World)) -> Option<String> {
    // The panic message of an expected failure is suppressed.
    let failed = catch_unwind(AssertUnwindSafe(|| sim::run(seed, &build))).err()?;
    let text = failed.downcast_ref::<String>().cloned();
    Some(text.or_else(|| failed.downcast_ref::<&str>().map(ToString::to_string)).unwrap())
}

/// The failure of the first seed that fails, if any. The correct program passes with all of them.
fn first_failure(within: u64, build: impl Fn(&mut World)) -> Option<String> {
    (0..within).find_map(|seed| failure(seed, &build))
}

#[test]
fn a_sound_program_passes() {
    assert_eq!(first_failure(200, busy_world), None);
}

/// A wake-up from a thread outside the simulation takes time, and is not reported as lost.
#[test]
fn wake_ups_of_other_threads_are_not_lost() {
    let (wakers, received) = mpsc::channel::<Waker>();
    let thread = thread::spawn(move || {
        let (mut waker, mut pause) = (received.recv().unwrap(), 0);
        loop {
            match received.try_recv() {
                Ok(next) => waker = next,
                Err(mpsc::TryRecvError::Empty) => waker.wake_by_ref(),
                Err(mpsc::TryRecvError::Disconnected) => return,
            }
            pause = (pause + 7) % 1000;
            (0..pause).for_each(|_| std::hint::spin_loop());
        }
    });
    let build = |world: &mut World| {
        let mut graph = Graph::new();
        let (stage, wakers) = (graph.shared("stage", ()), wakers.clone());
        world.set_processors(1);
        world.program(graph, move |_| {
            let wakers = wakers.clone();
            stage.dispatch(move |_| async move {
                let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
                wakers.send(waker).unwrap();
                for _ in 0..1000 {
                    sleep(Duration::from_millis(1)).await;
                }
            })?;
            Ok(())
        });
    };
    // Such wake-ups may fail a run otherwise, because it depends on more than its seed.
    let failures: Vec<_> = (0..100).filter_map(|seed| failure(seed, build)).collect();
    assert!(failures.iter().all(|failure| !failure.contains("lost")), "{failures:?}");
    drop(wakers);
    thread.join().unwrap();
}

fn assert_found(fault: Fault, words: &[&str]) {
    for skipped in 0..4 {
        let failure = first_failure(20, |world| {
            inject(fault, skipped);
            busy_world(world);
        });
        assert!(!clear(), "{fault:?} never happened");
        let failure = failure.unwrap_or_else(|| panic!("{fault:?} after {skipped} is not found"));
        assert!(words.iter().any(|words| failure.contains(words)), "{failure}");
    }
}

#[test]
fn a_lost_unpark_is_found() {
    assert_found(Fault::LostUnpark, &["a wake-up was lost"]);
}

#[test]
fn a_lost_wake_up_is_found() {
    assert_found(Fault::LostWakeUp, &["suspended, awaited by nobody"]);
}

#[test]
fn a_failure_says_how_it_is_repeated() {
    let failure = first_failure(1, |world| world.set_processors(1)).expect("there is no program");
    assert!(failure.contains("seed 0; PHALANX_SEED=0 repeats it"), "{failure}");
}

#[test]
#[cfg(debug_assertions)]
fn a_double_run_is_found() {
    assert_found(Fault::DoubleRun, &["queued twice", "cannot run", "freed with a live value"]);
}

/// An event that forgets its waiter when it is polled twice before it is triggered.
#[derive(Default)]
struct LosesWaker {
    has_fired: Cell<bool>,
    waits: RefCell<Option<Waker>>,
    polled: Cell<bool>,
}

impl LosesWaker {
    async fn wait(&self) {
        poll_fn(|context| {
            if self.has_fired.get() {
                return Poll::Ready(());
            }
            let is_repeated = self.polled.replace(true);
            *self.waits.borrow_mut() = (!is_repeated).then(|| context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn happen(&self) {
        self.has_fired.set(true);
        if let Some(waker) = self.waits.take() {
            waker.wake();
        }
    }
}

#[test]
fn a_program_that_forgets_who_waits_is_stuck() {
    let failure = first_failure(50, |world| {
        let mut graph = Graph::new();
        let stage = graph.shared("forgetful", ());
        world.program(graph, move |_| {
            stage.dispatch(move |_| async move {
                let event = Rc::new(LosesWaker::default());
                let other = event.clone();
                let _ = stage.dispatch(move |_| async move {
                    sleep(Duration::from_millis(3)).await;
                    other.happen();
                });
                // If the nap ends first, the event is polled once more.
                let timer = sleep(Duration::from_millis(1));
                let _ = phalanx::select(event.wait(), async {
                    timer.await;
                    std::future::pending::<()>().await;
                })
                .await;
            })?;
            Ok(())
        });
    });
    let failure = failure.expect("it is found");
    assert!(failure.contains("stuck") && failure.contains("\"forgetful\", suspended"), "{failure}");
}

#[test]
fn waiting_in_a_circle_is_stuck_and_told() {
    let failure = first_failure(1, |world| {
        let mut graph = Graph::new();
        let [one, other] = ["one", "other"].map(|name| graph.shared(name, ()));
        world.program(graph, move |_| {
            one.dispatch(move |_| async move {
                let (sender, receiver): (_, oneshot::LocalReceiver<()>) = oneshot::local();
                // The child waits for a value that its parent sends only after the child has returned.
                let _ = other.call(move |_| receiver).await;
                sender.send(());
            })?;
            Ok(())
        });
    });
    let failure = failure.expect("it is found");
    assert!(failure.contains("\"other\", suspended, awaited by \"one\""), "{failure}");
}

#[test]
fn calls_that_await_each_other_are_told_as_a_cycle() {
    let failure = first_failure(1, |world| {
        let mut graph = Graph::new();
        let [one, other] = ["one", "other"].map(|name| graph.shared(name, ()));
        world.program(graph, move |_| {
            let (to_other, from_one) = oneshot::local::<Call<()>>();
            let (to_one, from_other) = oneshot::local::<Call<()>>();
            to_other.send(one.call(|_| async { _ = from_other.await.unwrap().await }));
            to_one.send(other.call(|_| async { _ = from_one.await.unwrap().await }));
            Ok(())
        });
    });
    let failure = failure.expect("it is found");
    assert!(
        failure
            .contains("2 operations wait for each other in a cycle:\n  processor 0, stage \"one\""),
        "{failure}"
    );
}

#[test]
fn a_client_without_an_answer_is_stuck() {
    let address = "10.0.0.1:7".parse().unwrap();
    let failure = first_failure(1, |world| {
        let mut graph = Graph::new();
        let stage: SharedStage<()> = graph.shared("deaf", ());
        let listeners = world.listen(address);
        world.set_faults(Faults::NONE);
        world.program(graph, move |start| {
            let listener = listeners.listener(start)?;
            stage.dispatch(move |_| async move {
                // Accepts the connection and never responds.
                let _stream = listener.accept().await;
                phalanx::shutdown::draining().await;
            })?;
            Ok(())
        });
        let net = world.net();
        world.client(async move {
            let mut client = net.connect(address).await.unwrap();
            let _ = client.read(&mut Vec::new()).await;
        });
    });
    assert!(failure.expect("it is found").contains("1 clients wait"));
}

#[test]
fn endless_work_is_told() {
    let failure = first_failure(1, |world| {
        world.set_max_steps(500);
        let mut graph = Graph::new();
        let stage = graph.shared("busy", ());
        world.program(graph, move |_| {
            stage.dispatch(|_| async {
                loop {
                    yield_now().await;
                }
            })?;
            Ok(())
        });
    });
    assert!(failure.expect("it is found").contains("not at rest after 500 steps"));
}

/// A program in which an operation panics on the last processor, after its child has panicked.
fn panicking_world(world: &mut World) {
    let last = world.processors() - 1;
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    world.program(graph, move |start| {
        if start.processor() == 0 {
            stage.dispatch(move |_| async move {
                let child = stage.call_on(last, |_| async { assert_eq!(1 + 1, 3, "a wrong sum") });
                assert!(child.await.is_err());
            })?;
        }
        Ok(())
    });
}

#[test]
fn a_panic_of_an_operation_fails_the_run_unless_it_is_allowed() {
    for seed in 0..40 {
        let failed = failure(seed, panicking_world).expect("the panic fails the run");
        assert!(failed.contains("stage \"stage\"") && failed.contains("a wrong sum"), "{failed}");
        let allowed = failure(seed, |world| {
            panicking_world(world);
            world.allow_panics();
        });
        assert_eq!(allowed, None);
    }
    let failure = failure_of_all_schedules();
    assert!(failure.contains("a wrong sum"), "{failure}");
}

fn failure_of_all_schedules() -> String {
    let failed = catch_unwind(|| _ = sim::explore_all(sim::Bounds::default(), panicking_world));
    *failed.expect_err("the panic fails the run").downcast::<String>().expect("a formatted message")
}

#[test]
fn panics_come_where_they_are_asked_for_and_end_one_operation() {
    let (mut panicked, mut passed) = (0, 0);
    for seed in 0..40 {
        let outcomes = Rc::new(RefCell::new([0, 0]));
        let counted = outcomes.clone();
        sim::run(seed, |world| {
            world.set_panics(300);
            world.set_processors(1);
            let mut graph = Graph::new();
            let stage = graph.shared("stage", ());
            let counts = graph.exclusive("counts", 0);
            let _ = counts;
            world.program(graph, move |_| {
                let counted = counted.clone();
                let session = Session::new();
                session.scope(|| {
                    stage.dispatch(move |_| async move {
                        let start = now();
                        let child = stage.call(|_| async {
                            sleep(Duration::from_millis(2)).await;
                            sim::fault_point("after the sleep");
                        });
                        let outcome = usize::from(child.await.is_err());
                        assert!(outcome == 1 || now() - start >= Duration::from_millis(2));
                        counted.borrow_mut()[outcome] += 1;
                    })
                })?;
                Ok(())
            });
        });
        let outcomes = *outcomes.borrow();
        assert_eq!(outcomes[0] + outcomes[1], 1, "the parent goes on");
        passed += outcomes[0];
        panicked += outcomes[1];
    }
    assert!(panicked > 0 && passed > 0, "{panicked} and {passed}");
}
