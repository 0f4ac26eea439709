//! Commands: what one processor has another do before its next cohort.
//!
//! An invocation waits in its stage's queue until the wavefront arrives there. A command runs as soon as
//! the mailbox is drained. It ends a session's operations elsewhere, ends a child, releases what a
//! dropped handle names, or hands a partition's state over. It is a boxed closure: commands are rare,
//! and they need no slot, so that a full processor can still be told to end something.
//!
//! The inbox is bounded ([`crate::mailbox::mailbox`]); a command that finds it full stays in the sender's
//! outbox. A command and an envelope of the same sender may overtake each other, so the protocols must not
//! depend on their order.

use crate::operation::processor_ref::ProcessorRef;

/// Runs on the processor that receives it.
pub(crate) struct Command(Box<dyn FnOnce(ProcessorRef<'_>) + Send>);

impl Command {
    pub(crate) fn new(act: impl FnOnce(ProcessorRef<'_>) + Send + 'static) -> Self {
        Self(Box::new(act))
    }

    /// Runs it. It ends or drops user code, so it may unwind.
    pub(crate) fn run(self, processor: ProcessorRef<'_>) {
        (self.0)(processor);
    }
}

/// Where the reply to a request goes: a ticket of the processor that sent it. As plain data it may be
/// stored; a reply that is never given leaves the sender waiting, so what stores it must give it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    /// The program's number, which no other program has.
    pub(crate) program: u64,
    /// The index of the processor that sent the request.
    pub(crate) home: usize,
    pub(crate) ticket: u32,
}
