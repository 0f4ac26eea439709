//! A loom model of the parking table: no release is lost between a thread that is about to wait and one that releases.
//!
//! The functions of [`crate::thread::state`] are the real ones. The bucket and the lock word are those of `table.rs` and
//! `calls/locks/mutexes.rs` with loom's types. On x86-64 the locked instruction of a release is the full barrier that the model
//! states as a fence.

use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

use loom::sync::atomic::{AtomicBool, AtomicU32, fence};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;

use crate::thread::state::{self, Word};

impl Word for AtomicU32 {
    fn compare_exchange(&self, old: u32, new: u32, done: Ordering, failed: Ordering) -> bool {
        self.compare_exchange(old, new, done, failed).is_ok()
    }

    fn swap(&self, new: u32, order: Ordering) -> u32 {
        self.swap(new, order)
    }

    fn store(&self, new: u32, order: Ordering) {
        self.store(new, order);
    }
}

/// A thread, whose carrier waits for its turn to run it.
struct Model {
    state: AtomicU32,
    woken: AtomicBool,
    turn: Notify,
}

/// A lock and the bucket of its waiters.
struct Table {
    word: AtomicU32,
    count: AtomicU32,
    waiters: Mutex<Vec<usize>>,
    threads: [Model; 2],
}

impl Table {
    fn new(word: u32) -> Table {
        let model = || Model {
            state: AtomicU32::new(state::RUNNING),
            woken: AtomicBool::new(false),
            turn: Notify::new(),
        };
        let (word, count) = (AtomicU32::new(word), AtomicU32::new(0));
        Table { word, count, waiters: Mutex::new(Vec::new()), threads: [model(), model()] }
    }

    fn insert(&self, thread: usize) {
        let mut waiters = self.waiters.lock().unwrap();
        self.threads[thread].woken.store(false, Relaxed);
        waiters.push(thread);
        self.count.fetch_add(1, SeqCst);
    }

    fn remove(&self, thread: usize) -> bool {
        let mut waiters = self.waiters.lock().unwrap();
        let woken = self.threads[thread].woken.load(Relaxed);
        if !woken {
            waiters.retain(|waiter| *waiter != thread);
            self.count.fetch_sub(1, SeqCst);
        }
        woken
    }

    fn wake_one(&self) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        let mut waiters = self.waiters.lock().unwrap();
        if waiters.is_empty() {
            return;
        }
        let thread = &self.threads[waiters.remove(0)];
        self.count.fetch_sub(1, SeqCst);
        thread.woken.store(true, Release);
        if state::notify(&thread.state) == state::PARKED {
            state::make_runnable(&thread.state);
            thread.turn.notify();
        }
    }

    fn lock(&self, thread: usize) {
        loop {
            self.insert(thread);
            fence(SeqCst);
            if self.word.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
                if self.remove(thread) {
                    self.wake_one();
                }
                return;
            }
            let Model { state, turn, .. } = &self.threads[thread];
            if state::suspend(state) {
                turn.wait();
            }
            state::resume(state);
            self.remove(thread);
        }
    }

    fn unlock(&self) {
        self.word.swap(0, AcqRel);
        fence(SeqCst);
        self.wake_one();
    }
}

/// A read-write lock that prefers writers and is held by a reader. Thread 0 is the writer, thread 1 another reader.
struct WriterPreferringLock {
    table: Table,
    /// Whether the writer waits, and whether it has had the lock.
    waits: AtomicBool,
    written: AtomicBool,
}

impl Table {
    fn contains(&self, thread: usize) -> bool {
        self.count.load(SeqCst) != 0 && self.waiters.lock().unwrap().contains(&thread)
    }

    /// Notifies all waiters, which remain.
    fn notify(&self) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        let waiters = self.waiters.lock().unwrap();
        for thread in waiters.iter().map(|waiter| &self.threads[*waiter]) {
            if state::notify(&thread.state) == state::PARKED {
                state::make_runnable(&thread.state);
                thread.turn.notify();
            }
        }
    }
}

const WRITING: u32 = 100;

impl WriterPreferringLock {
    fn try_to_write(&self) -> bool {
        self.table.word.compare_exchange(0, WRITING, Acquire, Relaxed).is_ok()
    }

    fn try_to_read(&self) -> bool {
        // One writer, which is not the caller.
        if self.table.contains(0) {
            return false;
        }
        let word = self.table.word.load(Relaxed);
        word != WRITING
            && self.table.word.compare_exchange(word, word + 1, Acquire, Relaxed).is_ok()
    }

    fn acquire(&self, thread: usize, attempt: impl Fn() -> bool) {
        self.table.insert(thread);
        loop {
            fence(SeqCst);
            if attempt() {
                self.table.remove(thread);
                return;
            }
            if thread == 0 {
                self.waits.store(true, SeqCst);
            }
            let Model { state, turn, .. } = &self.table.threads[thread];
            if state::suspend(state) {
                turn.wait();
            }
            state::resume(state);
        }
    }

    fn write(&self) {
        self.acquire(0, || self.try_to_write());
        self.written.store(true, SeqCst);
        self.release();
    }

    /// Whether a writer that waited before got the lock first.
    fn read(&self) -> bool {
        let waits = self.waits.load(SeqCst);
        self.acquire(1, || self.try_to_read());
        let in_order = !waits || self.written.load(SeqCst);
        self.release();
        in_order
    }

    fn release(&self) {
        let word = self.table.word.load(Relaxed);
        match word {
            WRITING => _ = self.table.word.swap(0, AcqRel),
            _ => _ = self.table.word.fetch_sub(1, AcqRel),
        }
        fence(SeqCst);
        self.table.notify();
    }
}

/// Two readers hold the lock, so the writer is notified once before it can have the lock.
#[test]
fn loom_readers_do_not_overtake_a_preferred_writer() {
    loom::model(|| {
        let (waits, written) = (AtomicBool::new(false), AtomicBool::new(false));
        let lock = Arc::new(WriterPreferringLock { table: Table::new(2), waits, written });
        let (writing, reading) = (lock.clone(), lock.clone());
        let writer = thread::spawn(move || writing.write());
        let reader = thread::spawn(move || reading.read());
        lock.release();
        lock.release();
        writer.join().unwrap();
        assert!(reader.join().unwrap());
    });
}

#[test]
fn loom_a_release_reaches_a_thread_that_is_about_to_wait() {
    loom::model(|| {
        let table = Arc::new(Table::new(1));
        let other = table.clone();
        let waiter = thread::spawn(move || other.lock(0));
        table.unlock();
        waiter.join().unwrap();
    });
}

#[test]
fn loom_two_waiters_get_the_lock_in_turn() {
    loom::model(|| {
        let table = Arc::new(Table::new(1));
        let waiters: Vec<_> = (0..2)
            .map(|number| {
                let table = table.clone();
                thread::spawn(move || {
                    table.lock(number);
                    table.unlock();
                })
            })
            .collect();
        table.unlock();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}
