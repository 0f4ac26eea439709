//! The arm on Phalanx.

use std::path::Path;

use phalanx::net::Listeners;
use phalanx::{Graph, Runtime};
use phalanx_postgres::{Config, Database, Statement, Type};

use crate::app::{self, INSERT, Order, Orders, SELECT, TABLE};
use crate::{Outcome, announce};

#[derive(Clone)]
struct Batched {
    database: Database,
    select: Statement,
    insert: Statement,
}

/// Creates the table.
pub(crate) fn prepare(socket: &Path) -> Outcome {
    let config = Config::unix(socket);
    Runtime::new().processors(1).block_on(
        |graph| Database::declare(graph, config),
        |database| async move {
            for sql in TABLE {
                database.execute(&Statement::new(sql, &[]), &[]).await?;
            }
            Ok::<(), phalanx_postgres::Error>(())
        },
    )??;
    Ok(())
}

/// Serves until the process is killed.
pub(crate) fn serve(processors: usize, socket: Option<&Path>) -> Outcome {
    let mut graph = Graph::new();
    let http = phalanx_axum::Stages::declare(&mut graph);
    let app = match socket {
        None => app::plain(),
        Some(socket) => app::with(Batched {
            database: Database::declare(&mut graph, Config::unix(socket)),
            select: Statement::new(SELECT, &[Type::INT8]).batchable().idempotent(),
            insert: Statement::new(INSERT, &[Type::TEXT, Type::INT8]).batchable(),
        }),
    };
    let listeners = Listeners::bind("127.0.0.1:0".parse()?, processors)?;
    let address = listeners.local_addr();
    Runtime::new().processors(processors).run_with_ready(
        graph,
        |start| {
            http.serve(listeners.listener(start)?, app.clone())?;
            Ok(())
        },
        |_| announce(address),
    )?;
    Ok(())
}

impl Orders for Batched {
    async fn find(&self, id: i64) -> Result<Order, String> {
        let rows = self.database.query_one(&self.select, &[&id]).await;
        let rows = rows.map_err(|error| error.to_string())?;
        let row = rows.first().ok_or("no such row")?;
        Ok(Order { id: row.get(0), customer: row.get(1), cents: row.get(2) })
    }

    async fn place(&self, customer: &str, cents: i64) -> Result<i64, String> {
        let rows = self.database.query_one(&self.insert, &[&customer, &cents]).await;
        let rows = rows.map_err(|error| error.to_string())?;
        Ok(rows.first().ok_or("no row")?.get(0))
    }
}
