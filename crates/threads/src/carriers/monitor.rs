//! The monitor: a kernel thread that detects blocked carriers, whose thread computes or blocks in the kernel. It polls
//! instead of them, and moves the threads that wait for a blocked carrier to another one. If no carrier returns, it
//! sends runnable threads home, more in each tick, where they run natively until they next wait. So the worst case is
//! one kernel thread per thread.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::carriers::interrupt;
use crate::limits::MAX_LANES;
use crate::readiness::{poller, watch};
use crate::schedule::home::send_home;
use crate::schedule::{acceptors, run_queue, wake};
use crate::stats;
use crate::system::{real, sys};
use crate::thread::current;

/// Not shorter, because a tick interrupts a carrier that shares its core with the monitor.
const TICK_NANOSECONDS: u64 = 2_000_000;
/// Ticks without progress of a queue after which its threads are sent home.
const PATIENCE_TICKS: u32 = 2;
/// Ticks after which waits that rely on records of descriptors are confirmed.
const CONFIRM_TICKS: u32 = 16;
/// Ticks without work after which the monitor sleeps.
const IDLE_TICKS: u32 = 25;

static ASLEEP: AtomicU32 = AtomicU32::new(0);

/// Starts the monitor. Returns false if the process has no kernel threads left.
pub(crate) fn start() -> bool {
    real::start_thread(run, core::ptr::null_mut())
}

/// Wakes the monitor if it sleeps. A carrier that starts to run a thread calls this.
#[inline]
pub(crate) fn wake_up() {
    if ASLEEP.load(Ordering::SeqCst) != 0 {
        ASLEEP.store(0, Ordering::SeqCst);
        sys::futex_wake(&raw const ASLEEP, 1);
    }
}

extern "C" fn run(_: *mut u8) -> *mut u8 {
    sys::set_signal_mask(sys::HOME_MASK);
    current().is_masked.set(true);
    let (mut removed, mut stuck, mut idle, mut polls) = (0, 0, 0, 0);
    let unused = AtomicU32::new(0);
    let mut lanes = Lanes { removed: [0; MAX_LANES], ticks: [0; MAX_LANES] };
    let mut blocked = Blocked { removed: [0; MAX_LANES], ticks: [0; MAX_LANES] };
    let (mut ticks, mut unrepresented_ticks, mut is_requested) = (0_u32, 0, false);
    loop {
        sys::futex_wait(&unused, 0, Some(sys::now() + TICK_NANOSECONDS));
        ticks = ticks.wrapping_add(1);
        // Wait for some ticks, because threads often block signals only briefly.
        unrepresented_ticks =
            if acceptors::has_unrepresented() { unrepresented_ticks + 1 } else { 0 };
        if unrepresented_ticks >= PATIENCE_TICKS {
            acceptors::wake_candidates();
            interrupt::request();
        }
        // A thread that leaves its carrier within a tick needs no interruption.
        if is_requested {
            interrupt::send();
        }
        is_requested = interrupt::is_requested();
        let is_unconfirmed = ticks.is_multiple_of(CONFIRM_TICKS) && watch::confirm();
        if wake::busy() == 0 && run_queue::len() == 0 {
            idle = if is_unconfirmed || unrepresented_ticks > 0 || is_requested {
                0
            } else {
                idle + 1
            };
            if idle >= IDLE_TICKS {
                ASLEEP.store(1, Ordering::SeqCst);
                stats::BLOCKED.store(0, Ordering::Relaxed);
                // A thread that begins to wait from here on wakes the monitor.
                let has_work = wake::busy() != 0
                    || run_queue::len() != 0
                    || watch::has_waits()
                    || acceptors::has_unrepresented()
                    || interrupt::is_requested();
                if !has_work {
                    sys::futex_wait(&ASLEEP, 1, None);
                }
                ASLEEP.store(0, Ordering::SeqCst);
                idle = 0;
            }
            continue;
        }
        idle = 0;
        blocked.count();
        // Poll here if no carrier did, because carriers poll rarely if their threads run for long.
        if polls == poller::polls() && !poller::is_polling() {
            poller::poll(false);
        }
        polls = poller::polls();
        let waiting = run_queue::len();
        if waiting == 0 {
            stuck = 0;
            removed = run_queue::removed();
            continue;
        }
        wake::call_carrier();
        lanes.move_blocked();
        stuck = if removed == run_queue::removed() { stuck + 1 } else { 0 };
        removed = run_queue::removed();
        if stuck >= PATIENCE_TICKS {
            (0..run_queue::count()).for_each(wake::count_capture);
            send_threads_home(replacements(stuck - PATIENCE_TICKS).min(waiting));
            // No carrier has taken these threads.
            removed = run_queue::removed();
            lanes.removed = removed_from_each();
            blocked.removed = lanes.removed;
        }
    }
}

/// The number of threads that replace the carriers after so many ticks without progress. At first one for each carrier,
/// because carriers that other processes have preempted will soon continue; then twice as many in each tick.
fn replacements(ticks: u32) -> usize {
    run_queue::count() << ticks.min(16)
}

/// The number of threads taken from each lane.
fn removed_from_each() -> [usize; MAX_LANES] {
    let count = run_queue::count();
    std::array::from_fn(|lane| if lane < count { run_queue::removed_from(lane) } else { 0 })
}

fn send_threads_home(count: usize) {
    for _ in 0..count {
        let Some(thread) = run_queue::pop_any() else { break };
        thread.count_capture();
        stats::count(&stats::SENT_HOME);
        send_home(thread);
    }
}

/// The lanes whose threads wait for a blocked carrier.
struct Lanes {
    removed: [usize; MAX_LANES],
    ticks: [u32; MAX_LANES],
}

impl Lanes {
    /// Moves the threads of these lanes to a lane whose carrier is not blocked, once per tick. Idle carriers do this
    /// themselves, but there may be none.
    fn move_blocked(&mut self) {
        let mut to = None;
        for lane in 0..run_queue::count() {
            let (removed, length) = (run_queue::removed_from(lane), run_queue::length_of(lane));
            let moves = removed != self.removed[lane];
            self.ticks[lane] = if moves || length == 0 { 0 } else { self.ticks[lane] + 1 };
            self.removed[lane] = removed;
            if moves && to.is_none_or(|(shortest, _)| length < shortest) {
                to = Some((length, lane));
            }
        }
        let Some((_, to)) = to else { return };
        for lane in 0..run_queue::count() {
            if self.ticks[lane] >= PATIENCE_TICKS {
                run_queue::relocate(lane, to);
                self.ticks[lane] = 0;
                wake::call_carrier();
            }
        }
    }
}

/// The carriers that have run one thread for some time.
struct Blocked {
    removed: [usize; MAX_LANES],
    ticks: [u32; MAX_LANES],
}

impl Blocked {
    /// Counts them once per tick.
    fn count(&mut self) {
        let mut blocked = 0;
        for lane in 0..run_queue::count() {
            let Some(counters) = stats::of(lane) else { return };
            let removed = run_queue::removed_from(lane);
            let runs = counters.runs.load(Ordering::Relaxed) != 0;
            let is_same = runs && removed == self.removed[lane];
            self.ticks[lane] = if is_same { self.ticks[lane].saturating_add(1) } else { 0 };
            self.removed[lane] = removed;
            blocked += u64::from(self.ticks[lane] >= PATIENCE_TICKS);
        }
        stats::BLOCKED.store(blocked, Ordering::Relaxed);
    }
}

/// Resets the monitor in a child process.
pub(crate) fn reset() {
    ASLEEP.store(0, Ordering::SeqCst);
}
