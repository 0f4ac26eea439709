//! Hostile programs: safe code that misuses the scheduler in every way that compiles.
//!
//! Destructors, wakers and worlds panic or call back into the scheduler; handles are forgotten,
//! moved, stale or used inside themselves. No such program may cause undefined behaviour, lose an
//! operation, or end a processor. `cargo xtask hostile` runs this binary under Miri,
//! AddressSanitizer and valgrind, which see what an assertion cannot.
#![forbid(unsafe_code)]

#[path = "../it/common.rs"]
mod common;
mod support;

mod endings;
mod handles;
mod lost;
mod refused;
mod replies;
mod sent_calls;
mod subscribers;
mod threads;
mod wakers;
mod wrong_processor;
