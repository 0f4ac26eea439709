//! Streams and futures of one processor on other threads.

use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Waker};
use std::thread::{self, ThreadId};

use phalanx::net::{Listeners, OwnerError, Polled, Stream};
use phalanx::sync::oneshot;
use phalanx::{Graph, Runtime, SharedStage};
use phalanx_compat::{Closed, Compat, local, portable};
use phalanx_testkit::within_limit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Serves one connection on a runtime that ends then, and runs `client` on another thread.
pub(crate) fn serve<F>(
    serve: impl Fn(SharedStage<()>, Stream) -> F + Send + Sync + Copy + 'static,
    client: impl FnOnce(TcpStream) + Send + 'static,
) where
    F: Future<Output = ()> + 'static,
{
    within_limit(move || {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let listeners = Listeners::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = listeners.local_addr();
        let client = thread::spawn(move || client(TcpStream::connect(address).unwrap()));
        let runtime = Runtime::new().processors(1).signals(false);
        // A panic of an operation fails no test by itself.
        let served = Arc::new(OnceLock::new());
        let report = runtime.run(graph, |start| {
            let (listener, control) = (listeners.listener(start)?, start.control());
            let served = served.clone();
            stage.dispatch(move |_| async move {
                let stream = listener.accept().await.unwrap();
                let _ = served.set(stage.call(move |_| serve(stage, stream)).await);
                control.drain();
            })?;
            Ok(())
        });
        client.join().unwrap();
        assert_eq!(served.get(), Some(&Ok(())));
        let report = report.unwrap();
        assert!(report.is_clean(), "{report:?}");
    });
}

/// Runs a future with tokio's functions on a thread of its own.
pub(crate) async fn on_thread<F: Future<Output = T> + Send + 'static, T: Send + 'static>(
    future: F,
) -> T {
    let (sender, output) = oneshot::shared();
    thread::spawn(move || {
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        sender.send(tokio.block_on(future));
    });
    output.await.expect("the thread returns")
}

pub(crate) const CONTENT_BYTES: usize = 300_000;

#[test]
fn another_thread_uses_a_portable_stream() {
    serve(
        |stage, stream| async move {
            let (stream, relay) = portable(Polled::new(stream));
            let relay = stage.call(move |_| relay);
            let mut stream = Compat::new(stream);
            // First at home, then elsewhere, with a read that was in progress at home.
            let mut first = [0; 5];
            stream.read_exact(&mut first).await.unwrap();
            assert_eq!(&first, b"hello");
            let mut byte = [0];
            let started = {
                let mut read = Box::pin(stream.read(&mut byte));
                read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
            };
            on_thread(async move {
                // There is room for nothing, which is not a wait.
                assert_eq!(stream.read(&mut []).await.unwrap(), 0);
                stream.write_all(b"welcome").await.unwrap();
                let mut rest = if started { Vec::new() } else { byte.to_vec() };
                stream.read_to_end(&mut rest).await.unwrap();
                assert!(rest == vec![7; CONTENT_BYTES]);
                stream.write_all(&rest).await.unwrap();
                stream.shutdown().await.unwrap();
            })
            .await;
            relay.await.unwrap();
        },
        |mut client| {
            client.write_all(b"hello").unwrap();
            let mut answer = [0; 7];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"welcome");
            client.write_all(&vec![7; CONTENT_BYTES]).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            assert!(answer == vec![7; CONTENT_BYTES]);
        },
    );
}

#[test]
fn a_dropped_relay_closes_the_connection() {
    serve(
        |stage, stream| async move {
            let (stream, relay) = portable(Polled::new(stream));
            let relay = stage.call(move |_| relay);
            let (sender, receiver) = oneshot::shared();
            let reads = stage.call(move |_| {
                on_thread(async move {
                    let mut stream = Compat::new(stream);
                    stream.write_all(b"x").await.unwrap();
                    sender.send(());
                    let error = stream.read(&mut [0; 9]).await.unwrap_err();
                    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Closed>());
                    assert!(inner.is_some(), "{error}");
                    // Nothing sends the bytes that it has taken.
                    let flushed = stream.flush().await.map_err(|error| error.kind());
                    assert_eq!(flushed, Err(std::io::ErrorKind::ConnectionAborted));
                })
            });
            receiver.await;
            relay.cancel();
            assert!(relay.await.is_err());
            reads.await.unwrap();
        },
        |mut client| {
            let mut rest = Vec::new();
            // The relay may be gone before it has sent the byte.
            let _ = client.read_to_end(&mut rest);
            assert!(rest.len() <= 1);
        },
    );
}

#[test]
fn a_stream_fails_elsewhere() {
    serve(
        |_, stream| async move {
            let mut stream = Compat::from(stream);
            let error = on_thread(async move { stream.write_all(b"x").await.unwrap_err() }).await;
            assert!(error.get_ref().is_some_and(|inner| inner.is::<OwnerError>()), "{error}");
        },
        |mut client| assert_eq!(client.read(&mut [0; 9]).unwrap(), 0),
    );
}

/// Records the thread that drops it.
struct Dropped(Arc<Mutex<Vec<ThreadId>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(thread::current().id());
    }
}

#[test]
fn a_local_future_stays_at_home() {
    let (dropped, polls) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (seen, counted) = (dropped.clone(), polls.clone());
    let runtime = Runtime::new().processors(1).signals(false);
    let home = runtime.block_on(
        |_| (),
        move |()| async move {
            let token = Dropped(seen.clone());
            let future = local(async move {
                counted.fetch_add(1, Ordering::Relaxed);
                drop(token);
            });
            let failed = thread::spawn(move || {
                let mut future = Box::pin(future);
                let poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)).is_err()
            });
            assert!(failed.join().unwrap(), "it was polled elsewhere");
            // The drop reaches its processor before the next cohort.
            while seen.lock().unwrap().is_empty() {
                phalanx::yield_now().await;
            }
            thread::current().id()
        },
    );
    assert_eq!(*dropped.lock().unwrap(), [home.unwrap()]);
    assert_eq!(polls.load(Ordering::Relaxed), 0);
}
