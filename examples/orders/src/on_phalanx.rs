//! The orders on Phalanx: the requests of a cohort are one write to the database and one commit.

use std::error::Error;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use phalanx::net::Listeners;
use phalanx::runtime::StartContext;
use phalanx::{Graph, Runtime};
use phalanx_postgres::{Config, Database, Statement, Type};

use crate::orders::{FIND, Failure, INSERT, Order, Orders, TABLE};
use crate::router::router;

#[derive(Clone)]
pub(crate) struct Batched {
    database: Database,
    insert: Statement,
    find: Statement,
}

/// Creates the table.
pub(crate) fn create_table(socket: &Path) -> Result<(), Box<dyn Error>> {
    let config = Config::unix(socket);
    // The server that follows may handle signals with tokio.
    let created = Runtime::new().processors(1).signals(false).block_on(
        |graph| Database::declare(graph, config),
        |database| async move { database.execute(&Statement::new(TABLE, &[]), &[]).await },
    );
    created??;
    Ok(())
}

/// Serves until a signal, and the admin pages at `admin`.
pub(crate) fn serve(
    listener: &TcpListener,
    socket: &Path,
    admin: Option<SocketAddr>,
) -> Result<(), Box<dyn Error>> {
    let processors = std::thread::available_parallelism()?.get();
    let mut graph = Graph::new();
    let http = phalanx_axum::Stages::declare(&mut graph);
    let app = router(Batched::declare(&mut graph, Config::unix(socket)));
    let listeners = Listeners::share(listener, processors)?;
    let start = |start: &StartContext| {
        http.serve(listeners.listener(start)?, app.clone())?;
        Ok(())
    };
    Runtime::new().processors(processors).admin(admin).run_with_ready(graph, start, |started| {
        if let Some(admin) = started.admin {
            let _ = writeln!(io::stderr(), "live page at http://{admin}/");
        }
    })?;
    Ok(())
}

impl Batched {
    /// Declares the stages of the database.
    pub(crate) fn declare(graph: &mut Graph, config: Config) -> Self {
        Self {
            database: Database::declare(graph, config),
            insert: Statement::new(INSERT, &[Type::TEXT, Type::INT8]).batchable(),
            find: Statement::new(FIND, &[Type::INT8]).batchable().idempotent(),
        }
    }
}

impl Orders for Batched {
    async fn place(&self, order: Order) -> Result<i64, Failure> {
        let Order { customer, cents } = order;
        let rows = self.database.query_one(&self.insert, &[&customer, &cents]).await?;
        rows.first()
            .map(|row| row.get("id"))
            .ok_or_else(|| Failure::Unavailable("no row".to_owned()))
    }

    async fn find(&self, id: i64) -> Result<Option<Order>, Failure> {
        let rows = self.database.query(&self.find, &[&id]).await?;
        Ok(rows.first().map(|row| Order { customer: row.get("customer"), cents: row.get("cents") }))
    }
}

impl From<phalanx_postgres::Error> for Failure {
    fn from(error: phalanx_postgres::Error) -> Self {
        match &error {
            phalanx_postgres::Error::Database(reported) => {
                Self::reported(reported.code(), reported.message())
            }
            phalanx_postgres::Error::ConnectionLost { .. }
            | phalanx_postgres::Error::NoSpaceForResult { .. }
            | phalanx_postgres::Error::ResultTooLarge { .. } => Self::Unknown(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
