//! Panics of user code: how they are caught, and what is reported of them.
//!
//! User code runs at these boundaries, and each catches its panics in one place: an operation's poll
//! ([`processor::cohort`](crate::processor::cohort), [`processor::inline`](crate::processor::inline)), a
//! cohort's handler ([`processor::batch`](crate::processor::batch)), a future that serves another processor
//! ([`processor::remote::call`](crate::processor::remote::call)), and everything else, such as destructors
//! and foreign wakers, by [`catch_panic`].

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use crate::error::CallError;

/// How many panics of a panic payload's destructor are caught before the payload is leaked.
const MAX_NESTED_PANICS: usize = 4;

/// Runs user code, and drops its panic.
pub(crate) fn catch_panic(foreign: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(foreign)) {
        discard_panic(payload);
    }
}

/// Drops the payload of a panic. Its destructor may panic in turn; after a few such panics the
/// payload is leaked.
pub(crate) fn discard_panic(mut payload: Box<dyn Any + Send>) {
    for _ in 0..MAX_NESTED_PANICS {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(again) => payload = again,
        }
    }
    std::mem::forget(payload);
}

/// The panic payload of an operation that failed on another processor. It carries the error to the
/// caller here, and is not reported again.
pub(crate) struct Forwarded(pub(crate) CallError);

/// The error that the caller of a panicked operation gets.
pub(crate) fn panic_error(stage: &'static str, panic: &(dyn Any + Send)) -> CallError {
    if let Some(Forwarded(error)) = panic.downcast_ref() {
        return error.clone();
    }
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("a panic without a message").into();
    CallError::Panicked { stage, message }
}

/// The report of a panic in an operation, a cohort's handler or a hook of a stage:
/// [`World::panicked`](crate::World::panicked) gets it. Rust's own panic hook has the line of the
/// `panic!`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicReport {
    /// The stage's name.
    pub stage: &'static str,
    /// The type name of the operation: the path of the function whose `async` block or body it is;
    /// for a cohort's handler the items' type. Meant for people; it changes with the compiler.
    pub operation: &'static str,
    /// Where the program invoked it: the file and line of the `call` or `dispatch`, for a cohort's
    /// handler that of the last item, for a hook that of its declaration.
    pub site: &'static Location<'static>,
    /// The panic's message; a fixed text if its payload is not text.
    pub message: Box<str>,
}

impl PanicReport {
    /// The report of a panic, unless another processor has reported it.
    pub(crate) fn new(
        error: &CallError,
        operation: &'static str,
        site: &'static Location<'static>,
        panic: &(dyn Any + Send),
    ) -> Option<Self> {
        match error {
            CallError::Panicked { stage, message } if !panic.is::<Forwarded>() => {
                Some(Self { stage, operation, site, message: message.clone() })
            }
            _ => None,
        }
    }
}

/// `stage "work": program::parse (src/main.rs:12:9) panicked: no such field`
impl fmt::Display for PanicReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, operation, site, message } = self;
        write!(f, "stage \"{stage}\": {operation} ({site}) panicked: {message}")
    }
}
