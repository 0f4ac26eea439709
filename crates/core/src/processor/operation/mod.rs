//! The life cycle of an operation, from its invocation until its slot is free again. All steps run on the
//! processor's own thread.
//!
//! 1. Reserve: an invocation takes a slot of the size class of its payload from the slab, in the session of
//!    the running operation. If the slab is closed, the session has ended, or the slab or the stage is full,
//!    the invocation is rejected and dropped.
//! 2. Enqueue: the invocation is moved into the slot (`Unstarted`), and the slot is appended to the queue of
//!    its stage, which becomes ready.
//! 3. Start: a cohort pops the slot, turns the invocation into its future in place (`Started`), and polls it
//!    (`run/operations.rs`).
//! 4. Suspend: a pending operation is in no queue. A waker with its operation id wakes it
//!    (`Processor::wake`), which queues it again. A wake-up during its own poll only sets `WOKEN`, and the
//!    cohort requeues it after the poll.
//! 5. Complete: the result replaces the future in the slot (`Done`). An operation that panics or is cancelled is
//!    discarded instead (`Processor::discard`): its work is dropped and the error takes its place (`Failed`).
//! 6. Finish: the operation leaves its session. If a call awaits the result (`AWAITED`), its waiter is woken; otherwise
//!    the slot is freed.
//! 7. Free: the call takes the result and frees the slot, or is dropped, in which case the unclaimed result is dropped
//!    first. Freeing changes the slot's id and serial, so that stale handles and wakers no longer match.

pub(crate) mod end;
pub(crate) mod invoke;
pub(crate) mod notify;
pub(crate) mod reject;
pub(crate) mod vtable;
pub(crate) mod wake;
pub(crate) mod waker;
