//! The monitor: a kernel thread that notices carriers which do not return, because a thread computes or blocks in the
//! kernel. It polls in their place, and sends runnable threads home, where they run natively until they next wait. So
//! the worst case is one kernel thread per thread.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::home::send_home;
use crate::thread::current;
use crate::{poller, real, run_queue, sys, wake};

const TICK_NANOSECONDS: u64 = 1_000_000;
/// Ticks after which threads of a queue that did not move are sent home.
const PATIENCE_TICKS: u32 = 3;
/// Ticks without work after which the monitor sleeps.
const IDLE_TICKS: u32 = 50;

static ASLEEP: AtomicU32 = AtomicU32::new(0);

/// Starts the monitor. Returns false if the process has no kernel threads left.
pub(crate) fn start() -> bool {
    real::start_thread(run)
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
    let (mut taken, mut stuck, mut idle) = (0, 0, 0);
    let never = AtomicU32::new(0);
    loop {
        sys::futex_wait(&never, 0, Some(sys::now() + TICK_NANOSECONDS));
        if wake::busy() == 0 && run_queue::len() == 0 {
            idle += 1;
            if idle >= IDLE_TICKS {
                ASLEEP.store(1, Ordering::SeqCst);
                if wake::busy() == 0 && run_queue::len() == 0 {
                    sys::futex_wait(&ASLEEP, 1, None);
                }
                ASLEEP.store(0, Ordering::SeqCst);
                idle = 0;
            }
            continue;
        }
        idle = 0;
        if !poller::is_polling() {
            poller::poll(false);
        }
        let waiting = run_queue::len();
        if waiting == 0 {
            stuck = 0;
            continue;
        }
        wake::call_carrier();
        stuck = if taken == run_queue::taken() { stuck + 1 } else { 0 };
        taken = run_queue::taken();
        if stuck >= PATIENCE_TICKS {
            wake::count_captures();
            for _ in 0..waiting {
                let Some(thread) = run_queue::pop() else { break };
                thread.count_capture();
                send_home(thread);
            }
            stuck = 0;
        }
    }
}

/// Forgets the monitor of the parent in a child process.
pub(crate) fn reset() {
    ASLEEP.store(0, Ordering::SeqCst);
}
