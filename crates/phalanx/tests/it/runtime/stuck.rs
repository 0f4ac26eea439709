//! A program that does not end is reported, and its process exited if the runtime handles signals.

use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::blocking::blocking;
use phalanx::runtime::{DriverChoice, EXIT_STUCK};
use phalanx::{Graph, Runtime};
use rustix::process::{Pid, Signal, kill_process};

use phalanx_testkit::TIMEOUT;

use crate::runtime::harness::runtime;
use crate::runtime::on_each_driver;

on_each_driver!(
    ended_by_a_further_signal,
    ended_after_the_drain,
    a_blocking_call,
    a_callback_of_the_program,
    reported_where_signals_are_not_handled,
);

/// The line that the child writes when it is stuck.
const STUCK: &str = "stuck now";

/// The child process in which a test runs itself, with stderr read up to [`STUCK`]. In the child: none.
fn child(name: &str, driver: DriverChoice) -> Option<(Child, BufReader<ChildStderr>)> {
    const CHILD: &str = "PHALANX_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("runtime::stuck::{name}::{driver}"), "--nocapture"]);
    let mut child = child.env(CHILD, "1").stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while line.trim() != STUCK {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "the child has ended");
    }
    Some((child, stderr))
}

/// Sends at most `max_signals` signals until the child ends. Returns its exit code and its output.
fn signal(
    (mut child, mut stderr): (Child, BufReader<ChildStderr>),
    max_signals: u32,
) -> (i32, String) {
    let pid = Pid::from_child(&child);
    let start = Instant::now();
    let mut sent = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > TIMEOUT {
            child.kill().unwrap();
            panic!("it survives {sent} signals");
        }
        if sent < max_signals {
            kill_process(pid, Signal::INT).unwrap();
            sent += 1;
        }
        thread::sleep(Duration::from_millis(100));
    };
    let mut output = String::new();
    stderr.read_to_string(&mut output).unwrap();
    (status.code().expect("it has exited"), output)
}

fn endless() {
    eprintln!("{STUCK}");
    loop {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Blocks the thread, as an executor does that is not aware of the processor.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn with_signals(driver: DriverChoice) -> Runtime {
    runtime(driver, 1).signals(true)
}

#[track_caller]
fn assert_reported(output: &str, line: u32, operation: &str) {
    let (file, operation) = (file!(), format!("{}::{operation}", module_path!()));
    let expected = format!("processor 0 does not end: stage \"work\": {operation} ({file}:{line}:");
    assert!(output.contains(&expected), "no {expected:?} in {output:?}");
}

fn ended_by_a_further_signal(driver: DriverChoice) {
    let line = line!() + 9;
    if let Some(child) = child("ended_by_a_further_signal", driver) {
        let (code, output) = signal(child, u32::MAX);
        assert_eq!(code, EXIT_STUCK, "{output}");
        return assert_reported(&output, line, "ended_by_a_further_signal");
    }
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let ran = with_signals(driver).shutdown_timeout(100 * TIMEOUT).run(graph, |_| {
        work.dispatch(|_| async { endless() })?;
        Ok(())
    });
    unreachable!("{ran:?}");
}

fn ended_after_the_drain(driver: DriverChoice) {
    let line = line!() + 9;
    if let Some(child) = child("ended_after_the_drain", driver) {
        let (code, output) = signal(child, 1);
        assert_eq!(code, EXIT_STUCK, "{output}");
        return assert_reported(&output, line, "ended_after_the_drain");
    }
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let ran = with_signals(driver).shutdown_timeout(Duration::from_millis(50)).run(graph, |_| {
        work.dispatch(move |_| async move {
            eprintln!("{STUCK}");
            let _ = block_on(work.call(|_| async {}));
        })?;
        Ok(())
    });
    unreachable!("{ran:?}");
}

fn a_blocking_call(driver: DriverChoice) {
    if let Some(child) = child("a_blocking_call", driver) {
        let (code, output) = signal(child, u32::MAX);
        assert_eq!(code, EXIT_STUCK, "{output}");
        return assert!(output.contains("blocking calls of stages [\"resolver\"]"), "{output}");
    }
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let resolver = blocking(&mut graph, "resolver").state(());
    let ran = with_signals(driver).shutdown_timeout(Duration::from_millis(50)).run(graph, |_| {
        work.dispatch(move |_| async move {
            let _ = resolver.call(|_| endless()).await;
        })?;
        Ok(())
    });
    unreachable!("{ran:?}");
}

/// The supervisor's thread is blocked, so the signal thread exits the process.
fn a_callback_of_the_program(driver: DriverChoice) {
    if let Some(child) = child("a_callback_of_the_program", driver) {
        let (code, output) = signal(child, u32::MAX);
        assert_eq!(code, EXIT_STUCK, "{output}");
        return;
    }
    let ran = with_signals(driver).run_with_ready(Graph::new(), |_| Ok(()), |_| endless());
    unreachable!("{ran:?}");
}

fn reported_where_signals_are_not_handled(driver: DriverChoice) {
    let line = line!() + 11;
    if let Some((mut child, mut stderr)) = child("reported_where_signals_are_not_handled", driver) {
        let mut output = String::new();
        stderr.read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success(), "{output}");
        return assert_reported(&output, line, "reported_where_signals_are_not_handled");
    }
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let ran = runtime(driver, 1).run(graph, |start| {
        let control = start.control();
        work.dispatch(move |_| async move {
            eprintln!("{STUCK}");
            control.end();
            thread::sleep(2 * phalanx::runtime::END_LIMIT);
        })?;
        Ok(())
    });
    ran.unwrap();
}
