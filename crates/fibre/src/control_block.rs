//! The control block of a fibre, and the fibre that runs on this thread.
//!
//! # Safety
//! [`CURRENT`] points to the block of the innermost fibre whose coroutine has been resumed and has not suspended since.
//! [`ResumeGuard`] sets it and restores it, on the stack that resumes; the resumer owns a reference to the block for
//! that time. So the pointer is valid whenever it is set, and the thread's stack pointer is on the stack of that block.
//!
//! A block is at the upper end of its fibre's stack, above the coroutine ([`crate::stack`]). [`OwnedControlBlock`] owns
//! it and is dropped before the stack is reused.
//!
//! A block stores its coroutine's yielder as a pointer. The yielder is on the stack of the coroutine, which stores the
//! pointer before it runs any other code, and which exists while [`CURRENT`] is that block.
//!
//! A block stores the context of the poll that has resumed the fibre. The resumer has borrowed it until the coroutine
//! suspends or ends, and a fibre uses it between its resumption and its suspension only.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::task::{Context, Poll};

use corosensei::Yielder;
use phalanx_core::{OpenScopes, Stage, Stateless};

use crate::children::Children;
use crate::stack::{RESERVED, Stack, StackSize};

/// The number of waits of an unwinding fibre after which the process ends, because the body evidently catches the
/// unwinding and continues.
const MAX_WAITS_AT_END: u32 = 100;

/// Flag: the fibre waits, so any code that runs on its stack belongs to the future.
const WAITS: u8 = 1;

/// Flag: a wait needs more than a switch, because the fibre is ending or has scoped fibres.
const NEEDS_CHECK: u8 = 2;

/// The control block of a fibre. A suspension accesses the first three fields, which share a cache line with the end of
/// the coroutine's stack.
#[repr(C)]
pub(crate) struct ControlBlock {
    yielder: Cell<*const Yielder<(), ()>>,
    /// The context of the poll that has resumed the fibre.
    context: Cell<*mut Context<'static>>,
    /// The scopes that were open when the fibre was resumed.
    resumed_in: Cell<OpenScopes>,
    /// The flags [`WAITS`] and [`NEEDS_CHECK`].
    flags: Cell<u8>,
    pub(crate) size: StackSize,
    /// The stage on which the fibre runs.
    pub(crate) stage: Stage<Stateless>,
    /// The number of waits since the operation was dropped; zero while it exists.
    waits_at_end: Cell<u32>,
    /// The stage's name, for the overflow handler.
    pub(crate) stage_name: &'static str,
    /// The type name of the body.
    pub(crate) body: &'static str,
    guard: Range<usize>,
    /// Values of [`FibreLocal`](crate::FibreLocal)s, by the address of their keys.
    pub(crate) locals: RefCell<Vec<(usize, Rc<dyn Any>)>>,
    /// The open scopes, outermost first.
    scopes: RefCell<Vec<Rc<Children>>>,
}

thread_local! {
    static CURRENT: Cell<Option<NonNull<ControlBlock>>> = const { Cell::new(None) };
}

impl ControlBlock {
    pub(crate) fn new(stage: Stage<Stateless>, body: &'static str, stack: &Stack) -> Self {
        Self {
            yielder: Cell::new(ptr::null()),
            context: Cell::new(ptr::null_mut()),
            resumed_in: Cell::default(),
            flags: Cell::default(),
            size: stack.size,
            stage,
            waits_at_end: Cell::default(),
            stage_name: stage.name(),
            body,
            guard: stack.guard(),
            locals: RefCell::default(),
            scopes: RefCell::default(),
        }
    }

