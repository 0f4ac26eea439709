//! A processor driven step by step, by whoever chooses what comes next.
//!
//! [`Processor::run`] follows the wavefront. A simulation follows a seed instead: it may run any
//! stage that has something, take any of what is queued there, cut the cohort anywhere, and look
//! for completions, mail and timers whenever it likes. All that is promised of the order in which
//! operations run holds for every such choice; what breaks under one of them relied on luck.
//!
//! The steps are the parts that the loop itself is made of, so what is tested is what runs.

use crate::operation::slot::Slot;
use crate::operation::state::SlotState;
use crate::processor::processor::Processor;
use crate::program::program::Phase;
use crate::queue::local::StageQueue;
use crate::stage_set::StageSet;
use crate::world::World;

/// A processor's loop in pieces. From [`Processor::stepping`].
///
/// ```
/// use phalanx_core::{Graph, World};
///
/// struct Still;
/// impl World for Still {
///     fn now(&self) -> u64 { 0 }
///     fn reap(&self) -> bool { false }
///     fn submit(&self) {}
///     fn park(&self, _: Option<u64>) {}
/// }
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
/// // A cohort of two, chosen from the three, and then what is left.
/// assert_eq!(steps.run(0, 2, |_| 0, &Still), 2);
/// assert_eq!(steps.run(0, 2, |_| 0, &Still), 1);
/// assert!(processor.leaks().is_empty());
/// ```
#[derive(Clone, Copy)]
pub struct Steps<'p>(&'p Processor);

/// Puts all operations of a queue into the order that is chosen; the newest is taken first.
fn shuffle(queue: &StageQueue<Slot>, mut choose: impl FnMut(usize) -> usize) {
    for left in (2..=queue.len()).rev() {
        queue.swap(left - 1 - choose(left), left - 1);
    }
}

/// Chooses the first `count` operations of a queue: each is the oldest of those that have not
/// started, or any that is resumed.
fn interleave(queue: &StageQueue<Slot>, count: usize, mut choose: impl FnMut(usize) -> usize) {
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
    /// Drives this processor by steps in place of [`run`](Self::run).
    pub fn stepping(&self) -> Steps<'_> {
        Steps(self)
    }
}

impl<'p> Steps<'p> {
    /// Takes in what has come: completions of I/O, replies, invocations and wake-ups from others.
    /// True if there was anything.
    pub fn receive(self, world: &impl World) -> bool {
        let Self(processor) = self;
        processor.in_turn(|| {
            processor.current.set_now(world.now());
            let mut received = world.reap();
            received |= processor.drain_mailbox();
            // Here a turn begins; admission goes by what it measures.
            let now = processor.now();
            processor.load.delay.turn(now, Some(received), &processor.stages, world);
            received
        })
    }

    /// Wakes those whose time has come.
    pub fn timers(self, world: &impl World) {
        let Self(processor) = self;
        processor.in_turn(|| {
            processor.current.set_now(world.now());
            processor.fire_timers();
        });
    }

    /// Takes work over from a processor that has too much of it, if a stage is declared so.
    pub fn balance(self) {
        let Self(processor) = self;
        processor.in_turn(|| processor.balance());
    }

    /// The stages that have something to run, by their numbers in the order of declaration.
    pub fn ready(self) -> impl Iterator<Item = usize> + 'p {
        self.0.stages.ready()
    }

    /// Runs one cohort of `stage`, of at most `at_most` operations and no more than it declares.
    /// `choose` says in which order: it is given how many operations may come next, and answers with
    /// a number below that; zero is the one that the processor itself would take. Those of a [`lifo`](crate::StageOptions::lifo) stage run in any order.
    /// Those of another stage start in the order of their invocation, and are resumed at any time.
    /// Returns how many ran; none when another processor is in an exclusive stage.
    ///
    /// # Panics
    /// If there is no such stage, or `choose` answers with too large a number.
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
        match local.lifo {
            true => shuffle(&local.queue, choose),
            false => interleave(&local.queue, at_most, choose),
        }
        let declared = local.max_cohort.replace(at_most);
        let ran = processor.in_turn(|| {
            processor.current.set_now(world.now());
            processor.visit_here(stage, world)
        });
        local.max_cohort.set(declared);
        ran
    }

    /// Runs calls of exactly these stages, a bit each, inside of their callers from now on, as far as
    /// that may be ([`direct`](crate::StageOptions::direct)), whatever they declare.
    pub fn choose_direct(self, stages: u64) {
        self.0.stages.inline.choose(StageSet::from_bits(stages));
    }

    /// Sends what waits to leave for other processors. True if anything is left.
    pub fn flush(self) -> bool {
        let Self(processor) = self;
        processor.in_turn(|| processor.flush_outbox());
        processor.link.outbound() > 0
    }

    /// What a turn ends with: says to the others whether anything is alive here, and in a program
    /// that is being ended ends it. True once this processor's loop would return.
    pub fn settle(self) -> bool {
        let Self(processor) = self;
        let phase = processor.program().phase();
        if phase == Phase::Ending {
            processor.in_turn(|| processor.cancel_all());
        }
        processor.publish_busy();
        phase > Phase::Running && processor.may_end()
    }

    /// Whether the loop could go to sleep now: nothing is queued, and nothing waits to leave.
    pub fn is_idle(self) -> bool {
        self.0.stages.ready().is_empty() && self.0.link.outbound() == 0
    }

    /// Goes to sleep, if the loop would: nothing is queued and nothing has come in. From then on a
    /// sender calls [`Unpark`](crate::Unpark). Says until when, in the clock's nanoseconds
    /// (`u64::MAX`: no timer is armed). Ends with [`Steps::wake`].
    pub fn sleep(self) -> Option<u64> {
        let Self(processor) = self;
        let asleep = self.is_idle()
            && processor
                .link
                .mailbox()
                .parking
                .may_sleep(|| processor.link.mailbox().pending.is_quiet());
        asleep.then(|| processor.waiting.timers.borrow().next().unwrap_or(u64::MAX))
    }

    /// The sleep is over.
    pub fn wake(self) {
        self.0.link.mailbox().parking.woke();
        self.0.load.delay.slept();
    }

    /// Whether others have put something into this processor's post that it has not seen. Of one
    /// that sleeps, and that nobody is about to wake, this says that a wake-up was lost.
    pub fn has_mail(self) -> bool {
        !self.0.link.mailbox().pending.is_quiet()
    }

    /// When the first timer is due, in the clock's nanoseconds.
    pub fn next_timer(self) -> Option<u64> {
        self.0.waiting.timers.borrow().next()
    }
}
