//! How often this process has called the general allocator: for the suites that count it, here and elsewhere. With
//! `PHALANX_ALLOCATIONS=1` they show where calls come from.
//!
//! # Safety
//! The allocator is the system's; beside it a number is counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Counted;

static CALLS: AtomicU64 = AtomicU64::new(0);
static TRACED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    CALLS.fetch_add(1, Ordering::Relaxed);
    if TRACED.load(Ordering::Relaxed) && !TELLING.replace(true) {
        eprintln!("{}", std::backtrace::Backtrace::force_capture());
        TELLING.set(false);
    }
}

// SAFETY: the system's allocator, which is asked for the same.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// The fewest calls of five times of `work`, which calls none itself: what comes now and then beside it is not counted.
pub(crate) fn fewest(mut work: impl FnMut()) -> u64 {
    let calls = (0..5).map(|_| {
        let before = CALLS.load(Ordering::Relaxed);
        work();
        CALLS.load(Ordering::Relaxed) - before
    });
    calls.min().unwrap_or(0)
}

/// Shows where the calls of `work` come from, if that is asked for.
pub(crate) fn show(work: impl FnOnce()) {
    if std::env::var_os("PHALANX_ALLOCATIONS").is_some() {
        TRACED.store(true, Ordering::Relaxed);
        work();
        TRACED.store(false, Ordering::Relaxed);
    }
}
