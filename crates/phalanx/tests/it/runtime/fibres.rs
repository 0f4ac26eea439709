//! Fibres among asynchronous operations.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use phalanx::fibre::{Fibre, KeyedFibres, LocalFibres, StackSize, set_stack_limit, wait};
use phalanx::runtime::DriverChoice;
use phalanx::sync::oneshot;
use phalanx::time::now;
use phalanx::{CallError, Graph, Session, SharedStage, join, sleep, yield_now};

use crate::runtime::harness::{one, runtime};
use crate::runtime::on_each_driver;

on_each_driver![
    a_fibre_waits_for_time_and_operations,
    fibres_run_in_the_cohorts_of_their_stage,
    a_panic_ends_only_its_fibre,
    a_panicking_future_continues_in_the_fibre,
    the_end_of_a_session_unwinds_its_fibres,
    waiting_inside_of_with_panics_at_the_wait,
    waiting_inside_of_the_scope_of_a_session_panics,
    waiting_in_a_future_or_outside_of_a_fibre_panics,
    waiting_in_a_foreign_destructor_panics,
    a_spawned_fibre_runs_on_the_stage_of_its_parent,
    fibres_of_a_partition_keep_their_state,
    fibres_of_an_exclusive_stage_wait_outside_of_its_gate,
    at_the_limit_a_fibre_waits_for_a_stack,
    the_byte_table_contains_stacks,
];

fn a_fibre_waits_for_time_and_operations(driver: DriverChoice) {
    let output = one(driver, |stage| async move {
        let call = stage.fibre(move |_, fibre| {
            let start = now();
            fibre.sleep(Duration::from_millis(20));
            assert!(now() - start >= Duration::from_millis(20));
            let answers = (0..10).map(|n| stage.call(move |_| async move { n * n }));
            let answers: Vec<_> = answers.collect();
            let answers = fibre.wait(join(answers));
            answers.into_iter().map(Result::unwrap).sum::<u32>()
        });
        call.await.unwrap()
    });
    assert_eq!(output, 285);
}

/// Operations and fibres that are ready together run in the order in which they were invoked.
fn fibres_run_in_the_cohorts_of_their_stage(driver: DriverChoice) {
    let order = one(driver, |stage| async move {
        let order: Rc<RefCell<Vec<u32>>> = Rc::default();
        let calls = (0..30u32).map(|n| {
            let order = order.clone();
            match n % 2 {
                0 => stage.fibre(move |_, fibre| {
                    order.borrow_mut().push(n);
                    fibre.wait(yield_now());
                    order.borrow_mut().push(100 + n);
                }),
                _ => stage.call(move |_| async move {
                    order.borrow_mut().push(n);
                    yield_now().await;
                    order.borrow_mut().push(100 + n);
                }),
            }
        });
        let calls: Vec<_> = calls.collect();
        join(calls).await.into_iter().for_each(Result::unwrap);
        order.take()
    });
    assert_eq!(order, (0..30).chain(100..130).collect::<Vec<_>>());
}

fn a_panic_ends_only_its_fibre(driver: DriverChoice) {
    one(driver, |stage| async move {
        let dropped = Rc::new(Cell::new(false));
        let guard = SetOnDrop(dropped.clone());
        let call: phalanx::Call<()> = stage.fibre(move |_, fibre| {
            let _guard = guard;
            fibre.sleep(Duration::from_millis(1));
            panic!("a fibre's panic");
        });
        let error = call.await.unwrap_err();
        assert!(error.to_string().contains("a fibre's panic"), "{error}");
        assert!(dropped.get());
        assert_eq!(stage.fibre(|_, _| 7).await, Ok(7));
    });
}

fn a_panicking_future_continues_in_the_fibre(driver: DriverChoice) {
    one(driver, |stage| async move {
        let call = stage.fibre(|_, fibre| {
            let wait = || fibre.wait(async { panic!("a future's panic") });
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(wait));
            let caught = caught.unwrap_err();
            fibre.sleep(Duration::from_millis(1));
            *caught.downcast::<&str>().unwrap()
        });
        assert_eq!(call.await, Ok("a future's panic"));
    });
}

