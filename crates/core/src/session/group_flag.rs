//! A session over several processors: each that its operations have come to keeps a record of its
//! own, and all records of a group share one word that says whether it has ended.
//!
//! The first invocation that leaves a session's processor makes the [`Group`]. Every invocation that
//! crosses from within carries it; the processor that takes it up finds its record of the group, or
//! makes one (the *proxy*), and the operation joins that. All records are alike: any processor may
//! end the group.
//!
//! **Ending** sets the flag, ends what is here, and sends an order to each processor that was
//! *visited*. Its answer comes when the record there has settled: no operations, no holds. Three
//! things make the answers enough.
//!
//! - *Nobody is forgotten.* Who takes an invocation up first notes its visit and then looks at the
//!   flag; who ends first sets the flag and then looks at the visits. Between the two steps of each
//!   stands a sequentially consistent fence, so at least one sees the other (Dekker's argument): the
//!   invocation is refused, or its processor gets the order.
//! - *Nobody comes after.* A processor that has had the order has seen the flag, and with it
//!   refuses whatever is taken up later; its record refuses what is invoked there. So a record that
//!   has settled stays so.
//! - *Nothing is between them.* An invocation under way is a slot of its caller's record, until the
//!   reply is home. It is taken up or refused, and either way replied to.
//!
//! Records wait for operations and holds only, never for another's answers, so two who end the same
//! group at once do not wait for each other.

use std::sync::Arc;

use crate::mailbox::command::Answer;
use crate::operation::slot::NO_SESSION;
use crate::processor::processor::Processor;
use crate::session::table::{Record, Sessions};
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// What the records of one session share. Its address is the session's name among processors; the
/// records keep it alive, so no other has that name.
pub(crate) struct Group {
    ended: AtomicBool,
    /// One bit for each processor.
    visited: Box<[AtomicU64]>,
}

impl Group {
    pub(crate) fn new(processors: usize) -> Self {
        let words = processors.div_ceil(64);
        Self {
            ended: AtomicBool::new(false),
            visited: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The processor numbered `processor` takes part. False when the group has ended.
    pub(crate) fn visit(&self, processor: usize) -> bool {
        let (word, bit) = (&self.visited[processor / 64], 1 << (processor % 64));
        // Only this processor sets the bit. Found set, its fence has been passed: who ended before
        // that was seen then, and who ended after sees the bit.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        !self.ended.load(Ordering::Acquire)
    }

    /// Ends the group. Returns who has taken part.
    pub(crate) fn end(&self) -> Vec<usize> {
        self.ended.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let words = self.visited.iter().map(|word| word.load(Ordering::Relaxed)).enumerate();
        let bits = |(at, word): (usize, u64)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        };
        words.flat_map(bits).collect()
    }
}

fn name(group: &Arc<Group>) -> usize {
    Arc::as_ptr(group).addr()
}

impl Sessions {
    /// The group of a session from which something leaves this processor.
    #[cold]
    pub(crate) fn group(&self, processor: &Processor, session: u32) -> Arc<Group> {
        if let Some(group) = self.with(session, |record| record.group.clone()) {
            return group;
        }
        let group = Arc::new(Group::new(processor.processors()));
        group.visit(processor.index());
        self.with(session, |record| record.group = Some(group.clone()));
        self.named.borrow_mut().insert(name(&group), session);
        group
    }

    /// This processor's record of a group. None when the group has ended.
    fn proxy(&self, processor: &Processor, group: Arc<Group>) -> Option<u32> {
        if !group.visit(processor.index()) {
            return None;
        }
        let known = self.named.borrow().get(&name(&group)).copied();
        Some(known.unwrap_or_else(|| {
            let name = name(&group);
            let session = self.create(Record::of_group(group));
            self.named.borrow_mut().insert(name, session);
            session
        }))
    }

    /// A record is forgotten.
    pub(crate) fn forget_group(&self, group: &Arc<Group>) {
        self.named.borrow_mut().remove(&name(group));
    }

    /// Ends the group on all other processors that have taken part; [`Record::owed`] counts them.
    #[cold]
    pub(crate) fn end_elsewhere(&self, processor: &Processor, session: u32, group: &Arc<Group>) {
        for target in group.end().into_iter().filter(|target| *target != processor.index()) {
            self.with(session, |record| record.owed += 1);
            let group = group.clone();
            processor.ask(
                target,
                move |there, answer| there.sessions.end_here(there, &group, answer),
                move |here, _: Option<()>| {
                    here.sessions.with(session, |record| record.owed -= 1);
                    here.sessions.settle(session);
                },
            );
        }
    }

    /// Another processor has ended the group: ends this processor's part, and answers when it has
    /// settled; at once, when nothing of the group is here (any more, or yet).
    fn end_here(&self, processor: &Processor, group: &Arc<Group>, answer: Answer<()>) {
        let Some(session) = self.named.borrow().get(&name(group)).copied() else {
            return answer.give(());
        };
        self.with(session, |record| {
            record.answers.push(answer);
            // So that the record outlives what is ended.
            record.handles += 1;
        });
        self.end_members(processor, session);
        self.with(session, |record| record.handles -= 1);
        self.settle(session);
    }
}

impl Processor {
    /// The group that an invocation made now carries to another processor.
    #[inline]
    pub(crate) fn leaving_group(&self) -> Option<Arc<Group>> {
        match self.sessions.current() {
            NO_SESSION => None,
            session => Some(self.sessions.group(self, session)),
        }
    }

    /// Runs `f` so that what it invokes belongs to `group`. None, and `f` is not run, when the group
    /// has ended.
    #[inline]
    pub(crate) fn in_group<R>(
        &self,
        group: Option<Arc<Group>>,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        match group {
            None => Some(f()),
            Some(group) => {
                let session = self.sessions.proxy(self, group)?;
                // Counted as a handle, so that no handle which `f` drops takes the record with it.
                self.sessions.with(session, |record| record.handles += 1);
                let result = self.in_record(session, f);
                self.sessions.with(session, |record| record.handles -= 1);
                // Forgotten again, if nothing has joined it.
                self.sessions.settle(session);
                Some(result)
            }
        }
    }
}
