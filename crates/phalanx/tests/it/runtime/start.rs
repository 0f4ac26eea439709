//! The start of a program: on all processors or on none.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use phalanx::net::IoTimeout;
use phalanx::runtime::{DriverChoice, DriverKind, RunError};
use phalanx::{CallError, Graph, sleep};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::tcp::listener;

use crate::runtime::harness::runtime;
use crate::runtime::on_each_driver;

on_each_driver!(
    ready_comes_last,
    one_fails,
    one_fails_while_another_calls_it,
    one_panics,
    scopes_that_go_wrong,
    the_admin_address_is_taken,
    options_out_of_range
);

fn ready_comes_last(driver: DriverChoice) {
    let started = Mutex::new(Vec::new());
    let ready_calls = AtomicUsize::new(0);
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let start = |start: &phalanx::runtime::StartContext| {
        assert_eq!(ready_calls.load(Ordering::SeqCst), 0, "ready before all have started");
        // Delays the processors differently.
        std::thread::sleep(Duration::from_millis(30 * start.processor() as u64));
        started.lock().unwrap().push(start.processor());
        stage.dispatch(|_| async { phalanx::shutdown::draining().await })?;
        Ok(())
    };
    let ready = |up: &phalanx::runtime::Started| {
        let mut started = started.lock().unwrap();
        started.sort_unstable();
        assert_eq!(*started, [0, 1, 2], "each once");
        let wanted =
            if driver == DriverChoice::Uring { DriverKind::Uring } else { DriverKind::Poll };
        assert_eq!((up.driver, &up.fallback, up.admin), (wanted, &None, None));
        ready_calls.fetch_add(1, Ordering::SeqCst);
        up.control.drain();
    };
    runtime(driver, 3).run_with_ready(graph, start, ready).unwrap();
    assert_eq!(ready_calls.load(Ordering::SeqCst), 1);
}

/// Runs a program in which processor 1 fails with `fault` and the others would run forever.
fn with_a_fault(
    driver: DriverChoice,
    fault: impl Fn() -> Result<(), phalanx::runtime::StartError> + Send + Sync,
) -> RunError {
    let (_listener, address) = listener();
    let ready = AtomicBool::new(false);
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let start = |start: &phalanx::runtime::StartContext| {
        if start.processor() == 1 {
            return fault();
        }
        stage.dispatch(|_| async { sleep(100 * TIMEOUT).await })?;
        stage.dispatch(move |_| async move {
            let stream = phalanx::net::Stream::connect(address, IoTimeout::NONE).await.unwrap();
            stream.read(&mut Vec::new(), IoTimeout::NONE).await.unwrap();
        })?;
        Ok(())
    };
    let start_time = Instant::now();
    let runtime = runtime(driver, 3).shutdown_timeout(100 * TIMEOUT);
    let ran = runtime.run_with_ready(graph, start, |_| ready.store(true, Ordering::SeqCst));
    assert!(start_time.elapsed() < TIMEOUT, "the others are ended, not waited for");
    assert!(!ready.load(Ordering::SeqCst), "it was never up");
    ran.expect_err("a fault")
}

fn one_fails(driver: DriverChoice) {
    let error = with_a_fault(driver, || Err(std::io::Error::other("no such luck").into()));
    assert!(matches!(error, RunError::Start(_)), "{error:?}");
    assert_eq!(error.to_string(), "no such luck");
    let error = with_a_fault(driver, || Err(CallError::Cancelled.into()));
    assert_eq!(error.to_string(), CallError::Cancelled.to_string());
}

/// The others end although their calls were sent to a processor that never runs.
fn one_fails_while_another_calls_it(driver: DriverChoice) {
    static WRONG: AtomicUsize = AtomicUsize::new(0);
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let start = |start: &phalanx::runtime::StartContext| {
        if start.processor() == 1 {
            return Err(std::io::Error::other("no such luck").into());
        }
        for _ in 0..10 {
            stage.dispatch(move |_| async move {
                if stage.call_on(1, |_| async {}).await != Err(CallError::Cancelled) {
                    WRONG.fetch_add(1, Ordering::SeqCst);
                }
            })?;
        }
        Ok(())
    };
    let start_time = Instant::now();
    let error = runtime(driver, 3).run(graph, start).expect_err("a fault");
    assert!(start_time.elapsed() < TIMEOUT, "the others are ended, not waited for");
    assert_eq!(error.to_string(), "no such luck");
    assert_eq!(WRONG.load(Ordering::SeqCst), 0, "results of calls to the processor that failed");
}

fn one_panics(driver: DriverChoice) {
    let error = with_a_fault(driver, || panic!("as the test wants it"));
    assert!(matches!(error, RunError::StartPanicked(1)), "{error:?}");
}

/// A scope that panics, that does not call its argument, and that calls it twice.
fn scopes_that_go_wrong(driver: DriverChoice) {
    let run = |scope: fn(&mut dyn FnMut())| {
        let starts = AtomicUsize::new(0);
        let ran = runtime(driver, 1).thread_scope(scope).run(Graph::new(), |start| {
            starts.fetch_add(1, Ordering::SeqCst);
            start.control().drain();
            Ok(())
        });
        (ran, starts.into_inner())
    };
    let (ran, starts) = run(|_| panic!("as the test wants it"));
    assert!(matches!((&ran, starts), (Err(RunError::ScopePanicked(0)), 0)), "{ran:?}");
    let (ran, starts) = run(|_| ());
    assert!(matches!((&ran, starts), (Err(RunError::ScopeNotCalled(0)), 0)), "{ran:?}");
    let (ran, starts) = run(|run| {
        run();
        panic!("as the test wants it");
    });
    assert!(matches!((&ran, starts), (Err(RunError::ScopePanicked(0)), 1)), "{ran:?}");
    let (ran, starts) = run(|run| {
        run();
        run();
    });
    assert!(matches!((&ran, starts), (Ok(_), 1)), "{ran:?}");
}

fn the_admin_address_is_taken(driver: DriverChoice) {
    let (_listener, taken) = listener();
    let ran = runtime(driver, 1).admin(Some(taken)).run(Graph::new(), |_| unreachable!());
    match ran.unwrap_err() {
        RunError::Admin { address, source } => {
            assert_eq!((address, source.kind()), (taken, std::io::ErrorKind::AddrInUse));
        }
        other => panic!("{other:?}"),
    }
}

fn options_out_of_range(driver: DriverChoice) {
    let table = [
        (runtime(driver, 0), "Runtime::processors is 0, but must be in the range 1 to 1024"),
        (runtime(driver, 1025), "Runtime::processors is 1025, but must be in the range 1 to 1024"),
        (
            runtime(driver, 1).receive_buffers(0, 8192),
            "Runtime::receive_buffers(count) is 0, but must be in the range 1 to 32768",
        ),
        (
            runtime(driver, 1).receive_buffers(8, (1 << 24) + 1),
            "Runtime::receive_buffers(bytes) is 16777217, but must be in the range 1 to 16777216",
        ),
    ];
    for (runtime, text) in table {
        let error = runtime.run(Graph::new(), |_| unreachable!()).unwrap_err();
        assert!(matches!(error, RunError::OutOfRange { .. }), "{error:?}");
        assert_eq!(error.to_string(), text);
    }
}
