//! The end of a program: when all work is done, on request, and at the deadline.

use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::net::{IoTimeout, PollStream, Polled, Stream};
use phalanx::runtime::{Control, DriverChoice, Phase};
use phalanx::shutdown::{draining, is_draining};
use phalanx::{Graph, Runtime, sleep, yield_now};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::tcp::{listener, read_to_end};

use crate::runtime::harness::{child_of, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(
    requests_in_progress_complete,
    bytes_accepted_by_a_dropped_stream_arrive,
    buffered_bytes_of_a_finished_stream_arrive,
    the_deadline,
    ended_at_once,
    drained_by_another_thread,
    signals_are_left_alone,
    signals_end_the_process_afterwards,
);

/// Counts live instances.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn requests_in_progress_complete(driver: DriverChoice) {
    let [started, finished] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let ran = runtime(driver, 2).run(graph, |start| {
        for n in 0..10 {
            let (started, finished) = (started.clone(), finished.clone());
            stage.dispatch(move |_| async move {
                assert!(!is_draining());
                started.fetch_add(1, Ordering::SeqCst);
                // Awaiting a resolved future again does not wait.
                let mut notified = draining();
                (&mut notified).await;
                (&mut notified).await;
                draining().await;
                assert!(is_draining());
                // Running work and new work are both allowed.
                sleep(Duration::from_millis(10 * n)).await;
                stage.call(move |_| yield_now()).await.unwrap();
                finished.fetch_add(1, Ordering::SeqCst);
            })?;
        }
        // An operation that stops waiting after a timeout.
        stage.dispatch(|_| async {
            let _ = phalanx::timeout(Duration::from_millis(1), draining()).await;
        })?;
        let (control, started) = (start.control(), started.clone());
        stage.dispatch(move |_| async move {
            // On the other processor, too.
            loop {
                let phase = control.phase();
                if started.load(Ordering::SeqCst) == 20 {
                    break;
                }
                assert_eq!(phase, Phase::Running);
                sleep(Duration::from_millis(1)).await;
            }
            control.drain();
            assert_eq!(control.phase(), Phase::Draining);
            control.drain();
        })?;
        Ok(())
    });
    ran.unwrap();
    assert_eq!(finished.load(Ordering::SeqCst), 20);
}

fn bytes_accepted_by_a_dropped_stream_arrive(driver: DriverChoice) {
    bytes_of_an_ended_stream_arrive(driver, drop, 0);
}

fn buffered_bytes_of_a_finished_stream_arrive(driver: DriverChoice) {
    const HELD: usize = 300_000;
    bytes_of_an_ended_stream_arrive(driver, |stream| stream.finish(vec![1; HELD]), HELD);
}

/// A client reads only when a stream with a pending write has ended, which holds `held` bytes, and the program drains.
fn bytes_of_an_ended_stream_arrive(driver: DriverChoice, end: fn(Polled), held: usize) {
    let (listener, address) = listener();
    let (sent, received) = channel();
    let client = thread::spawn(move || {
        let (peer, _) = listener.accept().unwrap();
        let received: usize = received.recv().unwrap();
        // The processor ends in the meantime. On a busy machine the test observes less, and passes.
        thread::sleep(Duration::from_millis(50));
        assert_eq!(read_to_end(&peer).len(), received);
    });
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let ran = runtime(driver, 1).run(graph, |start| {
        let (control, sent) = (start.control(), sent.clone());
        stage.dispatch(move |_| async move {
            let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
            let (mut stream, bytes, mut received) = (Polled::new(stream), vec![0; 65_536], 0);
            let part = [IoSlice::new(&bytes)];
            loop {
                let write = poll_fn(|context| stream.poll_write(context, &part));
                match phalanx::timeout(Duration::from_millis(100), write).await {
                    Ok(more) => received += more.unwrap(),
                    Err(_) => break,
                }
            }
            control.drain();
            end(stream);
            sent.send(received + held).unwrap();
        })?;
        Ok(())
    });
    assert!(ran.unwrap().is_clean());
    client.join().unwrap();
}

