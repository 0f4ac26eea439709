//! Inspection of one processor: determines from its slots and queues what its operations wait for.
//!
//! - A slot stores the waker of the operation or join that awaits its result.
//! - A slot that is away stores the location where its operation arrived, for cancellation.
//! - A stage stores the wakers of the operations that wait for its capacity.
//! - A gate may name the operation that keeps it closed.
//! - A stage that serves one cohort at a time names the operation that handles it.
//!
//! An operation with an armed timer is left out, because it continues when the timer fires.
//!
//! # Safety
//! The only part that is read of a slot that is away is the [`CancelFlag`](crate::operation::cancel_flag) in its
//! payload, which is atomic and lives as long as the slot is away ([`crate::operation::envelope`]).

use std::collections::HashMap;
use std::task::Waker;

use crate::gate::OperationName;
use crate::operation::cancel_flag::RemoteSlot;
use crate::operation::slot::Slot;
use crate::operation::state::{QUEUED, SlotState};
use crate::processor;
use crate::processor::home::send_home;
use crate::processor::operation::notify::{JOIN, join_of};
use crate::processor::operation::waker;
use crate::processor::processor::Processor;
use crate::program::control::Control;
use crate::waits::cycle::{WaitCycle, WaitReason, WaitingOperation};
use crate::waits::graph::{Node, WaitGraph, cycles};

/// A snapshot of the waits of one processor's operations; see [`Waits::cycles`].
#[derive(Debug)]
pub struct Waits {
    graph: WaitGraph,
    /// The operations and the numbers of their stages, without operations that are on their way to another processor.
    operations: HashMap<Node, (u8, WaitingOperation)>,
    /// The stages of the queues.
    queues: HashMap<Node, &'static str>,
}

impl Waits {
    /// The cycles of waiting operations in a program, given the reports of its processors.
    ///
    /// Operations of processors that are missing in `all` are assumed to continue. The processors are not inspected at
    /// the same time, so a running program may show a cycle that never existed. A cycle that is found again later is
    /// real.
    pub fn cycles(all: &[Self]) -> Vec<WaitCycle> {
        let graph = all.iter().flat_map(|one| one.graph.clone()).collect();
        let cycles = cycles(&graph).into_iter();
        cycles
            .map(|nodes| Self::describe(all, &nodes))
            .filter(|cycle| !cycle.operations.is_empty())
            .collect()
    }

    /// Records that `node` continues once `other` has continued.
    fn add(&mut self, node: Node, other: Node) {
        self.graph.entry(node).or_default().push(vec![other]);
    }

    /// Describes a cycle, beginning with the first stage in wavefront order.
    fn describe(all: &[Self], nodes: &[Node]) -> WaitCycle {
        let operation = |node| all.iter().find_map(|one| one.operations.get(node));
        let queue = |node| all.iter().find_map(|one| one.queues.get(node));
        let next = |at: usize| &nodes[(at + 1) % nodes.len()];
        let reason = |at: usize, operation: &WaitingOperation| match queue(next(at)) {
            Some(stage) if operation.reason == WaitReason::Gate(stage) => operation.reason,
            Some(stage) => WaitReason::Capacity(stage),
            None => WaitReason::Call,
        };
        let described = nodes.iter().enumerate().filter_map(|(at, node)| {
            let (stage, operation) = operation(node)?;
            Some((*stage, WaitingOperation { reason: reason(at, operation), ..operation.clone() }))
        });
        let mut described: Vec<_> = described.collect();
        let first = (0..described.len()).min_by_key(|at| described[*at].0);
        described.rotate_left(first.unwrap_or_default());
        WaitCycle { operations: described.into_iter().map(|(_, operation)| operation).collect() }
    }
}

impl OperationName {
    /// The name of the operation that is running on this thread, if any.
    ///
    /// ```
    /// assert_eq!(phalanx_core::OperationName::current(), None);
    /// ```
    pub fn current() -> Option<Self> {
        processor::try_current(|p| p.current.running().map(|slot| p.name_of(slot))).flatten()
    }
}

impl Control {
    /// The number of cohorts that all processors have run. While it stays the same, no operation has continued.
    ///
    /// ```
    /// let processor = phalanx_core::Graph::new().build(1).remove(0).build(Box::new(|| ()));
    /// assert_eq!(processor.control().cohorts(), 0);
    /// ```
    pub fn cohorts(&self) -> u64 {
        let stages = self.0.counters.iter().flat_map(|counters| &counters.stages);
        stages.map(|stage| stage.cohorts.get()).sum()
    }

    /// Inspects the waits on each processor, and calls `deliver` there with the result. A processor does so before its
    /// next cohort, or never if it has ended. Sleeping processors are woken.
    ///
    /// A processor visits all its operations for this, so call it only if the program seems to be stuck.
    ///
    /// ```
    /// # use phalanx_core::{Graph, Waits};
    /// # let processor = Graph::new().build(1).remove(0).build(Box::new(|| ()));
    /// let (sender, answers) = std::sync::mpsc::channel();
    /// processor.control().inspect_waits(move |waits| _ = sender.send(waits));
    /// processor.turn(&phalanx_core::IdleWorld);
    /// assert!(Waits::cycles(&[answers.recv().unwrap()]).is_empty());
    /// ```
    pub fn inspect_waits(&self, deliver: impl FnOnce(Waits) + Clone + Send + 'static) {
        for mailbox in &self.0.mailboxes {
            let deliver = deliver.clone();
            send_home(mailbox.identity, move |processor| deliver(processor.waits()));
        }
    }
}

