//! The twin on fibres: a fibre for each connection instead of a thread of the pool.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use phalanx::fibre::{LocalFibres, StackSize};
use phalanx::net::Listeners;
use phalanx::{Graph, Runtime};

use super::worker::Worker;

thread_local! {
    /// Workers without a connection. There are at most as many as there were connections at once.
    static IDLE: RefCell<Vec<Worker>> = const { RefCell::new(Vec::new()) };
}

/// Listens on `address`, announces it on standard output, and serves the files beneath `root` on this many processors.
///
/// # Errors
/// When `root` cannot be opened, the address is in use, or the program fails.
pub fn run(root: &Path, address: SocketAddr, processors: usize) -> io::Result<()> {
    phalanx::runtime::raise_open_files();
    let root = super::open_root(root)?;
    let listeners = Listeners::bind(address, processors)?;
    crate::baselines::announce(listeners.local_addr());
    let mut graph = Graph::new();
    let connections = graph.shared("connections", ());
    let ran = Runtime::new().processors(processors).run(graph, move |start| {
        let (listener, root) = (listeners.listener(start)?, root.clone());
        connections.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let root = root.clone();
                let serving = connections.fibre_with(StackSize::KiB256, move |_, _| {
                    let mut worker =
                        IDLE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Worker::new(root));
                    worker.serve(phalanx::fibre::net::Stream::from(stream));
                    IDLE.with_borrow_mut(|idle| idle.push(worker));
                });
                // Beyond the limit of operations, the connection is closed.
                _ = serving.detach();
            })
        })?;
        Ok(())
    });
    ran.map(drop).map_err(io::Error::other)
}
