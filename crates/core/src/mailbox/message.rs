//! Messages between the processors of a program.

use crate::mailbox::command::Command;
use crate::mailbox::mailbox::{Inbox, Mailbox};
use crate::operation::envelope::Envelope;

/// A message to another processor.
pub(crate) enum Message {
    /// An invocation, on its way to its stage.
    Invocation(Envelope),
    /// The envelope of an invocation, returning with the result.
    Reply(Envelope),
    Command(Command),
}

impl Message {
    pub(crate) fn inbox(&self) -> Inbox {
        match self {
            // The stage field is written before the envelope leaves and is read-only until it returns.
            Self::Invocation(Envelope(slot)) => Inbox::Stage(slot.stage.get()),
            Self::Reply(_) => Inbox::Replies,
            Self::Command(_) => Inbox::Commands,
        }
    }

    /// Puts the message into `mailbox`, or returns it when the inbox is full.
    pub(crate) fn deliver(self, mailbox: &Mailbox) -> Result<(), Self> {
        match self {
            Self::Invocation(envelope) => {
                let ring = &mailbox.stages[usize::from(envelope.0.stage.get())];
                ring.push(envelope).map_err(Self::Invocation)
            }
            Self::Reply(envelope) => mailbox.replies.push(envelope).map_err(Self::Reply),
            Self::Command(command) => mailbox.commands.push(command).map_err(Self::Command),
        }
    }
}

/// A message in the outbox. The outbox is bounded: the slabs of both processors bound the envelopes, and each command
/// belongs to a bounded object.
pub(crate) struct Outbound {
    pub(crate) target: usize,
    pub(crate) message: Message,
}
