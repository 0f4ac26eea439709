//! The staged server: one processor, whose connections call the stages of `phalanx_matching`.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use phalanx::net::{IoTimeout, Listener, Payload, Stream, bind};
use phalanx::runtime::Control;
use phalanx::shutdown::is_draining;
use phalanx::{Graph, Runtime, SharedStage};
use phalanx_matcher::Snapshot;
use phalanx_matching::{Matching, Options};

use super::{ANSWER, Coder, EVENT};
use crate::system::cores::Bound;

type Bytes = [u8; EVENT];

/// A running server.
pub(super) struct Staged {
    address: SocketAddr,
    control: Control,
    thread: JoinHandle<io::Result<()>>,
}

/// Listens on a free port, with all threads on `cores`. At most `cohort` events, if given, are matched together.
pub(super) fn start(
    cores: &[usize],
    snapshot: Snapshot,
    coder: Coder,
    cohort: Option<usize>,
) -> io::Result<Staged> {
    let socket = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1)?.remove(0);
    let address = socket.local_addr()?;
    let (tell, told) = channel();
    let _bound = Bound::to(cores)?;
    let thread = std::thread::spawn(move || {
        serve(socket, snapshot, coder, cohort, |up| {
            let _ = tell.send(up);
        })
    });
    match told.recv() {
        Ok(control) => Ok(Staged { address, control, thread }),
        Err(_) => Err(thread
            .join()
            .expect("it does not panic")
            .err()
            .unwrap_or_else(|| io::Error::other("the staged server did not start"))),
    }
}

fn serve(
    socket: TcpListener,
    snapshot: Snapshot,
    coder: Coder,
    cohort: Option<usize>,
    up: impl FnOnce(Control),
) -> io::Result<()> {
    let mut graph = Graph::new();
    let clients = graph.stage("clients").max_cohort(64).shared(());
    let own = Options::default();
    let options = Options { capacity: cohort.unwrap_or(own.capacity), ..own };
    let matching =
        Matching::declare(&mut graph, options, move |bytes: &Bytes, now| coder.code(now, bytes));
    let socket = Mutex::new(Some((socket, snapshot)));
    let start = |_: &phalanx::runtime::StartContext| {
        let (socket, snapshot) = socket.lock().expect("no panic").take().expect("one processor");
        let listener = Listener::new(socket)?;
        clients.dispatch(move |_| async move {
            // Clients that connect earlier wait, so that no answer comes from an empty index.
            if matching.publish(&snapshot).await.is_ok() {
                drop(snapshot);
                accept(listener, clients, matching).await;
            }
        })?;
        Ok(())
    };
    let runtime = Runtime::new().processors(1).signals(false);
    runtime.run_and(graph, start, |ready| up(ready.control.clone())).map_err(io::Error::other)?;
    Ok(())
}

async fn accept(listener: Listener, clients: SharedStage<()>, matching: Matching<Bytes>) {
    while !is_draining() {
        if let Ok(stream) = listener.accept().await {
            let _ = clients.dispatch(move |_| async move {
                // Disconnects of clients are expected.
                let _ = client(stream, matching).await;
            });
        }
    }
}

/// Serves one client: all received events are called before the first answer is awaited.
async fn client(stream: Stream, matching: Matching<Bytes>) -> io::Result<()> {
    let timeout = IoTimeout::NONE.until_shutdown();
    let (mut input, mut head) = (Vec::new(), Vec::new());
    while stream.read(&mut input, timeout).await? > 0 {
        let whole = input.len() / EVENT * EVENT;
        let (events, _) = input.as_chunks::<EVENT>();
        let calls: Vec<_> = events.iter().map(|event| matching.call(*event)).collect();
        input.drain(..whole);
        head.reserve(calls.len() * ANSWER);
        for call in calls {
            let matched = call.await.map_err(io::Error::other)?;
            head.extend((matched.subscriptions.len() as u32).to_le_bytes());
        }
        if !head.is_empty() {
            let payload = Payload { head, ..Payload::default() };
            head = stream.write(payload, timeout).await?;
        }
    }
    Ok(())
}

impl Staged {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server.
    pub(super) fn end(self) {
        self.control.drain();
        let ended = self.thread.join().expect("it does not panic");
        ended.expect("a final newline");
    }
}
