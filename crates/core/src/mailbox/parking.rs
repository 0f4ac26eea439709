//! Park and wake: how a processor goes to sleep without missing what others send it.
//!
//! A sender publishes its work, then looks whether the processor is parked. The processor says that
//! it parks, then looks whether there is work. Between the two steps of each stands a sequentially
//! consistent fence, so at least one of them sees the other (Dekker's argument): either the
//! processor finds the work and does not sleep, or the sender finds it parked and unparks it. Only
//! one sender of many pays for the system call: the one that moves `PARKED` to `NOTIFIED`.

use std::sync::OnceLock;

use crate::sync::{AtomicU8, Ordering, fence};

/// Ends the sleep of a processor, from any thread. Must be sticky: an unpark that comes before the
/// sleep makes that sleep return at once.
pub type Unpark = Box<dyn Fn() + Send + Sync>;

const RUNNING: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

/// One processor's state of sleep.
#[derive(Default)]
pub(crate) struct Parking {
    state: AtomicU8,
    unpark: OnceLock<Unpark>,
}

impl Parking {
    /// Says how the owner is woken. Once, before the owner first parks.
    pub(crate) fn install(&self, unpark: Unpark) {
        let _ = self.unpark.set(unpark);
    }

    /// The owner is about to sleep. True if it may: `quiet` is asked *after* the announcement and
    /// must say whether all inboxes are empty. Ends with [`Parking::woke`].
    pub(crate) fn may_sleep(&self, quiet: impl FnOnce() -> bool) -> bool {
        self.state.store(PARKED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if quiet() {
            return true;
        }
        self.woke();
        false
    }

    /// The owner is awake again.
    pub(crate) fn woke(&self) {
        self.state.store(RUNNING, Ordering::Relaxed);
    }

    /// Whether the owner seems to sleep. A hint: it may have changed by now.
    pub(crate) fn is_parked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PARKED
    }

    /// A sender has published something: wake the owner if it sleeps. True if this call woke it.
    pub(crate) fn notify(&self) -> bool {
        fence(Ordering::SeqCst);
        let woke = self.state.load(Ordering::Relaxed) == PARKED
            && self
                .state
                .compare_exchange(PARKED, NOTIFIED, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        #[cfg(feature = "fault-injection")]
        let woke = woke
            && !crate::mailbox::fault_injection::fires(
                crate::mailbox::fault_injection::Fault::LostUnpark,
            );
        if woke && let Some(unpark) = self.unpark.get() {
            unpark();
        }
        woke
    }
}
