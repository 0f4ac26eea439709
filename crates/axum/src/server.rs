//! A server as a program of its own.

use std::io;
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use phalanx::net::Listener;
use phalanx::runtime::{Control, RunError};
use phalanx::{Graph, Runtime};

use crate::listen::Listen;
use crate::services::Services;
use crate::stages::Options;

/// A server did not start, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen: {0}; choose another address, or stop what uses it")]
    Listen(#[source] io::Error),
    /// The listener cannot be shared among the processors.
    #[error("cannot duplicate the listener for each processor: {0}; raise the limit of open files")]
    Share(#[source] io::Error),
    /// A certificate is unusable.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Certificate(#[from] phalanx_tls::CertificateError),
    /// [`run`](Server::run) was called on a server with a signal of its own, which only an awaited server observes.
    #[cfg(feature = "tokio")]
    #[error(
        "with_graceful_shutdown needs a server that is awaited; await it, or drain by the control of run_with_ready"
    )]
    NotAwaited,
    /// The runtime did not start, or failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<ServeError> for io::Error {
    fn from(error: ServeError) -> Self {
        Self::other(error)
    }
}

/// Makes a server for an axum application: a [`Router`](axum::Router), a `MethodRouter`, either within layers, or a
/// service that makes one for each connection. See the [crate's page](crate).
///
/// `listener` is an address, or a listener of the standard library or of tokio: of TCP or a Unix socket.
pub fn serve<M, V: Services<M>>(listener: impl Listen, services: V) -> Server<V, M> {
    Server {
        listener: listener.into_fd().map_err(ServeError::Listen),
        services,
        processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        runtime: Runtime::new(),
        options: Options::new(),
        #[cfg(feature = "tls")]
        certificate: None,
        #[cfg(feature = "tokio")]
        tokio: crate::within_tokio::TokioOptions::default(),
        kind: PhantomData,
    }
}

/// A server, made by [`serve`].
#[must_use = "a server does nothing until it is run or awaited"]
pub struct Server<V, M> {
    pub(crate) listener: Result<OwnedFd, ServeError>,
    services: V,
    processors: usize,
    pub(crate) runtime: Runtime,
    options: Options,
    #[cfg(feature = "tls")]
    certificate: Option<phalanx_tls::Source>,
    #[cfg(feature = "tokio")]
    pub(crate) tokio: crate::within_tokio::TokioOptions,
    kind: PhantomData<fn() -> M>,
}

impl<M: 'static, V: Services<M>> Server<V, M> {
    /// The number of processors; one for each core by default.
    pub fn processors(mut self, count: usize) -> Self {
        self.processors = count;
        self
    }

    /// The options of the runtime: drivers, admin pages, the limit of the drain. [`processors`](Self::processors) sets
    /// their number.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }

    /// The options of the stages.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Serves over TLS with the certificate chain and the key in two PEM files, which may be the same. ALPN chooses
    /// HTTP/2 or HTTP/1.1. Changed files are loaded again while the server runs.
    #[cfg(feature = "tls")]
    pub fn tls(
        mut self,
        certificate: impl Into<std::path::PathBuf>,
        key: impl Into<std::path::PathBuf>,
    ) -> Self {
        let (certificate, key) = (certificate.into(), key.into());
        self.certificate =
            Some(phalanx_tls::Source { names: Vec::new(), certificate, key, is_awaited: false });
        self
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// As `getsockname(2)`, or the error of listening. `InvalidInput` for a Unix socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.listener {
            Ok(listener) => TcpListener::from(listener.try_clone()?).local_addr(),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }

    /// Serves until SIGINT or SIGTERM, or until the runtime ends for another reason, and drains. Blocks the thread.
    ///
    /// # Errors
    /// If the server did not start, or failed.
    pub fn run(self) -> Result<(), ServeError> {
        self.run_with_ready(|_| ())
    }

    /// Like [`run`](Self::run), and calls `ready` with the program's control when all processors have started.
    ///
    /// # Errors
    /// Like [`run`](Self::run).
    pub fn run_with_ready(self, ready: impl FnOnce(Control)) -> Result<(), ServeError> {
        #[cfg(feature = "tokio")]
        if self.tokio.has_shutdown() {
            return Err(ServeError::NotAwaited);
        }
        let mut graph = Graph::new();
        #[cfg(feature = "tls")]
        let options = match self.certificate {
            Some(source) => self.options.tls(load(source)?),
            None => self.options,
        };
        #[cfg(not(feature = "tls"))]
        let options = self.options;
        let stages = options.declare(&mut graph);
        let listener = self.listener?;
        // Each processor accepts some of the connections of one socket.
        let shared: io::Result<Vec<_>> =
            (1..self.processors).map(|_| listener.try_clone()).collect();
        let mut listeners = shared.map_err(ServeError::Share)?;
        listeners.push(listener);
        let listeners = Mutex::new(listeners);
        #[cfg(feature = "tokio")]
        let runtime = self.tokio.apply(self.runtime);
        #[cfg(not(feature = "tokio"))]
        let runtime = self.runtime;
        // Need not be `Sync`.
        let services = Mutex::new(self.services);
        runtime.processors(self.processors).run_with_ready(
            graph,
            |_| {
                let listener = listeners.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let listener = Listener::new(listener.expect("one for each processor"))?;
                let services = services.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Ok(stages.serve(listener, services)?)
            },
            |started| ready(started.control.clone()),
        )?;
        Ok(())
    }
}

/// Loads a certificate, and prints warnings about it.
#[cfg(feature = "tls")]
fn load(
    source: phalanx_tls::Source,
) -> Result<std::sync::Arc<phalanx_tls::Certificates>, ServeError> {
    let now = std::time::SystemTime::now();
    let (certificates, warnings) = phalanx_tls::Certificates::load(vec![source], now)?;
    warnings.iter().for_each(phalanx::runtime::report);
    Ok(std::sync::Arc::new(certificates))
}
