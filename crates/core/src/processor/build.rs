//! Construction of a processor on the thread that runs it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crate::control::ingress::IngressState;
use crate::mailbox::parking::Unpark;
use crate::mailbox::registry;
use crate::memory::region::Region;
use crate::memory::slab::Slab;
use crate::processor::observe::part::Observe;
use crate::processor::part::current::Current;
use crate::processor::part::link::Link;
use crate::processor::part::stages::Stages;
use crate::processor::part::{Load, Memory, Scratch, Waiting};
use crate::processor::processor::Processor;
use crate::program::busy::BusyGuard;
use crate::program::control::Control;
use crate::program::processor_id::ProcessorId;
use crate::program::program::Program;
use crate::queue::local::StageQueue;
use crate::stage::key::Key;
use crate::stage::local::{ColdStage, LocalStage};
use crate::stage::starvation_guard::StarvationGuard;
use crate::stage::tuner_state::TunerState;

/// The builder of a processor. Unlike the processor, it can be sent to another thread.
///
/// ```
/// let builder = phalanx_core::Graph::new().build(1).remove(0);
/// std::thread::spawn(move || drop(builder.build(Box::new(|| ())))).join().unwrap();
/// ```
pub struct ProcessorBuilder {
    program: Arc<Program>,
    index: usize,
    busy: BusyGuard,
    region: Option<Region>,
}

impl ProcessorBuilder {
    pub(crate) fn new(program: Arc<Program>, index: usize) -> Self {
        Self { busy: BusyGuard::new(program.clone(), index), program, index, region: None }
    }

    /// Allocates the processor's operations and [objects](crate::Pooled) in this region. When the region is full,
    /// further memory comes from the global allocator
    /// ([`ProcessorView::overflow_bytes`](crate::ProcessorView::overflow_bytes)).
    ///
    /// ```
    /// use phalanx_core::{Graph, Region};
    ///
    /// let builder = Graph::new().build(1).remove(0).with_region(Region::new(vec![0; 1 << 20]));
    /// let processor = builder.build(Box::new(|| ()));
    /// # drop(processor);
    /// ```
    #[must_use]
    pub fn with_region(mut self, region: Region) -> Self {
        self.region = Some(region);
        self
    }

    /// The processor's index, from zero.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The identity of the processor that this builder creates.
    pub fn id(&self) -> ProcessorId {
        ProcessorId(self.program.mailboxes[self.index].identity)
    }

    /// A handle that controls the whole program.
    pub fn control(&self) -> Control {
        Control(self.program.clone())
    }

    /// Builds the processor. Call this on the thread that will run it. Other threads call `unpark` to end the
    /// processor's sleep.
    pub fn build(self, unpark: Unpark) -> Processor {
        let ProcessorBuilder { program, index, busy, region } = self;
        let mailbox = program.mailboxes[index].clone();
        mailbox.parking.install(unpark);
        let processors = program.mailboxes.len();
        let stages = program.stages.iter().map(|declared| {
            let parts = (declared.make)(index, processors);
            let cold = ColdStage::new(declared, program.settings, processors);
            let budget_cohort = program.settings.cohort_size(cold.request_bytes());
            LocalStage {
                queue: StageQueue::new(declared.capacity),
                starvation_guard: StarvationGuard::default(),
                state: Rc::as_ptr(&parts.state).cast(),
                parts: Box::new(parts),
                max_cohort: Cell::new(declared.max_cohort.unwrap_or(budget_cohort)),
                cohort_time: declared.cohort_time,
                lifo: declared.lifo,
                cold: Box::new(cold),
            }
        });
        let stages: Box<[LocalStage]> = stages.collect();
        let waker_number = registry::register(mailbox.clone());
        let counters = program.counters[index].clone();
        let tuner = TunerState::new(&program.stages, &stages, program.settings);
        let stages = Stages::new(stages, &program.stages, &counters);
        let ingress = IngressState::new(program.settings.ingress);
        let (delay, take_overs) = Default::default();
        let processor = Processor {
            identity: mailbox.identity,
            waker_number,
            index,
            first_key: Key::new(program.id, 0),
            memory: Memory {
                slab: Slab::new(program.settings.max_operations, waker_number, region),
                pools: Rc::default(),
            },
            stages,
            current: Current::default(),
            waiting: Waiting::default(),
            load: Load { delay, ingress, tuner, take_overs },
            scratch: Scratch::default(),
            observe: Observe::new(counters),
            link: Link::new(program, mailbox, busy),
        };
        processor.set_running_stage(processor.stages.len());
        processor
    }
}
