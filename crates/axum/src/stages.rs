//! The stages of a server in a program's graph.

use std::net::SocketAddr;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::{Listener, Stream};
use phalanx::{CallError, Graph, SharedStage};
use phalanx_compat::StageExecutor;
#[cfg(feature = "tls")]
use phalanx_tls::{Certificates, TlsStages};

use crate::connection::{Connections, serve_connection};
use crate::services::Services;

/// Largest cohort of connections: with more, their sockets leave the cache.
const MAX_COHORT: usize = 64;
/// Default of [`Options::header_timeout`]: longer than the 60 seconds for which proxies keep idle connections.
const DEFAULT_HEADER_TIMEOUT: Duration = Duration::from_secs(75);
/// Default of [`Options::capacity`].
pub(crate) const DEFAULT_CAPACITY: usize = 1024;

/// Options of a server's [`Stages`].
#[derive(Clone)]
pub struct Options {
    capacity: usize,
    cohorts: bool,
    header_timeout: Option<Duration>,
    #[cfg(feature = "tls")]
    certificates: Option<Arc<Certificates>>,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults: no TLS, and a limit of 75 seconds for each head.
    pub fn new() -> Self {
        Self {
            capacity: DEFAULT_CAPACITY,
            cohorts: false,
            header_timeout: Some(DEFAULT_HEADER_TIMEOUT),
            #[cfg(feature = "tls")]
            certificates: None,
        }
    }

    /// Runs handlers in cohorts of the stage *requests*, each of which takes up the requests that have arrived together.
    /// Otherwise a handler runs as a part of its connection's operation, which costs less: small handlers gain nothing by
    /// cohorts, and the stages that they call form cohorts in both cases. Try it if the handlers have much code of their
    /// own.
    #[must_use]
    pub fn cohorts(mut self) -> Self {
        self.cohorts = true;
        self
    }

    /// With [`cohorts`](Self::cohorts), the most requests of one processor that may wait for their turn; those beyond get a
    /// response 503. The default is 1024. Requests that wait for something else, such as a database, do not count. Without
    /// cohorts, requests have no turn to wait for.
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn capacity(mut self, count: usize) -> Self {
        assert!(count > 0, "a server has room for at least one request");
        self.capacity = count;
        self
    }

    /// The longest time for which a connection may have no request: that in which a client must send the head of one. The
    /// default is 75 seconds; `None` is no limit, as `axum::serve` has none.
    ///
    /// The time is counted from the start of the connection, after the TLS handshake, for which a client has 10 seconds.
    /// Afterwards it is counted from the end of the last response, so a kept connection that is idle for so long is closed,
    /// too. It is at most doubled if a handler drops the content of a request late. Everything that the server sends
    /// restarts it, such as the rest of a response to a slow client, or the response to an HTTP/2 PING. Bytes of the
    /// client do not.
    ///
    /// When it has passed, the connection ends within a second: an idle one immediately, one over HTTP/2 after a
    /// GOAWAY. A client gets no response. A request over HTTP/2 that arrives before the end is served, and the time
    /// begins again. Bytes that the connection has taken and not sent are sent after its end, for at most 10 seconds.
    ///
    /// Requests in progress, streamed responses and WebSockets are not limited, nor is a connection with bytes for which the
    /// kernel has no room because the client does not receive. Such a connection ends when the client closes it, when the
    /// kernel gives up a client that does not acknowledge any more (about 15 minutes by default), or with the program. Over
    /// HTTP/2, a response for whose rest the client opens no window is limited. A connection over HTTP/2 that has had a
    /// WebSocket is not limited any more, also after its end.
    #[must_use]
    pub fn header_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.header_timeout = limit.into();
        self
    }

    /// Serves over TLS, with HTTP/2 or HTTP/1.1 as the client prefers. Changed files of the certificates are loaded
    /// again while the program runs.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, certificates: Arc<Certificates>) -> Self {
        self.certificates = Some(certificates);
        self
    }

    /// Declares the stages as the next of `graph`.
    pub fn declare(self, graph: &mut Graph) -> Stages {
        let requests = |graph: &mut Graph| match graph.stage("requests") {
            stage if self.cohorts => stage.capacity(self.capacity).shared(()),
            stage => stage.direct().shared(()),
        };
        Stages {
            #[cfg(feature = "tls")]
            tls: self.certificates.map(|certificates| {
                TlsStages::declare(graph, certificates, &[b"h2", b"http/1.1"], None)
            }),
            connections: graph.stage("connections").max_cohort(MAX_COHORT).shared(()),
            streams: StageExecutor(graph.stage("streams").max_cohort(MAX_COHORT).shared(())),
            requests: requests(graph),
            header_timeout: self.header_timeout,
        }
    }
}

