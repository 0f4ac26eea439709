//! The handlers of this library for the creation of a process.
//!
//! # Safety
//!
//! The C library calls the handlers without arguments.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::system::real;

type Handler = extern "C" fn();

static IN_PARENT: AtomicUsize = AtomicUsize::new(0);
static IN_CHILD: AtomicUsize = AtomicUsize::new(0);

/// Sets the handlers, which the C library calls in `fork`.
pub(crate) fn register(parent: Handler, child: Handler) {
    IN_PARENT.store(parent as usize, Ordering::Relaxed);
    IN_CHILD.store(child as usize, Ordering::Relaxed);
    unsafe { real::pthread_atfork(None, Some(parent), Some(child)) };
}

/// Calls the handler of the parent after a process was created without `fork`.
pub(crate) fn end_in_parent() {
    call(&IN_PARENT);
}

/// Likewise the handler of the child.
pub(crate) fn reset_in_child() {
    call(&IN_CHILD);
}

fn call(handler: &AtomicUsize) {
    let handler = handler.load(Ordering::Relaxed);
    if handler != 0 {
        let handler: Handler = unsafe { core::mem::transmute(handler) };
        handler();
    }
}
