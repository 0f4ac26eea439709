//! Signals are blocked while a lock of this library is held, because a handler may call `sem_post`, which takes such a
//! lock.

use crate::system::sys;
use crate::thread::current;

/// Blocks signals until it is dropped, unless the kernel thread already blocks them.
pub(crate) struct Masked(Option<u64>);

impl Masked {
    #[inline]
    pub(crate) fn new() -> Masked {
        let thread = current();
        thread.locks.set(thread.locks.get() + 1);
        if thread.is_masked.get() {
            return Masked(None);
        }
        let old = sys::set_signal_mask(sys::HOME_MASK);
        thread.is_masked.set(true);
        Masked(Some(old))
    }
}

impl Masked {
    /// The signal mask to restore; `None` if the signals were already blocked.
    pub(crate) fn old(&self) -> Option<u64> {
        self.0
    }
}

impl Drop for Masked {
    #[inline]
    fn drop(&mut self) {
        let thread = current();
        thread.locks.set(thread.locks.get() - 1);
        if let Some(old) = self.0 {
            thread.is_masked.set(false);
            sys::set_signal_mask(old);
        }
    }
}
