//! The orders on tokio: sqlx's pool of connections, each for one request at a time.

use std::error::Error;
use std::net::TcpListener;
use std::path::Path;

use sqlx::PgPool;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgPoolOptions, PgSeverity};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::orders::{FIND, Failure, INSERT, Order, Orders};
use crate::router::router;

const CONNECTIONS: u32 = 32;

/// Serves until a signal.
pub(crate) fn serve(listener: TcpListener, socket: &Path) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let app = router(open(socket, CONNECTIONS).await?);
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

/// Opens all connections of a pool.
async fn open(socket: &Path, connections: u32) -> Result<PgPool, Box<dyn Error>> {
    let folder = socket.parent().ok_or("the socket is in no folder")?;
    // These values take precedence over PGHOST, PGPORT, PGUSER and PGDATABASE. sqlx still reads the other variables of libpq.
    let options = PgConnectOptions::new_without_pgpass()
        .socket(folder)
        .port(5432)
        .username("postgres")
        .database("postgres");
    // A test of each connection before its use would be one more round trip for a request.
    let pool = PgPoolOptions::new()
        .min_connections(connections)
        .max_connections(connections)
        .test_before_acquire(false);
    Ok(pool.connect_with(options).await?)
}

impl Orders for PgPool {
    async fn place(&self, order: Order) -> Result<i64, Failure> {
        let insert = sqlx::query_scalar(INSERT).bind(order.customer).bind(order.cents);
        Ok(insert.fetch_one(self).await?)
    }

    async fn find(&self, id: i64) -> Result<Option<Order>, Failure> {
        let found = sqlx::query_as(FIND).bind(id).fetch_optional(self).await?;
        Ok(found.map(|(customer, cents)| Order { customer, cents }))
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            // The statement was not sent.
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => {
                Self::Unavailable(error.to_string())
            }
            sqlx::Error::Database(reported) if !ends_connection(&**reported) => {
                Self::reported(&reported.code().unwrap_or_default(), reported.message())
            }
            // The connection was lost, or the server has ended it: the commit may be the last thing that it has done.
            _ => Self::Unknown(error.to_string()),
        }
    }
}

/// Whether an error ended the connection.
fn ends_connection(reported: &dyn DatabaseError) -> bool {
    let severity = reported.try_downcast_ref().map(PgDatabaseError::severity);
    matches!(severity, Some(PgSeverity::Fatal | PgSeverity::Panic))
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
            let pool = open(&socket, 1).await.unwrap();
            let rejected = sqlx::query("SELECT 1 / 0").execute(&pool).await.unwrap_err();
            assert!(matches!(rejected.into(), Failure::Invalid(_)));
            let end = sqlx::query("SELECT pg_terminate_backend(pg_backend_pid())");
            let ended = end.execute(&pool).await.unwrap_err();
            assert!(matches!(ended.into(), Failure::Unknown(_)));
        });
    }
}
