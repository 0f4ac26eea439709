//! Counters for `--admin`. Times and counters per site exist only with that option; without it, a switch reads no
//! clock.
//!
//! # Safety
//!
//! The table is mapped before the carriers start, and is never unmapped. All of its fields are atomic, and zero at first.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::limits::{MAX_LANES, SITES};
use crate::system::sys;
use crate::thread::Thread;

/// Buckets of times: the first ends at 128 ns, each of the others is twice as wide as the one before.
pub(crate) const BUCKETS: usize = 28;
/// Buckets of cohort sizes: 1, 2–3, 4–7 and so on.
pub(crate) const COHORT_BUCKETS: usize = 8;

/// Counters of a site on a lane.
#[repr(C)]
pub(crate) struct Counters {
    /// Threads that ran from here to their next wait.
    pub(crate) ran: AtomicU64,
    /// Threads that began to wait here.
    pub(crate) suspended: AtomicU64,
    pub(crate) wait_ns: AtomicU64,
    pub(crate) wait_max: AtomicU64,
    pub(crate) run_ns: AtomicU64,
    pub(crate) run_max: AtomicU64,
    pub(crate) cohorts: AtomicU64,
    pub(crate) cohort_max: AtomicU64,
    pub(crate) queued: AtomicU64,
    pub(crate) queued_sum: AtomicU64,
    pub(crate) queued_max: AtomicU64,
    pub(crate) sizes: [AtomicU64; COHORT_BUCKETS],
    pub(crate) waits: [AtomicU64; BUCKETS],
    pub(crate) runs: [AtomicU64; BUCKETS],
}

/// Counters of a lane.
#[repr(C)]
pub(crate) struct LaneCounters {
    /// 1 while the carrier runs a thread.
    pub(crate) runs: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) parked_ns: AtomicU64,
    pub(crate) polls: AtomicU64,
    pub(crate) sites: [Counters; SITES],
}

/// Number of waiting threads by site. Not counted per lane, because a thread may wait and continue on different lanes
/// or at home.
static WAITING: [AtomicU64; SITES] = [const { AtomicU64::new(0) }; SITES];
static TABLE: AtomicPtr<LaneCounters> = AtomicPtr::new(core::ptr::null_mut());
/// Calls that brought a thread home.
pub(crate) static HOME_CALLS: AtomicU64 = AtomicU64::new(0);
/// Threads that came home for good.
pub(crate) static HOME_FOR_GOOD: AtomicU64 = AtomicU64::new(0);
/// Threads that the monitor sent home.
pub(crate) static SENT_HOME: AtomicU64 = AtomicU64::new(0);
/// Threads that carriers took from each other.
pub(crate) static STOLEN: AtomicU64 = AtomicU64::new(0);
/// Parts of large transfers that were sent without resuming the thread.
pub(crate) static LARGE_PARTS: AtomicU64 = AtomicU64::new(0);
/// Carriers that have run one thread for longer than the monitor accepts.
pub(crate) static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// Counts an event.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Maps the table. Returns false if there is no memory.
pub(crate) fn enable() -> bool {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    let bytes = size_of::<LaneCounters>() * MAX_LANES;
    let table = sys::call(sys::SYS_MMAP, [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0]);
    if table > 0 {
        TABLE.store(table as *mut LaneCounters, Ordering::Release);
    }
    table > 0
}

/// The counters of a lane; none without `--admin`.
#[inline]
pub(crate) fn of(lane: usize) -> Option<&'static LaneCounters> {
    let table = TABLE.load(Ordering::Relaxed);
    if table.is_null() { None } else { unsafe { table.add(lane).as_ref() } }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn bucket(ns: u64) -> usize {
    ((u64::BITS - ns.leading_zeros()).saturating_sub(7) as usize).min(BUCKETS - 1)
}

/// Notes the time at which a thread becomes runnable.
#[inline]
pub(crate) fn ready(thread: &Thread) {
    if of(0).is_some() {
        thread.ready_at.set(sys::now());
    }
}

/// Counts a cohort of `size` threads, of which more may be queued.
pub(crate) fn cohort(lane: usize, site: usize, queued: u32, size: u32) {
    let Some(counters) = of(lane).map(|lane| &lane.sites[site]) else { return };
    let (queued, size) = (u64::from(queued), u64::from(size));
    add(&counters.cohorts, 1);
    counters.cohort_max.fetch_max(size, Ordering::Relaxed);
    counters.queued.store(queued, Ordering::Relaxed);
    add(&counters.queued_sum, queued);
    counters.queued_max.fetch_max(queued, Ordering::Relaxed);
    add(&counters.sizes[(size.max(1).ilog2() as usize).min(COHORT_BUCKETS - 1)], 1);
}

/// Counts the wait of a thread that a carrier is about to run. Returns the time.
#[inline]
pub(crate) fn begin(lane: usize, thread: &Thread) -> u64 {
    let Some(lane) = of(lane) else { return 0 };
    let counters = &lane.sites[usize::from(thread.site.get())];
    let now = sys::now();
    lane.runs.store(1, Ordering::Relaxed);
    let waited = now.saturating_sub(thread.ready_at.get());
    add(&counters.ran, 1);
    add(&counters.wait_ns, waited);
    counters.wait_max.fetch_max(waited, Ordering::Relaxed);
    add(&counters.waits[bucket(waited)], 1);
    now
}

/// Counts the run of a thread from `site`, which began at `begin`, until it left the carrier.
#[inline]
pub(crate) fn end(lane: usize, site: u8, begin: u64) {
    let Some(lane) = of(lane) else { return };
    lane.runs.store(0, Ordering::Relaxed);
    let counters = &lane.sites[usize::from(site)];
    let ran = sys::now().saturating_sub(begin);
    add(&counters.run_ns, ran);
    counters.run_max.fetch_max(ran, Ordering::Relaxed);
    add(&counters.runs[bucket(ran)], 1);
}

/// The threads that wait at a site.
pub(crate) fn waiting(site: usize) -> u64 {
    WAITING[site].load(Ordering::Relaxed)
}

/// Counts a thread that continues after its wait.
#[inline]
pub(crate) fn resumed(site: u8) {
    if of(0).is_some() {
        let one_less = |count: u64| count.checked_sub(1);
        let waiting = &WAITING[usize::from(site)];
        let _ = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    }
}

/// Counts a thread that waits at its site, on any kernel thread.
#[inline]
pub(crate) fn suspended(thread: &Thread) {
    let lane = usize::from(thread.last_lane.get()).saturating_sub(1);
    if let Some(lane) = of(lane) {
        add(&lane.sites[usize::from(thread.site.get())].suspended, 1);
        add(&WAITING[usize::from(thread.site.get())], 1);
    }
}

/// Counts threads that a carrier took from another.
pub(crate) fn stolen(threads: usize) {
    add(&STOLEN, threads as u64);
}
