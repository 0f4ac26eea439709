//! Locks, conditions, channels and fibre-local values.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::fibre::sync::{Condvar, Mutex, channel};
use phalanx::fibre::{FibreLocal, LocalFibres};
use phalanx::runtime::DriverChoice;
use phalanx::{CallError, Graph, join, sleep, yield_now};

use crate::runtime::harness::{one, runtime};
use crate::runtime::on_each_driver;

on_each_driver![
    locals_belong_to_one_fibre,
    a_lock_is_held_over_a_wait,
    a_waiter_gets_a_lock_that_another_fibre_takes_again_and_again,
    a_lock_is_poisoned_by_the_end_of_its_holder,
    a_notification_that_its_receiver_cannot_use_is_passed_on,
    conditions_and_channels_connect_processors,
];

fn locals_belong_to_one_fibre(driver: DriverChoice) {
    static COUNT: FibreLocal<Cell<u32>> = FibreLocal::new(|| Cell::new(0));
    thread_local!(static DROPPED: Cell<u32> = const { Cell::new(0) });
    struct Counted(#[allow(dead_code, reason = "it is the second key's own type")] u32);
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.set(DROPPED.get() + 1);
        }
    }
    static COUNTED: FibreLocal<Counted> = FibreLocal::new(|| Counted(0));
    one(driver, |stage| async move {
        let calls = (1..=5u32).map(|n| {
            stage.fibre(move |_, fibre| {
                COUNTED.with(|_| ());
                for _ in 0..n {
                    COUNT.with(|count| count.set(count.get() + 1));
                    fibre.wait(yield_now());
                }
                COUNT.with(Cell::get) == n
            })
        });
        let results = join(calls.collect::<Vec<_>>()).await;
        assert!(results.into_iter().all(|result| result == Ok(true)));
        assert_eq!(DROPPED.take(), 5);
    });
}

fn a_lock_is_held_over_a_wait(driver: DriverChoice) {
    one(driver, |stage| async move {
        let lock = Rc::new(Mutex::new((0, false)));
        let calls = (0..20).map(|_| {
            let lock = lock.clone();
            stage.fibre(move |_, fibre| {
                let mut guard = lock.lock().unwrap();
                assert!(!std::mem::replace(&mut guard.1, true), "two holders");
                fibre.wait(yield_now());
                assert!(lock.try_lock().is_err());
                guard.0 += 1;
                guard.1 = false;
            })
        });
        join(calls.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
        assert_eq!(lock.try_lock().unwrap().0, 20);
    });
}

/// Whenever the second fibre runs after the first has woken it, the first has already taken the lock again.
fn a_waiter_gets_a_lock_that_another_fibre_takes_again_and_again(driver: DriverChoice) {
    const MAX_ROUNDS: u32 = 1_000;
    one(driver, |stage| async move {
        let (lock, done) = (Rc::new(Mutex::new(())), Rc::new(Cell::new(false)));
        let (others_lock, is_done) = (lock.clone(), done.clone());
        let spinning = stage.fibre(move |_, fibre| {
            let mut rounds = 0;
            while !is_done.get() && rounds < MAX_ROUNDS {
                let guard = others_lock.lock().unwrap();
                fibre.wait(yield_now());
                drop(guard);
                rounds += 1;
            }
            rounds
        });
        let waiter = stage.fibre(move |_, _| {
            drop(lock.lock().unwrap());
            done.set(true);
        });
        let rounds = spinning.await.unwrap();
        assert!(rounds < 10, "{rounds}");
        assert_eq!(waiter.await, Ok(()));
    });
}

fn a_lock_is_poisoned_by_the_end_of_its_holder(driver: DriverChoice) {
    one(driver, |stage| async move {
        let lock = Rc::new(Mutex::new(1));
        let holder = {
            let lock = lock.clone();
            stage.fibre(move |_, fibre| {
                let _guard = lock.lock().unwrap();
                fibre.sleep(Duration::from_secs(3600));
            })
        };
        let waiter = {
            let lock = lock.clone();
            stage.fibre(move |_, _| lock.lock().is_err())
        };
        sleep(Duration::from_millis(2)).await;
        holder.cancel();
        assert_eq!(waiter.await, Ok(true));
        assert!(lock.is_poisoned());
    });
}

/// The first waiter is notified and ends before it runs: the second one gets the lock.
fn a_notification_that_its_receiver_cannot_use_is_passed_on(driver: DriverChoice) {
    one(driver, |stage| async move {
        let lock = Rc::new(Mutex::new(()));
        let guard = lock.try_lock().unwrap();
        let waiter = |()| {
            let lock = lock.clone();
            stage.fibre(move |_, _| drop(lock.lock().unwrap()))
        };
        let (first, second) = (waiter(()), waiter(()));
        sleep(Duration::from_millis(2)).await;
        drop(guard);
        first.cancel();
        assert_eq!(second.await, Ok(()));
        assert_eq!(first.await, Err(CallError::Cancelled));
    });
}

fn conditions_and_channels_connect_processors(driver: DriverChoice) {
    #[derive(Default)]
    struct PairBarrier {
        here: Mutex<u32>,
        complete: Condvar,
    }
    const EACH: u32 = 300;
    let mut graph = Graph::new();
    let stage = graph.shared("fibres", PairBarrier::default());
    let (sender, receiver) = channel(4);
    let (sender, receiver) =
        (std::sync::Mutex::new(Some(sender)), std::sync::Mutex::new(Some(receiver)));
    let ran = runtime(driver, 2).run(graph, move |start| {
        let control = start.control();
        let sender = sender.lock().unwrap().clone().unwrap();
        let receiver = match start.processor() {
            0 => receiver.lock().unwrap().take(),
            _ => None,
        };
        let call = stage.fibre(move |barrier, fibre| {
            let mut here = barrier.here.lock().unwrap();
            *here += 1;
            barrier.complete.notify_all();
            let here = barrier.complete.wait_while(here, |here| *here < 2).unwrap();
            drop(here);
            let late = barrier.here.lock().unwrap();
            let (late, notified) =
                barrier.complete.wait_timeout(late, Duration::from_millis(3)).unwrap();
            assert!(!notified);
            drop(late);
            let producers: Vec<_> = (0..3)
                .map(|_| {
                    let sender = sender.clone();
                    fibre.spawn(move |_| (1..=EACH).try_for_each(|n| sender.send(n)).unwrap())
                })
                .collect();
            drop(sender);
            let Some(receiver) = receiver else { return };
            drop(producers);
            let sum: u32 = (0..6 * EACH).map(|_| receiver.recv().unwrap()).sum();
            assert_eq!(sum, 6 * EACH * (EACH + 1) / 2);
            control.end();
        });
        call.detach()?;
        Ok(())
    });
    assert!(ran.unwrap().is_clean());
}
