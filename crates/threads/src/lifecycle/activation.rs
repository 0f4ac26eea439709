//! The start of the carriers, at the first thread of the program.
//!
//! # Safety
//!
//! Activation happens while the process has one thread, which executes it.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::carriers::{carrier, interrupt, monitor};
use crate::lifecycle::{settings, threads};
use crate::readiness::poller;
use crate::schedule::{acceptors, run_queue};
use crate::system::{real, sys};
use crate::{admin, thread};

/// 0: not yet decided, 1: active, 2: this process runs natively.
static STATE: AtomicU32 = AtomicU32::new(0);

/// Bit of `AT_HWCAP2` (26): user code may set its FS base.
const FSGSBASE: u64 = 2;

/// Starts the carriers, if this program is to run on them. Returns whether they run.
pub(crate) fn activate() -> bool {
    if STATE.load(Ordering::Acquire) == 0 {
        settings::read();
    }
    if STATE.load(Ordering::Acquire) == 0 {
        let state = if start() { 1 } else { 2 };
        STATE.store(state, Ordering::Release);
    }
    STATE.load(Ordering::Acquire) == 1
}

fn start() -> bool {
    let has_fsgsbase = unsafe { real::getauxval(26) } & FSGSBASE != 0;
    if !has_fsgsbase || !poller::open() || !threads::prepare() {
        return false;
    }
    thread::current().requests.fetch_or(thread::AT_HOME, Ordering::SeqCst);
    acceptors::update(thread::current(), sys::signal_mask());
    // Without a monitor, threads could wait for a blocked carrier.
    if !monitor::start() {
        return false;
    }
    interrupt::prepare();
    (0..run_queue::count()).filter(|&lane| carrier::start(lane)).count() > 0 && admin::start()
}

/// Makes this process run natively, without carriers.
pub(crate) fn run_natively() {
    STATE.store(2, Ordering::Release);
}

/// Whether the carriers have started.
pub(crate) fn is_active() -> bool {
    STATE.load(Ordering::Acquire) == 1
}

/// Resets the state in a child process, which starts its own carriers with its first thread.
pub(crate) fn reset() {
    STATE.store(0, Ordering::Release);
}
