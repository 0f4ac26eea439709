//! Mailboxes between operations, and from other threads.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use phalanx::runtime::DriverChoice;
use phalanx::sync::mailbox::{self, SendError};
use phalanx::task::select_many;
use phalanx::{sleep, timeout, yield_now};

use crate::runtime::harness::{on_other_thread, one};
use crate::runtime::on_each_driver;

on_each_driver!(from_many_threads, senders_wait_in_order, whoever_waits_learns_of_the_end);

fn from_many_threads(driver: DriverChoice) {
    const THREADS: usize = 4;
    const VALUES: usize = 300;
    one(driver, |_| async {
        let (sender, mut receiver) = mailbox::bounded(8);
        let counter = sender.clone();
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let sender = sender.clone();
                thread::spawn(move || {
                    let mut refusals = 0;
                    for value in 0..VALUES {
                        while sender.try_send((thread, value)).is_err() {
                            refusals += 1;
                            thread::yield_now();
                        }
                    }
                    refusals
                })
            })
            .collect();
        drop(sender);
        let (mut batch, mut next) = (Vec::new(), [0; THREADS]);
        for received in 0.. {
            if received == THREADS * VALUES / 2 {
                sleep(Duration::from_millis(5)).await;
            }
            if next.iter().sum::<usize>() == THREADS * VALUES {
                break;
            }
            assert!((1..=5).contains(&receiver.recv_many(&mut batch, 5).await));
            for (thread, value) in batch.drain(..) {
                assert_eq!(value, next[thread], "in the order of the thread");
                next[thread] += 1;
            }
        }
        let refused = on_other_thread(move || {
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        assert_eq!(refused.await, counter.refused());
        drop(counter);
        assert_eq!(receiver.recv_many(&mut batch, 5).await, 0);
        assert_eq!(receiver.recv().await, None);
    });
}

fn senders_wait_in_order(driver: DriverChoice) {
    one(driver, |stage| async move {
        let (sender, mut receiver) = mailbox::bounded(2);
        let sender = Arc::new(sender);
        let mut sending = Vec::new();
        for value in 0..6 {
            let sender = sender.clone();
            let sends = move |_| async move {
                // The fourth gives up before its turn.
                let limit = if value == 3 { 1 } else { 60_000 };
                let sent = timeout(Duration::from_millis(limit), sender.send(value)).await;
                assert_eq!(sent.is_err(), value == 3);
            };
            sending.push(stage.call(sends));
        }
        // When it gives up, the operations after it are waiting, because the stage runs its operations in order.
        sending.remove(3).await.unwrap();
        assert_eq!(sender.try_send(9), Err(SendError::Full(9)), "nobody overtakes those who wait");
        let mut received = Vec::new();
        while received.len() < 5 {
            received.extend(receiver.recv().await);
            yield_now().await;
        }
        assert_eq!(received, [0, 1, 2, 4, 5]);
        for sent in sending {
            sent.await.unwrap();
        }
        assert_eq!((sender.refused(), sender.capacity()), (1, 2));
    });
}

fn whoever_waits_learns_of_the_end(driver: DriverChoice) {
    one(driver, |stage| async move {
        let (sender, mut receiver) = mailbox::bounded(1);
        sender.try_send(1).unwrap();
        let waiting = sender.clone();
        let refused = stage.call(move |_| async move { waiting.send(2).await });
        yield_now().await;
        receiver.close();
        assert_eq!(refused.await, Ok(Err(SendError::Closed(2))));
        assert_eq!(sender.try_send(3), Err(SendError::Closed(3)));
        assert!(sender.is_closed());
        assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), None));
        // The last sender is dropped elsewhere.
        let (sender, mut receiver) = mailbox::bounded::<u32>(1);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(2));
            drop(sender);
        });
        assert_eq!(receiver.recv().await, None);
    });
}

#[test]
fn values_are_dropped_once_and_wakers_replaced() {
    let mut context = Context::from_waker(Waker::noop());
    let value = Arc::new(());
    let (sender, mut receiver) = mailbox::bounded(1);
    sender.try_send(value.clone()).unwrap();
    {
        let mut waiting = pin!(sender.send(value.clone()));
        (0..2).for_each(|_| assert!(waiting.as_mut().poll(&mut context).is_pending()));
        assert_eq!(Arc::strong_count(&value), 3);
    }
    assert_eq!(Arc::strong_count(&value), 2, "the send was given up");
    {
        let mut waiting = pin!(sender.send(value.clone()));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let received = pin!(receiver.recv()).poll(&mut context);
        assert!(matches!(received, Poll::Ready(Some(_))));
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    }
    drop(receiver);
    assert_eq!(Arc::strong_count(&value), 1);
    assert!(matches!(pin!(sender.send(value)).poll(&mut context), Poll::Ready(Err(_))));
}

#[test]
fn the_first_of_many_wins() {
    let mut context = Context::from_waker(Waker::noop());
    let (senders, mut inputs): (Vec<_>, Vec<_>) = (0..4).map(|_| mailbox::bounded(1)).unzip();
    let mut first = pin!(select_many(inputs.iter_mut().map(|input| input.recv())));
    assert!(first.as_mut().poll(&mut context).is_pending());
    senders[3].try_send(3).unwrap();
    senders[1].try_send(1).unwrap();
    assert_eq!(first.as_mut().poll(&mut context), Poll::Ready((1, Some(1))));
}
