//! The reset of this library in a child process.
//!
//! # Safety
//!
//! A child process has one thread, which executes the reset.

use crate::calls::descriptors::turns;
use crate::calls::locks::barriers;
use crate::calls::threads::creation;
use crate::carriers::{interrupt, monitor};
use crate::lifecycle::activation;
use crate::readiness::{poller, records};
use crate::schedule::{acceptors, all, run_queue, wake};
use crate::waiting::{table, timers};
use crate::{admin, thread};

/// The child shares the descriptors that other threads have opened meanwhile.
pub(crate) extern "C" fn end_in_parent() {
    records::share_all();
}

/// The child has one thread, which is at home, and no carriers until it creates a thread.
pub(crate) extern "C" fn reset_in_child() {
    thread::current().tid.set(0);
    if !activation::is_active() {
        return;
    }
    unsafe {
        all::reset();
        run_queue::reset();
        table::reset();
        timers::reset();
        barriers::reset();
    }
    poller::reset();
    wake::reset();
    acceptors::reset(thread::current());
    monitor::reset();
    interrupt::reset();
    creation::reset();
    turns::reset();
    admin::reset();
    thread::current().reset_in_child();
    activation::reset();
}
