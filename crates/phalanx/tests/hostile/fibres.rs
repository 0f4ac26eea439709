//! Fibres that overflow, that do not end, and that wait where they must not.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::process::Command;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use phalanx::fibre::sync::Mutex;
use phalanx::fibre::{Fibre, FibreLocal, LocalFibres, StackSize, set_stack_limit, wait};
use phalanx::runtime::DriverChoice;
use phalanx::{Call, CallError, Graph, Session, sleep, timeout, yield_now};

use crate::drivers::runtime;
use crate::harness::{on_each_driver, program};

on_each_driver![
    a_fibre_ends_its_own_session,
    destructors_that_panic_end_only_their_fibre,
    locals_that_panic_leave_the_stack_to_other_fibres,
    an_operation_polled_on_the_stack_of_a_fibre_does_not_suspend_it,
    locals_are_used_in_destructors_of_locals,
    a_forgotten_guard_blocks_only_its_lock,
    operations_with_fibres_on_their_way_are_dropped_with_the_program,
];

const HOUR: Duration = Duration::from_secs(3600);

fn a_fibre_ends_its_own_session(driver: DriverChoice) {
    program(driver, 1, |stage| async move {
        let reached = Rc::new(Cell::new(0));
        let progress = reached.clone();
        let session = Session::new();
        let call = session.scope(|| {
            stage.fibre(move |_, fibre| {
                let child = fibre.spawn(|fibre| fibre.sleep(HOUR));
                fibre.wait(yield_now());
                drop(Session::current().unwrap().end());
                progress.set(1);
                // The fibre has ended, so this suspends nothing.
                assert_eq!(fibre.wait(child), Err(CallError::Cancelled));
                progress.set(2);
                fibre.wait(yield_now());
                progress.set(3);
            })
        });
        assert_eq!(call.await, Err(CallError::Cancelled));
        session.end().await;
        assert_eq!(reached.get(), 2);
    });
}

/// Panics when it is dropped, unless the thread is panicking.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("hostile destructor");
        }
    }
}

fn destructors_that_panic_end_only_their_fibre(driver: DriverChoice) {
    static PANICS_ON_DROP: FibreLocal<PanicsOnDrop> = FibreLocal::new(|| PanicsOnDrop);
    program(driver, 1, |stage| async move {
        let result: Call<PanicsOnDrop> = stage.fibre(|_, _| PanicsOnDrop);
        drop(result);
        let waits = stage.fibre(|_, fibre| {
            fibre.wait(async {
                let _bomb = PanicsOnDrop;
                yield_now().await;
            });
        });
        assert!(waits.await.is_err());
        let local = stage.fibre(|_, _| PANICS_ON_DROP.with(|_| ()));
        assert!(local.await.is_err());
        let call = stage.fibre(|_, fibre| {
            let _bomb = PanicsOnDrop;
            fibre.wait(async {
                let _bomb = PanicsOnDrop;
                sleep(HOUR).await;
            });
        });
        sleep(Duration::from_millis(2)).await;
        call.cancel();
        assert_eq!(call.await, Err(CallError::Cancelled));
        assert_eq!(stage.fibre(|_, _| 1).await, Ok(1));
    });
}

fn locals_that_panic_leave_the_stack_to_other_fibres(driver: DriverChoice) {
    static PANIC_ON_DROP: [FibreLocal<PanicsOnDrop>; 3] =
        [const { FibreLocal::new(|| PanicsOnDrop) }; 3];
    program(driver, 1, |stage| async move {
        let size = StackSize::KiB256;
        // The first fibre of a size has a stack in any case, and the next ones wait until it comes back.
        set_stack_limit(0);
        let bombs = || PANIC_ON_DROP.iter().for_each(|bomb| bomb.with(|_| ()));
        assert!(stage.fibre_with(size, move |_, _| bombs()).await.is_err());
        let call = stage.fibre_with(size, move |_, fibre| {
            bombs();
            fibre.sleep(HOUR);
        });
        sleep(Duration::from_millis(2)).await;
        call.cancel();
        assert_eq!(call.await, Err(CallError::Cancelled));
        let next = stage.fibre_with(size, |_, _| 1);
        assert_eq!(timeout(Duration::from_secs(20), next).await, Ok(Ok(1)));
    });
}

/// A future that is polled by hand runs on the fibre's stack, but the operation that it runs is not the fibre.
fn an_operation_polled_on_the_stack_of_a_fibre_does_not_suspend_it(driver: DriverChoice) {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let direct = graph.stage("direct").direct().shared(());
    let ran = runtime(driver, 1).run(graph, move |start| {
        let control = start.control();
        stage.dispatch(move |_| async move {
            let call = stage.fibre(move |_, fibre| {
                fibre.wait(yield_now());
                let mut inner = pin!(direct.call(|_| async { wait(yield_now()) }));
                let mut context = Context::from_waker(Waker::noop());
                let polled = inner.as_mut().poll(&mut context);
                if let Poll::Ready(result) = polled {
                    assert!(result.is_err(), "it has suspended the fibre");
                }
                fibre.wait(yield_now());
            });
            let ended = call.await;
            // A fibre that runs as a direct operation suspends itself, not its caller.
            let outer = stage.fibre(move |_, fibre| {
                let inner = direct.fibre(|_, fibre| fibre.sleep(Duration::from_millis(1)));
                fibre.wait(inner)
            });
            let nested = outer.await;
            control.end();
            assert_eq!((ended, nested), (Ok(()), Ok(Ok(()))));
        })?;
        Ok(())
    });
    assert!(ran.unwrap().is_clean());
}

