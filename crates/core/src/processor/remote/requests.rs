//! Commands to other processors, and requests: commands that are replied to.
//!
//! The receiver of a request owns a [`Responder`] and may reply at any later time. The sender stores the code
//! that handles the reply ([`PendingReplies`](crate::mailbox::pending_replies::PendingReplies)) and counts as
//! busy until all replies have arrived, so no program ends while one is outstanding. A dropped responder
//! sends an empty reply, so no sender waits forever. A processor that has ended replies neither to requests
//! nor to calls.

use std::any::Any;
use std::marker::PhantomData;

use crate::mailbox::command::{Command, ReplyTo};
use crate::mailbox::message::Message;
use crate::panic::catch_panic;
use crate::processor;
use crate::processor::processor::Processor;

/// The right to reply to a request once, from any thread of the program that has entered a processor.
pub(crate) struct Responder<R: Send + 'static> {
    to: Option<ReplyTo>,
    reply: PhantomData<fn(R)>,
}

impl<R: Send + 'static> Responder<R> {
    pub(crate) fn reply(mut self, value: R) {
        if let Some(to) = self.to.take() {
            send_reply(to, Some(Box::new(value)));
        }
    }
}

impl Responder<()> {
    /// The address of the reply, for code that replies later ([`reply_done`]).
    pub(crate) fn into_address(mut self) -> ReplyTo {
        self.to.take().expect("taken once")
    }
}

/// Replies to a request whose reply has no value.
pub(crate) fn reply_done(to: ReplyTo) {
    send_reply(to, Some(Box::new(())));
}

/// Sends a reply, possibly empty. Does nothing outside the program's processors: the program has ended then.
fn send_reply(to: ReplyTo, reply: Option<Box<dyn Any + Send>>) {
    processor::try_current(|processor| {
        if processor.program().id == to.program {
            let ticket = to.ticket;
            processor
                .command(to.home, move |home| home.link.replies.take(ticket)(home.into(), reply));
        }
    });
}

impl<R: Send + 'static> Drop for Responder<R> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            send_reply(to, None);
        }
    }
}

impl Processor {
    /// Runs `act` on the processor numbered `target`, which may be this one. The command is sent with the
    /// rest of the outbox.
    pub(crate) fn command(&self, target: usize, act: impl FnOnce(&Processor) + Send + 'static) {
        self.send(target, Message::Command(command(act)));
    }

    /// Like [`command`](Self::command), with a reply; `then` runs here with it.
    pub(crate) fn request<R: Send + 'static>(
        &self,
        target: usize,
        act: impl FnOnce(&Processor, Responder<R>) + Send + 'static,
        then: impl FnOnce(&Processor, Option<R>) + 'static,
    ) {
        let ticket = self.link.replies.add(Box::new(move |processor, reply| {
            then(
                processor.get(),
                reply.and_then(|reply| reply.downcast().ok()).map(|reply| *reply),
            );
        }));
        let to = ReplyTo { program: self.program().id, home: self.index(), ticket };
        let responder = Responder { to: Some(to), reply: PhantomData };
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
