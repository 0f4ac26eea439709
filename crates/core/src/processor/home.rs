//! Handles that are used or dropped away from the processor that created them, their *home*.
//!
//! A timer, a call, a session or a socket is an index into the tables of one processor. On another processor, the index
//! would refer to something else. Each handle therefore contains its processor's identity and compares it with the
//! identity of the thread's current processor before it uses the index. A handle that is dropped elsewhere sends a
//! command home, which releases the resource.

use crate::mailbox::command::Command;
use crate::mailbox::registry::while_registered;
use crate::processor;
use crate::processor::processor::Processor;
use crate::program::processor_id::ProcessorId;

impl ProcessorId {
    /// Runs `act` on this processor before its next cohort. Can be called from any thread. If the processor has ended,
    /// its resources have been released and `act` is dropped.
    ///
    /// Intended for destructors of handles that are dropped on other threads. The queue needs no bound, because each
    /// handle is dropped only once. A panic in `act` is discarded.
    ///
    /// ```
    /// # let processor = phalanx_core::Graph::new().build(1).remove(0).build(Box::new(|| ()));
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// static RELEASED: AtomicBool = AtomicBool::new(false);
    /// let id = processor.id();
    /// std::thread::spawn(move || id.run_later(|| RELEASED.store(true, Ordering::Relaxed))).join().unwrap();
    /// processor.turn(&phalanx_core::IdleWorld);
    /// assert!(RELEASED.load(Ordering::Relaxed));
    /// ```
    pub fn run_later(self, act: impl FnOnce() + Send + 'static) {
        send_home(self.0, |_| act());
    }

    /// Whether this processor has been created and not yet dropped.
    #[cold]
    pub fn is_alive(self) -> bool {
        while_registered(self.0, |_| ()).is_some()
    }
}

impl Processor {
    /// This processor's identity.
    pub fn id(&self) -> ProcessorId {
        ProcessorId(self.identity)
    }
}

/// A command that runs `act` on its processor.
pub(crate) fn command(act: impl FnOnce(&Processor) + Send + 'static) -> Command {
    Command::new(move |processor| act(processor.get()))
}

/// Runs `act` on the processor with this identity, before its next cohort. Does nothing if the processor has
/// ended.
#[cold]
#[inline(never)]
pub(crate) fn send_home(identity: u32, act: impl FnOnce(&Processor) + Send + 'static) {
    if let Some(mailbox) = while_registered(identity, |mailbox| mailbox.clone()) {
        mailbox.push_external_command(command(act));
    }
}

/// Runs `act` on the processor with this identity: now if it is the current one, otherwise like [`send_home`].
#[inline]
pub(crate) fn run_home(identity: u32, act: impl FnOnce(&Processor) + Copy + Send + 'static) {
    if processor::on(identity, act).is_none() {
        send_home(identity, act);
    }
}

/// Runs `f` on the processor with this identity, which must be the current one. Returns `None` if that processor has
/// ended, because the handle's resource was released with it.
///
/// # Panics
/// If the processor is alive but is not the current one.
#[inline]
#[track_caller]
pub(crate) fn at_home<R>(
    identity: u32,
    handle: &str,
    f: impl FnOnce(&Processor) -> R,
) -> Option<R> {
    let result = processor::on(identity, f);
    if result.is_none() {
        assert!(
            !ProcessorId(identity).is_alive(),
            "{handle} was used on a processor other than the one that created it; use it there"
        );
    }
    result
}
