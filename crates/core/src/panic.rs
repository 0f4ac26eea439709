//! Panics of user code: catching and reporting them.
//!
//! The scheduler calls user code at the following boundaries, and each catches panics in one place:
//!
//! - the poll of an operation ([`crate::processor::run::operations`], [`crate::processor::policy::execute::inline`]),
//! - the handler of a cohort ([`crate::processor::policy::execute::handler`]),
//! - the hook at a cohort's end ([`crate::processor::run::cohort`]),
//! - an invocation and a future that serve another processor ([`crate::processor::remote::accept`],
//!   [`crate::processor::remote::reply`]),
//! - an operation that runs as part of its caller ([`crate::handle::policy::run_fused`]),
//! - the future of an asynchronous cohort handler ([`crate::handle::policy::cohort::serial`]).
//!
//! All other user code, such as destructors and foreign wakers, runs in [`catch_panic`].

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use crate::brief::Brief;
use crate::error::CallError;
use crate::open_scopes::OpenScope;

/// The number of nested panics from dropping a panic payload that are caught before the payload is
/// leaked.
const MAX_NESTED_PANICS: usize = 4;

/// Runs user code, catches a panic in it and drops the payload. Used by the crate `phalanx`.
pub fn catch_panic(foreign: impl FnOnce()) {
    let _scope = OpenScope::no_suspend();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(foreign)) {
        discard_panic(payload);
    }
}

/// Drops a value of user code in [`catch_panic`], of which the compiler makes only one copy for all types.
#[cold]
pub(crate) fn drop_in_catch<T>(value: T) {
    let mut value = Some(value);
    let drop: &mut dyn FnMut() = &mut || drop(value.take());
    catch_panic(drop);
}

/// Drops the payload of a panic. The payload's destructor may panic in turn; after a few such panics, the payload is
/// leaked.
pub(crate) fn discard_panic(mut payload: Box<dyn Any + Send>) {
    for _ in 0..MAX_NESTED_PANICS {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(nested) => payload = nested,
        }
    }
    std::mem::forget(payload);
}

/// The panic payload of an operation that failed on another processor. It carries the error to the
/// caller and is not reported again.
pub(crate) struct Forwarded(pub(crate) CallError);

/// Returns the error for the caller of a panicked operation.
pub(crate) fn panic_error(stage: &'static str, panic: &(dyn Any + Send)) -> CallError {
    if let Some(Forwarded(error)) = panic.downcast_ref() {
        return error.clone();
    }
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("a panic without a message").into();
    CallError::Panicked { stage, message }
}

/// The report of a panic in an operation, a cohort handler or a hook of a stage, which is passed to
/// [`World::on_panic`](crate::World::on_panic). The location of the `panic!` is reported by Rust's panic hook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicReport {
    /// The stage's name.
    pub stage: &'static str,
    /// The type name of the operation, which is the path of the function that contains the `async` block. For a cohort
    /// handler, the type of its items. It depends on the compiler version and is meant for display only.
    pub operation: &'static str,
    /// The location of the `call` or `dispatch` that invoked the operation. For a cohort handler, the location for its
    /// last item; for a hook, the location of its declaration.
    pub site: &'static Location<'static>,
    /// The panic's message; a fixed text if its payload is not text.
    pub message: Box<str>,
}

impl PanicReport {
    /// Creates the report of a panic. Returns `None` if another processor has already reported it.
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
        let operation = Brief(operation);
        write!(f, "stage \"{stage}\": {operation} ({site}) panicked: {message}")
    }
}