fn locals_are_used_in_destructors_of_locals(driver: DriverChoice) {
    static FIRST: FibreLocal<Cell<u32>> = FibreLocal::new(|| Cell::new(1));
    struct Uses(Rc<RefCell<Vec<u32>>>);
    impl Drop for Uses {
        fn drop(&mut self) {
            // The value is created again if it was dropped before.
            self.0.borrow_mut().push(FIRST.with(|first| first.replace(2)));
            if !std::thread::panicking() {
                wait(yield_now());
            }
        }
    }
    static USES: FibreLocal<RefCell<Option<Uses>>> = FibreLocal::new(|| RefCell::new(None));
    program(driver, 1, |stage| async move {
        let log: Rc<RefCell<Vec<u32>>> = Rc::default();
        for ends in [false, true] {
            let uses = Uses(log.clone());
            let call = stage.fibre(move |_, fibre| {
                USES.with(|value| value.replace(Some(uses)));
                FIRST.with(|_| ());
                if ends {
                    fibre.sleep(HOUR);
                }
            });
            sleep(Duration::from_millis(2)).await;
            call.cancel();
            _ = call.await;
        }
        assert_eq!(*log.borrow(), [1, 1]);
    });
}

fn a_forgotten_guard_blocks_only_its_lock(driver: DriverChoice) {
    program(driver, 1, |stage| async move {
        let lock = Rc::new(Mutex::new(()));
        std::mem::forget(lock.try_lock().unwrap());
        let waiter = {
            let lock = lock.clone();
            stage.fibre(move |_, _| drop(lock.lock()))
        };
        sleep(Duration::from_millis(2)).await;
        waiter.cancel();
        assert_eq!(waiter.await, Err(CallError::Cancelled));
    });
}

/// The end of the program finds fibres in every state.
fn operations_with_fibres_on_their_way_are_dropped_with_the_program(driver: DriverChoice) {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ran = runtime(driver, 2).run(graph, move |start| {
        let control = start.control();
        stage.dispatch(move |_| async move {
            for n in 0..50u64 {
                let call = stage.fibre_with(StackSize::KiB16, move |_, fibre| {
                    fibre.sleep(Duration::from_millis(n % 3));
                    let child = fibre.spawn(|fibre| fibre.sleep(HOUR));
                    _ = catch_unwind(AssertUnwindSafe(|| _ = fibre.wait(child)));
                });
                call.detach().unwrap();
            }
            sleep(Duration::from_millis(2)).await;
            control.end();
        })?;
        Ok(())
    });
    assert!(ran.unwrap().is_clean());
}

/// This variable is set in the process that a test starts.
const CHILD: &str = "PHALANX_HOSTILE_FIBRE";

/// Runs the test `name` alone in a separate process. There, a program with one fibre on a stage named "deep" ends its
/// process by `signal`. The fibre's call is cancelled after 5 ms. Returns the errors that the process printed.
fn errors_of(name: &str, signal: i32, body: impl FnOnce(&Fibre<'_>) + Send + 'static) -> String {
    if std::env::var_os(CHILD).is_some() {
        run(body);
        return String::new();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("fibres::{name}"), "--nocapture"]).env(CHILD, "1");
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(signal), "{errors}");
    errors
}

fn run(body: impl FnOnce(&Fibre<'_>) + Send + 'static) {
    let body = std::sync::Mutex::new(Some(body));
    let mut graph = Graph::new();
    let deep = graph.shared("deep", ());
    let ran = runtime(DriverChoice::Poll, 1).run(graph, move |start| {
        let (control, body) = (start.control(), body.lock().unwrap().take().unwrap());
        deep.dispatch(move |_| async move {
            let call = deep.fibre(move |_, fibre| body(fibre));
            sleep(Duration::from_millis(5)).await;
            call.cancel();
            _ = call.await;
            control.end();
        })?;
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn an_overflow_names_stage_and_size() {
    fn descend(depth: u64) -> u64 {
        let room = std::hint::black_box([depth; 64]);
        if depth == 0 { 0 } else { descend(depth - 1) + room[depth as usize % 64] }
    }
    let errors = errors_of("an_overflow_names_stage_and_size", 6, |_| {
        std::hint::black_box(descend(1 << 40));
    });
    let message = "a fibre of stage \"deep\" has overflowed its stack of 64 KiB";
    assert!(errors.contains(message) && errors.contains("fibres::an_overflow"), "{errors}");
}

/// The overflow handler passes the signal on.
#[test]
fn a_fault_that_another_process_sends_ends_the_process() {
    errors_of("a_fault_that_another_process_sends_ends_the_process", 11, |_| {
        let process = std::process::id().to_string();
        assert!(Command::new("kill").args(["-SEGV", &process]).status().unwrap().success());
    });
}

#[test]
fn a_fibre_that_does_not_end_is_named() {
    let errors = errors_of("a_fibre_that_does_not_end_is_named", 6, |fibre| {
        loop {
            _ = catch_unwind(AssertUnwindSafe(|| fibre.sleep(HOUR)));
        }
    });
    let message = "a fibre of stage \"deep\" has ended, but its body";
    assert!(errors.contains(message) && errors.contains("hostile/fibres.rs:"), "{errors}");
}

#[test]
fn a_wait_in_a_destructor_while_unwinding_is_reported_where_it_is() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            wait(yield_now());
        }
    }
    let name = "a_wait_in_a_destructor_while_unwinding_is_reported_where_it_is";
    let errors = errors_of(name, 6, |fibre| {
        let _waits = Waits;
        fibre.sleep(HOUR);
    });
    let message = "a fibre of stage \"deep\" waits in a destructor while it unwinds";
    assert!(errors.contains(message) && errors.contains("hostile/fibres.rs:"), "{errors}");
}
