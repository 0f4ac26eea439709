//! What a processor runs at present, for other threads to read: the ground on which a supervisor
//! reports an operation that runs for too long.
//!
//! Published with plain stores by the processor: one word whenever it turns to another cohort, and
//! the operation's vtable, which knows its name, before each operation. A reader may see an
//! operation of one cohort beside the number of the next, so it looks at the number twice.
//!
//! # Safety
//! The pointer to a vtable is null, or comes from a `&'static VTable` ([`Watch::operation`]); a
//! vtable is never written to.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::operation::VTable;
use crate::program::Control;

/// In the place of a stage: no cohort runs.
const NOBODY: u64 = 0xff;

/// What one processor publishes.
pub(crate) struct Watch {
    /// How many cohorts have begun, or gone on, in the high bits; the stage in the low eight.
    cohort: AtomicU64,
    operation: AtomicPtr<VTable>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { cohort: AtomicU64::new(NOBODY), operation: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

impl Watch {
    /// The processor turns to a cohort of `stage`, or to none.
    pub(crate) fn turn_to(&self, stage: Option<usize>) {
        let number = (self.cohort.load(Ordering::Relaxed) >> 8) + u64::from(stage.is_some());
        let stage = stage.map_or(NOBODY, |stage| stage as u64);
        self.operation.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.cohort.store(number << 8 | stage, Ordering::Release);
    }

    /// An operation of the cohort is about to run.
    #[inline(always)]
    pub(crate) fn operation(&self, vtable: &'static VTable) {
        self.operation.store(std::ptr::from_ref(vtable).cast_mut(), Ordering::Relaxed);
    }

    /// An operation of `stage` is about to run inside of its caller. Returns what
    /// [`leave`](Self::leave) puts back.
    #[inline(always)]
    pub(crate) fn enter(&self, stage: usize, vtable: &'static VTable) -> (u64, *mut VTable) {
        let cohort = self.cohort.load(Ordering::Relaxed);
        let operation = self.operation.load(Ordering::Relaxed);
        self.cohort.store(cohort & !NOBODY | stage as u64, Ordering::Release);
        self.operation(vtable);
        (cohort, operation)
    }

    /// Its caller goes on.
    #[inline(always)]
    pub(crate) fn leave(&self, (cohort, operation): (u64, *mut VTable)) {
        self.cohort.store(cohort, Ordering::Release);
        self.operation.store(operation, Ordering::Relaxed);
    }

    /// What runs: the stage's number, the cohort's, the operation's name.
    fn look(&self) -> Option<(usize, u64, Option<&'static str>)> {
        // A few times: a processor that turns so fast has nothing that runs for long.
        for _ in 0..4 {
            let cohort = self.cohort.load(Ordering::Acquire);
            let vtable = self.operation.load(Ordering::Acquire);
            if self.cohort.load(Ordering::Relaxed) != cohort {
                continue;
            }
            if cohort & NOBODY == NOBODY {
                return None;
            }
            // SAFETY: null, or of a `&'static` (top of the file).
            let vtable: Option<&'static VTable> = unsafe { vtable.as_ref() };
            let operation = vtable.map(|vtable| plain((vtable.operation)()));
            return Some(((cohort & NOBODY) as usize, cohort >> 8, operation));
        }
        None
    }
}

/// The part of a future's type name that a reader of the program knows.
pub(crate) fn plain(name: &'static str) -> &'static str {
    // One that another processor sent is wrapped, so that its result finds the way back.
    let wrapped = name.strip_prefix(concat!(env!("CARGO_CRATE_NAME"), "::remote::Returning<"));
    let mut name = wrapped.map_or(name, first_argument);
    while let Some(outer) = name.strip_suffix("::{{closure}}") {
        name = outer;
    }
    name
}

/// The first of a list of generic arguments.
fn first_argument(list: &'static str) -> &'static str {
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, letter) in list.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            // Not the arrow of a function's result.
            '>' if before == '-' => (),
            ',' | '>' if depth == 0 => return &list[..at],
            '>' | ')' | ']' => depth -= 1,
            _ => (),
        }
        before = letter;
    }
    list
}

/// What one processor was running at the moment of the look; see [`Control::running`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// The stage's name.
    pub stage: &'static str,
    /// The type name of the operation's future: the path of the function whose `async` block or
    /// body it is. `None` between two operations. Good for people, not for comparing over versions
    /// of the compiler.
    pub operation: Option<&'static str>,
    /// Counts the cohorts of this processor: the same number in two looks means that the processor
    /// has been in this one cohort all the while.
    pub cohort: u64,
}

impl Control {
    /// What each processor runs just now; `None` where no cohort runs. By processor.
    ///
    /// A look from outside at counters that are written without waiting for anyone: good enough to
    /// find an operation that does not come to an end, and no more.
    pub fn running(&self) -> Vec<Option<Running>> {
        let look = |watch: &Watch| {
            let (stage, cohort, operation) = watch.look()?;
            Some(Running { stage: self.0.stages[stage].name, operation, cohort })
        };
        self.0.counters.iter().map(|counters| look(&counters.watch)).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_program() {
        assert_eq!(plain("web::serve::{{closure}}::{{closure}}"), "web::serve");
        let wrapped =
            "phalanx_core::remote::Returning<a::b<(u8, fn(u8) -> u8)>::{{closure}}, c, u8>";
        assert_eq!(plain(wrapped), "a::b<(u8, fn(u8) -> u8)>");
    }
}
