//! A server's listening sockets, one per processor, and the accept loop.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::time::Duration;

use phalanx_core::sleep;
use phalanx_driver::Endpoint;
use rustix::io::Errno;

use crate::diagnostics::report;
use crate::net::{Listener, Stream, bind};
use crate::program::StartContext;
use crate::shutdown::is_draining;

/// The time for which the accept loop waits when the process is out of descriptors or memory.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// A program's TCP listening sockets. They are bound before the program runs, so that `main` can handle the errors.
///
/// Each processor must take its listener in the program's `start`, because the kernel also distributes connections to
/// sockets from which no processor accepts.
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
    /// Whether all sockets are descriptors of the same socket.
    is_shared: bool,
}

impl Listeners {
    /// Binds one socket for each of `processors` to `address`, like [`bind`].
    ///
    /// # Errors
    /// The errors of [`bind`].
    pub fn bind(address: SocketAddr, processors: usize) -> io::Result<Self> {
        let sockets = bind(address, processors)?;
        let address = sockets[0].local_addr()?;
        let sockets = Mutex::new(sockets.into_iter().map(Some).collect());
        Ok(Self { address, sockets, is_shared: false })
    }

    /// Shares one listening socket among `processors`, each of which accepts some of its connections. Use it for a
    /// socket that already exists, for example one passed by a supervisor. Otherwise use [`bind`](Self::bind), which
    /// creates a socket for each processor.
    ///
    /// # Errors
    /// The errors of `dup(2)` and `getsockname(2)`.
    pub fn share(listener: &TcpListener, processors: usize) -> io::Result<Self> {
        let shared: io::Result<Vec<_>> = (0..processors).map(|_| listener.try_clone()).collect();
        let sockets = shared?.into_iter().map(Some).collect();
        let (address, sockets) = (listener.local_addr()?, Mutex::new(sockets));
        Ok(Self { address, sockets, is_shared: true })
    }

    /// The address on which the sockets listen, with the selected port if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The listener of the starting processor.
    ///
    /// # Errors
    /// `NotFound` if the program has more processors than sockets were bound, or if the processor's socket was already
    /// taken. `InvalidInput` if several sockets were [bound](Self::bind) but the program has fewer processors, because
    /// connections to the other sockets would never be accepted. Otherwise the errors of [`Listener::new`].
    pub fn listener(&self, start: &StartContext) -> io::Result<Listener> {
        let mut sockets = self.sockets.lock().unwrap_or_else(|poison| poison.into_inner());
        let (bound, processors) = (sockets.len(), start.active().all());
        if !self.is_shared && bound > processors {
            let message = format!(
                "{bound} sockets listen on {}, but the program has {processors} processors; bind one socket for each processor",
                self.address
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        take(&mut sockets, start)
    }
}

/// Takes the listener of the starting processor. `NotFound` if there is none or it was already taken.
pub(crate) fn take<S: Into<Endpoint>>(
    sockets: &mut [Option<S>],
    start: &StartContext,
) -> io::Result<Listener> {
    let socket = sockets.get_mut(start.processor()).and_then(Option::take);
    let Some(socket) = socket else {
        let message = format!(
            "no listening socket for processor {}; bind one for each processor, and take each only once",
            start.processor()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    };
    Listener::new(socket)
}

impl Listener {
    /// Accepts connections until the program [drains](crate::shutdown::draining), and calls `take` with each, which
    /// usually dispatches the operation that serves it. Errors are handled as described for
    /// [`accept_next`](Self::accept_next).
    pub async fn accept_each(self, mut take: impl FnMut(Stream)) {
        while let Some(stream) = self.accept_next().await {
            take(stream);
        }
    }

    /// The next connection, or `None` once the program [drains](crate::shutdown::draining). Use it in a program that
    /// waits between two connections, for example for [capacity](crate::SharedStage::wait_for_capacity) of a stage. It
    /// skips connections that the client closed before they were accepted. After a temporary error, such as too many
    /// open files, it retries after 50 ms. After a permanent error, such as [`OwnerError`](super::OwnerError), it
    /// prints the error to stderr and returns `None`. Like [`accept`](Self::accept), it is cancel safe.
    pub async fn accept_next(&self) -> Option<Stream> {
        loop {
            match self.accept().await {
                Ok(stream) => return Some(stream),
                Err(_) if is_draining() => return None,
                Err(error) if was_aborted(&error) => (),
                Err(error) if is_permanent(&error) => {
                    report(format_args!("a listener stopped accepting connections: {error}"));
                    return None;
                }
                Err(_) => sleep(RETRY_DELAY).await,
            }
        }
    }
}

/// Whether the client closed the connection before it was accepted.
fn was_aborted(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

/// Whether the error is permanent: the socket does not listen, or the error is not from the kernel.
fn is_permanent(error: &io::Error) -> bool {
    let permanent = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK].map(Errno::raw_os_error);
    error.raw_os_error().is_none_or(|code| permanent.contains(&code))
}