    /// Suspends the running fibre, to which this block belongs, until `future` is ready.
    ///
    /// Always inlined, as [`wait`](crate::wait) is. A CPU predicts the targets of returns from the preceding calls,
    /// which were made on another stack: each return between here and the caller of `wait` would be mispredicted, twice
    /// per wait.
    #[inline(always)]
    #[track_caller]
    fn wait<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        let may_wait = !std::thread::panicking()
            && OpenScopes::now() == self.resumed_in.get()
            && self.flags.get() == 0;
        if !may_wait {
            self.check();
        }
        let _waits = WaitGuard::new(self);
        loop {
            // SAFETY: the fibre runs, so its resumer has borrowed the context (top of the file).
            if let Poll::Ready(output) = future.as_mut().poll(unsafe { &mut *self.context.get() }) {
                return output;
            }
            // This fibre may be waiting for a scoped fibre that has finished, and a new scoped fibre has to be polled.
            if self.flags.get() & NEEDS_CHECK == 0 || !self.poll_scopes() {
                self.suspend();
            }
        }
    }

    /// Switches to the resumer. Unwinds the fibre if its operation was dropped in the meantime.
    #[inline(always)]
    fn suspend(&self) {
        // SAFETY: this is the current block, so its yielder exists (top of the file).
        unsafe { &*self.yielder.get() }.suspend(());
    }

    /// Panics if the fibre must not wait here. Unwinds a fibre that is ending once more.
    #[cold]
    #[track_caller]
    fn check(&self) {
        if self.flags.get() & WAITS != 0 {
            outside();
        }
        assert!(
            !std::thread::panicking(),
            "a fibre of stage \"{}\" waits in a destructor while it unwinds; do not wait in destructors, or check \
             `std::thread::panicking()` first",
            self.stage_name
        );
        let (now, before) = (OpenScopes::now(), self.resumed_in.get());
        if now != before {
            let scope = if now.holds_state_since(before) {
                "the closure of a `with`, which borrows a state; let the closure return first"
            } else {
                "the closure of a `Session::scope`, or code that the scheduler calls, such as the destructor of another \
                 operation; wait in the body of the fibre only"
            };
            panic!("a fibre of stage \"{}\" waits inside {scope}", self.stage_name);
        }
        if self.is_ending() {
            self.waits_at_end.set(self.waits_at_end.get() + 1);
            if self.waits_at_end.get() > MAX_WAITS_AT_END {
                self.does_not_end();
            }
            self.suspend();
        }
    }

    /// Polls the scoped fibres. Returns whether one has finished, or is new and has not been polled.
    #[cold]
    fn poll_scopes(&self) -> bool {
        // Does not keep a borrow while a fibre runs. This fibre waits, so no scope opens or closes during the loop.
        let scopes = || (0..).map_while(|index| self.scopes.borrow().get(index).cloned());
        // SAFETY: as in `wait`, whose use of the context has ended.
        let context = unsafe { &mut *self.context.get() };
        let finished = scopes().fold(false, |finished, scope| scope.poll(context) | finished);
        // A fibre of an inner scope may have added one to an outer scope, which was polled before.
        finished || scopes().any(|scope| scope.has_new())
    }

    #[cold]
    #[track_caller]
    fn does_not_end(&self) -> ! {
        eprintln!(
            "phalanx: a fibre of stage \"{}\" has ended, but its body {} catches the panic that unwinds it and waits \
             again at {}; let a panic whose payload is unknown pass",
            self.stage_name,
            self.body,
            std::panic::Location::caller()
        );
        std::process::abort()
    }

    /// Marks the fibre as ending: from now on it is unwound.
    pub(crate) fn end(&self) {
        self.waits_at_end.set(1);
        self.set_flag(NEEDS_CHECK, true);
    }

    /// Opens a scope of the fibre.
    pub(crate) fn open_scope(&self, scope: &Rc<Children>) {
        self.scopes.borrow_mut().push(scope.clone());
        self.set_flag(NEEDS_CHECK, true);
    }

    /// Closes a scope.
    pub(crate) fn close_scope(&self, scope: &Rc<Children>) {
        let mut scopes = self.scopes.borrow_mut();
        scopes.retain(|each| !Rc::ptr_eq(each, scope));
        self.set_flag(NEEDS_CHECK, self.is_ending() || !scopes.is_empty());
    }

    #[inline(always)]
    fn set_flag(&self, flag: u8, is: bool) {
        let others = self.flags.get() & !flag;
        self.flags.set(if is { others | flag } else { others });
    }

    /// Removes the last fibre-local value. The caller drops it without a borrow, because its destructor may use another
    /// value.
    pub(crate) fn pop_local(&self) -> Option<(usize, Rc<dyn Any>)> {
        self.locals.borrow_mut().pop()
    }

    /// Whether the fibre is being unwound because its operation was dropped.
    pub(crate) fn is_ending(&self) -> bool {
        self.waits_at_end.get() > 0
    }

    /// Whether an access to `address` is an overflow of its stack.
    pub(crate) fn overflows_at(&self, address: usize) -> bool {
        self.guard.contains(&address)
    }
}

