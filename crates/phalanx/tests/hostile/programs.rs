//! Programs whose operations, hooks and blocking calls panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use phalanx::blocking::blocking;
use phalanx::runtime::DriverChoice;
use phalanx::{Graph, Runtime, Session, join, sleep};
use tokio::sync::Notify;

/// A timeout that only a hanging program reaches.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Rounds on each processor.
const ROUNDS: usize = 20;

/// Panics when it is dropped, except during unwinding, which would abort the process.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("hostile destructor");
        }
    }
}

/// Runs `program` on a thread and fails if it hangs.
fn in_time<T: Send + 'static>(program: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = channel();
    std::thread::spawn(move || done.send(program()));
    finished.recv_timeout(TIMEOUT).expect("the program ends")
}

/// The available drivers; only the one that `PHALANX_DRIVER` names, if it is set.
fn drivers() -> impl Iterator<Item = DriverChoice> {
    let named = std::env::var("PHALANX_DRIVER").unwrap_or_default();
    let both = [DriverChoice::Poll, DriverChoice::Uring].into_iter();
    both.filter(move |driver| named.is_empty() || named == driver.to_string()).filter(|driver| {
        let ran = Runtime::new().driver(*driver).signals(false).run(Graph::new(), |start| {
            start.control().drain();
            Ok(())
        });
        ran.is_ok()
    })
}

/// Processors with almost full slabs send each other operations whose destructors panic, end them, and wait
/// in tokio's `Notify`, which stores pointers into their futures.
#[test]
fn a_full_program_of_panicking_destructors_ends_and_leaves_nothing() {
    for driver in drivers() {
        let ended = in_time(move || {
            let mut graph = Graph::new();
            graph.max_operations(48);
            let front = graph.shared("front", ());
            let back = graph.stage("back").capacity(16).max_cohort(4).shared(());
            let threads = blocking(&mut graph, "threads").threads(2).queue(8).state(());
            let (notify, left) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(2)));
            let runtime = Runtime::new().driver(driver).processors(2).signals(false);
            runtime.run(graph, move |start| {
                let (control, other) = (start.control(), 1 - start.processor());
                let (notify, left) = (notify.clone(), left.clone());
                front.dispatch(move |_| async move {
                    for _ in 0..ROUNDS {
                        let session = Session::new();
                        let calls = session.scope(|| {
                            let call = |n: u8| {
                                let (bomb, notify) = (PanicsOnDrop, notify.clone());
                                back.call_on(other, move |_| async move {
                                    let _bomb = bomb;
                                    match n {
                                        0 => notify.notify_one(),
                                        1 => panic!("hostile operation"),
                                        _ => notify.notified().await,
                                    }
                                })
                            };
                            (0..4).map(call).collect::<Vec<_>>()
                        });
                        let bomb = PanicsOnDrop;
                        let thread = threads.call(move |()| bomb);
                        sleep(Duration::from_millis(1)).await;
                        drop(session.end());
                        join(calls).await;
                        session.end().await;
                        // The result panics on drop, too.
                        std::mem::forget(thread.await);
                        drop(threads.call(|()| PanicsOnDrop));
                    }
                    if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        control.drain();
                    }
                })?;
                Ok(())
            })
        });
        let ended = ended.expect("no processor has failed");
        assert!(ended.processors.iter().all(|left| *left == Default::default()), "{ended:?}");
    }
}

/// A panic in the `ready` hook ends the program and is propagated to the caller.
#[test]
fn a_panic_in_the_hook_for_readiness_ends_the_program() {
    for driver in drivers() {
        let caught = in_time(move || {
            let runtime = Runtime::new().driver(driver).processors(2).signals(false);
            let run =
                || runtime.run_with_ready(Graph::new(), |_| Ok(()), |_| panic!("hostile hook"));
            catch_unwind(AssertUnwindSafe(run)).is_err()
        });
        assert!(caught);
    }
}
