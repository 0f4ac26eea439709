//! What waits to leave a processor: invocations, replies and orders.
//!
//! Nothing leaves while a cohort runs, so that a child never runs before its parent has suspended or
//! finished (tr2001 §5.2.1), and many leave at once.

use crate::mailbox::mailbox::Inbox;
use crate::mailbox::message::{Message, Outbound};
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::stage_set::StageSet;

impl Processor {
    /// Puts something into the outbox, to leave for `target` after the running operation.
    pub(crate) fn send(&self, target: usize, message: Message) {
        self.count_outbound(message.inbox(), 1);
        self.link.push_outbound(Outbound { target, message });
    }

    /// What waits in the outbox counts for the stage's capacity.
    fn count_outbound(&self, inbox: Inbox, change: isize) {
        if let Inbox::Stage(stage) = inbox {
            let outbound = &self.stages[usize::from(stage)].runtime.capacity.outbound;
            outbound.set(outbound.get().checked_add_signed(change).expect("sent what was counted"));
        }
    }

    /// Sends what the outbox holds; what finds a full ring stays for the next time.
    #[inline]
    pub(crate) fn flush_outbox(&self) {
        if self.link.outbound() > 0 {
            self.deliver_outbox();
        }
    }

    fn deliver_outbox(&self) {
        // Others may go idle as soon as they have our replies: say first that we are not.
        self.mark_busy();
        let waiting = self.link.outbound();
        // What is behind something that did not fit stays behind it, though there may be room by then.
        let mut full: Vec<(usize, Inbox)> = Vec::new();
        // This processor's stages that others may help with.
        let mut own = StageSet::EMPTY;
        for _ in 0..waiting {
            let Some(Outbound { target, message }) = self.link.pop_outbound() else {
                break;
            };
            let inbox = message.inbox();
            let sent = match full.contains(&(target, inbox)) {
                true => Err(message),
                false => message.deliver(&self.program().mailboxes[target]),
            };
            if sent.is_ok() {
                self.count_outbound(inbox, -1);
            }
            match sent {
                Ok(()) if target != self.index() => {
                    let woke = self.program().mailboxes[target].mark(inbox);
                    self.observe.counters.wakes_sent.add(u64::from(woke));
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
        if !own.is_empty() {
            self.stages.add_ready(own);
            self.wake_for_backlog(own);
        }
    }

    fn next_outbound(&self) -> Option<Outbound> {
        self.link.pop_outbound()
    }

    /// The processor ends: answers what was not taken up, sends what can still be sent, and leaves
    /// the rest to the program, which drops what travels in it.
    pub(crate) fn close_mailbox(&self) {
        for stage in &self.link.mailbox().stages {
            while let Some(envelope) = stage.pop() {
                catch_panic(|| _ = self.accept_remote(envelope));
            }
        }
        self.run_commands();
        // Unparking the others is the embedder's code.
        catch_panic(|| self.flush_outbox());
        // An order that is dropped may answer another, which is an order in its turn.
        while let Some(outbound) = self.next_outbound() {
            match outbound.message {
                Message::Invocation(envelope) | Message::Reply(envelope) => {
                    self.program().keep_envelope(envelope);
                }
                Message::Command(command) => catch_panic(|| drop(command)),
            }
        }
    }
}
