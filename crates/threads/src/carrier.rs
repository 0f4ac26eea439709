//! Carriers: kernel threads that run the threads of the program.
//!
//! # Safety
//!
//! A carrier's record is in the stack frame of its function, which does not return.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use crate::home::finish;
use crate::switch::switch;
use crate::thread::{Carrier, current};
use crate::{monitor, poller, real, run_queue, sys, wake};

/// After this many switches a carrier looks for events.
const SWITCHES_PER_POLL: u32 = 64;

/// Starts a carrier. Returns false if the process has no kernel threads left.
pub(crate) fn start() -> bool {
    real::start_thread(run)
}

extern "C" fn run(_: *mut u8) -> *mut u8 {
    sys::set_signal_mask(sys::CARRIER_MASK);
    current().is_masked.set(true);
    let carrier = Carrier { sp: Cell::new(0), fs: Cell::new(real::fs_base()) };
    let mut switches = 0_u32;
    loop {
        let Some(thread) = run_queue::pop() else {
            wait_for_work();
            continue;
        };
        thread.carrier.set((&raw const carrier).cast_mut());
        wake::BUSY.fetch_add(1, Ordering::SeqCst);
        monitor::wake_up();
        let captures = wake::captures();
        unsafe { switch(carrier.sp.as_ptr(), thread.sp.get(), thread.fs.get()) };
        if captures != wake::captures() {
            thread.count_capture();
        }
        finish(thread);
        wake::BUSY.fetch_sub(1, Ordering::SeqCst);
        switches = switches.wrapping_add(1);
        if switches.is_multiple_of(SWITCHES_PER_POLL) {
            poller::poll(false);
        }
    }
}

fn wait_for_work() {
    if poller::poll(true) {
        return;
    }
    wake::wait_idle();
}
