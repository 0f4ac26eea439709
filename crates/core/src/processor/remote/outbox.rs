//! What waits to leave a processor: invocations, replies and orders.
//!
//! Nothing leaves while a cohort runs, so that a child never runs before its parent has suspended or
//! finished (tr2001 §5.2.1), and many leave at once.

use crate::mailbox::command::Order;
use crate::mailbox::mailbox::{Inbox, Post};
use crate::operation::slot::Parcel;
use crate::processor::notify::contain;
use crate::processor::processor::Processor;

/// Something that waits for room in a processor's post. The parcels' slots are bounded by both
/// slabs, and orders by what they are about, so the outbox is.
pub(crate) struct Outbox {
    target: usize,
    cargo: Cargo,
}

/// What travels between processors.
pub(crate) enum Cargo {
    /// An invocation, to its stage.
    Invocation(Parcel),
    /// Its slot with the result.
    Reply(Parcel),
    Order(Order),
}

impl Cargo {
    fn inbox(&self) -> Inbox {
        match self {
            // The stage field is written before the parcel leaves home and read-only while it is away.
            Self::Invocation(Parcel(slot)) => Inbox::Stage(slot.stage.get()),
            Self::Reply(_) => Inbox::Replies,
            Self::Order(_) => Inbox::Orders,
        }
    }

    /// Puts it into `post`, or gives it back when there is no room.
    fn post(self, post: &Post) -> Result<(), Self> {
        match self {
            Self::Invocation(Parcel(slot)) => {
                let ring = &post.stages[usize::from(slot.stage.get())];
                ring.push(Parcel(slot)).map_err(Self::Invocation)
            }
            Self::Reply(parcel) => post.replies.push(parcel).map_err(Self::Reply),
            Self::Order(order) => post.orders.push(order).map_err(Self::Order),
        }
    }
}

impl Processor {
    /// Puts something into the outbox, to leave for `target` after the running operation.
    pub(crate) fn send(&self, target: usize, cargo: Cargo) {
        self.count_outbound(cargo.inbox(), 1);
        self.outbox.borrow_mut().push_back(Outbox { target, cargo });
    }

    /// What waits in the outbox counts for the stage's capacity.
    fn count_outbound(&self, inbox: Inbox, change: isize) {
        if let Inbox::Stage(stage) = inbox {
            let outbound = &self.stages[usize::from(stage)].rules.capacity.outbound;
            outbound.set(outbound.get().checked_add_signed(change).expect("sent what was counted"));
        }
    }

    /// Sends what the outbox holds; what finds a full ring stays for the next time.
    #[inline]
    pub(crate) fn flush_outbox(&self) {
        if !self.outbox.borrow().is_empty() {
            self.flush_parcels();
        }
    }

    fn flush_parcels(&self) {
        // Others may go idle as soon as they have our replies: say first that we are not.
        self.say_busy();
        let waiting = self.outbox.borrow().len();
        // What is behind something that did not fit stays behind it, though there may be room by then.
        let mut full: Vec<(usize, Inbox)> = Vec::new();
        // This processor's stages that others may help with.
        let mut own = 0;
        for _ in 0..waiting {
            let Some(Outbox { target, cargo }) = self.outbox.borrow_mut().pop_front() else {
                break;
            };
            let inbox = cargo.inbox();
            let sent = match full.contains(&(target, inbox)) {
                true => Err(cargo),
                false => cargo.post(&self.program().posts[target]),
            };
            if sent.is_ok() {
                self.count_outbound(inbox, -1);
            }
            match sent {
                Ok(()) if target != self.index() => {
                    let woke = self.program().posts[target].mark(inbox);
                    self.counters.wakes_sent.add(u64::from(woke));
                }
                Ok(()) => match inbox {
                    Inbox::Stage(stage) => own |= 1 << stage,
                    other => self.post.pending.mark(other),
                },
                Err(cargo) => {
                    if !full.contains(&(target, inbox)) {
                        full.push((target, inbox));
                    }
                    self.outbox.borrow_mut().push_back(Outbox { target, cargo });
                }
            }
        }
        if own != 0 {
            self.ready.set(self.ready.get() | own);
            self.wake_for_backlog(own);
        }
    }

    fn next_outbound(&self) -> Option<Outbox> {
        self.outbox.borrow_mut().pop_front()
    }

    /// The processor ends: answers what was not taken up, sends what can still be sent, and leaves
    /// the rest to the program, which drops what travels in it.
    pub(crate) fn close_post(&self) {
        for stage in &self.post.stages {
            while let Some(parcel) = stage.pop() {
                contain(|| _ = self.take_up(parcel));
            }
        }
        self.follow_orders();
        // Unparking the others is the embedder's code.
        contain(|| self.flush_outbox());
        // An order that is dropped may answer another, which is an order in its turn.
        while let Some(outbound) = self.next_outbound() {
            match outbound.cargo {
                Cargo::Invocation(parcel) | Cargo::Reply(parcel) => {
                    self.program().keep_parcel(parcel);
                }
                Cargo::Order(order) => contain(|| drop(order)),
            }
        }
    }
}