/// Sets a flag when it is dropped.
struct SetOnDrop(Rc<Cell<bool>>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

fn the_end_of_a_session_unwinds_its_fibres(driver: DriverChoice) {
    one(driver, |stage| async move {
        let flags: Vec<_> = (0..3).map(|_| Rc::new(Cell::new(false))).collect();
        let guards: Vec<_> = flags.iter().cloned().map(SetOnDrop).collect();
        let session = Session::new();
        session.scope(|| {
            let mut guards = guards.into_iter();
            let (one, two, three) =
                (guards.next().unwrap(), guards.next().unwrap(), guards.next().unwrap());
            let waits = stage.fibre(move |_, fibre| {
                let _guard = one;
                fibre.sleep(Duration::from_secs(3600));
            });
            // The fibre catches the unwinding and continues; its second wait unwinds it again.
            let catches = stage.fibre(move |_, fibre| {
                let _guard = two;
                let long_sleep = || fibre.sleep(Duration::from_secs(3600));
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(long_sleep));
                assert!(caught.is_err());
                fibre.sleep(Duration::from_secs(3600));
            });
            let deep = stage.fibre(move |_, fibre| {
                fn descend(fibre: &Fibre<'_>, depth: u32, guard: SetOnDrop) {
                    match depth {
                        0 => {
                            fibre.sleep(Duration::from_secs(3600));
                            drop(guard);
                        }
                        _ => descend(fibre, depth - 1, guard),
                    }
                }
                descend(fibre, 50, three);
            });
            [waits, catches, deep].into_iter().for_each(|call| call.detach().unwrap());
        });
        sleep(Duration::from_millis(2)).await;
        assert!(flags.iter().all(|flag| !flag.get()));
        session.end().await;
        assert!(flags.iter().all(|flag| flag.get()));
    });
}

fn panic_of(call: Result<(), CallError>) -> String {
    call.expect_err("it panics").to_string()
}

fn waiting_inside_of_with_panics_at_the_wait(driver: DriverChoice) {
    let mut graph = Graph::new();
    let stage = graph.exclusive("exclusive", 0);
    let ran = runtime(driver, 1).run(graph, move |start| {
        let control = start.control();
        stage.dispatch(move |_| async move {
            let call = stage.fibre(|state, fibre| {
                state.with(|count| {
                    *count += 1;
                    fibre.sleep(Duration::from_millis(1));
                });
            });
            let error = panic_of(call.await);
            assert!(error.contains("the closure of a `with`"), "{error}");
            // The state is accessible again.
            let call = stage.fibre(|state, fibre| {
                fibre.sleep(Duration::from_millis(1));
                state.with(|count| *count)
            });
            assert_eq!(call.await, Ok(1));
            control.end();
        })?;
        Ok(())
    });
    assert!(ran.unwrap().is_clean());
}

/// Otherwise the next operations would join the session.
fn waiting_inside_of_the_scope_of_a_session_panics(driver: DriverChoice) {
    one(driver, |stage| async move {
        let call = stage.fibre(move |_, fibre| {
            let call = || stage.call(|_| async { yield_now().await });
            Session::new().scope(|| fibre.wait(call())).unwrap();
        });
        let error = panic_of(call.await);
        assert!(error.contains("the closure of a `Session::scope`"), "{error}");
        assert!(Session::current().is_none());
    });
}

fn waiting_in_a_future_or_outside_of_a_fibre_panics(driver: DriverChoice) {
    one(driver, |stage| async move {
        let nested = stage.fibre(|_, fibre| fibre.wait(async { wait(yield_now()) }));
        let error = panic_of(nested.await);
        assert!(error.contains("in a future for which a fibre waits"), "{error}");
        let outside = stage.call(|_| async { wait(yield_now()) });
        let error = panic_of(outside.await);
        assert!(error.contains("outside of one"), "{error}");
    });
}

/// A destructor of another operation that the scheduler runs on the stack of a fibre must not suspend that fibre.
fn waiting_in_a_foreign_destructor_panics(driver: DriverChoice) {
    struct Waits(Rc<RefCell<Option<bool>>>);
    impl Drop for Waits {
        fn drop(&mut self) {
            let wait = || wait(yield_now());
            let caught = std::panic::catch_unwind(wait);
            *self.0.borrow_mut() = Some(caught.is_err());
        }
    }
    one(driver, |stage| async move {
        let panicked: Rc<RefCell<Option<bool>>> = Rc::default();
        let waits = Waits(panicked.clone());
        let victim = stage.call(move |_| async move {
            let _waits = waits;
            sleep(Duration::from_secs(3600)).await;
        });
        let call = stage.fibre(move |_, fibre| {
            fibre.sleep(Duration::from_millis(1));
            victim.cancel();
            fibre.sleep(Duration::from_millis(1));
        });
        call.await.unwrap();
        assert_eq!(*panicked.borrow(), Some(true));
    });
}

