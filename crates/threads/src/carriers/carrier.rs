//! Carriers: kernel threads that run the threads of the program.
//!
//! # Safety
//!
//! A carrier's record is in the stack frame of its function, which does not return.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

use crate::carriers::{interrupt, monitor};
use crate::readiness::poller;
use crate::schedule::home::finish;
use crate::schedule::{run_queue, wake};
use crate::stats;
use crate::system::{real, sys};
use crate::thread::switch::switch;
use crate::thread::{Carrier, current};

/// Size of the stack for handlers of faults, such as an overflow of a thread's stack.
const SIGNAL_STACK_BYTES: usize = 64 * 1024;
/// Number of switches after which a carrier polls for events.
const SWITCHES_PER_POLL: u32 = 64;

/// Starts the carrier of a lane. Returns false if the process has no kernel threads left.
pub(crate) fn start(lane: usize) -> bool {
    real::start_thread(run, core::ptr::without_provenance_mut(lane))
}

extern "C" fn run(lane: *mut u8) -> *mut u8 {
    let lane = lane.addr();
    sys::set_signal_mask(sys::CARRIER_MASK);
    current().is_masked.set(true);
    current().own_lane.set(lane as u16 + 1);
    interrupt::register(lane);
    let mut signal_stack = MaybeUninit::<[u8; SIGNAL_STACK_BYTES]>::uninit();
    sys::set_signal_stack(signal_stack.as_mut_ptr().cast(), SIGNAL_STACK_BYTES);
    let (sp, fs) = (Cell::new(0), Cell::new(real::fs_base()));
    let carrier = Carrier { sp, fs, lane: lane as u16 + 1 };
    let mut switches = 0_u32;
    loop {
        let Some(thread) = run_queue::pop(lane).or_else(|| run_queue::steal(lane)) else {
            wait_for_work(lane);
            continue;
        };
        thread.carrier.set((&raw const carrier).cast_mut());
        thread.last_lane.set(carrier.lane);
        let (site, begin) = (thread.site.get(), stats::begin(lane, thread));
        wake::BUSY.fetch_add(1, Ordering::SeqCst);
        monitor::wake_up();
        let captures = wake::captures(lane);
        unsafe { switch(carrier.sp.as_ptr(), thread.sp.get(), thread.fs.get()) };
        match captures == wake::captures(lane) {
            true => thread.forgive_captures(),
            false => thread.count_capture(),
        }
        stats::end(lane, site, begin);
        finish(thread);
        wake::BUSY.fetch_sub(1, Ordering::SeqCst);
        switches = switches.wrapping_add(1);
        if switches.is_multiple_of(SWITCHES_PER_POLL) {
            poller::poll(false);
        }
    }
}

fn wait_for_work(lane: usize) {
    let counters = stats::of(lane);
    let begin = counters.map(|counters| {
        stats::count(&counters.polls);
        sys::now()
    });
    if !poller::poll(true) {
        wake::wait_idle();
    }
    if let (Some(counters), Some(begin)) = (counters, begin) {
        stats::count(&counters.parks);
        counters.parked_ns.fetch_add(sys::now().saturating_sub(begin), Ordering::Relaxed);
    }
}
