//! Programs on two processors, with each available driver.

use std::future::{Future, poll_fn};
use std::io::{self, Read};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use phalanx::net::{IoTimeout, OwnerError, Stream};
use phalanx::runtime::{DriverChoice, ExitReport};
use phalanx::{CallError, Graph, SharedStage};
use phalanx_testkit::TIMEOUT;
use phalanx_testkit::tcp::{listener, with_timeouts};

use crate::drivers::runtime;

/// Makes each named function a test per driver, `name::uring` and `name::poll`.
macro_rules! on_each_driver {
    ($($name:ident),* $(,)?) => { phalanx_testkit::per_driver!($crate::drivers::on: $($name),*); };
}
pub(crate) use on_each_driver;

/// Runs a program whose first operation runs on processor 0 and then drains the program. Asserts that the
/// program ends by itself without leaks.
pub(crate) fn program<F, Fut, T>(driver: DriverChoice, processors: usize, operation: F) -> T
where
    F: FnOnce(SharedStage<()>) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let (result, ended) = run(driver, processors, operation);
    assert!(ended.is_clean(), "{ended:?}");
    result
}

/// Like [`program`], but allows leaks.
pub(crate) fn run<F, Fut, T>(
    driver: DriverChoice,
    processors: usize,
    operation: F,
) -> (T, ExitReport)
where
    F: FnOnce(SharedStage<()>) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let operation = Mutex::new(Some(operation));
    let result: Arc<Mutex<Option<Result<T, CallError>>>> = Arc::default();
    let mut graph = Graph::new();
    let stage = graph.stage("test").shared(());
    let ended = runtime(driver, processors).shutdown_timeout(2 * TIMEOUT).run(graph, |start| {
        if start.processor() > 0 {
            return Ok(());
        }
        let operation = operation.lock().unwrap().take().expect("one processor begins");
        let (control, result) = (start.control(), result.clone());
        stage.dispatch(move |_| async move {
            // As a child, so that its panic is seen here.
            let outcome = stage.call(move |_| operation(stage)).await;
            *result.lock().unwrap() = Some(outcome);
            control.drain();
        })?;
        Ok(())
    });
    let result = result.lock().unwrap().take().expect("the operation has ended");
    (result.unwrap_or_else(|error| panic!("{error}")), ended.expect("the program runs"))
}

/// The [`OwnerError`] error of `result`.
pub(crate) fn owner_error<T>(result: io::Result<T>) -> OwnerError {
    let error = result.err().expect("it fails");
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<OwnerError>());
    *inner.unwrap_or_else(|| panic!("another error: {error}"))
}

/// Polls once.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
}

/// A stream of this processor, and the test's end of the connection.
pub(crate) async fn pair() -> (Stream, TcpStream) {
    let (listener, address) = listener();
    let stream = Stream::connect(address, IoTimeout::after(TIMEOUT)).await.unwrap();
    (stream, with_timeouts(listener.accept().unwrap().0))
}

/// A future of a read's result and of the stream, which it owns.
pub(crate) type Reading = Pin<Box<dyn Future<Output = (io::Result<Vec<u8>>, Stream)> + Send>>;

/// A read that owns its stream, so that it can be moved.
pub(crate) fn read(stream: Stream) -> Reading {
    Box::pin(async move {
        let mut bytes = Vec::new();
        let read = stream.read(&mut bytes, IoTimeout::after(TIMEOUT)).await;
        (read.map(|_| bytes), stream)
    })
}

/// Asserts that the peer's connection was closed without further data.
pub(crate) fn assert_closed(mut peer: TcpStream) {
    match peer.read(&mut [0; 16]) {
        Ok(0) => (),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => (),
        other => panic!("the connection is open, or had something to read: {other:?}"),
    }
}

/// Like [`assert_closed`], for operations: it does not block the processor, which may have to close the
/// connection.
pub(crate) async fn closed(peer: TcpStream) {
    let closed = thread::spawn(move || assert_closed(peer));
    while !closed.is_finished() {
        phalanx::sleep(Duration::from_millis(1)).await;
    }
    closed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
