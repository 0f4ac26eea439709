//! `phalanx-bench kernel`: fixed workloads that `cargo xtask gates` counts under valgrind.
//!
//! Each kernel repeats one operation. Two runs of different length differ only in the repetitions, so one-time
//! costs cancel. Kernels are deterministic: the clock advances by a fixed step per reading, and cohort sizes are
//! declared.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;

use clap::ValueEnum;
use phalanx_core::{Graph, Processor, SharedStage, World};
use phalanx_http::{
    Accepted, DateLine, Entity, Limits, Parse, Reply, ResponseBuffer, Status, Validators,
    content_type, parse,
};

/// Operations queued together.
const COHORT: usize = 64;

/// A workload to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kernel {
    /// An operation invoked and run on the same processor.
    Dispatch,
    /// An operation called on another stage and awaited.
    Call,
    /// The same on a direct stage.
    CallDirect,
    /// Parsing a request head and writing a response head.
    Http,
}

/// Runs the kernel's operation `count` times, rounded down to whole cohorts of 64.
pub fn run(kernel: Kernel, count: usize) {
    match kernel {
        Kernel::Dispatch => One::new(false).dispatch(count / COHORT),
        Kernel::Call => One::new(false).call(count / COHORT),
        Kernel::CallDirect => One::new(true).call(count / COHORT),
        Kernel::Http => http(count),
    }
}

/// A clock that advances by a fixed step per reading, and no I/O.
struct Steps(Cell<u64>);

impl World for Steps {
    fn now(&self) -> u64 {
        self.0.set(self.0.get() + 100);
        self.0.get()
    }
    fn reap(&self) -> bool {
        false
    }
    fn submit(&self) {}
    fn park(&self, _timeout: Option<u64>) {}
}

/// One processor, driven by the caller.
struct One {
    processor: Processor,
    world: Steps,
    front: SharedStage<()>,
    back: SharedStage<()>,
}

impl One {
    fn new(direct: bool) -> Self {
        let mut graph = Graph::new();
        let front = graph.stage("front").max_cohort(COHORT).shared(());
        let back = graph.stage("back").max_cohort(COHORT);
        let back = if direct { back.direct() } else { back }.shared(());
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        Self { processor, world: Steps(Cell::new(0)), front, back }
    }

    fn dispatch(&self, cohorts: usize) {
        let sum = Rc::new(Cell::new(0_u64));
        self.processor.enter(|| {
            for _ in 0..cohorts {
                for n in 0..COHORT as u64 {
                    let sum = Rc::clone(&sum);
                    let taken = self.front.dispatch(move |_| {
                        sum.set(sum.get() + black_box(n));
                        std::future::ready(())
                    });
                    taken.expect("below the limit");
                }
                while self.processor.turn(&self.world).ran > 0 {}
            }
        });
        black_box(sum.get());
    }

    /// A cohort of parents, each calling and awaiting `each` children.
    fn call(&self, each: usize) {
        let sum = Rc::new(Cell::new(0_u64));
        self.processor.enter(|| {
            for _ in 0..COHORT {
                let (sum, back) = (Rc::clone(&sum), self.back);
                let parent = self.front.dispatch(move |_| async move {
                    for n in 0..each as u64 {
                        let n = black_box(n);
                        let child = back.call(move |_| async move { n });
                        sum.set(sum.get() + child.await.expect("no panic"));
                    }
                });
                parent.expect("below the limit");
            }
            while self.processor.turn(&self.world).ran > 0 {}
        });
        black_box(sum.get());
    }
}

/// Requests as sent by browsers, for a file whose fields are prepared.
fn http(count: usize) {
    let request = b"GET /a/page.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kernel\r\n\
        Accept: text/html,*/*\r\nAccept-Encoding: gzip, br\r\nConnection: keep-alive\r\n\r\n";
    let (limits, date) = (Limits::default(), DateLine::new(784_111_777));
    let validators = Validators { etag: "\"v1\"", modified: 784_111_777 };
    let entity = Entity::new(content_type(b"page.html"), &validators, 2048, &[]);
    let mut out = ResponseBuffer::lines(Vec::with_capacity(1024));
    for _ in 0..count {
        out.clear();
        let Ok(Parse::Complete(request, _)) = parse(black_box(request), &limits) else {
            unreachable!("a whole request");
        };
        black_box(Accepted::by(&request));
        out.head(Status::Ok, &date, Reply::to(&request)).entity(&entity).finish();
        black_box(&out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_ends() {
        for kernel in Kernel::value_variants() {
            run(*kernel, 2 * COHORT);
        }
    }
}
