//! Timers fire in order.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use phalanx::runtime::DriverChoice;
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::{Deadline, TimedOut, interval, now};
use phalanx::{Graph, join, select, sleep, timeout, yield_now};

use phalanx_testkit::TIMEOUT;

use crate::runtime::harness::{one, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(
    sleeps_end_in_order,
    a_thousand_sleeps,
    timeouts,
    the_first_of_two,
    the_longest_durations,
    a_deadline_that_moves,
);

const MS: Duration = Duration::from_millis(1);

fn sleeps_end_in_order(driver: DriverChoice) {
    one(driver, |stage| async move {
        let (start, order) = (Instant::now(), Rc::new(RefCell::new(Vec::new())));
        let calls: Vec<_> = [90, 30, 0, 60, 120, 31]
            .map(|wait| {
                let order = order.clone();
                stage.call(move |_| async move {
                    let due = now() + wait * MS;
                    sleep(wait * MS).await;
                    assert!(now() >= due, "by the runtime's clock");
                    // Measured with another clock, because the runtime's clock does not advance during a cohort.
                    assert!(start.elapsed() + 5 * MS >= wait * MS);
                    order.borrow_mut().push(due);
                })
            })
            .into();
        for result in join(calls).await {
            result.unwrap();
        }
        // Sleeps that started in different cohorts may end in another order.
        assert!(order.borrow().len() == 6 && order.borrow().is_sorted(), "{order:?}");
    });
}

fn a_thousand_sleeps(driver: DriverChoice) {
    one(driver, |stage| async move {
        let start = Instant::now();
        let calls: Vec<_> = (0..1000)
            .map(|n: u32| stage.call(move |_| async move { sleep(n % 50 * MS).await }))
            .collect();
        for result in join(calls).await {
            result.unwrap();
        }
        assert!(
            start.elapsed() < TIMEOUT / 3,
            "they sleep at the same time: {:?}",
            start.elapsed()
        );
    });
}

fn timeouts(driver: DriverChoice) {
    one(driver, |stage| async move {
        assert_eq!(timeout(TIMEOUT, async { 7 }).await, Ok(7));
        assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Ok(7), "what is ready is in time");
        assert_eq!(timeout(20 * MS, sleep(TIMEOUT)).await, Err(TimedOut));
        assert_eq!(timeout(TIMEOUT, sleep(20 * MS)).await, Ok(()));
        assert_eq!(timeout(TIMEOUT, timeout(20 * MS, sleep(TIMEOUT))).await, Ok(Err(TimedOut)));
        assert_eq!(timeout(20 * MS, timeout(TIMEOUT, sleep(TIMEOUT))).await, Err(TimedOut));
        // An operation continues after its timeout.
        let done = Rc::new(Cell::new(false));
        let flag = done.clone();
        let (sender, receiver) = oneshot::local();
        let call = stage.call(move |_| async move {
            receiver.await;
            flag.set(true);
        });
        assert_eq!(timeout(5 * MS, call).await, Err(TimedOut));
        assert!(!done.get());
        sender.send(());
        while !done.get() {
            sleep(5 * MS).await;
        }
        // A sleep can be restarted.
        let start = now();
        let mut timer = Box::pin(sleep(10 * MS));
        timer.as_mut().get_mut().reset(50 * MS);
        timer.await;
        assert!(now() - start >= 50 * MS);
    });
}

struct SetsOnDrop(Rc<Cell<bool>>);

impl Drop for SetsOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

fn the_first_of_two(driver: DriverChoice) {
    one(driver, |_| async move {
        assert_eq!(select(async { 1 }, async { 2 }).await, Either::Left(1), "both: the first one");
        assert_eq!(select(sleep(TIMEOUT), async { 2 }).await, Either::Right(2));
        assert_eq!(select(sleep(TIMEOUT), sleep(5 * MS)).await, Either::Right(()));
        assert_eq!(select(sleep(5 * MS), sleep(TIMEOUT)).await, Either::Left(()));
        let dropped = Rc::new(Cell::new(false));
        let guard = SetsOnDrop(dropped.clone());
        let other = async move {
            let _noted = guard;
            sleep(TIMEOUT).await;
        };
        select(yield_now(), other).await;
        assert!(dropped.get(), "the loser is dropped");
    });
}

/// [`Duration::MAX`] is longer than any clock lasts.
fn the_longest_durations(driver: DriverChoice) {
    let max = Duration::MAX;
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let runtime = runtime(driver, 1).shutdown_timeout(max).stall_threshold(max).coalesce(max);
    let ran = runtime.run(graph, move |start| {
        let control = start.control();
        stage.dispatch(move |_| async move {
            let mut timer = interval(max);
            timer.tick().await;
            assert_eq!(timeout(MS, timer.tick()).await, Err(TimedOut));
            timer.reset();
            assert_eq!(timeout(MS, timer.tick()).await, Err(TimedOut));
            assert_eq!(timeout(MS, sleep(max)).await, Err(TimedOut));
            control.drain();
            // The supervisor sees the drain, and not only the end.
            sleep(100 * MS).await;
        })?;
        Ok(())
    });
    assert!(ran.unwrap().is_clean());
}

fn a_deadline_that_moves(driver: DriverChoice) {
    one(driver, |_| async move {
        let start = now();
        let mut timer = Deadline::new(start + 20 * MS);
        // The wake-up belongs to the task that has polled last.
        let mut other = Context::from_waker(Waker::noop());
        assert!(timer.poll(start + 20 * MS, &mut other).is_pending());
        // The timer fires at its first end, and is armed again.
        poll_fn(|context| timer.poll(start + 60 * MS, context)).await;
        assert!(now() >= start + 60 * MS);
        let mut later = now() + TIMEOUT;
        let twice = poll_fn(|context| {
            let first = timer.poll(later, context).is_pending();
            Poll::Ready(first && timer.poll(later, context).is_pending())
        });
        assert!(twice.await);
        later = now() + 10 * MS;
        poll_fn(|context| timer.poll(later, context)).await;
        assert!(now() >= later && now() < start + TIMEOUT);
    });
}
