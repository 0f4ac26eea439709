//! Counts the process's calls of the general allocator, and the bytes that are allocated. With `PHALANX_ALLOCATIONS=1` it shows their origins.
//!
//! A test program counts if it declares
//! `#[global_allocator] static ALLOCATOR: CountingAllocator = CountingAllocator;`. It needs its own process, because
//! concurrent tests would be counted too.
//!
//! # Safety
//! The allocator forwards to the system's, and additionally counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The system's allocator, with a count of its calls and bytes.
#[derive(Debug)]
pub struct CountingAllocator;

static CALL_COUNT: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static IS_TRACED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static TRACING: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    CALL_COUNT.fetch_add(1, Ordering::Relaxed);
    if IS_TRACED.load(Ordering::Relaxed) && !TRACING.replace(true) {
        eprintln!("{}", std::backtrace::Backtrace::force_capture());
        TRACING.set(false);
    }
}

// SAFETY: forwards to the system allocator with the same arguments.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        LIVE.fetch_add(size as u64, Ordering::Relaxed);
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// The bytes that are allocated.
pub fn live_bytes() -> u64 {
    LIVE.load(Ordering::Relaxed)
}

/// The smallest count in five runs of `work`, which excludes occasional calls of other threads.
pub fn min_calls(mut work: impl FnMut()) -> u64 {
    let calls = (0..5).map(|_| {
        let before = CALL_COUNT.load(Ordering::Relaxed);
        work();
        CALL_COUNT.load(Ordering::Relaxed) - before
    });
    calls.min().unwrap_or(0)
}

/// Shows the origins of the calls during `work`, if requested.
pub fn print_origins(work: impl FnOnce()) {
    if std::env::var_os("PHALANX_ALLOCATIONS").is_some() {
        IS_TRACED.store(true, Ordering::Relaxed);
        work();
        IS_TRACED.store(false, Ordering::Relaxed);
    }
}
