//! HTTP services in simulation: keys of tokens at a URL, and logins that a service decides.

mod keys;
mod logins;
mod permissions;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use phalanx::metrics::Counter;
use phalanx::net::{IoTimeout, Listener, Resolver, Stream};
use phalanx::sim::{self, Bounds};
use phalanx::{Graph, SharedStage, sleep};
use phalanx_access::Fetcher;

pub(crate) const URL: &str = "http://127.0.0.1:8080/path";

pub(crate) const CLOSE: &str = "close";

fn address() -> SocketAddr {
    ([127, 0, 0, 1], 8080).into()
}

/// A service with one answer at a time. If it is empty, the service never answers; if it is [`CLOSE`], the service closes the
/// connection.
#[derive(Clone, Default)]
pub(crate) struct Service {
    pub(crate) answer: Rc<RefCell<String>>,
    pub(crate) requests: Rc<RefCell<Vec<String>>>,
    pub(crate) connections: Rc<Cell<usize>>,
    pub(crate) open: Rc<Cell<usize>>,
    /// Whether it closes the connection after each answer.
    pub(crate) is_closing: Rc<Cell<bool>>,
}

impl Service {
    pub(crate) fn answers(&self, status: u16, fields: &str, body: &str) {
        let length = body.len();
        *self.answer.borrow_mut() =
            format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    }

    pub(crate) fn count(&self) -> usize {
        self.requests.borrow().len()
    }

    async fn accept(self, listener: Listener, stage: SharedStage<()>) {
        while let Ok(stream) = listener.accept().await {
            let service = self.clone();
            stage.dispatch(move |_| async move { service.serve(stream).await }).unwrap();
        }
    }

    async fn serve(self, stream: Stream) {
        self.connections.set(self.connections.get() + 1);
        self.open.set(self.open.get() + 1);
        let mut input = Vec::new();
        while stream.read(&mut input, IoTimeout::NONE.until_shutdown()).await.is_ok_and(|n| n > 0) {
            let text = String::from_utf8(input.clone()).unwrap();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
                continue;
            }
            self.requests.borrow_mut().push(text);
            input.clear();
            let answer = self.answer.borrow().clone();
            if answer == CLOSE {
                break;
            }
            if !answer.is_empty() {
                // The client may close the connection before it has read all of a long answer.
                let _ = stream.write(answer.into_bytes(), IoTimeout::NONE).await;
            }
            if self.is_closing.get() {
                break;
            }
        }
        self.open.set(self.open.get() - 1);
    }
}

/// Sets a flag when it is dropped, also by a panic.
struct SetOnDrop(Rc<Cell<bool>>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// Runs `test` with a service, a fetcher and the stage for further operations.
pub(crate) fn run<F: Future<Output = ()> + 'static>(
    test: impl Fn(Service, Fetcher, SharedStage<()>) -> F + Copy + 'static,
) {
    // Schedules in which time does not pass early, because the tests measure it.
    let mut bounds = Bounds::default();
    (bounds.steps, bounds.runs, bounds.deviations) = (100_000, 5, Some(1));
    let coverage = sim::explore_all(bounds, move |world| {
        world.set_processors(1);
        let mut graph = Graph::new();
        let resolver = Resolver::declare(&mut graph);
        let stage = graph.stage("control").shared(());
        let listeners = world.listen(address());
        let (is_done, passed_flag) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        // The program drains when this client has finished.
        let (is_done_flag, net) = (is_done.clone(), world.net());
        world.client(async move {
            while !is_done_flag.get() {
                net.sleep(Duration::from_millis(100)).await;
            }
        });
        // A panic ends only its operation.
        let passed = passed_flag.clone();
        world.after_shutdown(move || assert!(passed.get(), "the test has panicked"));
        world.program(graph, move |start| {
            let listener = listeners.listener(start)?;
            let (service, guard) = (Service::default(), SetOnDrop(is_done.clone()));
            let passed = passed_flag.clone();
            let service_clone = service.clone();
            stage.dispatch(move |_| service_clone.accept(listener, stage))?;
            let counter = || Counter::new("fetches", "");
            let fetcher = Fetcher { stage, resolver, fetched: counter(), failed: counter() };
            stage.dispatch(move |_| async move {
                let _guard = guard;
                test(service, fetcher, stage).await;
                passed.set(true);
            })?;
            Ok(())
        });
    });
    assert_eq!(coverage.cut, 0, "{coverage}");
}

pub(crate) async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}
