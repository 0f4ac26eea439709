//! What a processor runs at present, for other threads to read: the ground on which a supervisor
//! reports an operation that runs for too long.
//!
//! Published with plain stores by the processor: one word whenever it turns to another cohort, and
//! the operation's slot before each operation. The slot's header has the operation's vtable, which
//! knows its name, and the place of its invocation. A reader may see an operation of one cohort
//! beside the number of the next, so it looks at the number twice.
//!
//! # Safety
//! - The pointer to a header is null, or comes from a [`Slot`]. The memory of slots stays allocated
//!   until the program is dropped ([`crate::memory::slab`]), which the reader's [`Control`] keeps.
//! - The reader touches only the header's two [`Shown`] cells, which are atomic. Each holds a
//!   `&'static` at all times. They may be those of two operations if the slot is filled meanwhile.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::operation::slot::{Header, Slot};
use crate::program::program::Control;

/// A `&'static` that its thread writes and others may read. Costs what a plain cell costs.
pub(crate) struct Shown<T: 'static>(AtomicPtr<T>, PhantomData<&'static T>);

impl<T> Shown<T> {
    pub(crate) fn new(value: &'static T) -> Self {
        Self(AtomicPtr::new(std::ptr::from_ref(value).cast_mut()), PhantomData)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: &'static T) {
        self.0.store(std::ptr::from_ref(value).cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &'static T {
        // SAFETY: made from a `&'static` by `new` or `set`, and never written through.
        unsafe { &*self.0.load(Ordering::Relaxed) }
    }
}

/// Where the program invoked an operation.
pub(crate) type Site = &'static Location<'static>;

/// An operation's type and where it was invoked.
type Named = (&'static str, Site);

/// In the place of a stage: no cohort runs.
const NOBODY: u64 = 0xff;

/// What one processor publishes.
pub(crate) struct Watch {
    /// How many cohorts have begun, or gone on, in the high bits; the stage in the low eight.
    cohort: AtomicU64,
    operation: AtomicPtr<Header>,
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
    pub(crate) fn operation(&self, slot: Slot) {
        self.operation.store(std::ptr::from_ref(&*slot).cast_mut(), Ordering::Relaxed);
    }

    /// An operation of `stage` is about to run inside of its caller. Returns what
    /// [`leave`](Self::leave) puts back.
    #[inline(always)]
    pub(crate) fn enter(&self, stage: usize, slot: Slot) -> (u64, *mut Header) {
        let cohort = self.cohort.load(Ordering::Relaxed);
        let operation = self.operation.load(Ordering::Relaxed);
        self.cohort.store(cohort & !NOBODY | stage as u64, Ordering::Release);
        self.operation(slot);
        (cohort, operation)
    }

    /// Its caller goes on.
    #[inline(always)]
    pub(crate) fn leave(&self, (cohort, operation): (u64, *mut Header)) {
        self.cohort.store(cohort, Ordering::Release);
        self.operation.store(operation, Ordering::Relaxed);
    }

    /// What runs: the stage's number, the cohort's, the operation's name and place. The watch is of
    /// a program that the caller keeps.
    fn look(&self) -> Option<(usize, u64, Option<Named>)> {
        // A few times: a processor that turns so fast has nothing that runs for long.
        for _ in 0..4 {
            let cohort = self.cohort.load(Ordering::Acquire);
            let header = self.operation.load(Ordering::Acquire);
            if self.cohort.load(Ordering::Relaxed) != cohort {
                continue;
            }
            if cohort & NOBODY == NOBODY {
                return None;
            }
            // SAFETY: null, or of a slot, whose memory is still there (top of the file).
            let header = unsafe { header.as_ref() };
            let operation = header.map(|header| (header.operation(), header.site.get()));
            return Some(((cohort & NOBODY) as usize, cohort >> 8, operation));
        }
        None
    }
}

/// The part of a future's type name that a reader of the program knows.
pub(crate) fn plain(name: &'static str) -> &'static str {
    const CRATE: &str = env!("CARGO_CRATE_NAME");
    let inside_of = |name: &'static str, wrapper| name.strip_prefix(CRATE)?.strip_prefix(wrapper);
    // One that another processor sent is wrapped, so that its result finds the way back; one on a
    // partition is, since that may be elsewhere.
    let sent =
        inside_of(name, "::processor::remote::call::Returning<").map(|list| argument(list, 0));
    let name = sent.unwrap_or(name);
    let on_partition =
        inside_of(name, "::handle::migration::Placed<").map(|list| argument(list, 2));
    let mut name = on_partition.unwrap_or(name);
    while let Some(outer) = name.strip_suffix("::{{closure}}") {
        name = outer;
    }
    name
}

/// The argument numbered `number` of a list of generic arguments.
fn argument(list: &'static str, mut number: usize) -> &'static str {
    let (mut depth, mut begin) = (0usize, 0);
    let mut before = ' ';
    for (at, letter) in list.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            // Not the arrow of a function's result.
            '>' if before == '-' => (),
            ',' if depth == 0 && number > 0 => {
                number -= 1;
                begin = at + 1;
            }
            ',' | '>' if depth == 0 => return list[begin..at].trim_start(),
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
    /// Where the program invoked it: the file and line of the `call` or `dispatch`. `None` between
    /// two operations. For a cohort's handler that of one of its items.
    pub site: Option<&'static Location<'static>>,
    /// Counts the cohorts of this processor: the same number in two looks means that the processor
    /// has been in this one cohort all the while.
    pub cohort: u64,
}

/// `stage "work": program::busy (src/main.rs:12:9)`
impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, operation, site, .. } = self;
        write!(f, "stage \"{stage}\": {}", operation.unwrap_or("an operation"))?;
        site.map_or(Ok(()), |site| write!(f, " ({site})"))
    }
}

impl Control {
    /// What each processor runs just now; `None` where no cohort runs. By processor.
    ///
    /// A look from outside at counters that are written without waiting for anyone: good enough to
    /// find an operation that does not come to an end, and no more.
    pub fn running(&self) -> Vec<Option<Running>> {
        let look = |watch: &Watch| {
            let (stage, cohort, operation) = watch.look()?;
            let (operation, site) = operation.unzip();
            Some(Running { stage: self.0.stages[stage].name, operation, site, cohort })
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
        let wrapped = "phalanx_core::processor::remote::call::Returning<a::b<(u8, fn(u8) -> u8)>::{{closure}}, c, u8>";
        assert_eq!(plain(wrapped), "a::b<(u8, fn(u8) -> u8)>");
        let placed = "phalanx_core::processor::remote::call::Returning<phalanx_core::handle::migration::Placed<\
                      t::S<u8, u8>, a::f::{{closure}}, a::f::{{closure}}::{{closure}}, u8>, u8>";
        assert_eq!(plain(placed), "a::f");
    }
}
