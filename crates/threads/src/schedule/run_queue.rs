//! The runnable threads: a lane for each carrier, with a queue for each site.
//!
//! A carrier visits the sites of its lane in turn. At each it runs a cohort: the threads that were queued when the
//! visit began, up to a bound. So threads that continue at the same place run one after another, and no site waits for
//! more than one cohort of each other. With `--order fifo`, all threads are in one queue.
//!
//! # Safety
//!
//! A thread is in the queues at most once, because only the change of its state from parked or running to runnable
//! inserts it. Queued threads do not run, so their records live and their stack pointers are saved. A prefetch is a hint
//! that never faults.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::ptr::{self, null_mut};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::limits::{MAX_LANES, SITES};
use crate::options::is_fifo;
use crate::stats;
use crate::system::lock::Lock;
use crate::thread::{Thread, current};

/// Cache lines of a waiting thread's stack that its call accesses when it continues.
const STACK_LINES: usize = 8;
/// Cache lines of a record that the run queue and a switch access.
const RECORD_LINES: usize = 2;

/// Maximum number of threads of a cohort.
const MAX_COHORT: u32 = 64;

/// The threads at a site.
#[derive(Clone, Copy)]
struct Queue {
    head: *mut Thread,
    tail: *mut Thread,
    length: u32,
}

impl Queue {
    const EMPTY: Self = Self { head: null_mut(), tail: null_mut(), length: 0 };

    fn push(&mut self, thread: *mut Thread) {
        unsafe { (*thread).next.store(null_mut(), Ordering::Relaxed) };
        match self.tail.is_null() {
            true => self.head = thread,
            false => unsafe { (*self.tail).next.store(thread, Ordering::Relaxed) },
        }
        self.tail = thread;
        self.length += 1;
    }

    fn pop(&mut self) -> Option<&'static Thread> {
        let thread = unsafe { self.head.as_ref()? };
        self.head = thread.next.load(Ordering::Relaxed);
        if self.head.is_null() {
            self.tail = null_mut();
        }
        self.length -= 1;
        Some(thread)
    }

    /// Starts loading the memory that the next switches access: the stack of the next thread, whose record the previous
    /// call has loaded, and the record of the thread after it. Those of thousands of threads are not in the cache.
    fn prefetch_next(&self) {
        let Some(next) = (unsafe { self.head.as_ref() }) else { return };
        prefetch(next.sp.get(), STACK_LINES);
        let after = next.next.load(Ordering::Relaxed);
        if !after.is_null() {
            prefetch(after.addr(), RECORD_LINES);
        }
    }
}

/// Starts loading cache lines from an address on.
fn prefetch(address: usize, lines: usize) {
    for line in 0..lines {
        unsafe { _mm_prefetch(ptr::without_provenance(address + line * 64), _MM_HINT_T0) };
    }
}

/// The queues of a carrier.
struct Queues {
    sites: [Queue; SITES],
    /// A bit for each site that has threads.
    occupied: u64,
    /// The site of the current cohort, and the number of its remaining threads.
    site: usize,
    left: u32,
}

impl Queues {
    const EMPTY: Self = Self { sites: [Queue::EMPTY; SITES], occupied: 0, site: 0, left: 0 };

    fn push(&mut self, site: usize, thread: *mut Thread) {
        self.sites[site].push(thread);
        self.occupied |= 1 << site;
    }

    fn pop_at(&mut self, site: usize) -> Option<&'static Thread> {
        let thread = self.sites[site].pop();
        if self.sites[site].length == 0 {
            self.occupied &= !(1 << site);
        }
        thread
    }

    /// The next thread of the cohort, or of the next one.
    fn pop(&mut self, lane: usize) -> Option<&'static Thread> {
        if self.left == 0 || self.sites[self.site].length == 0 {
            if self.occupied == 0 {
                return None;
            }
            let next = (self.site as u32 + 1) % SITES as u32;
            let distance = self.occupied.rotate_right(next).trailing_zeros();
            self.site = ((next + distance) % SITES as u32) as usize;
            let queued = self.sites[self.site].length;
            self.left = queued.min(MAX_COHORT);
            stats::cohort(lane, self.site, queued, self.left);
        }
        self.left -= 1;
        let thread = self.pop_at(self.site);
        self.sites[self.site].prefetch_next();
        thread
    }
}

#[repr(align(128))]
struct Lane {
    queues: Lock<Queues>,
    /// The number of threads in the queues.
    length: AtomicUsize,
    /// The number of threads that were removed so far.
    removed: AtomicUsize,
}

static LANES: [Lane; MAX_LANES] = [const {
    Lane {
        queues: Lock::new(Queues::EMPTY),
        length: AtomicUsize::new(0),
        removed: AtomicUsize::new(0),
    }
}; MAX_LANES];
/// The number of carriers.
static COUNT: AtomicU32 = AtomicU32::new(1);

fn lanes() -> &'static [Lane] {
    &LANES[..count()]
}

