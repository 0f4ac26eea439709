//! Where the database is, who connects, and the bounds.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// How to connect to a database, and the bounds of its queues.
///
/// ```
/// use phalanx_postgres::Config;
///
/// let config = Config::tcp("127.0.0.1:5432".parse()?)
///     .user("shop")
///     .password("secret")
///     .database("orders")
///     .parameter("statement_timeout", "5s");
/// # let _ = config;
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) address: Address,
    /// The authorities that are trusted, and the name that the server's certificate must have.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<(phalanx_tls::Connector, String)>,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) connections: usize,
    pub(crate) processor: Option<usize>,
    pub(crate) max_batch: usize,
    pub(crate) max_queued: usize,
    pub(crate) max_queued_bytes: usize,
    pub(crate) max_result_bytes: usize,
    pub(crate) max_shared_result_bytes: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) query_timeout: Duration,
    pub(crate) queue_timeout: Duration,
}

impl Config {
    /// A server at a TCP address. The user is `postgres` unless [`user`](Self::user) sets another.
    pub fn tcp(address: SocketAddr) -> Self {
        Self::at(Address::Tcp(address))
    }

    /// A server at a Unix socket, such as `/var/run/postgresql/.s.PGSQL.5432`.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(Address::Unix(path.into()))
    }

    fn at(address: Address) -> Self {
        Self {
            address,
            #[cfg(feature = "tls")]
            tls: None,
            user: "postgres".to_owned(),
            password: None,
            database: None,
            parameters: vec![("client_encoding".to_owned(), "UTF8".to_owned())],
            connections: 1,
            processor: None,
            max_batch: 256,
            max_queued: 4096,
            max_queued_bytes: 16 << 20,
            max_result_bytes: 16 << 20,
            max_shared_result_bytes: 64 << 20,
            connect_timeout: Duration::from_secs(5),
            query_timeout: Duration::from_secs(60),
            queue_timeout: Duration::from_secs(5),
        }
    }

    /// Encrypts TCP connections with TLS. The server's certificate must be trusted by the `connector` and be valid for
    /// `host`, a name or an IP address. Without TLS on the server no connection is opened. Unix sockets stay plain.
    ///
    /// ```no_run
    /// use phalanx_postgres::Config;
    /// use phalanx_postgres::tls::Connector;
    ///
    /// // The authorities of the system.
    /// let connector = Connector::load(None, None, &[])?;
    /// let config = Config::tcp("192.0.2.7:5432".parse()?).tls(connector, "db.example.com");
    /// # let _ = config;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, connector: phalanx_tls::Connector, host: &str) -> Self {
        self.tls = Some((connector, host.to_owned()));
        self
    }

    /// Whether nobody else can read the connections.
    pub(crate) fn is_private(&self) -> bool {
        #[cfg(feature = "tls")]
        let is_encrypted = self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        let is_encrypted = false;
        is_encrypted || matches!(self.address, Address::Unix(_))
    }

    /// The user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        user.clone_into(&mut self.user);
        self
    }

    /// The password, for SCRAM-SHA-256 and MD5. A clear-text password is sent over TLS and Unix sockets only.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// The database. By default it has the name of the user.
    #[must_use]
    pub fn database(mut self, database: &str) -> Self {
        self.database = Some(database.to_owned());
        self
    }

    /// Sets a parameter of the sessions, such as `application_name`, `search_path` or `statement_timeout`.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Maximum number of connections per processor; 1 by default. All queries of a processor form the cohorts of these
    /// connections, so more of them make the cohorts smaller. More than one is useful where single statements take
    /// long.
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn connections(mut self, count: usize) -> Self {
        assert!(count > 0, "at least one connection");
        self.connections = count;
        self
    }

    /// Gives all connections to the processor of this number; by default each processor has its own. Queries of other
    /// processors travel there. One commit then serves the queries of all processors, whereas the commits of two
    /// connections can wait for each other at the server's disk.
    ///
    /// A program with fewer processors panics at the first query.
    #[must_use]
    pub fn on_processor(mut self, number: usize) -> Self {
        self.processor = Some(number);
        self
    }

    /// Maximum number of queries that are sent together; 256 by default.
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn max_batch(mut self, count: usize) -> Self {
        assert!(count > 0, "at least one query in a batch");
        self.max_batch = count;
        self
    }

    /// Maximum number of queries that wait for a connection of a processor; 4096 by default. Another one fails with
    /// [`Error::Busy`](crate::Error::Busy).
    #[must_use]
    pub fn max_queued(mut self, count: usize) -> Self {
        self.max_queued = count;
        self
    }

    /// Maximum size of the queries that wait for a connection of a processor, in bytes; 16 MiB by default.
    #[must_use]
    pub fn max_queued_bytes(mut self, bytes: usize) -> Self {
        self.max_queued_bytes = bytes;
        self
    }

    /// Maximum size of a result, in bytes; 16 MiB by default. A larger one is dropped, and the query fails with
    /// [`Error::ResultTooLarge`](crate::Error::ResultTooLarge).
    #[must_use]
    pub fn max_result_bytes(mut self, bytes: usize) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Maximum size of all results that a connection holds for one transaction, in bytes; 64 MiB by default. Results of
    /// [batchable](crate::Statement::batchable) statements are held until their common transaction is committed. A
    /// result that has no space beside those before is dropped. If its statement is
    /// [idempotent](crate::Statement::idempotent), it is executed again, in a transaction of its own, where only
    /// [`max_result_bytes`](Self::max_result_bytes) bounds its result. Another statement fails with
    /// [`Error::NoSpaceForResult`](crate::Error::NoSpaceForResult); it was executed.
    #[must_use]
    pub fn max_shared_result_bytes(mut self, bytes: usize) -> Self {
        self.max_shared_result_bytes = bytes;
        self
    }

    /// The limit on opening a connection, with its authentication; the default is 5 seconds.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long the server may neither send nor accept bytes while it owes an answer; the default is 60 seconds. After
    /// that the server is asked to cancel the statement, and the connection is closed. Set the parameter `statement_timeout`
    /// to a shorter time, so that the server ends such statements itself, and only these fail.
    #[must_use]
    pub fn query_timeout(mut self, limit: Duration) -> Self {
        self.query_timeout = limit;
        self
    }

    /// How long a query may wait while no connection is open; the default is 5 seconds. After that it fails with
    /// [`Error::Unavailable`](crate::Error::Unavailable).
    #[must_use]
    pub fn queue_timeout(mut self, limit: Duration) -> Self {
        self.queue_timeout = limit;
        self
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, user, database, .. } = self;
        f.debug_struct("Config")
            .field("address", address)
            .field("user", user)
            .field("database", database)
            .finish_non_exhaustive()
    }
}
