//! Operations that wait for threads that are not processors.

use std::future::poll_fn;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use phalanx::runtime::DriverChoice;
use phalanx::{join, sleep, timeout};

use crate::runtime::harness::one;
use crate::runtime::on_each_driver;

on_each_driver!(woken_by_threads, woken_too_often, woken_too_late);

/// A slot for a value from another thread.
#[derive(Default)]
struct Slot {
    value: Option<usize>,
    waker: Option<Waker>,
}

type Shared = Arc<Mutex<Slot>>;

async fn wait(slot: Shared) -> usize {
    poll_fn(|context| {
        let mut slot = slot.lock().unwrap();
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

fn fill(slot: &Shared, value: usize) {
    let mut slot = slot.lock().unwrap();
    slot.value = Some(value);
    if let Some(waker) = slot.waker.take() {
        waker.wake();
    }
}

/// Fills each slot that it receives, after a while.
fn filler() -> Sender<(Shared, usize)> {
    let (sender, slots) = channel::<(Shared, usize)>();
    thread::spawn(move || {
        for (slot, value) in slots {
            // Sometimes immediately, sometimes while the processor sleeps.
            if value % 10 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            fill(&slot, value);
        }
    });
    sender
}

fn woken_by_threads(driver: DriverChoice) {
    one(driver, |stage| async move {
        let fillers = [filler(), filler(), filler()];
        let calls: Vec<_> = (0..600)
            .map(|number| {
                let filler = fillers[number % 3].clone();
                stage.call(move |_| async move {
                    let slot = Shared::default();
                    filler.send((slot.clone(), number)).unwrap();
                    assert_eq!(wait(slot).await, number);
                })
            })
            .collect();
        for result in join(calls).await {
            result.unwrap();
        }
        // The processor has nothing else to do, so the wake-up finds it asleep.
        for number in 0..20 {
            let slot = Shared::default();
            let other = slot.clone();
            let thread = thread::spawn(move || {
                thread::sleep(Duration::from_millis(3));
                fill(&other, number);
            });
            assert_eq!(wait(slot).await, number);
            thread.join().unwrap();
        }
    });
}

/// Several threads wake the operation repeatedly.
fn woken_too_often(driver: DriverChoice) {
    one(driver, |_| async {
        let slot = Shared::default();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let slot = slot.clone();
                thread::spawn(move || {
                    for _ in 0..2000 {
                        let waker = slot.lock().unwrap().waker.clone();
                        waker.inspect(Waker::wake_by_ref);
                    }
                })
            })
            .collect();
        let late = slot.clone();
        let last = thread::spawn(move || {
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            fill(&late, 7);
        });
        assert_eq!(wait(slot).await, 7);
        last.join().unwrap();
    });
}

/// After the end of the operation, after its slot was reused, and after the end of the program.
fn woken_too_late(driver: DriverChoice) {
    let wakers = one(driver, |stage| async move {
        let slots: Vec<_> = (0..50).map(|_| Shared::default()).collect();
        for slot in &slots {
            let operation = stage.call({
                let slot = slot.clone();
                move |_| async move { timeout(Duration::from_millis(1), wait(slot)).await.is_err() }
            });
            assert_eq!(operation.await, Ok(true), "the wait times out");
        }
        // New operations in the same slots, which a stale waker may poll once more but not end.
        let others: Vec<_> = (0..50)
            .map(|_| stage.call(|_| async { sleep(Duration::from_millis(20)).await }))
            .collect();
        let wakers: Vec<_> =
            slots.iter().filter_map(|slot| slot.lock().unwrap().waker.clone()).collect();
        assert_eq!(wakers.len(), 50);
        let stale = wakers.clone();
        let waking = thread::spawn(move || stale.iter().for_each(Waker::wake_by_ref));
        for result in join(others).await {
            result.unwrap();
        }
        waking.join().unwrap();
        wakers
    });
    let keep = wakers[0].clone();
    thread::spawn(move || wakers.into_iter().for_each(Waker::wake)).join().unwrap();
    keep.wake_by_ref();
}
