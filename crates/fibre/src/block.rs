//! The control block of a fibre, and the fibre that runs on this thread.
//!
//! # Safety
//! [`CURRENT`] points to the block of the innermost fibre whose coroutine has been resumed and has not suspended since.
//! [`Resumed`] sets it and restores it, on the stack that resumes; the resumer owns a reference to the block for that
//! time. So the pointer is valid whenever it is set, and the thread's stack pointer is on the stack of that block.
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
use crate::stack::{GUARD, StackSize};

/// Polls the future for which a fibre waits, and stores its output on the fibre's stack.
pub(crate) type Waiting<'f> = dyn FnMut(&mut Context<'_>) -> Poll<()> + 'f;

/// Waits of an unwinding fibre after which the process ends: its body catches the unwinding and continues.
const MAX_WAITS_AT_END: u32 = 100;

/// The control block of a fibre.
pub(crate) struct Block {
    /// The stage on which it runs.
    pub(crate) stage: Stage<Stateless>,
    /// The stage's name, for the handler of overflows.
    pub(crate) stage_name: &'static str,
    /// The type name of its body.
    pub(crate) body: &'static str,
    pub(crate) size: StackSize,
    guard: Range<usize>,
    yielder: Cell<*const Yielder<(), ()>>,
    /// The scopes that were open when it was resumed.
    resumed_in: Cell<OpenScopes>,
    /// What the suspended fibre waits for.
    pub(crate) waits: Cell<Option<NonNull<Waiting<'static>>>>,
    /// The panic of the future for which it waited.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    /// The number of waits since its operation was dropped; zero while it lives.
    waits_at_end: Cell<u32>,
    /// Values of [`FibreLocal`](crate::FibreLocal)s, by the address of their keys.
    pub(crate) locals: RefCell<Vec<(usize, Rc<dyn Any>)>>,
    /// The scopes that are open, from the outermost.
    pub(crate) scopes: RefCell<Vec<Rc<Children>>>,
}

thread_local! {
    static CURRENT: Cell<Option<NonNull<Block>>> = const { Cell::new(None) };
}

impl Block {
    pub(crate) fn new(
        stage: Stage<Stateless>,
        body: &'static str,
        size: StackSize,
        limit: usize,
    ) -> Rc<Self> {
        Rc::new(Self {
            stage,
            stage_name: stage.name(),
            body,
            size,
            guard: limit..limit + GUARD,
            yielder: Cell::new(std::ptr::null()),
            resumed_in: Cell::default(),
            waits: Cell::default(),
            panic: Cell::default(),
            waits_at_end: Cell::default(),
            locals: RefCell::default(),
            scopes: RefCell::default(),
        })
    }

    /// Runs `body` as the first code of the fibre's coroutine.
    pub(crate) fn run<R>(&self, yielder: &Yielder<(), ()>, body: impl FnOnce() -> R) -> R {
        /// Drops the values on the fibre's stack, where their destructors may wait.
        struct DropLocals<'b>(&'b Block);
        impl Drop for DropLocals<'_> {
            fn drop(&mut self) {
                loop {
                    // Outside of the borrow, because a destructor may use another value.
                    let last = self.0.locals.borrow_mut().pop();
                    if last.is_none() {
                        break;
                    }
                }
            }
        }
        self.yielder.set(yielder);
        let _drop_locals = DropLocals(self);
        body()
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
            && !self.is_ending();
        if may_wait && self.scopes.borrow().is_empty() {
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
