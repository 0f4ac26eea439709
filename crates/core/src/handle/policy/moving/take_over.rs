//! Migrating partitions: a caller's processor takes a partition over from a sleeping owner.
//!
//! A call to a partition of a sleeping processor costs two wake-ups: the owner's, and the caller's for the result. The
//! caller's processor therefore takes the partition over: it [visits](crate::mailbox::visit) the owner, moves the state
//! into its own entry and writes itself into the table of owners. The call is then local.
//!
//! A processor takes a partition over only if all of these conditions hold:
//!
//! - The owner sleeps, and cannot wake up during the visit. Therefore nothing is queued there for the partition, and
//!   the table names the new owner before the old owner looks for the state.
//! - No inbox of the owner is marked: an earlier invocation may just have arrived there.
//! - No operation is inside the partition: the owner's entry has the only reference to the state.
//! - No move of the partition is in progress, on either side.
//! - The caller's processor has nothing in its outbox, which might be an earlier invocation of the same caller.
//! - The caller's processor has slept recently. Otherwise it has no time for the other processor's work.
//!
//! A processor that has not been idle for 20 ms ([`crate::control::take_overs`]) moves each such partition back to its
//! first owner ([`crate::handle::policy::moving::move_partition`]) and takes none over for a while. An inactive
//! processor ([`gather_partitions`]) takes no partitions over and receives none back. If a move that began before it
//! became inactive brings it a partition, it moves the partition to an active processor.
//!
//! # Safety
//! [`take_over`] accesses the sleeping owner's `Partitions` from another thread during a
//! [visit](crate::mailbox::visit). The owner's thread stored their address before it first slept. It frees them only
//! after it has left its sleep for good, which is the first step of the destructor of `Processor`. Code accesses a
//! `Partitions` only inside its processor. A sleeping processor has not been entered, and entering it begins a visit,
//! which excludes other visits. The other references to the state are counted ([`crate::state::owned`]), and none can
//! be created during the visit. The visitor therefore has exclusive access to the entry, and the value that it takes
//! out is `Send`.

use crate::future::call::Call;
use crate::handle::partitioned::PartitionedStage;
use crate::handle::policy::moving::move_partition::MoveOutcome;
use crate::handle::stage::Stage;
use crate::handle::stage_options::StageOptions;
use crate::operation::processor_ref::ProcessorRef;
use crate::operation::state::NO_SESSION;
use crate::processor;
use crate::processor::processor::Processor;
use crate::stage::key::Key;
use crate::state::partition::{Partition, Partitions};

impl StageOptions<'_> {
    /// A [partitioned](Self::partitioned) stage whose partitions migrate: a processor that invokes an operation on a
    /// partition of a *sleeping* processor takes the partition over, and runs the operation itself. Under a light load
    /// all partitions gather on the processors that are awake, and a call wakes no other processor. If a processor that
    /// has taken partitions over becomes saturated, it gives them back.
    ///
    /// A caller may invoke two operations on one partition without awaiting the first. They may start in the opposite
    /// order, as with [`move_partition`](PartitionedStage::move_partition), if the program has more than two processors
    /// or a processor gives partitions back.
    ///
    /// ```
    /// use phalanx_core::Graph;
    ///
    /// let mut graph = Graph::new();
    /// let table = graph.stage("table").migrating(|_partition| Vec::<u32>::new());
    /// # let _ = table;
    /// ```
    pub fn migrating<S: Send + 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PartitionedStage<S> {
        let mut options = self;
        options.declaration.gather = Some(gather::<S>);
        options.partitioned_with(make, Some(take_over))
    }
}

/// Moves the partitions of migrating stages that the current processor owns to active processors: the first `active`
/// ones, or all if it is zero. A partition whose first owner is active moves there. From then on, inactive processors
/// take no partitions over. Call this function on every processor. It does nothing outside a processor.
///
/// Partitions move while operations on them continue to arrive, as with
/// [`move_partition`](PartitionedStage::move_partition). A partition with an operation that takes more than 100 ms to
/// finish does not move. An inactive processor that is awake tries again after 1 s, 2 s and so on, up to 64 s. A
/// processor that is about to end keeps its partitions.
///
/// ```
/// # let processor = phalanx_core::Graph::new().build(1).remove(0).build(Box::new(|| ()));
/// processor.enter(|| phalanx_core::gather_partitions(1));
/// ```
pub fn gather_partitions(active: usize) {
    processor::try_current(|p| p.gather(active));
}

#[cold]
fn take_over<S: Send + 'static>(
    here: &Partitions<S>,
    processor: ProcessorRef<'_>,
    stage: u8,
    index: usize,
) -> bool {
    let processor = processor.get();
    let owner = here.table().owner(index);
    let take_overs = &processor.load.take_overs;
    if !take_overs.are_allowed(processor.now(), processor.index())
        || processor.link.outbound() > 0
        || !processor.slab().has_room()
        || !here.is_settled(index)
    {
        return false;
    }
    let mailbox = &processor.program().mailboxes[owner];
    let Some(visit) = mailbox.parking.visit() else { return false };
    if !mailbox.pending.is_empty() {
        return false;
    }
    // SAFETY: the owner sleeps until the end of the visit (top of the file).
    let Some(state) = unsafe { &*here.view(owner) }.release(index) else { return false };
    // This must precede the end of the visit, so that the old owner finds the new one in the table.
    here.install(index, state);
    drop(visit);
    take_overs.record_take_over(stage);
    processor.observe.counters.take_overs.add(1);
    true
}

/// Moves the partitions of the stage that this processor owns to the processors that should own them: their first
/// owners, unless these are inactive.
fn gather<S: Send + 'static>(processor: ProcessorRef<'_>, stage: u8) {
    let processor = processor.get();
    let key = Key::new(processor.program().id, stage);
    let stage = Stage::<Partition<S>>::new(key);
    let table = stage.partitions(processor).table();
    for index in 0..table.count() {
        let target = processor.load.take_overs.target(table.first_owner(index));
        if table.owner(index) == processor.index() && target != processor.index() {
            let invoked = processor.waiting.sessions.with_current(NO_SESSION, || {
                let move_out = move |_: &Processor, _| move_to_target(stage, index, target);
                Call::new(processor, processor.call(key.call_site(), move_out)).detach()
            });
            if invoked.is_err() {
                processor.load.take_overs.record_failed_move(key.stage());
            }
        }
    }
}

/// Moves a partition to the processor that should own it. If its operations do not finish in time, a later attempt
/// follows.
async fn move_to_target<S: Send + 'static>(
    stage: PartitionedStage<S>,
    index: usize,
    target: usize,
) {
    if let MoveOutcome::Busy = stage.move_out(index, target).await {
        processor::try_current(|p| p.load.take_overs.record_failed_move(stage.key().stage()));
    }
}
