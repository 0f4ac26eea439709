//! The orders on tokio: a pool of connections, each for one request at a time.

use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_postgres::error::Severity;
use tokio_postgres::{Client, NoTls, Statement};

use crate::orders::{FIND, Failure, INSERT, Order, Orders};
use crate::router::router;

const CONNECTIONS: usize = 32;

#[derive(Clone)]
struct Pool(Arc<Inner>);

struct Inner {
    free: Semaphore,
    connections: Mutex<Vec<Arc<Connection>>>,
}

/// A connection with its prepared statements.
struct Connection {
    client: Client,
    insert: Statement,
    find: Statement,
}

/// Serves until a signal.
pub(crate) fn serve(listener: TcpListener, socket: &Path) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let app = router(Pool::open(socket).await?);
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
        };
        axum::serve(listener, app).with_graceful_shutdown(stop).await?;
        Ok(())
    })
}

impl Pool {
    async fn open(socket: &Path) -> Result<Self, Box<dyn Error>> {
        let folder = socket.parent().and_then(Path::to_str).ok_or("the folder is not text")?;
        let parameters = format!("host={folder} port=5432 user=postgres");
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await?;
            tokio::spawn(connection);
            let (insert, find) = (client.prepare(INSERT).await?, client.prepare(FIND).await?);
            connections.push(Arc::new(Connection { client, insert, find }));
        }
        let (free, connections) = (Semaphore::new(CONNECTIONS), Mutex::new(connections));
        Ok(Self(Arc::new(Inner { free, connections })))
    }

    /// Runs `query` with a free connection.
    async fn with<T>(&self, query: impl AsyncFnOnce(&Connection) -> T) -> T {
        let _permit = self.0.free.acquire().await.expect("never closed");
        let taken = Taken::new(&self.0.connections);
        query(&taken.connection).await
    }
}

/// A connection that is in use. It returns to the pool also if the request ends early, because its client has left.
struct Taken<'p> {
    connection: Arc<Connection>,
    connections: &'p Mutex<Vec<Arc<Connection>>>,
}

impl<'p> Taken<'p> {
    fn new(connections: &'p Mutex<Vec<Arc<Connection>>>) -> Self {
        let mut free = connections.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = free.pop().expect("one for each permit");
        Self { connection, connections }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut free = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(self.connection.clone());
    }
}

impl Orders for Pool {
    async fn place(&self, order: Order) -> Result<i64, Failure> {
        let Order { customer, cents } = order;
        self.with(async |Connection { client, insert, .. }| {
            Ok(client.query_one(insert, &[&customer, &cents]).await?.get("id"))
        })
        .await
    }

    async fn find(&self, id: i64) -> Result<Option<Order>, Failure> {
        self.with(async |Connection { client, find, .. }| {
            let row = client.query_opt(find, &[&id]).await?;
            Ok(row.map(|row| Order { customer: row.get("customer"), cents: row.get("cents") }))
        })
        .await
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let is_fatal = |severity| matches!(severity, Some(Severity::Fatal | Severity::Panic));
        match error.as_db_error() {
            Some(reported) if !is_fatal(reported.parsed_severity()) => {
                Self::reported(reported.code().code(), reported.message())
            }
            // The connection was lost, or the server has ended it: the commit may be the last thing that it has done.
            _ => Self::Unknown(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_testkit::postgres::PostgresServer;

    use super::*;

    /// A statement that ends its own connection stands for an operator who does that after the commit.
    #[test]
    fn the_outcome_is_unknown_if_the_server_ends_the_connection() {
        let Some(server) = PostgresServer::start(&[]).unwrap() else {
            return eprintln!("skipped: PostgreSQL is not installed");
        };
        let (socket, runtime) = (server.socket(), Runtime::new().unwrap());
        runtime.block_on(async {
            let folder = socket.parent().and_then(Path::to_str).unwrap();
            let parameters = format!("host={folder} port=5432 user=postgres");
            let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await.unwrap();
            tokio::spawn(connection);
            let rejected = client.execute("SELECT 1 / 0", &[]).await.unwrap_err();
            assert!(matches!(rejected.into(), Failure::Invalid(_)));
            let end = "SELECT pg_terminate_backend(pg_backend_pid())";
            let ended = client.execute(end, &[]).await.unwrap_err();
            assert!(matches!(ended.into(), Failure::Unknown(_)));
        });
    }
}
