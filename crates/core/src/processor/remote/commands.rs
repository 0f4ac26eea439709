//! Commands to other processors, and requests, which are commands with a reply.
//!
//! The receiver of a request owns a [`Responder`] and may reply at any later time. The sender stores the code that
//! handles the reply ([`PendingRequests`](crate::mailbox::pending_requests::PendingRequests)) and counts as busy until
//! all replies have arrived, so no program ends while one is outstanding. Dropping a responder replies, even if the
//! target has ended before the request reached it ([`crate::program::busy`]), so no sender waits forever.

use crate::mailbox::command::ReplyTo;
use crate::mailbox::message::Message;
use crate::panic::catch_panic;
use crate::processor;
use crate::processor::home::{command, send_home};
use crate::processor::processor::Processor;

/// The right to reply to a request. Dropping it sends the reply, on any thread.
pub(crate) struct Responder(Option<ReplyTo>);

impl Responder {
    /// Converts this into the address of the reply, for code that replies later ([`reply`]).
    pub(crate) fn into_address(mut self) -> ReplyTo {
        self.0.take().expect("taken once")
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(reply);
    }
}

/// Replies to a request. Outside the program's processors, the reply is delivered directly instead of through an
/// outbox.
pub(crate) fn reply(to: ReplyTo) {
    let act = move |sender: &Processor| sender.link.requests.take(to.ticket)(sender.into());
    let sent = processor::try_current(|processor| {
        let sender = processor.program().mailboxes.get(to.sender);
        let is_of_program = sender.is_some_and(|sender| sender.identity == to.identity);
        is_of_program.then(|| processor.command(to.sender, act))
    });
    if sent.flatten().is_none() {
        send_home(to.identity, act);
    }
}

impl Processor {
    /// Runs `act` on the processor numbered `target`, which may be this one. The command is sent with the next flush of
    /// the outbox.
    pub(crate) fn command(&self, target: usize, act: impl FnOnce(&Processor) + Send + 'static) {
        self.send(target, Message::Command(command(act)));
    }

    /// Like [`command`](Self::command), but `then` runs here when the target has replied.
    pub(crate) fn request(
        &self,
        target: usize,
        act: impl FnOnce(&Processor, Responder) + Send + 'static,
        then: impl FnOnce(&Processor) + 'static,
    ) {
        let ticket = self.link.requests.add(Box::new(move |processor| then(processor.get())));
        let to = ReplyTo { identity: self.identity, sender: self.index(), ticket };
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
