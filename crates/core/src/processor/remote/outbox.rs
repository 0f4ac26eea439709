//! The outbox: invocations, replies and commands that are waiting to be sent to other processors.
//!
//! Nothing is sent while a cohort runs, so that a child never runs before its parent has suspended or finished (tr2001
//! §5.2.1). This also batches messages: a flush marks the inboxes of each processor once, after it has sent all of its
//! messages. A sleeping processor is thus woken once and finds all of them.

use crate::mailbox::mailbox::{Inbox, InboxSet};
use crate::mailbox::message::{Message, Outbound};
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::stage_set::StageSet;

impl Processor {
    /// Adds a message to the outbox. It is sent to `target` after the running cohort.
    pub(crate) fn send(&self, target: usize, message: Message) {
        self.count_outbound(target, message.inbox(), 1);
        self.link.push_outbound(Outbound { target, message });
    }

    /// Counts messages in the outbox against the stage's capacity.
    fn count_outbound(&self, target: usize, inbox: Inbox, change: isize) {
        if let Inbox::Stage(stage) = inbox {
            let outbound = &self.stages[usize::from(stage)].cold.capacity.outbound[target];
            outbound.set(outbound.get().checked_add_signed(change).expect("a message was counted"));
        }
    }

    /// Sends the messages in the outbox. If a ring is full, its messages stay for the next flush.
    #[inline]
    pub(crate) fn flush_outbox(&self) {
        if self.link.outbound() > 0 {
            self.deliver_outbox();
        }
    }

    fn deliver_outbox(&self) {
        // Other processors may become idle as soon as they have received our replies, so mark this processor busy
        // first.
        self.link.busy.mark_busy();
        let waiting = self.link.outbound();
        let mut filled = self.link.begin_flush();
        // Preserve FIFO order per inbox: after one failed push, skip that inbox for this flush.
        let mut full: Vec<(usize, Inbox)> = Vec::new();
        // Stages of this processor whose operations others may steal.
        let mut own = StageSet::EMPTY;
        for _ in 0..waiting {
            let Some(Outbound { target, message }) = self.link.pop_outbound() else {
                break;
            };
            let inbox = message.inbox();
            let sent = if full.contains(&(target, inbox)) {
                Err(message)
            } else {
                message.deliver(&self.program().mailboxes[target])
            };
            if sent.is_ok() {
                self.count_outbound(target, inbox, -1);
            }
            match sent {
                Ok(()) if target != self.index() => {
                    match filled.iter_mut().find(|(other, _)| *other == target) {
                        Some((_, inboxes)) => inboxes.insert(inbox),
                        None => filled.push((target, InboxSet::of(inbox))),
                    }
                }
                Ok(()) => match inbox {
                    Inbox::Stage(stage) => own.insert(stage.into()),
                    other => self.link.mailbox().pending.mark(other),
                },
                Err(message) => {
                    if !full.contains(&(target, inbox)) {
                        full.push((target, inbox));
                    }
                    self.link.push_outbound(Outbound { target, message });
                }
            }
        }
        self.observe.counters.wakes_sent.add(self.link.end_flush(filled));
        if !own.is_empty() {
            self.stages.add_ready(own);
            self.wake_for_backlog(own);
        }
    }

    /// Runs the last commands and sends the last messages when the processor ends, even if rings are full. The mailbox
    /// is [closed](crate::program::busy) afterwards, so unaccepted invocations return.
    pub(crate) fn send_the_rest(&self) {
        self.run_commands();
        // Unparking another processor runs the embedder's code.
        catch_panic(|| self.flush_outbox());
        while let Some(Outbound { target, message }) = self.link.pop_outbound() {
            match message {
                Message::Invocation(envelope) | Message::Reply(envelope) => {
                    self.program().return_envelope(envelope);
                }
                Message::Command(command) => {
                    let mailbox = &self.program().mailboxes[target];
                    catch_panic(|| mailbox.push_external_command(command));
                    self.program().return_if_closed(target);
                }
            }
        }
    }
}