fn a_spawned_fibre_runs_on_the_stage_of_its_parent(driver: DriverChoice) {
    one(driver, |stage| async move {
        let call = stage.fibre(|_, fibre| {
            let shared = Rc::new(Cell::new(0));
            let children: Vec<_> = (1..=10)
                .map(|n| {
                    let shared = shared.clone();
                    fibre.spawn(move |fibre| {
                        fibre.sleep(Duration::from_millis(1));
                        shared.set(shared.get() + n);
                    })
                })
                .collect();
            fibre.wait(join(children)).into_iter().for_each(Result::unwrap);
            shared.get()
        });
        assert_eq!(call.await, Ok(55));
    });
}

fn fibres_of_a_partition_keep_their_state(driver: DriverChoice) {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let counts = graph.partitioned("counts", |_| 0u64);
    let ran = runtime(driver, 2).run(graph, move |start| {
        if start.processor() > 0 {
            return Ok(());
        }
        let control = start.control();
        main.dispatch(move |_| async move {
            let calls = (0..100u64).map(|key| {
                counts.fibre(key, move |count, fibre| {
                    let before = count.with(|count| *count);
                    let state = count.clone();
                    let child = fibre.spawn(move |fibre| {
                        fibre.sleep(Duration::from_millis(1));
                        state.with(|count| *count += 1);
                    });
                    fibre.wait(child).unwrap();
                    count.with(|count| *count) > before
                })
            });
            let results = join(calls.collect::<Vec<_>>()).await;
            assert!(results.into_iter().all(|grown| grown == Ok(true)));
            control.end();
        })?;
        Ok(())
    });
    assert!(ran.unwrap().is_clean());
}

fn fibres_of_an_exclusive_stage_wait_outside_of_its_gate(driver: DriverChoice) {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let stage = graph.exclusive("exclusive", 0u32);
    let ended = Arc::new(AtomicU32::new(0));
    let ran = runtime(driver, 2).run(graph, {
        let ended = ended.clone();
        move |start| {
            let (control, ended) = (start.control(), ended.clone());
            main.dispatch(move |_| async move {
                let calls = (0..50).map(|_| {
                    stage.fibre(|count, fibre| {
                        for _ in 0..3 {
                            count.with(|count| *count += 1);
                            fibre.sleep(Duration::from_millis(1));
                        }
                    })
                });
                join(calls.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
                if ended.fetch_add(1, Ordering::SeqCst) == 1 {
                    let count = stage.call(|count| async move { count.with(|count| *count) });
                    assert_eq!(count.await, Ok(300));
                    control.end();
                }
            })?;
            Ok(())
        }
    });
    assert!(ran.unwrap().is_clean());
}

fn at_the_limit_a_fibre_waits_for_a_stack(driver: DriverChoice) {
    one(driver, |stage| async move {
        let size = StackSize::KiB256;
        // Stacks that exist remain, so the limit counts from now on.
        set_stack_limit(0);
        let (release, released) = oneshot::local();
        let first = stage.fibre_with(size, move |_, fibre| fibre.wait(released));
        sleep(Duration::from_millis(1)).await;
        let started = Rc::new(Cell::new(0));
        let start = || {
            let started = started.clone();
            stage.fibre_with(size, move |_, _| started.set(started.get() + 1))
        };
        let (cancelled, second, third) = (start(), start(), start());
        sleep(Duration::from_millis(2)).await;
        assert_eq!(started.get(), 0);
        // Another size has one stack in any case.
        assert_eq!(stage.fibre_with(StackSize::MiB1, |_, _| 1).await, Ok(1));
        cancelled.cancel();
        release.send(2);
        assert_eq!(first.await, Ok(Some(2)));
        join(vec![second, third]).await.into_iter().for_each(Result::unwrap);
        assert_eq!(started.get(), 2);
        set_stack_limit(1 << 30);
    });
}

fn the_byte_table_contains_stacks(driver: DriverChoice) {
    let mut graph = Graph::new();
    let stage: SharedStage<()> = graph.shared("deep", ());
    let ran = runtime(driver, 1).run(graph, move |start| {
        let control = start.control();
        stage.dispatch(move |_| async move {
            let calls = (0..200).map(|_| {
                stage.fibre(|_, _| {
                    let touched = std::hint::black_box([1u8; 20_000]);
                    assert_eq!(touched.iter().map(|each| u32::from(*each)).sum::<u32>(), 20_000);
                })
            });
            join(calls.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
            let stacks = control.bytes().stacks;
            let [stack] = &stacks[..] else { panic!("{stacks:?}") };
            assert!(stack.name.ends_with("the_byte_table_contains_stacks"), "{}", stack.name);
            assert!((20_000..64 << 10).contains(&stack.bytes), "{stack:?}");
            control.end();
        })?;
        Ok(())
    });
    assert!(ran.unwrap().is_clean());
}
