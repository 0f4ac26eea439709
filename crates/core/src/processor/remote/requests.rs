//! Commands to other processors, and requests: commands that are replied to.
//!
//! The receiver of a request owns a [`Responder`] and may reply at any later time. The sender stores the code
//! that handles the reply ([`PendingReplies`](crate::mailbox::pending_replies::PendingReplies)) and counts as
//! busy until all replies have arrived, so no program ends while one is outstanding. A dropped responder
//! replies, so no sender waits forever. A processor that has ended replies neither to requests
//! nor to calls.

use crate::mailbox::command::{Command, ReplyTo};
use crate::mailbox::message::Message;
use crate::panic::catch_panic;
use crate::processor;
use crate::processor::processor::Processor;

/// The right to reply to a request. Dropping it replies, on any thread that has entered a processor of the
/// program.
pub(crate) struct Responder(Option<ReplyTo>);

impl Responder {
    /// The address of the reply, for code that replies later ([`reply`]).
    pub(crate) fn into_address(mut self) -> ReplyTo {
        self.0.take().expect("taken once")
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(reply);
    }
}

/// Replies to a request. Does nothing outside the program's processors: the program has ended then.
pub(crate) fn reply(to: ReplyTo) {
    processor::try_current(|processor| {
        if processor.program().id == to.program {
            processor.command(to.home, move |home| home.link.replies.take(to.ticket)(home.into()));
        }
    });
}

impl Processor {
    /// Runs `act` on the processor numbered `target`, which may be this one. The command is sent with the
    /// rest of the outbox.
    pub(crate) fn command(&self, target: usize, act: impl FnOnce(&Processor) + Send + 'static) {
        self.send(target, Message::Command(command(act)));
    }

    /// Like [`command`](Self::command), with a reply, after which `then` runs here.
    pub(crate) fn request(
        &self,
        target: usize,
        act: impl FnOnce(&Processor, Responder) + Send + 'static,
        then: impl FnOnce(&Processor) + 'static,
    ) {
        let ticket = self.link.replies.add(Box::new(move |processor| then(processor.get())));
        let to = ReplyTo { program: self.program().id, home: self.index(), ticket };
        let responder = Responder(Some(to));
        self.command(target, move |processor| act(processor, responder));
    }

    /// Runs the commands that have arrived.
    #[cold]
    pub(crate) fn run_commands(&self) {
        while let Some(command) = self.link.mailbox().commands.pop() {
            catch_panic(|| command.run(self.into()));
        }
        for command in self.link.mailbox().take_external_commands() {
            catch_panic(|| command.run(self.into()));
        }
    }
}

/// A command that runs `act` on its processor.
pub(crate) fn command(act: impl FnOnce(&Processor) + Send + 'static) -> Command {
    Command::new(move |processor| act(processor.get()))
}
