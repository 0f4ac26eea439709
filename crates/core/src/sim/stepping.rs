//! Single-stepping: running a processor whose caller chooses each step.
//!
//! [`Processor::run`] follows the wavefront. A simulation follows a seed instead: it may run any ready stage, take any
//! operation of its queue, end the cohort anywhere, and check for completions, messages and timers at any time. All
//! documented guarantees about the order of operations hold for every such choice. Code that fails under one of them
//! relies on an order that is not guaranteed.
//!
//! The steps are the parts of the production loop, so simulations test the code that runs in production.

use crate::mailbox::mailbox::Inbox;
use crate::operation::slot::Slot;
use crate::operation::state::SlotState;
use crate::processor::processor::Processor;
use crate::program::program::Phase;
use crate::queue::local::StageQueue;
use crate::queue::ring::Ring;
use crate::stage_set::StageSet;
use crate::world::World;

/// The loop of a processor, as single steps. Created by [`Processor::stepping`].
///
/// ```
/// use phalanx_core::Graph;
/// # use phalanx_core::IdleWorld;
///
/// let mut graph = Graph::new();
/// let stage = graph.shared("stage", ());
/// let processor = graph.build(1).remove(0).build(Box::new(|| ()));
/// processor.enter(|| {
///     for _ in 0..3 {
///         stage.dispatch(|_| async {}).unwrap();
///     }
/// });
/// let steps = processor.stepping();
/// assert_eq!(steps.ready().collect::<Vec<_>>(), [0]);
/// // A cohort of two of the three operations, and then one of the remaining operation.
/// assert_eq!(steps.run(0, 2, |_| 0, &IdleWorld), 2);
/// assert_eq!(steps.run(0, 2, |_| 0, &IdleWorld), 1);
/// assert!(processor.leaks().is_empty());
/// ```
#[derive(Clone, Copy)]
pub struct Steps<'p>(&'p Processor);

/// Reorders all operations of a queue according to `choose`. They are then popped newest first.
fn shuffle(queue: &StageQueue<Slot>, mut choose: impl FnMut(usize) -> usize) {
    for left in (2..=queue.len()).rev() {
        queue.swap(left - 1 - choose(left), left - 1);
    }
}

/// Chooses the first `count` operations of a queue. Each is either the oldest unstarted operation or any resumed one.
fn interleave(queue: &StageQueue<Slot>, count: usize, mut choose: impl FnMut(usize) -> usize) {
    let is_unstarted =
        |n| queue.get(n).is_some_and(|slot| slot.state.get() == SlotState::Unstarted);
    if (0..queue.len()).all(is_unstarted) {
        // There is only one choice at each position. Return early, because the queue may have thousands of operations.
        return;
    }
    for first in 0..count.min(queue.len()) {
        let mut unstarted = false;
        let may_be_next = |n: &usize| {
            let slot = queue.get(*n).expect("a position below the length");
            slot.state.get() != SlotState::Unstarted || !std::mem::replace(&mut unstarted, true)
        };
        let candidates: Vec<usize> = (first..queue.len()).filter(may_be_next).collect();
        let chosen = match candidates.len() {
            1 => 0,
            more => choose(more),
        };
        for n in (first..candidates[chosen]).rev() {
            queue.swap(n, n + 1);
        }
    }
}

impl Processor {
    /// Drives this processor by steps instead of [`run`](Self::run).
    pub fn stepping(&self) -> Steps<'_> {
        Steps(self)
    }
}

impl<'p> Steps<'p> {
    /// Receives completions of I/O, replies, invocations and wake-ups. Returns whether there were any.
    pub fn receive(self, world: &impl World) -> bool {
        let Self(processor) = self;
        processor.in_turn(|| {
            processor.current.set_now(world.now());
            let mut received = world.reap();
            received |= processor.drain_mailbox();
            // For the measurements of admission, a turn begins here.
            let now = processor.now();
            processor.load.delay.turn(now, Some(received), &processor.stages, world);
            received
        })
    }

    /// Fires all timers that are due.
    pub fn timers(self, world: &impl World) {
        let Self(processor) = self;
        processor.in_turn(|| {
            processor.current.set_now(world.now());
            processor.fire_timers();
        });
    }

    /// Steals work from an overloaded processor, for balanced stages. A saturated processor gives back the partitions
    /// that it has taken over.
    pub fn balance(self) {
        let Self(processor) = self;
        processor.in_turn(|| {
            processor.balance();
            processor.give_back();
        });
    }

