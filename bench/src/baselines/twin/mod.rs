//! The threaded twin: the web server of the 2002 paper's §5.1 (THWS), with current means.
//!
//! The paper describes "a thread accepting connections and passing them to a pool of 256 worker threads, each
//! of which performs the server's full functionality: parsing a request, reading a file, and transmitting its
//! contents. This server used the kernel's file cache." The workers of the report transmit a file "and then get another
//! connection" (tr2001 §6.1); here it serves a connection until it is closed, and connections beyond the pool wait.
//! The paper's threads used asynchronous I/O of Windows; those here block. The HTTP code
//! is shared with the staged server, and the rest is as good as threads allow: buffers are reused, small files are
//! sent in one `writev`, large ones in blocks.
//!
//! The twin on fibres has a fibre for each connection instead of a thread of the pool.

mod file;
mod reply;
mod worker;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use phalanx::fibre::{LocalFibres, StackSize};
use phalanx::net::Listeners;
use phalanx::{Graph, Runtime};
use rustix::fs::{Mode, OFlags};

use worker::Worker;

/// The paper's number of worker threads.
pub const WORKERS: usize = 256;
/// Stack size of a worker.
const STACK: usize = 256 * 1024;
/// Delay of the acceptor when descriptors are exhausted.
const SHORTAGE: Duration = Duration::from_millis(10);

/// Serves the files beneath `root` on the calling thread and `workers` more, until the listener fails.
///
/// # Errors
/// When `root` cannot be opened as a directory, or threads cannot be started.
pub fn serve(listener: &TcpListener, root: &Path, workers: usize) -> io::Result<()> {
    let root = open_root(root)?;
    let queue = Arc::new(Queue::default());
    for number in 0..workers {
        let (root, queue) = (root.clone(), queue.clone());
        let builder = thread::Builder::new().name(format!("worker-{number}")).stack_size(STACK);
        builder.spawn(move || {
            let mut worker = Worker::new(root);
            loop {
                worker.serve(queue.pop());
            }
        })?;
    }
    loop {
        match listener.accept() {
            Ok((connection, _)) => queue.push(connection),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => (),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    thread::sleep(SHORTAGE);
                }
                _ => return Err(error),
            },
        }
    }
}

/// The folder to serve.
fn open_root(root: &Path) -> io::Result<Arc<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(Arc::new(rustix::fs::open(root, flags, Mode::empty())?))
}

/// Listens on `address`, announces it on standard output, and serves.
///
/// # Errors
/// Like [`serve`], and when it cannot listen on the address.
pub fn run(root: &Path, address: SocketAddr) -> io::Result<()> {
    phalanx::runtime::raise_open_files();
    let listener = crate::baselines::floor::listen(address)?;
    crate::baselines::announce(listener.local_addr()?);
    serve(&listener, root, WORKERS)
}

/// A FIFO queue. Only the limit on open files bounds it.
#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<TcpStream>>,
    any: Condvar,
}

impl Queue {
    fn push(&self, connection: TcpStream) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(connection);
        self.any.notify_one();
    }

    /// Waits for a connection.
    fn pop(&self) -> TcpStream {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = waiting.pop_front() {
                return connection;
            }
            waiting = self.any.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

thread_local! {
    /// Workers without a connection. There are at most as many as there were connections at once.
    static IDLE: RefCell<Vec<Worker>> = const { RefCell::new(Vec::new()) };
}

/// Listens on `address`, announces it on standard output, and serves the files beneath `root` on this many processors.
///
/// # Errors
/// When `root` cannot be opened, the address is in use, or the program fails.
pub fn run_on_fibres(root: &Path, address: SocketAddr, processors: usize) -> io::Result<()> {
    phalanx::runtime::raise_open_files();
    let root = open_root(root)?;
    let listeners = Listeners::bind(address, processors)?;
    super::announce(listeners.local_addr());
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
