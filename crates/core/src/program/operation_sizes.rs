//! The byte table: what an operation of each type takes, and what a request has beside it.
//!
//! How many requests a cache has room for follows from their bytes. The compiler knows those of each
//! closure, so no tool has to walk the program (memwalk in the TUX paper, §4.2): the vtable of a type
//! of operation says them, and the table has the types that were seen, by stage. They are looked for
//! once a cohort, at its oldest operation: a type that runs only behind others may be missing for a
//! while. What the requests of a stage have beside their operations is declared.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use crate::handle::graph::StageOptions;
use crate::memory::slab::stride;
use crate::metrics::watch::plain;
use crate::operation::slot::{Payload, Slot, VTable};
use crate::processor::notify::contain;
use crate::processor::processor::Processor;
use crate::processor::turn::World;
use crate::program::program::Control;

/// Operations whose closure takes more bytes than this are told of ([`World::wide`]).
pub const WIDE_OPERATION: usize = 4096;
/// Types that a processor notes at most.
const TYPES: usize = 256;

/// The bytes of a type of operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    invocation: u32,
    future: u32,
    result: u32,
    payload: u32,
}

impl Bytes {
    pub(crate) const NONE: Self = Self { invocation: 0, future: 0, result: 0, payload: 0 };

    /// Of a slot behind its header.
    pub(crate) fn payload(&self) -> usize {
        self.payload as usize
    }

    /// Of what lies in a slot one after the other.
    pub(crate) const fn of<F, Fut, T>() -> Self {
        Self {
            invocation: size_of::<F>() as u32,
            future: size_of::<Fut>() as u32,
            result: size_of::<T>() as u32,
            payload: size_of::<Payload<F, Fut, T>>() as u32,
        }
    }
}

/// One type of operation at one stage; see [`Control::bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationBytes {
    /// The stage's number in wavefront order.
    pub stage: usize,
    /// The path of the function whose `async` block or body it is; for a cohort operation the type
    /// of its items.
    pub operation: &'static str,
    /// What the caller hands over: the captures of the invocation.
    pub invocation: usize,
    /// What is alive across an `await`: the future.
    pub future: usize,
    /// The result.
    pub result: usize,
    /// The slot that it lies in, header and rounding included.
    pub slot: usize,
}

impl OperationBytes {
    /// The bytes of its closure: the largest of the three.
    pub fn closure(&self) -> usize {
        self.invocation.max(self.future).max(self.result)
    }
}

/// One kind of object that requests of a stage have beside their operations: see
/// [`StageOptions::object`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectBytes {
    /// The stage's number in wavefront order.
    pub stage: usize,
    /// As declared.
    pub name: &'static str,
    /// Of one object.
    pub bytes: usize,
}

/// What operations and their requests take; see [`Control::bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ByteTable {
    /// By stage, the widest first.
    pub operations: Vec<OperationBytes>,
    /// In the order of declaration.
    pub objects: Vec<ObjectBytes>,
}

impl StageOptions<'_> {
    /// Each request that is under way at this stage has a `T` of its own beside the operation, such
    /// as a buffer: for the [byte table](Control::bytes), and for the number of operations that the
    /// [cache](crate::Graph::cache_bytes) has room for.
    ///
    /// ```
    /// struct Head([u8; 1024]);
    ///
    /// let mut graph = phalanx_core::Graph::new();
    /// let parse = graph.stage("parse").object::<Head>("head").shared(());
    /// # let _ = parse;
    /// let control = graph.build(1)[0].control();
    /// assert_eq!(control.bytes().objects[0].bytes, 1024);
    /// ```
    #[must_use]
    pub fn object<T>(mut self, name: &'static str) -> Self {
        self.objects.push((name, size_of::<T>()));
        self
    }
}

impl Control {
    /// What each type of operation takes that was seen so far, on any processor, and each declared
    /// [object](StageOptions::object). Parts of a caller ([`run`](crate::SharedStage::run)) are in
    /// their caller's.
    ///
    /// ```
    /// # let mut graph = phalanx_core::Graph::new();
    /// # let control = graph.build(1)[0].control();
    /// for operation in control.bytes().operations {
    ///     println!("{} bytes: {}", operation.closure(), operation.operation);
    /// }
    /// ```
    pub fn bytes(&self) -> ByteTable {
        let seen = self.0.counters.iter().flat_map(|counters| counters.types.all());
        let mut operations: Vec<OperationBytes> = seen.collect();
        operations.sort_by_key(|each| (each.stage, usize::MAX - each.closure(), each.operation));
        operations.dedup();
        let stages = self.0.stages.iter().enumerate();
        let objects = stages.flat_map(|(stage, declared)| {
            let object = move |each: &(&'static str, usize)| {
                let (name, bytes) = *each;
                ObjectBytes { stage, name, bytes }
            };
            declared.objects.iter().map(object)
        });
        ByteTable { operations, objects: objects.collect() }
    }
}

/// The types that a processor has seen, for others to read.
#[derive(Default)]
pub(crate) struct Types(Mutex<Vec<OperationBytes>>);

impl Types {
    fn all(&self) -> Vec<OperationBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, new: OperationBytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(new);
    }
}

/// The same for itself: by stage and vtable.
#[derive(Default)]
pub(crate) struct Seen(RefCell<Vec<(u8, &'static VTable)>>);

impl Processor {
    /// Notes a type of operation, unless it is known.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_type(&self, slot: Slot, world: &impl World) {
        let (stage, vtable) = (slot.stage.get(), slot.vtable.get());
        let rules = &self.stage(usize::from(stage)).rules;
        rules.seen.set(vtable);
        let mut seen = self.seen.0.borrow_mut();
        let known = |(of, known): &(u8, &VTable)| *of == stage && std::ptr::eq(*known, vtable);
        if seen.len() >= TYPES || seen.iter().any(known) {
            return;
        }
        seen.push((stage, vtable));
        drop(seen);
        let bytes = vtable.bytes;
        let each = OperationBytes {
            stage: usize::from(stage),
            operation: plain((vtable.operation)()),
            invocation: bytes.invocation as usize,
            future: bytes.future as usize,
            result: bytes.result as usize,
            slot: stride(slot.class.get()),
        };
        self.counters.types.add(each);
        if bytes.payload as usize > WIDE_OPERATION {
            contain(|| world.wide(self.stage_name(stage), each.operation, bytes.payload as usize));
        }
    }
}
