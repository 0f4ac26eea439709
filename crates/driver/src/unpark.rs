//! Waking a parked driver from another thread, at most one system call per park.
//!
//! The flag carries the meaning (sticky: set until a park takes it), the wake-up only ends a sleep
//! that has begun. An unpark whose wake-up arrives after its flag was taken ends a later park early,
//! which a park is allowed to do. An unpark that finds the flag set needs no wake-up of its own: the
//! driver has yet to take the flag, and what was written before is seen by who takes it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Unpark;

/// Something that ends a sleep in the kernel.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self) -> io::Result<()>;
}

/// What [`Driver::unparker`](crate::Driver::unparker) gives out.
pub(crate) struct Unparker<W> {
    notified: AtomicBool,
    pub(crate) wake: W,
}

impl<W: Wake> Unparker<W> {
    pub(crate) fn new(wake: W) -> Arc<Unparker<W>> {
        Arc::new(Unparker { notified: AtomicBool::new(false), wake })
    }

    /// Whether an unpark came since the last call.
    pub(crate) fn take(&self) -> bool {
        // Checked first so that the usual case writes nothing to a shared line.
        self.notified.load(Ordering::SeqCst) && self.notified.swap(false, Ordering::SeqCst)
    }
}

impl<W: Wake> Unpark for Unparker<W> {
    fn unpark(&self) {
        if !self.notified.swap(true, Ordering::SeqCst) {
            // It fails only when its counter is full, and then the driver is awake already.
            let _ = self.wake.wake();
        }
    }
}
