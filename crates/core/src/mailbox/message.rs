//! What travels between the processors of a program.

use crate::mailbox::command::Command;
use crate::mailbox::mailbox::{Inbox, Mailbox};
use crate::operation::envelope::Envelope;

/// What travels between processors.
pub(crate) enum Message {
    /// An invocation, to its stage.
    Invocation(Envelope),
    /// Its slot with the result.
    Reply(Envelope),
    Command(Command),
}

impl Message {
    pub(crate) fn inbox(&self) -> Inbox {
        match self {
            // The stage field is written before the envelope leaves home and read-only while it is away.
            Self::Invocation(Envelope(slot)) => Inbox::Stage(slot.stage.get()),
            Self::Reply(_) => Inbox::Replies,
            Self::Command(_) => Inbox::Commands,
        }
    }

    /// Puts it into `mailbox`, or gives it back when there is no room.
    pub(crate) fn deliver(self, mailbox: &Mailbox) -> Result<(), Self> {
        match self {
            Self::Invocation(Envelope(slot)) => {
                let ring = &mailbox.stages[usize::from(slot.stage.get())];
                ring.push(Envelope(slot)).map_err(Self::Invocation)
            }
            Self::Reply(envelope) => mailbox.replies.push(envelope).map_err(Self::Reply),
            Self::Command(command) => mailbox.commands.push(command).map_err(Self::Command),
        }
    }
}

/// A message that waits to leave for another processor. Both slabs bound the envelopes, and each command
/// belongs to something that is bounded, so an outbox is bounded.
pub(crate) struct Outbound {
    pub(crate) target: usize,
    pub(crate) message: Message,
}