/// Marks a fibre as waiting until the guard is dropped.
struct WaitGuard<'b>(&'b ControlBlock);

impl<'b> WaitGuard<'b> {
    #[inline(always)]
    fn new(block: &'b ControlBlock) -> Self {
        block.set_flag(WAITS, true);
        Self(block)
    }
}

impl Drop for WaitGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.set_flag(WAITS, false);
    }
}

/// A block at the upper end of its fibre's stack.
pub(crate) struct OwnedControlBlock(NonNull<ControlBlock>);

impl OwnedControlBlock {
    pub(crate) fn new(block: ControlBlock, stack: &Stack) -> Self {
        const { assert!(size_of::<ControlBlock>() <= RESERVED && align_of::<ControlBlock>() <= 16) };
        let place = NonNull::new(stack.reserved().cast()).expect("an address in a mapping");
        // SAFETY: the reserved bytes belong to the stack, which nothing else uses, and are aligned to 16 bytes.
        unsafe { place.write(block) };
        Self(place)
    }

    /// # Safety
    /// The stack is not dropped, and neither is the block, while the result is used.
    #[inline(always)]
    pub(crate) unsafe fn get<'b>(&self) -> &'b ControlBlock {
        // SAFETY: as the caller ensures.
        unsafe { self.0.as_ref() }
    }

    /// Drops the block.
    ///
    /// # Safety
    /// The stack exists, and nothing uses the block from now on.
    pub(crate) unsafe fn drop(&mut self) {
        // SAFETY: as the caller ensures.
        unsafe { self.0.drop_in_place() };
    }
}

/// Runs `body` as the first code of the running fibre's coroutine.
pub(crate) fn run<R>(yielder: &Yielder<(), ()>, body: impl FnOnce() -> R) -> R {
    /// Drops the values on the fibre's stack, where their destructors may wait.
    struct DropLocals;
    impl Drop for DropLocals {
        fn drop(&mut self) {
            while try_running(ControlBlock::pop_local).flatten().is_some() {}
        }
    }
    try_current(|block| block.yielder.set(yielder));
    let _drop_locals = DropLocals;
    body()
}

/// Makes a block the current one until it is dropped.
pub(crate) struct ResumeGuard(Option<NonNull<ControlBlock>>);

impl ResumeGuard {
    /// Call this right before the block's coroutine is resumed, and drop the result right after.
    #[inline]
    pub(crate) fn new(block: &ControlBlock, context: &mut Context<'_>) -> Self {
        block.context.set(ptr::from_mut(context).cast());
        block.resumed_in.set(OpenScopes::now());
        Self(CURRENT.replace(Some(NonNull::from(block))))
    }
}

impl Drop for ResumeGuard {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Like [`try_current`], but only if the code that runs is the fibre's body, not a future for which the fibre waits.
pub(crate) fn try_running<R>(f: impl FnOnce(&ControlBlock) -> R) -> Option<R> {
    try_current(|block| (block.flags.get() & WAITS == 0).then(|| f(block))).flatten()
}

/// Runs `f` with the block of the fibre that has been resumed on this thread, if there is one.
#[inline]
pub(crate) fn try_current<R>(f: impl FnOnce(&ControlBlock) -> R) -> Option<R> {
    // SAFETY: valid while it is set (top of the file).
    CURRENT.get().map(|block| f(unsafe { block.as_ref() }))
}

/// The stage and the stack size of the running fibre.
#[track_caller]
pub(crate) fn here() -> (Stage<Stateless>, StackSize) {
    try_running(|block| (block.stage, block.size))
        .expect("fibres are started in the body of a fibre, not in a future for which it waits")
}

/// Suspends the running fibre until `future` is ready.
#[inline(always)]
#[track_caller]
pub(crate) fn wait<F: Future>(future: Pin<&mut F>) -> F::Output {
    let Some(block) = CURRENT.get() else { outside() };
    // SAFETY: valid while it is set (top of the file).
    unsafe { block.as_ref() }.wait(future)
}

#[cold]
#[track_caller]
fn outside() -> ! {
    panic!(
        "blocking calls of `phalanx::fibre` belong in the body of a fibre; this code runs outside of one, or in a future \
         for which a fibre waits"
    )
}
