//! Making a processor on the thread that runs it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::control::ingress::IngressState;
use crate::mailbox::registry;
use crate::memory::slab::Slab;
use crate::operation::size_class::stride;
use crate::processor::part::current::Current;
use crate::processor::part::link::Link;
use crate::processor::part::stages::Stages;
use crate::processor::part::{Load, Memory, Observe, Scratch, Waiting};
use crate::processor::processor::Processor;
use crate::program::program::ProcessorBuilder;
use crate::queue::local::{StageQueue, StarvationGuard};
use crate::stage::key::Key;
use crate::stage::local::{LocalStage, StageRuntime};
use crate::stage::settings::bound;
use crate::stage::tuner_state::TunerState;

impl ProcessorBuilder {
    /// The processor, on the thread that will run it. `unpark` ends its sleep from other threads.
    pub fn build(self, unpark: crate::mailbox::parking::Unpark) -> Processor {
        let ProcessorBuilder { program, index, share, region } = self;
        let mailbox = program.mailboxes[index].clone();
        mailbox.parking.install(unpark);
        let processors = program.mailboxes.len();
        let stages = program.stages.iter().map(|declared| {
            let local = (declared.make)(index, processors);
            let runtime = StageRuntime::new(declared);
            let least = stride(0) + runtime.beside;
            LocalStage {
                queue: StageQueue::new(declared.capacity),
                starvation_guard: StarvationGuard::default(),
                state: Rc::as_ptr(&local.state).cast(),
                local: Box::new(local),
                max_cohort: Cell::new(
                    declared.max_cohort.unwrap_or_else(|| bound(program.settings.cache(), least)),
                ),
                cohort_time: declared.cohort_time,
                lifo: declared.lifo,
                runtime: Box::new(runtime),
            }
        });
        let stages: Box<[LocalStage]> = stages.collect();
        let number = registry::register(mailbox.clone());
        let counters = program.counters[index].clone();
        let tuner = TunerState::new(&program.stages, &stages, program.settings);
        let stages = Stages::new(stages, &program.stages, &counters);
        let ingress = IngressState::new(program.settings.ingress);
        let (delay, take_overs) = Default::default();
        let processor = Processor {
            identity: mailbox.identity,
            number,
            index,
            first: Key::new(program.id, 0),
            memory: Memory {
                slab: Slab::new(program.settings.max_operations, number, region),
                pools: Rc::default(),
            },
            stages,
            current: Current::default(),
            waiting: Waiting::default(),
            load: Load { delay, ingress, tuner, take_overs },
            scratch: Scratch::default(),
            observe: Observe { counters, types: RefCell::default(), panics: RefCell::default() },
            link: Link::new(program, mailbox, share),
        };
        processor.set_running_stage(processor.stages.len());
        processor
    }
}
