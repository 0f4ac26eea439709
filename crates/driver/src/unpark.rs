//! Waking a parked driver from another thread, with at most one system call per park.
//!
//! The flag is authoritative: it stays set until a park takes it. The wake-up only serves to end a sleep that has
//! begun. If a wake-up arrives after its flag was taken, a later park returns early, which is allowed. An unpark that
//! finds the flag set needs no wake-up, because the driver has not taken the flag yet and will see all earlier writes
//! when it does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Unpark;

/// An event that ends a sleep in the kernel.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self) -> io::Result<()>;
}

/// The implementation of [`Driver::unparker`](crate::Driver::unparker).
pub(crate) struct Unparker<W> {
    notified: AtomicBool,
    pub(crate) wake: W,
}

impl<W: Wake> Unparker<W> {
    pub(crate) fn new(wake: W) -> Arc<Unparker<W>> {
        Arc::new(Unparker { notified: AtomicBool::new(false), wake })
    }

    /// Whether there was an unpark since the last call.
    pub(crate) fn take(&self) -> bool {
        // Loaded first, so that the common case does not write to a shared cache line.
        self.notified.load(Ordering::SeqCst) && self.notified.swap(false, Ordering::SeqCst)
    }
}

impl<W: Wake> Unpark for Unparker<W> {
    fn unpark(&self) {
        if !self.notified.swap(true, Ordering::SeqCst) {
            // It fails only when its counter is full; then the driver is already awake.
            let _ = self.wake.wake();
        }
    }
}
