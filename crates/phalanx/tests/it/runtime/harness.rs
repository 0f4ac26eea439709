//! Small programs for tests, without signal handlers and with time limits.

use std::future::Future;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx::runtime::{DriverChoice, RunError};
use phalanx::{CallError, Graph, Runtime, SharedStage};

/// A timeout that only a failing test reaches.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Runs a test on a thread and fails it if it hangs. Without the driver the test is skipped, unless
/// `PHALANX_REQUIRE_URING=1`; it is also skipped if `PHALANX_DRIVER` names the other driver.
pub(crate) fn on(driver: DriverChoice, test: fn(DriverChoice)) {
    let named = std::env::var("PHALANX_DRIVER").unwrap_or_default();
    if ["uring", "poll"].contains(&named.as_str()) && named != driver.to_string() {
        println!("skipped: PHALANX_DRIVER={named}");
        return;
    }
    let nothing = program(driver, 1).run(Graph::new(), |start| {
        start.control().drain();
        Ok(())
    });
    if let Err(error @ RunError::Driver(_)) = nothing {
        assert!(std::env::var_os("PHALANX_REQUIRE_URING").is_none_or(|set| set != "1"), "{error}");
        println!("skipped: {error}");
        return;
    }
    let (done, finished) = channel();
    let body = thread::spawn(move || {
        test(driver);
        let _ = done.send(());
    });
    match finished.recv_timeout(2 * LONG) {
        Err(RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => body.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// A runtime without signal handlers and pinning, because tests run in parallel.
pub(crate) fn program(driver: DriverChoice, processors: usize) -> Runtime {
    Runtime::new().driver(driver).processors(processors).pin(false).signals(false)
}

/// Runs one operation, which receives the stage that it runs on, and then ends the program.
pub(crate) fn one<F, Fut, T>(driver: DriverChoice, operation: F) -> T
where
    F: FnOnce(SharedStage<()>) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let operation = Mutex::new(Some(operation));
    let result: Arc<Mutex<Option<Result<T, CallError>>>> = Arc::default();
    let mut graph = Graph::new();
    // FIFO, so that operations that become due at the same time on a busy machine run in order.
    let stage = graph.stage("test").shared(());
    let ran = program(driver, 1).run(graph, |start| {
        let operation = operation.lock().unwrap().take().expect("one processor");
        let (control, result) = (start.control(), result.clone());
        stage.dispatch(move |_| async move {
            // As a child, so that its panic is seen here.
            let outcome = stage.call(move |_| operation(stage)).await;
            *result.lock().unwrap() = Some(outcome);
            control.end();
        })?;
        Ok(())
    });
    ran.expect("the program runs");
    let result = result.lock().unwrap().take().expect("the operation has ended");
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// A listening socket of the test, to which operations connect.
pub(crate) fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The test's end of a connection, with timeouts.
pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream
}

/// Reads everything until the end of the stream or a reset.
pub(crate) fn rest_of(stream: TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    match patient(stream).read_to_end(&mut received) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => received,
    }
}

/// Runs blocking code on a thread. An operation that blocked for its peer would keep the processor from
/// serving that peer.
pub(crate) async fn elsewhere<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(f);
    while !thread.is_finished() {
        phalanx::sleep(Duration::from_millis(1)).await;
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Bytes in which each position differs from its neighbors.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length.div_ceil(4) as u32).flat_map(u32::to_le_bytes).take(length).collect()
}
