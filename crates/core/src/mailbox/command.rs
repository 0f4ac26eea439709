//! Commands: code that one processor runs on another before its next cohort.
//!
//! An invocation waits in its stage's queue until the wavefront reaches the stage. A command runs as soon as the
//! mailbox is drained. Commands cancel a session's operations on another processor, cancel a child, release the
//! resource of a dropped handle, hand over the state of a partition, or drop a replica. A command is a boxed closure,
//! because commands are rare. It needs no slot, so even a full processor can execute a cancellation.
//!
//! The inbox is bounded ([`crate::mailbox::mailbox`]). If it is full, a command stays in the sender's outbox. A command
//! and an envelope from the same sender may overtake each other, so no protocol may depend on their order.

use crate::operation::processor_ref::ProcessorRef;

/// A closure that runs on the processor that receives it.
pub(crate) struct Command(Box<dyn FnOnce(ProcessorRef<'_>) + Send>);

impl Command {
    pub(crate) fn new(act: impl FnOnce(ProcessorRef<'_>) + Send + 'static) -> Self {
        Self(Box::new(act))
    }

    /// Runs the command. May unwind, because commands drop user values.
    pub(crate) fn run(self, processor: ProcessorRef<'_>) {
        (self.0)(processor);
    }
}

/// The destination of the reply to a request: a ticket of the processor that sent it. It is plain data and may be
/// stored. Every `ReplyTo` must be used exactly once; otherwise the sender waits forever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    /// The identity of the processor that sent the request.
    pub(crate) identity: u32,
    /// Its index in the program.
    pub(crate) sender: usize,
    pub(crate) ticket: u32,
}
