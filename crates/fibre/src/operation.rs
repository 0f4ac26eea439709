//! The future of a fibre: it starts the coroutine, and resumes it whenever it is polled.
//!
//! # Safety
//! A coroutine's closure contains the body of the fibre and may borrow, so it is created with `with_stack_unchecked`.
//! The coroutine is part of a [`FibreFuture`] whose type names the body's type, so it is completed or dropped before
//! the borrows end. A forgotten operation is never resumed, its borrows are never used, and its stack is never reused.

use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use corosensei::{Coroutine, CoroutineResult};
use phalanx_core::{Stage, Stateless};

use crate::control_block::{self, ControlBlock, OwnedControlBlock, ResumeGuard};
use crate::fibre::Fibre;
use crate::pool;
use crate::stack::{Stack, StackSize};
use crate::wait_queue::QueuePosition;

/// The code of a fibre, with the state of its stage if the fibre accesses it.
pub(crate) trait Body {
    type Output;

    fn run(self, fibre: &Fibre<'_>) -> Self::Output;
}

/// A body that accesses no state.
pub(crate) struct Plain<F>(pub(crate) F);

impl<T, F: FnOnce(&Fibre<'_>) -> T> Body for Plain<F> {
    type Output = T;

    fn run(self, fibre: &Fibre<'_>) -> T {
        self.0(fibre)
    }
}

/// A body and the state of its stage.
pub(crate) struct WithState<S, F>(pub(crate) S, pub(crate) F);

impl<S, T, F: FnOnce(S, &Fibre<'_>) -> T> Body for WithState<S, F> {
    type Output = T;

    fn run(self, fibre: &Fibre<'_>) -> T {
        self.1(self.0, fibre)
    }
}

/// The future of a fibre. The operation is named after the type `F`.
pub(crate) struct FibreFuture<F, B: Body> {
    state: State<B>,
    name: PhantomData<fn(F)>,
}

enum State<B: Body> {
    New { stage: Stage<Stateless>, size: StackSize, body: B, position: QueuePosition },
    Running(Running<B::Output>),
    Over,
}

/// A fibre that has a stack.
struct Running<T> {
    /// Taken when it is dropped.
    coroutine: ManuallyDrop<Coroutine<(), (), T, Stack>>,
    block: OwnedControlBlock,
}

impl<F, B: Body> FibreFuture<F, B> {
    pub(crate) fn new(stage: Stage<Stateless>, size: StackSize, body: B) -> Self {
        const {
            assert!(
                size_of::<B>() <= 4096,
                "box large captures, because they move to the fibre's stack"
            )
        };
        Self {
            state: State::New { stage, size, body, position: QueuePosition::default() },
            name: PhantomData,
        }
    }
}

// Nothing in it is pinned: the body moves to the coroutine's stack before it runs.
impl<F, B: Body> Unpin for FibreFuture<F, B> {}

impl<F, B: Body> Future for FibreFuture<F, B> {
    type Output = B::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<B::Output> {
        let output = match &mut self.state {
            State::Running(running) => ready!(running.poll(context)),
            _ => ready!(self.start(context)),
        };
        self.state = State::Over;
        Poll::Ready(output)
    }
}

impl<F, B: Body> FibreFuture<F, B> {
    /// Takes a stack, moves the body to it and runs it; or waits for a stack.
    #[inline(never)]
    fn start(&mut self, context: &mut Context<'_>) -> Poll<B::Output> {
        let State::New { size, position, .. } = &mut self.state else {
            panic!("a fibre was polled after it had completed")
        };
        let size = *size;
        let stack = ready!(pool::poll_take(size, position, context));
        let State::New { stage, body, .. } = std::mem::replace(&mut self.state, State::Over) else {
            unreachable!("matched above")
        };
        let stack = stack.unwrap_or_else(|error| {
            panic!("no memory for a stack of {} KiB: {error}", size.bytes() >> 10)
        });
        self.state = State::Running(Running::new(stage, stack, std::any::type_name::<F>(), body));
        let State::Running(running) = &mut self.state else { unreachable!("set above") };
        running.poll(context)
    }
}

impl<F, B: Body> Drop for FibreFuture<F, B> {
    fn drop(&mut self) {
        if let State::New { size, position, .. } = &mut self.state {
            pool::stop_waiting(*size, position);
        }
    }
}

impl<T> Running<T> {
    fn new<B>(stage: Stage<Stateless>, stack: Stack, name: &'static str, body: B) -> Self
    where
        B: Body<Output = T>,
    {
        let block = OwnedControlBlock::new(ControlBlock::new(stage, name, &stack), &stack);
        let coroutine = |yielder: &_, ()| control_block::run(yielder, || body.run(&Fibre::new()));
        // SAFETY: this is part of an operation of type `B` (top of the file).
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, coroutine) };
        Self { coroutine: ManuallyDrop::new(coroutine), block }
    }

    #[inline(always)]
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: `coroutine` is dropped after this (top of the file).
        let block = unsafe { self.block.get() };
        let resumed = ResumeGuard::new(block, context);
        let result = self.coroutine.resume(());
        drop(resumed);
        match result {
            CoroutineResult::Yield(()) => Poll::Pending,
            CoroutineResult::Return(output) => Poll::Ready(output),
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        // SAFETY: the stack exists until the end of this function, and nothing uses `coroutine` after it.
        let (block, mut coroutine) =
            unsafe { (self.block.get(), ManuallyDrop::take(&mut self.coroutine)) };
        if !coroutine.done() {
            block.end();
            let mut context = Context::from_waker(Waker::noop());
            let resumed = ResumeGuard::new(block, &mut context);
            discard_panic(|| coroutine.force_unwind());
            drop(resumed);
        }
        // If the destructor of a value has panicked, the values after it are left.
        while let Some(local) = block.pop_local() {
            discard_panic(|| drop(local));
        }
        let (stage, body) = (block.stage, block.body);
        // SAFETY: the coroutine is done, and this is the block's last use.
        unsafe { self.block.drop() };
        if let Some(used) = pool::give(coroutine.into_stack()) {
            stage.note_stack(body, used);
        }
    }
}

/// Runs destructors, and discards their panic, which has been reported. Dropping its payload may panic again.
fn discard_panic(run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        std::mem::forget(panic);
    }
}
