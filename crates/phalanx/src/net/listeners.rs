//! A server's listening sockets, one for each processor, and the loop that accepts: what every
//! program on this runtime begins with.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::time::Duration;

use phalanx_core::sleep;

use crate::net::{Listener, Stream, bind};
use crate::shutdown::is_draining;
use crate::worker_thread::StartContext;

/// When the process is out of descriptors or memory, it is so for a while.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(50);

/// The listening sockets of a program, bound before it runs, so that an address that cannot be had is
/// an error of `main` and not of some processor.
///
/// ```
/// use phalanx::net::{IoTimeout, Listeners};
/// use phalanx::{Graph, Runtime};
///
/// let mut graph = Graph::new();
/// let clients = graph.stage("clients").max_cohort(64).shared(());
/// let listeners = Listeners::bind("127.0.0.1:0".parse()?, 1)?;
/// # let address = listeners.local_addr();
/// # std::thread::spawn(move || std::net::TcpStream::connect(address));
/// Runtime::new().processors(1).run(graph, |start| {
///     let listener = listeners.listener(start)?;
///     # let control = start.control();
///     clients.dispatch(move |_| listener.accept_each(move |stream| {
///         # control.drain();
///         let _ = clients.dispatch(move |_| async move {
///             let _ = stream.write(b"hello\n".to_vec(), IoTimeout::NONE).await;
///         });
///     }))?;
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Listeners {
    address: SocketAddr,
    sockets: Mutex<Vec<Option<TcpListener>>>,
}

impl Listeners {
    /// Listens on `address` with a socket for each of `processors`, as [`bind`] does.
    ///
    /// # Errors
    /// As [`bind`].
    pub fn bind(address: SocketAddr, processors: usize) -> io::Result<Self> {
        let sockets = bind(address, processors)?;
        let address = match sockets.first() {
            Some(socket) => socket.local_addr()?,
            None => address,
        };
        Ok(Self { address, sockets: Mutex::new(sockets.into_iter().map(Some).collect()) })
    }

    /// Where they listen: with port 0 asked for, the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The listener of the processor that starts.
    ///
    /// # Errors
    /// `NotFound` when the program has more processors than sockets were bound, or the processor's
    /// was taken before; else as [`Listener::new`].
    pub fn listener(&self, start: &StartContext) -> io::Result<Listener> {
        let mut sockets = self.sockets.lock().unwrap_or_else(|poison| poison.into_inner());
        let socket = sockets.get_mut(start.processor()).and_then(Option::take);
        let Some(socket) = socket else {
            let what = format!("no listening socket for processor {}", start.processor());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        };
        Listener::new(socket)
    }
}

impl Listener {
    /// Accepts until the program [drains](crate::shutdown::draining), and hands each connection to `take`,
    /// which usually dispatches the operation that serves it.
    pub async fn accept_each(self, mut take: impl FnMut(Stream)) {
        while let Some(stream) = self.accept_next().await {
            take(stream);
        }
    }

    /// The next connection; none once the program [drains](crate::shutdown::draining). For a program that has
    /// something to wait for between two of them, as [room](crate::SharedStage::room) in a stage.
    /// Clients that left before they were accepted are passed over; out of descriptors or memory, it
    /// waits 50 ms and goes on.
    pub async fn accept_next(&self) -> Option<Stream> {
        loop {
            match self.accept().await {
                Ok(stream) => return Some(stream),
                Err(_) if is_draining() => return None,
                Err(error) if is_clients_fault(&error) => (),
                Err(_) => sleep(OUT_OF_RESOURCES).await,
            }
        }
    }
}

/// The client went away before it was accepted.
fn is_clients_fault(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}