/// Fills a program with operations that never end: sleeping, in I/O, and running.
fn endless(runtime: Runtime, alive: &Arc<AtomicUsize>, ready: impl FnOnce(&Control)) -> Duration {
    let (_listener, address) = listener();
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let partitioned = graph.partitioned("partitioned", |_| ());
    let start = |start: &phalanx::runtime::StartContext| {
        let (sleeper, reader, worker, parent) =
            (Alive::new(alive), Alive::new(alive), Alive::new(alive), Alive::new(alive));
        stage.dispatch(move |_| async move {
            let _alive = sleeper;
            sleep(100 * TIMEOUT).await;
        })?;
        stage.dispatch(move |_| async move {
            let _alive = reader;
            let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
            stream.read(&mut Vec::new(), IoTimeout::NONE).await.unwrap();
        })?;
        stage.dispatch(move |_| async move {
            let _alive = worker;
            loop {
                yield_now().await;
            }
        })?;
        // An operation that awaits a child on either processor.
        let key = start.processor() as u64;
        stage.dispatch(move |_| async move {
            let _alive = parent;
            let _ = partitioned.call(key, |_| sleep(100 * TIMEOUT)).await;
        })?;
        Ok(())
    };
    let mut requested_at = None;
    let ran = runtime.run_with_ready(graph, start, |up| {
        assert_eq!(alive.load(Ordering::SeqCst), 8);
        thread::sleep(Duration::from_millis(50));
        requested_at = Some(Instant::now());
        ready(&up.control);
    });
    ran.unwrap();
    assert_eq!(alive.load(Ordering::SeqCst), 0, "all of them are gone");
    requested_at.expect("it was up").elapsed()
}

fn the_deadline(driver: DriverChoice) {
    let alive = Arc::new(AtomicUsize::new(0));
    let limit = Duration::from_millis(300);
    let elapsed = endless(runtime(driver, 2).shutdown_timeout(limit), &alive, Control::drain);
    assert!(elapsed >= limit - Duration::from_millis(20) && elapsed < TIMEOUT / 2, "{elapsed:?}");
    let elapsed =
        endless(runtime(driver, 2).shutdown_timeout(Duration::ZERO), &alive, Control::drain);
    assert!(elapsed < TIMEOUT / 2, "{elapsed:?}");
}

fn ended_at_once(driver: DriverChoice) {
    let alive = Arc::new(AtomicUsize::new(0));
    let elapsed = endless(runtime(driver, 2).shutdown_timeout(100 * TIMEOUT), &alive, |control| {
        control.end()
    });
    assert!(elapsed < TIMEOUT / 2, "{elapsed:?}");
}

/// A drain by a foreign thread while all processors sleep.
fn drained_by_another_thread(driver: DriverChoice) {
    let (up, is_up) = channel::<Control>();
    let controller = thread::spawn(move || {
        let control = is_up.recv().unwrap();
        thread::sleep(Duration::from_millis(100));
        control.drain();
        control
    });
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let started = Instant::now();
    let start = |_: &phalanx::runtime::StartContext| {
        stage.dispatch(|_| async { draining().await })?;
        Ok(())
    };
    let runtime = runtime(driver, 2);
    runtime
        .run_with_ready(graph, start, |started| up.send(started.control.clone()).unwrap())
        .unwrap();
    assert!(started.elapsed() < TIMEOUT / 2);
    // A handle on a program that has ended has no effect.
    let control = controller.join().unwrap();
    control.drain();
    control.end();
    assert_eq!(control.phase(), Phase::Ending);
}

/// All tests use `signals(false)`, so no handlers may be installed.
fn signals_are_left_alone(driver: DriverChoice) {
    crate::runtime::harness::one(driver, |_| async {
        let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return };
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        for signal in [2, 15] {
            assert_eq!(caught >> (signal - 1) & 1, 0, "signal {signal} is caught");
        }
    });
}

/// Once no program handles signals any more, they have the action that they had before.
fn signals_end_the_process_afterwards(driver: DriverChoice) {
    use signal_hook::consts::SIGTERM;
    use std::os::unix::process::ExitStatusExt;
    if let Some(child) = child_of("end::signals_end_the_process_afterwards", driver) {
        assert_eq!(child.status.signal(), Some(SIGTERM), "{child:?}");
        return;
    }
    for _ in 0..2 {
        let ran = runtime(driver, 1).signals(true).run(Graph::new(), |_| {
            signal_hook::low_level::raise(SIGTERM)?;
            Ok(())
        });
        ran.expect("the signal drains the program");
    }
    signal_hook::low_level::raise(SIGTERM).unwrap();
}