/// The stages of a server within a larger program, whose handlers use other stages of its graph.
///
/// ```
/// use axum::Router;
/// use axum::extract::State;
/// use axum::routing::post;
/// use phalanx::net::Listeners;
/// use phalanx::{Graph, PartitionedStage, Runtime};
///
/// type Counter = PartitionedStage<u64>;
///
/// async fn count(State(counter): State<Counter>) -> String {
///     let next = counter.call(0, |count| async move {
///         count.with(|count| {
///             *count += 1;
///             *count
///         })
///     });
///     next.await.map_or_else(|error| error.to_string(), |count| count.to_string())
/// }
///
/// let mut graph = Graph::new();
/// let http = phalanx_axum::Stages::declare(&mut graph);
/// let counter = graph.partitioned("counter", |_| 0);
/// let app = Router::new().route("/", post(count)).with_state(counter);
/// let listeners = Listeners::bind("127.0.0.1:0".parse()?, 2)?;
/// # let address = listeners.local_addr();
/// Runtime::new().processors(2).run_with_ready(
///     graph,
///     |start| {
///         http.serve(listeners.listener(start)?, app.clone())?;
///         Ok(())
///     },
///     |started| {
///         # use std::io::{Read, Write};
///         # let mut client = std::net::TcpStream::connect(address).unwrap();
///         # client.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
///         # let mut answer = String::new();
///         # client.read_to_string(&mut answer).unwrap();
///         # assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n1"), "{answer}");
///         started.control.drain();
///     },
/// )?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Stages {
    pub(crate) connections: SharedStage<()>,
    pub(crate) streams: StageExecutor,
    pub(crate) requests: SharedStage<()>,
    pub(crate) header_timeout: Option<Duration>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsStages>,
}

impl Stages {
    /// Declares the stages as the next of `graph`, with the default [`Options`].
    pub fn declare(graph: &mut Graph) -> Self {
        Options::new().declare(graph)
    }

    /// Serves the connections of a listener on this processor, until the program drains.
    ///
    /// # Errors
    /// Like [`SharedStage::dispatch`].
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn serve<M: 'static, V: Services<M>>(
        self,
        listener: Listener,
        services: V,
    ) -> Result<(), CallError> {
        let connections = Connections::new(self, services.prepared());
        self.connections.dispatch(move |_| async move {
            loop {
                // Do not accept while the queue is full.
                self.connections.wait_for_capacity().await;
                let Some(stream) = listener.accept_next().await else { return };
                let connections = connections.clone();
                // If the limit of operations is reached, the connection closes; a later one may fit.
                let _ = self.connections.dispatch(move |_| serve_connection(stream, connections));
            }
        })
    }

    /// Serves one connection on this processor, which it belongs to.
    pub async fn serve_one<M: 'static, V: Services<M>>(self, stream: Stream, services: V) {
        serve_connection(stream, Connections::new(self, services.prepared())).await;
    }
}

/// The address of the peer, for services that want it. A Unix socket has none.
pub(crate) fn peer_of(stream: &Stream) -> SocketAddr {
    stream.peer_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}
