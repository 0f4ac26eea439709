//! The pipeline written as in a server: connections that call and await one stage after another, so that the
//! runtime may run the calls in cohorts or inline.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use phalanx_core::{Graph, Processor, SharedStage};

use super::code::{self, Request, STAGES};
use crate::measure::Clock;

/// Requests per connection in a run, one at a time.
const PER_CONNECTION: usize = 16;

/// How the runtime runs a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// As chosen by the tuner.
    Auto,
    /// Calls always run inline.
    Direct,
    /// In cohorts of up to this size.
    Cohort(usize),
}

/// A processor with a stage for connections and the eight stages.
pub(crate) struct Calls {
    processor: Processor,
    clock: Clock,
    connections: SharedStage<()>,
    work: Rc<Work>,
}

/// State shared by the connections.
struct Work {
    stages: [SharedStage<()>; STAGES],
    next: Cell<usize>,
    /// Requests are taken out and put back at the same index.
    requests: RefCell<Vec<Option<Box<Request>>>>,
}

impl Calls {
    pub(crate) fn new(setting: Setting) -> Self {
        let mut graph = Graph::new();
        graph.tune_cohorts(setting == Setting::Auto);
        let mut stage = |name| {
            let options = graph.stage(name);
            let options = match setting {
                Setting::Auto => options,
                Setting::Direct => options.direct(),
                Setting::Cohort(cohort) => options.max_cohort(cohort),
            };
            options.shared(())
        };
        let connections = stage("connections");
        let stages = ["1", "2", "3", "4", "5", "6", "7", "8"].map(stage);
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        let work = Work { stages, next: Cell::new(0), requests: RefCell::default() };
        Self { processor, clock: Clock::new(), connections, work: Rc::new(work) }
    }

    /// The cohort size that the tuner has found; zero before that.
    pub(crate) fn found(&self) -> u64 {
        let ladder = self.processor.control().processor(0).cohort_tuner;
        if ladder.trying { 0 } else { ladder.kept }
    }

    #[allow(clippy::vec_box, reason = "a request travels as a pointer")]
    pub(crate) fn run<const KIB: u64>(&self, requests: &mut Vec<Box<Request>>) {
        let connections = requests.len().div_ceil(PER_CONNECTION);
        self.work.next.set(0);
        self.work.requests.borrow_mut().extend(requests.drain(..).map(Some));
        self.processor.enter(|| {
            for _ in 0..connections {
                let work = self.work.clone();
                let taken = self.connections.dispatch(move |_| connection::<KIB>(work));
                taken.expect("below the limit");
            }
            while self.processor.turn(&self.clock).ran > 0 {}
        });
        requests.extend(self.work.requests.borrow_mut().drain(..).flatten());
    }
}

/// Takes one request after another through all stages.
async fn connection<const KIB: u64>(work: Rc<Work>) {
    macro_rules! through {
        ($request:ident: $($stage:ident $number:literal)*) => {
            $(let $request = {
                let mut request = $request;
                let call = work.stages[$number].run(move |_| async move {
                    code::$stage::<KIB>(&mut request);
                    request
                });
                call.await.expect("no panic, and below the limit")
            };)*
        };
    }
    loop {
        let number = work.next.replace(work.next.get() + 1);
        let request = work.requests.borrow_mut().get_mut(number).and_then(Option::take);
        let Some(request) = request else { return };
        through!(request: read 0 parse 1 route 2 check 3 fetch 4 shape 5 pack 6 send 7);
        work.requests.borrow_mut()[number] = Some(request);
    }
}
