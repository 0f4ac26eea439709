//! The control block of a fibre, and the fibre that runs on this thread.
//!
//! # Safety
//! [`CURRENT`] points to the block of the innermost fibre whose coroutine has been resumed and has not suspended since.
//! [`Resumed`] sets it and restores it, on the stack that resumes; the resumer owns a reference to the block for that
//! time. So the pointer is valid whenever it is set, and the thread's stack pointer is on the stack of that block.
//!
//! A block is at the upper end of its fibre's stack, above the coroutine ([`crate::stack`]). [`OwnedBlock`] owns it and
//! is dropped before the stack is reused.
//!
//! A block stores its coroutine's yielder as a pointer. The yielder is on the stack of the coroutine, which stores the
//! pointer before it runs any other code, and which exists while [`CURRENT`] is that block.
//!
//! A fibre stores a pointer to its [`Waiting`], which is on its stack too, when it suspends. It remains valid until the
//! coroutine is resumed, to continue or to unwind.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll};

use corosensei::Yielder;
use phalanx_core::{OpenScopes, Stage, Stateless};

use crate::children::Children;
use crate::stack::{GUARD, RESERVED, Stack, StackSize};

/// Polls the future for which a fibre waits, and stores its output on the fibre's stack.
pub(crate) type Waiting<'f> = dyn FnMut(&mut Context<'_>) -> Poll<()> + 'f;

/// Waits of an unwinding fibre after which the process ends: its body catches the unwinding and continues.
const MAX_WAITS_AT_END: u32 = 100;

/// The control block of a fibre. A suspension accesses the first three fields, which share a cache line with the end of
/// the coroutine's stack.
#[repr(C)]
pub(crate) struct Block {
    yielder: Cell<*const Yielder<(), ()>>,
    /// The event for which the suspended fibre waits.
    pub(crate) waits: Cell<Option<NonNull<Waiting<'static>>>>,
    /// The scopes that were open when it was resumed.
    resumed_in: Cell<OpenScopes>,
    /// Whether a wait needs more than a switch: the fibre is ending, or has scoped fibres.
    is_special: Cell<bool>,
    pub(crate) size: StackSize,
    /// The stage on which it runs.
    pub(crate) stage: Stage<Stateless>,
    /// The number of waits since its operation was dropped; zero while it lives.
    waits_at_end: Cell<u32>,
    /// The panic of the future for which it waited.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    /// The stage's name, for the handler of overflows.
    pub(crate) stage_name: &'static str,
    /// The type name of its body.
    pub(crate) body: &'static str,
    guard: Range<usize>,
    /// Values of [`FibreLocal`](crate::FibreLocal)s, by the address of their keys.
    pub(crate) locals: RefCell<Vec<(usize, Rc<dyn Any>)>>,
    /// The scopes that are open, from the outermost.
    scopes: RefCell<Vec<Rc<Children>>>,
}

thread_local! {
    static CURRENT: Cell<Option<NonNull<Block>>> = const { Cell::new(None) };
}

impl Block {
    pub(crate) fn new(stage: Stage<Stateless>, body: &'static str, stack: &Stack) -> Self {
        let limit = stack.limit();
        Self {
            yielder: Cell::new(std::ptr::null()),
            waits: Cell::default(),
            resumed_in: Cell::default(),
            is_special: Cell::default(),
            size: stack.size,
            stage,
            waits_at_end: Cell::default(),
            panic: Cell::default(),
            stage_name: stage.name(),
            body,
            guard: limit..limit + GUARD,
            locals: RefCell::default(),
            scopes: RefCell::default(),
        }
    }

    /// Suspends the running fibre, which is this, until `waiting` is ready.
    ///
    /// Always inlined, as [`wait`](crate::wait) is. The processor predicts the targets of returns from the calls before
    /// them, and those were made on another stack: each return between here and the caller of `wait` would be
    /// mispredicted, twice per wait.
    #[inline(always)]
    #[track_caller]
    fn suspend(&self, waiting: &mut Waiting<'_>) {
        let may_wait = !std::thread::panicking()
            && OpenScopes::now() == self.resumed_in.get()
            && !self.is_special.get();
        if may_wait {
            self.switch(waiting);
        } else {
            self.check_and_suspend(waiting);
        }
    }