/// The number of lanes.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed) as usize
}

/// Sets the number of lanes, before the carriers start.
pub(crate) fn set_count(carriers: u32) {
    COUNT.store(carriers.clamp(1, MAX_LANES as u32), Ordering::Relaxed);
}

/// The lane of the calling kernel thread, if it is a carrier, whatever it runs.
pub(crate) fn own_lane() -> Option<usize> {
    let thread = current();
    let lane = match unsafe { thread.carrier.get().as_ref() } {
        Some(carrier) => carrier.lane,
        None => thread.own_lane.get(),
    };
    usize::from(lane).checked_sub(1)
}

/// Queues a thread: on the lane of the calling carrier, or else on the lane that ran it last. Returns the number of
/// threads in the lane.
pub(crate) fn push(thread: &Thread) -> usize {
    let last = usize::from(thread.last_lane.get()).saturating_sub(1);
    let lane = &lanes()[own_lane().unwrap_or(last).min(count() - 1)];
    stats::ready(thread);
    let site = if is_fifo() { 0 } else { usize::from(thread.site.get()) };
    let mut queues = lane.queues.lock();
    queues.push(site, thread.as_ptr());
    lane.length.fetch_add(1, Ordering::SeqCst) + 1
}

/// Removes the next thread of a lane.
pub(crate) fn pop(number: usize) -> Option<&'static Thread> {
    let lane = &LANES[number];
    if lane.length.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let mut queues = lane.queues.lock();
    let thread = queues.pop(number)?;
    lane.length.fetch_sub(1, Ordering::SeqCst);
    lane.removed.fetch_add(1, Ordering::Relaxed);
    Some(thread)
}

/// Removes the next thread of any lane.
pub(crate) fn pop_any() -> Option<&'static Thread> {
    (0..count()).find_map(pop)
}

/// Moves threads of another lane to this one: all threads of a site other than that of the current cohort, or else half
/// of the cohort. Returns the next thread.
pub(crate) fn steal(number: usize) -> Option<&'static Thread> {
    let others = (1..count()).map(|distance| (number + distance) % count());
    let victim =
        others.into_iter().find(|&other| LANES[other].length.load(Ordering::SeqCst) > 0)?;
    let (mut stolen, site) = take_part(victim);
    if stolen.length == 0 {
        return None;
    }
    LANES[victim].removed.fetch_add(stolen.length as usize, Ordering::Relaxed);
    append(&mut stolen, site, number);
    pop(number)
}

/// Appends threads to a lane that is not their own.
fn append(threads: &mut Queue, site: usize, number: usize) {
    let lane = &LANES[number];
    let mut queues = lane.queues.lock();
    let count = threads.length as usize;
    while let Some(thread) = threads.pop() {
        queues.push(site, thread.as_ptr());
    }
    lane.length.fetch_add(count, Ordering::SeqCst);
    drop(queues);
    stats::stolen(count);
}

/// Moves the threads that are queued in a lane to another one.
pub(crate) fn relocate(from: usize, to: usize) {
    let mut rest = length_of(from);
    while rest > 0 {
        let (mut part, site) = take_part(from);
        if part.length == 0 {
            return;
        }
        rest = rest.saturating_sub(part.length as usize);
        append(&mut part, site, to);
    }
}

/// Removes the threads to move from another lane, which are all at one site.
fn take_part(victim: usize) -> (Queue, usize) {
    let lane = &LANES[victim];
    let mut queues = lane.queues.lock();
    let other_sites = queues.occupied & !(1 << queues.site);
    let (site, count) = match other_sites {
        0 => (queues.site, queues.sites[queues.site].length.div_ceil(2)),
        _ => {
            let site = other_sites.trailing_zeros() as usize;
            (site, queues.sites[site].length)
        }
    };
    let mut part = Queue::EMPTY;
    while part.length < count
        && let Some(thread) = queues.pop_at(site)
    {
        part.push(thread.as_ptr());
    }
    lane.length.fetch_sub(part.length as usize, Ordering::SeqCst);
    (part, site)
}

/// The number of runnable threads.
pub(crate) fn len() -> usize {
    lanes().iter().map(|lane| lane.length.load(Ordering::SeqCst)).sum()
}

/// The number of runnable threads in a lane.
pub(crate) fn length_of(lane: usize) -> usize {
    LANES[lane].length.load(Ordering::SeqCst)
}

/// How many threads have been removed so far.
pub(crate) fn removed() -> usize {
    lanes().iter().map(|lane| lane.removed.load(Ordering::Relaxed)).sum()
}

/// How many threads have been removed from a lane so far.
pub(crate) fn removed_from(lane: usize) -> usize {
    LANES[lane].removed.load(Ordering::Relaxed)
}

/// Empties the queues in a child process.
pub(crate) unsafe fn reset() {
    for lane in lanes() {
        unsafe { lane.queues.reset_with(|queues| *queues = Queues::EMPTY) };
        lane.length.store(0, Ordering::SeqCst);
    }
}