impl Processor {
    /// The waits of this processor's operations. Visits every slot.
    pub fn waits(&self) -> Waits {
        let mut waits =
            Waits { graph: HashMap::new(), operations: HashMap::new(), queues: HashMap::new() };
        let mut joins: HashMap<Node, HashMap<u32, Vec<Node>>> = HashMap::new();
        for slot in self.slab().slots() {
            let node = self.node_of(slot);
            match slot.state.get() {
                SlotState::InTransit => waits.add(node, destination(slot)),
                SlotState::Unstarted | SlotState::Started => {
                    waits.operations.insert(node, (slot.stage.get(), self.describe(slot)));
                    if slot.has(QUEUED) {
                        waits.add(node, self.queue_of(slot.stage.get()));
                    }
                }
                SlotState::Taken => (),
                _ => continue,
            }
            let waiter = slot.waiter.take();
            let join =
                waiter.as_ref().filter(|waiter| std::ptr::eq(waiter.vtable(), &raw const JOIN));
            match join.map(|waiter| join_of(waiter.data())) {
                Some(join) => {
                    let records = self.waiting.joins.records.borrow();
                    let record = records.get(join.index as usize);
                    let record = record.filter(|record| record.generation == join.generation);
                    let parent =
                        record.and_then(|record| self.operation_of(record.parent.as_ref()?));
                    if let Some(parent) = parent {
                        joins.entry(parent).or_default().entry(join.index).or_default().push(node);
                    }
                }
                None => {
                    if let Some(parent) =
                        waiter.as_ref().and_then(|waiter| self.operation_of(waiter))
                    {
                        waits.add(parent, node);
                    }
                }
            }
            slot.waiter.set(waiter);
        }
        for (parent, joins) in joins {
            waits.graph.entry(parent).or_default().extend(joins.into_values());
        }
        self.inspect_queues(&mut waits);
        for timer in &self.waiting.timers.borrow().entries {
            if let Some(node) = timer.waker.as_ref().and_then(|waker| self.operation_of(waker)) {
                waits.graph.remove(&node);
            }
        }
        waits
    }

    /// Records the operations that wait for the capacity of each stage, and the operation that blocks its queue.
    fn inspect_queues(&self, waits: &mut Waits) {
        for stage in 0..self.stages.len() {
            let (local, queue) = (&self.stages[stage], self.queue_of(stage as u8));
            waits.queues.insert(queue, self.stage_name(stage as u8));
            for (_, waker) in &*local.cold.capacity.waiting.borrow() {
                if let Some(node) = self.operation_of(waker) {
                    waits.add(node, queue);
                }
            }
            let gate = local.parts.gate.as_ref().and_then(|gate| gate.holder());
            let handler = || local.parts.handler.as_ref().and_then(|handler| handler.operation());
            let holder = gate.or_else(handler);
            let mailboxes = &self.program().mailboxes;
            let place = holder.and_then(|name| {
                let processor =
                    mailboxes.iter().position(|mailbox| mailbox.identity == name.processor)?;
                Some(Node::Operation { processor, index: name.index, serial: name.serial })
            });
            if let Some(holder) = place {
                waits.graph.insert(queue, vec![vec![holder]]);
            }
        }
    }

    /// The operation of this processor that a waker wakes.
    fn operation_of(&self, waker: &Waker) -> Option<Node> {
        let id = waker::id_of(waker, self)?;
        let slot = self.slab().get(id.index()).filter(|slot| slot.id.get() == id)?;
        Some(self.node_of(slot))
    }

    fn describe(&self, slot: Slot) -> WaitingOperation {
        let stage = self.stage_name(slot.stage.get());
        let (processor, operation) = (self.index(), slot.operation());
        let reason = if slot.has(QUEUED) { WaitReason::Gate(stage) } else { WaitReason::Call };
        WaitingOperation { processor, stage, operation, site: slot.site.get(), reason }
    }

    fn queue_of(&self, stage: u8) -> Node {
        Node::Queue { processor: self.index(), stage }
    }

    fn node_of(&self, slot: Slot) -> Node {
        let OperationName { index, serial, .. } = self.name_of(slot);
        Node::Operation { processor: self.index(), index, serial }
    }

    fn name_of(&self, slot: Slot) -> OperationName {
        let (index, serial) = (slot.id.get().index(), slot.serial.get().word());
        OperationName { processor: self.identity, index, serial }
    }
}

/// The node of an operation that is on another processor: its slot there, or the queue that it was sent to.
fn destination(slot: Slot) -> Node {
    // SAFETY: this is the only shared part of an envelope in transit, and it is atomic.
    match unsafe { &(*slot.transit()).cancel }.location() {
        Some(RemoteSlot { processor, index, serial }) => {
            Node::Operation { processor, index, serial: serial.word() }
        }
        // The operation is on its way, or was cancelled.
        None => Node::Queue { processor: slot.sent_to(), stage: slot.stage.get() },
    }
}
