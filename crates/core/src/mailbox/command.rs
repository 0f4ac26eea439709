//! Orders: what one processor tells another to do at once, before it runs its next cohort.
//!
//! An invocation waits in its stage's queue until the wavefront comes there; an order is acted on as
//! soon as its post is opened. It ends a session's operations elsewhere, ends a child, or hands a
//! partition's state over. It is a boxed closure: orders are rare, and they need no slot, so that a
//! full processor can still be told to end something.
//!
//! An order may be *asked*: its receiver owes an [`Answer`], which it may give at any later time. The
//! asker keeps what is to be done then ([`Orders`]) and counts as busy until all answers are back, so
//! that no program ends with one under way. An answer that is dropped comes home as none: nobody
//! waits in vain. Only a processor that is gone gives no answer; neither does it reply to calls.
//!
//! The inbox is bounded ([`crate::mailbox::mailbox`]); what finds it full stays in the sender's outbox. An order
//! and a parcel of the same sender may overtake each other, so the protocols above must not depend
//! on their order, and say why they do not.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use crate::processor::notify::contain;
use crate::processor::processor::{self, Processor};
use crate::processor::remote::outbox::Cargo;

/// Done on the processor that receives it.
pub(crate) struct Order(Box<dyn FnOnce(&Processor) + Send>);

impl Order {
    pub(crate) fn new(act: impl FnOnce(&Processor) + Send + 'static) -> Self {
        Self(Box::new(act))
    }
}

/// What is done with an answer: none when it was dropped.
type Then = Box<dyn FnOnce(&Processor, Option<Box<dyn Any + Send>>)>;

/// The answers that one processor waits for.
#[derive(Default)]
pub(crate) struct Orders {
    asked: RefCell<Vec<Option<Then>>>,
    free: RefCell<Vec<u32>>,
    owed: Cell<usize>,
}

impl Orders {
    /// Whether answers are still to come.
    #[inline]
    pub(crate) fn are_owed(&self) -> bool {
        self.owed.get() > 0
    }

    fn keep(&self, then: Then) -> u32 {
        self.owed.set(self.owed.get() + 1);
        let mut asked = self.asked.borrow_mut();
        let ticket = self.free.borrow_mut().pop().unwrap_or_else(|| {
            asked.push(None);
            (asked.len() - 1) as u32
        });
        asked[ticket as usize] = Some(then);
        ticket
    }

    fn take(&self, ticket: u32) -> Then {
        let then = self.asked.borrow_mut()[ticket as usize].take();
        self.free.borrow_mut().push(ticket);
        self.owed.set(self.owed.get() - 1);
        then.expect("an order is answered once")
    }
}

/// An answer that is owed to the processor that asked. It may be given from any thread of the
/// program that is inside of its processor, once.
pub(crate) struct Answer<R: Send + 'static> {
    /// The program's, which no other program has.
    program: u64,
    home: usize,
    ticket: u32,
    given: bool,
    answer: PhantomData<fn(R)>,
}

impl<R: Send + 'static> Answer<R> {
    pub(crate) fn give(mut self, answer: R) {
        self.send(Some(Box::new(answer)));
    }

    fn send(&mut self, answer: Option<Box<dyn Any + Send>>) {
        if !std::mem::replace(&mut self.given, true) {
            let (program, home, ticket) = (self.program, self.home, self.ticket);
            // Outside of the program's processors it is at its end.
            processor::try_current(|processor| {
                if processor.program().id != program {
                    return;
                }
                processor.order(home, move |home| home.orders.take(ticket)(home, answer));
            });
        }
    }
}

impl<R: Send + 'static> Drop for Answer<R> {
    fn drop(&mut self) {
        self.send(None);
    }
}

impl Processor {
    /// Has `act` done by the processor numbered `target`, which may be this one. It leaves with what
    /// else is in the outbox.
    pub(crate) fn order(&self, target: usize, act: impl FnOnce(&Processor) + Send + 'static) {
        self.send(target, Cargo::Order(Order::new(act)));
    }

    /// The same for an order that is to be answered; `then` is done here with the answer.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        target: usize,
        act: impl FnOnce(&Processor, Answer<R>) + Send + 'static,
        then: impl FnOnce(&Processor, Option<R>) + 'static,
    ) {
        let ticket = self.orders.keep(Box::new(move |processor, answer| {
            then(processor, answer.and_then(|answer| answer.downcast().ok()).map(|answer| *answer));
        }));
        let (program, home) = (self.program().id, self.index());
        let answer = Answer { program, home, ticket, given: false, answer: PhantomData };
        self.order(target, move |processor| act(processor, answer));
    }

    /// Does what others have ordered.
    #[cold]
    pub(crate) fn follow_orders(&self) {
        while let Some(Order(act)) = self.post.orders.pop() {
            // What it ends or drops is foreign code.
            contain(|| act(self));
        }
        for Order(act) in self.post.take_orders_from_outside() {
            contain(|| act(self));
        }
    }
}