    /// The numbers of the ready stages, in the order of declaration.
    pub fn ready(self) -> impl Iterator<Item = usize> + 'p {
        self.0.stages.ready()
    }

    /// Runs one cohort of `stage`, with at most `at_most` operations and at most the number that the stage declares.
    /// `choose` determines the order: it receives the number of operations that may run next and returns an index below
    /// that; zero is the choice of the production loop. Operations of a [`lifo`](crate::StageOptions::lifo) stage may
    /// run in any order. Operations of other stages start in the order of their invocation but may resume at any time.
    /// Returns the number of operations run; zero if the stage is exclusive and another processor has its lock.
    ///
    /// # Panics
    /// If there is no such stage, or `choose` returns an index out of range.
    pub fn run(
        self,
        stage: usize,
        at_most: usize,
        mut choose: impl FnMut(usize) -> usize,
        world: &impl World,
    ) -> usize {
        let Self(processor) = self;
        let local = &processor.stages[stage];
        let at_most = at_most.min(local.max_cohort.get());
        let choose = |left| {
            let chosen = choose(left);
            assert!(chosen < left, "{chosen} is not below {left}");
            chosen
        };
        if local.lifo {
            shuffle(&local.queue, choose)
        } else {
            interleave(&local.queue, at_most, choose)
        }
        let declared = local.max_cohort.replace(at_most);
        let ran = processor.in_turn(|| {
            processor.current.set_now(world.now());
            processor.visit_here(stage, world)
        });
        local.max_cohort.set(declared);
        ran
    }

    /// Sets the stages whose calls run inline from now on, as a bit mask, regardless of their declarations. The bounds
    /// of [`direct`](crate::StageOptions::direct) apply.
    pub fn choose_direct(self, stages: u64) {
        self.0.stages.inline.set_inline(StageSet::from_bits(stages));
    }

    /// Sends the messages in the outbox. Returns whether any are left.
    pub fn flush(self) -> bool {
        let Self(processor) = self;
        processor.in_turn(|| processor.flush_outbox());
        processor.link.outbound() > 0
    }

    /// Ends a turn: publishes whether any operation is alive here, and cancels all operations if the program is ending.
    /// Returns whether the production loop would return.
    pub fn end_turn(self) -> bool {
        let Self(processor) = self;
        let phase = processor.program().phase();
        if phase == Phase::Ending {
            processor.in_turn(|| processor.cancel_all());
        }
        processor.publish_busy();
        phase > Phase::Running && processor.may_end()
    }

    /// Whether the loop could park now, because no operation is queued and the outbox is empty.
    pub fn is_idle(self) -> bool {
        self.0.stages.ready().is_empty() && self.0.link.outbound() == 0
    }

    /// Parks if the loop would, that is, if nothing is queued and nothing has arrived. Returns `None` if it does not
    /// park; otherwise the time to wake up, in the clock's nanoseconds (`u64::MAX` if no timer is armed). From then on,
    /// senders call [`Unpark`](crate::Unpark), and [`Steps::wake`] ends the sleep.
    pub fn sleep(self) -> Option<u64> {
        let Self(processor) = self;
        let asleep = self.is_idle()
            && processor
                .link
                .mailbox()
                .parking
                .may_sleep(|| processor.link.mailbox().pending.is_empty());
        asleep.then(|| processor.waiting.timers.borrow().next().unwrap_or(u64::MAX))
    }

    /// Ends the sleep.
    pub fn wake(self) {
        self.0.link.mailbox().parking.set_awake(std::hint::spin_loop);
        self.0.load.delay.parked();
        self.0.load.take_overs.was_idle(self.0.now());
    }

    /// Whether this processor's mailbox contains messages that it has not received. If that is so while the processor
    /// is parked and no other processor is about to wake it, a wake-up was lost.
    pub fn has_messages(self) -> bool {
        !self.0.link.mailbox().pending.is_empty()
    }

    /// The number of messages in the mailbox, including those that are not marked yet.
    pub fn message_count(self) -> usize {
        let mailbox = self.0.link.mailbox();
        let invocations: usize = mailbox.stages.iter().map(Ring::len).sum();
        invocations + mailbox.replies.len() + mailbox.wakes.len() + mailbox.commands_waiting()
    }

    /// Whether receiving the messages in the mailbox may run code of the program, such as destructors of results, or
    /// change data that processors share. Invocations and wake-ups do neither.
    pub fn messages_have_effects(self) -> bool {
        let ready = self.0.link.mailbox().pending.peek();
        let inboxes = [Inbox::Replies, Inbox::Commands, Inbox::Returned];
        inboxes.iter().any(|inbox| ready.contains(*inbox))
    }

    /// Whether processors take operations out of each other's queues, because the graph has balanced stages or
    /// exclusive stages with cache affinity.
    pub fn shares_queues(self) -> bool {
        let stages = &self.0.stages;
        !stages.balanced.is_empty() || !stages.affine.is_empty()
    }

    /// Whether processors take partitions over from sleeping processors, because the graph has
    /// [migrating](crate::StageOptions::migrating) stages.
    pub fn takes_over(self) -> bool {
        self.0.program().stages.iter().any(|stage| stage.gather.is_some())
    }

    /// The time of the first timer, in the clock's nanoseconds.
    pub fn next_timer(self) -> Option<u64> {
        self.0.waiting.timers.borrow().next()
    }
}
