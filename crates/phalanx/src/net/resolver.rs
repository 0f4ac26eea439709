//! Resolution of host names by the system's resolver, which blocks and therefore runs on a blocking stage.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use phalanx_core::{Graph, HandleSet, Handles, now, timeout};

use super::{IoTimeout, Stream};
use crate::blocking::{BlockingStage, blocking};
use crate::io::Drained;
use crate::shutdown::draining;
use crate::task::{Either, select};

/// The number of threads of the stage. There are several, so that an unreachable name server does not delay all
/// lookups.
const THREADS: usize = 4;

/// The default name of the stage.
const NAME: &str = "resolver";

type Lookup = Box<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// Resolves host names to addresses, on a blocking stage named `resolver`. It caches nothing; the system's resolver may
/// be configured to do so.
///
/// A lookup cannot be cancelled. After its time limit, it may occupy one of the stage's four threads until the system's
/// resolver gives up. Neither a drain nor the end of the program [waits](crate::blocking::BlockingOptions::detached)
/// for it.
///
/// ```no_run
/// use phalanx::net::{IoTimeout, Resolver};
/// use phalanx::Runtime;
/// use std::time::Duration;
///
/// let connected = Runtime::new().processors(1).block_on(Resolver::declare, |resolver| async move {
///     let limit = IoTimeout::after(Duration::from_secs(5));
///     let stream = resolver.connect("example.com", 80, limit).await?;
///     stream.peer_addr()
/// })?;
/// println!("connected to {}", connected?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Resolver(BlockingStage<Lookup>);

impl Resolver {
    /// Declares the stage as the next stage of `graph`, with the system's resolver (`getaddrinfo(3)`).
    pub fn declare(graph: &mut Graph) -> Self {
        Self::declare_named(graph, NAME)
    }

    /// Like [`declare`](Self::declare), but with another name for the stage. A program may have several resolvers, so
    /// that one kind of lookup does not wait for another.
    pub fn declare_named(graph: &mut Graph, name: &'static str) -> Self {
        let lookup = |host: &str| {
            let addresses = (host, 0).to_socket_addrs()?;
            Ok(addresses.map(|address| address.ip()).collect())
        };
        Self::new(graph, name, lookup)
    }

    /// Declares the stage with another lookup function, which may block. Use a table in tests and in simulations, which
    /// must not depend on the network.
    ///
    /// ```
    /// use phalanx::net::{IoTimeout, Resolver};
    /// use phalanx::Runtime;
    /// use std::io;
    ///
    /// let found = Runtime::new().processors(1).block_on(
    ///     |graph| Resolver::with(graph, |host| match host {
    ///         "db" => Ok(vec!["10.0.0.7".parse().expect("an address")]),
    ///         _ => Err(io::ErrorKind::NotFound.into()),
    ///     }),
    ///     |resolver| async move { resolver.resolve("db", 5432, IoTimeout::NONE).await },
    /// )?;
    /// assert_eq!(found?, ["10.0.0.7:5432".parse()?]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with(
        graph: &mut Graph,
        lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(graph, NAME, lookup)
    }

    fn new(
        graph: &mut Graph,
        name: &'static str,
        lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(blocking(graph, name).threads(THREADS).detached().state(Box::new(lookup)))
    }

    /// Returns at least one address of `host`, with `port`, in the order that the resolver returned. An IP address is
    /// returned without a lookup.
    ///
    /// # Errors
    /// The resolver's error, with the host name; an error if `limit` has passed, which includes the wait for a thread;
    /// or an error if too many lookups are waiting.
    pub async fn resolve(
        &self,
        host: &str,
        port: u16,
        limit: IoTimeout,
    ) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![(address, port).into()]);
        }
        let lookup = timeout(limit.duration(), self.lookup(host));
        let addresses = if limit.ends_with_drain() {
            match select(lookup, draining()).await {
                Either::Left(addresses) => addresses,
                Either::Right(()) => return Err(Drained.into()),
            }
        } else {
            lookup.await
        };
        let addresses = addresses.unwrap_or_else(|_| {
            let message = format!("no answer within {:?}", limit.duration());
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        });
        let addresses = addresses.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot resolve {host}: {error}"))
        })?;
        if addresses.is_empty() {
            let message = format!("the host name {host} has no address");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        Ok(addresses.into_iter().map(|address| (address, port).into()).collect())
    }

    /// Calls the resolver on a thread of the stage.
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let name = host.to_owned();
        self.0.call(move |lookup| lookup(&name)).await.map_err(io::Error::other).flatten()
    }

    /// Connects to `host`: tries its addresses one after the other until one accepts. `limit` applies to the lookup and
    /// all attempts together.
    ///
    /// # Errors
    /// The errors of [`resolve`](Self::resolve), or the error of the last attempt.
    pub async fn connect(&self, host: &str, port: u16, limit: IoTimeout) -> io::Result<Stream> {
        let start = now();
        let addresses = self.resolve(host, port, limit).await?;
        let mut last = None;
        for address in addresses {
            match Stream::connect(address, limit.remaining(now() - start)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("at least one address"))
    }
}

impl Handles for Resolver {
    fn add_to(&self, set: &mut HandleSet) {
        self.0.add_to(set);
    }
}
