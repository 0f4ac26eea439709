//! Sleeping and waking.

use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{DriverKind, Harness};

// In a simulation time passes at once.
crate::on_both!(park_ends_after_its_timeout, gathering_ends_after_its_limit);
crate::on_all!(what_was_gathered_is_reaped);

crate::on_all!(
    unpark_during_a_park,
    unpark_before_a_park_sticks,
    many_unparks_lose_no_wakeup,
    park_of_nothing_is_for_nothing,
);

/// Parks until the driver has nothing old to say.
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

fn gathering_ends_after_its_limit(io: &mut Harness) {
    settle(io);
    let start = Instant::now();
    io.driver.coalesce(2, Duration::from_millis(50)).unwrap();
    let time = start.elapsed();
    assert!(time >= Duration::from_millis(45) && time < Duration::from_secs(5), "{time:?}");
}

/// Only a ring can be asked for several; the others may take their time.
fn what_was_gathered_is_reaped(io: &mut Harness) {
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

fn unpark_before_a_park_sticks(io: &mut Harness) {
    let unparker = io.driver.unparker();
    for _ in 0..20 {
        settle(io);
        unparker.unpark();
        unparker.unpark();
        // Reaping in between does not take it away.
        io.driver.reap(&mut Vec::new()).unwrap();
        let start = Instant::now();
        io.driver.park(Some(Duration::from_secs(10))).unwrap();
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

fn many_unparks_lose_no_wakeup(io: &mut Harness) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    const ROUNDS: u32 = 20_000;
    let (sent, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let unparker = io.driver.unparker();
    let other = thread::spawn({
        let (sent, seen) = (Arc::clone(&sent), Arc::clone(&seen));
        move || {
            for round in 1..=ROUNDS {
                sent.store(round, Ordering::Release);
                unparker.unpark();
                // In lock step at times, racing ahead at others.
                while round % 3 == 0 && seen.load(Ordering::Acquire) < round {
                    thread::yield_now();
                }
            }
        }
    });
    let start = Instant::now();
    while seen.load(Ordering::Acquire) < ROUNDS {
        let before = Instant::now();
        io.driver.park(Some(Duration::from_secs(10))).unwrap();
        assert!(before.elapsed() < Duration::from_secs(8), "a wake-up was lost");
        io.driver.reap(&mut Vec::new()).unwrap();
        seen.store(sent.load(Ordering::Acquire), Ordering::Release);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    other.join().unwrap();
}

fn park_of_nothing_is_for_nothing(io: &mut Harness) {
    // A machine that stands still does so now and then, and not each time.
    let slow = (0..100).filter(|_| {
        let start = Instant::now();
        io.driver.park(Some(Duration::ZERO)).unwrap();
        start.elapsed() > Duration::from_millis(10)
    });
    let slow = slow.count();
    assert!(slow < 50, "{slow} of 100");
}
