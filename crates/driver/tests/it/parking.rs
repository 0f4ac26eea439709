//! Sleeping and waking.

use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{DriverKind, Harness};

// In a simulation, no real time passes.
crate::on_both!(
    park_ends_after_its_timeout,
    parks_do_not_return_early_without_reason,
    coalescing_ends_after_its_limit,
    a_park_of_centuries_sleeps,
);
crate::on_all!(coalesced_completions_are_reaped);

crate::on_all!(
    unpark_during_a_park,
    an_unpark_before_a_park_ends_it,
    many_unparks_lose_no_wakeup,
    a_park_of_no_time_returns_at_once,
);

/// Parks until the driver has no more old completions.
fn settle(io: &mut Harness) {
    io.idle(Duration::from_millis(10));
}

fn park_ends_after_its_timeout(io: &mut Harness) {
    settle(io);
    let start = Instant::now();
    io.driver.park(Some(Duration::from_millis(50))).unwrap();
    let time = start.elapsed();
    assert!(time >= Duration::from_millis(45) && time < Duration::from_secs(5), "{time:?}");
}

/// Such timeouts exceed the range of the kernel's clock.
fn a_park_of_centuries_sleeps(io: &mut Harness) {
    for timeout in [Duration::from_nanos(u64::MAX), Duration::MAX] {
        settle(io);
        let unparker = io.driver.unparker();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            unparker.unpark();
        });
        let start = Instant::now();
        io.driver.park(Some(timeout)).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(45), "{timeout:?}: {:?}", start.elapsed());
        other.join().unwrap();
    }
}

fn coalescing_ends_after_its_limit(io: &mut Harness) {
    settle(io);
    let start = Instant::now();
    io.driver.coalesce(2, Duration::from_millis(50)).unwrap();
    let time = start.elapsed();
    assert!(time >= Duration::from_millis(45) && time < Duration::from_secs(5), "{time:?}");
}

/// Only io_uring can wait for several completions. The other drivers may return later.
fn coalesced_completions_are_reaped(io: &mut Harness) {
    let pairs = [io.pair(), io.pair(), io.pair()];
    let tokens = pairs.each_ref().map(|(socket, _)| io.receive(*socket));
    settle(io);
    let limit = if io.kind == DriverKind::Uring { 10_000 } else { 20 };
    let (start, [one, two, three]) = (Instant::now(), pairs.map(|(_, peer)| peer));
    let other = thread::spawn(move || {
        for peer in [&one, &two, &three] {
            crate::harness::write_all(peer, *b"x").join().unwrap();
        }
        (one, two, three)
    });
    io.driver.coalesce(3, Duration::from_millis(limit)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(9), "three are there");
    let peers = other.join().unwrap();
    for token in tokens {
        io.chunk(token).unwrap();
    }
    drop(peers);
}

fn unpark_during_a_park(io: &mut Harness) {
    for _ in 0..20 {
        settle(io);
        let unparker = io.driver.unparker();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            unparker.unpark();
        });
        let start = Instant::now();
        io.driver.park(None).unwrap();
        assert!(start.elapsed() < Duration::from_secs(5));
        other.join().unwrap();
    }
}

fn an_unpark_before_a_park_ends_it(io: &mut Harness) {
    let unparker = io.driver.unparker();
    for _ in 0..20 {
        settle(io);
        unparker.unpark();
        unparker.unpark();
        // A reap in between does not clear it.
        io.driver.reap(&mut Vec::new()).unwrap();
        let start = Instant::now();
        io.driver.park(Some(Duration::from_secs(10))).unwrap();
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

fn many_unparks_lose_no_wakeup(io: &mut Harness) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    const ROUNDS: u32 = 5_000;
    let (sent, acknowledged) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let unparker = io.driver.unparker();
    let other = thread::spawn({
        let (sent, acknowledged) = (Arc::clone(&sent), Arc::clone(&acknowledged));
        move || {
            for round in 1..=ROUNDS {
                sent.store(round, Ordering::Release);
                unparker.unpark();
                // Sometimes the threads run in lock step, sometimes one runs ahead.
                while round % 3 == 0 && acknowledged.load(Ordering::Acquire) < round {
                    thread::yield_now();
                }
            }
        }
    });
    while acknowledged.load(Ordering::Acquire) < ROUNDS {
        let before = Instant::now();
        io.driver.park(Some(Duration::from_secs(10))).unwrap();
        assert!(before.elapsed() < Duration::from_secs(8), "a wake-up was lost");
        io.driver.reap(&mut Vec::new()).unwrap();
        acknowledged.store(sent.load(Ordering::Acquire), Ordering::Release);
    }
    other.join().unwrap();
}

fn parks_do_not_return_early_without_reason(io: &mut Harness) {
    settle(io);
    for _ in 0..10 {
        let start = Instant::now();
        io.driver.park(Some(Duration::from_millis(50))).unwrap();
        let time = start.elapsed();
        assert!(time >= Duration::from_millis(45), "{time:?}");
    }
}

fn a_park_of_no_time_returns_at_once(io: &mut Harness) {
    // A stalled machine may be slow occasionally, but not every time.
    let slow = (0..100).filter(|_| {
        let start = Instant::now();
        io.driver.park(Some(Duration::ZERO)).unwrap();
        start.elapsed() > Duration::from_millis(10)
    });
    let slow = slow.count();
    assert!(slow < 50, "{slow} of 100");
}
