//! Reports of panics and of misuse.

use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;

use phalanx::runtime::{DriverChoice, RunError};
use phalanx::stage::Cohort;
use phalanx::{CallError, Graph, sleep};

use crate::runtime::harness::{one, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(
    all_are_reported,
    a_state_that_is_reached_twice,
    an_invocation_outside_of_any_program,
    a_runtime_inside_of_a_runtime,
);

/// The reported name of an operation of [`parse`].
const PARSE: &str = concat!(module_path!(), "::parse");

async fn parse() {
    panic!("by intent");
}

/// The hook receives every panic of an operation that nobody awaits, with stage, operation and line. The
/// hook's own panic has no effect.
fn all_are_reported(driver: DriverChoice) {
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let direct = graph.stage("direct").direct().shared(());
    let fail = |(): &mut (), _: &mut Cohort<u32, ()>| panic!("in the handler");
    let batch = graph.stage("batch").cohort(|_| (), fail);
    let declared = line!();
    let hooked = graph.stage("hooked").end_of_cohort(|| panic!("in the hook")).shared(());
    let (sender, messages) = channel();
    let (expect, expected) = channel();
    let runtime = runtime(driver, 1).on_panic(move |report| {
        assert!(report.site.file().ends_with("panics.rs"), "{report}");
        let (operation, message) = (report.operation.to_owned(), report.message.to_string());
        sender.send((report.stage, report.site.line(), operation, message)).unwrap();
        panic!("in the program's own hook");
    });
    let ran = runtime.run(graph, |start| {
        let (control, expect) = (start.control(), expect.clone());
        expect.send(("work", line!(), PARSE, "by intent")).unwrap();
        work.dispatch(|_| parse())?;
        expect.send(("batch", line!(), "u32", "in the handler")).unwrap();
        batch.dispatch(1)?;
        expect.send(("hooked", declared, "end_of_cohort", "in the hook")).unwrap();
        hooked.dispatch(|_| ready(()))?;
        work.dispatch(move |_| async move {
            expect.send(("direct", line!(), PARSE, "by intent")).unwrap();
            let failed = direct.run(|_| parse()).await;
            assert!(matches!(failed, Err(CallError::Panicked { stage: "direct", .. })));
            sleep(Duration::from_millis(1)).await;
            control.drain();
        })?;
        Ok(())
    });
    ran.unwrap();
    let mut messages: Vec<_> = messages.try_iter().collect();
    let expected = expected.try_iter();
    let mut expected: Vec<_> = expected
        .map(|(stage, line, operation, message)| {
            (stage, line + 1, operation.to_owned(), message.to_owned())
        })
        .collect();
    messages.sort();
    expected.sort();
    assert_eq!(messages, expected);
}

fn a_state_that_is_reached_twice(driver: DriverChoice) {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let table = graph.partitioned("table", |_| 0);
    let total = graph.exclusive("total", 0);
    let (sender, messages) = channel();
    let ran = runtime(driver, 1).run(graph, |start| {
        let (control, sender) = (start.control(), sender.clone());
        main.dispatch(move |_| async move {
            let twice =
                table.call(1, |part| async move { part.with(|_| part.with(|count| *count)) });
            sender.send(twice.await).unwrap();
            let twice =
                total.call(|total| async move { total.with(|_| total.with(|count| *count)) });
            sender.send(twice.await).unwrap();
            control.drain();
        })?;
        Ok(())
    });
    ran.unwrap();
    for expected in ["table", "total"] {
        let Err(CallError::Panicked { stage, message }) = messages.recv().unwrap() else {
            panic!("it cannot be reached twice")
        };
        assert_eq!(stage, expected);
        let named = format!(
            "the state of stage \"{expected}\" is accessed while a `with` on it is running"
        );
        assert!(message.starts_with(&named), "{message}");
    }
}

fn an_invocation_outside_of_any_program(_: DriverChoice) {
    let sleeping = catch_unwind(|| {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let sleep = std::pin::pin!(sleep(Duration::from_secs(1)));
        let _ = std::future::Future::poll(sleep, &mut context);
    });
    let stage = Graph::new().shared("stage", ());
    let calling = catch_unwind(AssertUnwindSafe(|| drop(stage.call(|_| ready(())))));
    for panic in [sleeping, calling] {
        let panic = panic.unwrap_err();
        let message = panic.downcast_ref::<&str>().expect("a text");
        assert!(message.starts_with("this thread runs no program"), "{message}");
        assert!(message.contains("timers"), "{message}");
    }
}

fn a_runtime_inside_of_a_runtime(driver: DriverChoice) {
    one(driver, move |_| async move {
        let nested = runtime(driver, 1).run(Graph::new(), |_| Ok(()));
        assert!(matches!(nested, Err(RunError::Nested)), "{nested:?}");
        // On another thread it works.
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            let ran = runtime(driver, 1).run(Graph::new(), |start| {
                start.control().drain();
                Ok(())
            });
            done.send(ran.is_ok()).unwrap();
        });
        while is_done.try_recv().map(|ok| assert!(ok)).is_err() {
            sleep(Duration::from_millis(1)).await;
        }
    });
}