    /// As [`suspend`](Self::suspend), for a fibre that must not wait, is ending, or has scoped fibres.
    #[cold]
    #[track_caller]
    fn check_and_suspend(&self, waiting: &mut Waiting<'_>) {
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
                "code that the scheduler calls, such as the destructor of another operation; wait in the body of the \
                 fibre only"
            };
            panic!("a fibre of stage \"{}\" waits inside {scope}", self.stage_name);
        }
        if self.is_ending() {
            self.waits_at_end.set(self.waits_at_end.get() + 1);
            if self.waits_at_end.get() > MAX_WAITS_AT_END {
                self.does_not_end();
            }
        }
        let scopes = self.scopes.borrow().clone();
        self.switch(&mut |context| {
            loop {
                if waiting(context).is_ready() {
                    return Poll::Ready(());
                }
                // A child that has finished may be what the fibre waits for.
                if !scopes.iter().fold(false, |finished, scope| scope.poll(context) | finished) {
                    return Poll::Pending;
                }
            }
        });
    }

    /// Switches to the resumer, which polls `waiting` and then resumes the fibre.
    #[inline(always)]
    fn switch(&self, waiting: &mut Waiting<'_>) {
        let waiting: NonNull<Waiting<'_>> = NonNull::from(waiting);
        // SAFETY: only the lifetime changes; the pointer is used while this function waits.
        let waiting: NonNull<Waiting<'static>> = unsafe { std::mem::transmute(waiting) };
        self.waits.set(Some(waiting));
        // SAFETY: this is the current block, so its yielder exists (top of the file).
        unsafe { &*self.yielder.get() }.suspend(());
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

    /// Begins the end: from now on the fibre is unwound.
    pub(crate) fn end(&self) {
        self.waits_at_end.set(1);
        self.is_special.set(true);
    }

    /// Opens a scope of the fibre.
    pub(crate) fn open_scope(&self, scope: &Rc<Children>) {
        self.scopes.borrow_mut().push(scope.clone());
        self.is_special.set(true);
    }

    /// Closes a scope.
    pub(crate) fn close_scope(&self, scope: &Rc<Children>) {
        let mut scopes = self.scopes.borrow_mut();
        scopes.retain(|each| !Rc::ptr_eq(each, scope));
        self.is_special.set(self.is_ending() || !scopes.is_empty());
    }

    /// Whether the fibre is unwound because its operation was dropped.
    pub(crate) fn is_ending(&self) -> bool {
        self.waits_at_end.get() > 0
    }

    /// Whether an access to `address` is an overflow of its stack.
    pub(crate) fn overflows_at(&self, address: usize) -> bool {
        self.guard.contains(&address)
    }
}

/// A block at the upper end of its fibre's stack.
pub(crate) struct OwnedBlock(NonNull<Block>);

impl OwnedBlock {
    pub(crate) fn new(block: Block, stack: &Stack) -> Self {
        const { assert!(size_of::<Block>() <= RESERVED && align_of::<Block>() <= 16) };
        let place = NonNull::new(stack.reserved().cast()).expect("an address in a mapping");
        // SAFETY: the reserved bytes belong to the stack, which nothing else uses, and are aligned to 16 bytes.
        unsafe { place.write(block) };
        Self(place)
    }

    /// # Safety
    /// The stack is not dropped, and neither is the block, while the result is used.
    #[inline(always)]
    pub(crate) unsafe fn get<'b>(&self) -> &'b Block {
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
            // Outside of the borrow, because a destructor may use another value.
            while try_current(|block| block.locals.borrow_mut().pop()).flatten().is_some() {}
        }
    }
    try_current(|block| block.yielder.set(yielder));
    let _drop_locals = DropLocals;
    body()
}

/// Makes a block the current one until it is dropped.
pub(crate) struct Resumed(Option<NonNull<Block>>);

impl Resumed {
    /// Call it right before the block's coroutine is resumed, and drop the result right after.
    #[inline]
    pub(crate) fn new(block: &Block) -> Self {
        block.resumed_in.set(OpenScopes::now());
        Self(CURRENT.replace(Some(NonNull::from(block))))
    }
}

impl Drop for Resumed {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Runs `f` with the running fibre's block, if a fibre runs on this thread.
#[inline]
pub(crate) fn try_current<R>(f: impl FnOnce(&Block) -> R) -> Option<R> {
    // SAFETY: valid while it is set (top of the file).
    CURRENT.get().map(|block| f(unsafe { block.as_ref() }))
}

/// The stage and the stack size of the running fibre.
#[track_caller]
pub(crate) fn here() -> (Stage<Stateless>, StackSize) {
    try_current(|block| (block.stage, block.size))
        .expect("fibres are started in the body of a fibre, not in a future for which it waits")
}

/// Suspends the running fibre until `waiting` is ready, or panics.
#[inline(always)]
#[track_caller]
pub(crate) fn suspend(waiting: &mut Waiting<'_>) {
    let Some(block) = CURRENT.get() else { outside() };
    // SAFETY: valid while it is set (top of the file).
    unsafe { block.as_ref() }.suspend(waiting);
}

#[cold]
#[track_caller]
fn outside() -> ! {
    panic!(
        "blocking calls of `phalanx::fibre` belong in the body of a fibre; this code runs outside of one, or in a future \
         for which a fibre waits"
    )
}

/// Continues the panic of the future for which the running fibre has waited.
#[cold]
pub(crate) fn resume_panic() -> ! {
    let panic = try_current(|block| block.panic.take()).flatten();
    resume_unwind(panic.expect("resumed when the future was ready, or has panicked"))
}
