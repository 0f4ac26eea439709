//! The handle of a database: declares the stages, and executes statements.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::stage::{Cohort, CohortStage};
use phalanx::{Graph, SharedStage};
use postgres_types::ToSql;

use crate::config::Config;
use crate::error::Error;
use crate::pool::Pool;
use crate::queue::{Answer, Query};
use crate::rows::Rows;
use crate::statement::Statement;

/// A database. Clones share its stages and connections.
///
/// Each processor has its own connections; the first query opens one. The queries that a processor's operations invoke
/// in one sweep form a cohort of the stage `postgres`. The cohort is sent with one write, and its
/// [batchable](Statement::batchable) statements are one transaction with one commit. Queries of one processor are sent
/// in the order of their invocation if it has one connection. A query that is repeated, because a neighbour in its
/// transaction failed or the connection was lost, is executed behind later queries of its batch. Where the order matters,
/// await the first query before the second.
///
/// A query whose future is dropped is executed nevertheless, and its result is dropped. A connection never loses its
/// place in the protocol by that.
///
/// ```no_run
/// use phalanx::{Graph, Runtime};
/// use phalanx_postgres::{Config, Database, Statement, Type};
///
/// let config = Config::tcp("127.0.0.1:5432".parse()?).user("shop").database("orders");
/// let find = Statement::new("SELECT cents FROM orders WHERE id = $1", &[Type::INT8]).batchable();
/// let cents = Runtime::new().processors(1).block_on(
///     |graph| Database::declare(graph, config),
///     |database| async move {
///         let row = database.query_one(&find, &[&7_i64]).await?;
///         Ok::<i64, phalanx_postgres::Error>(row.first().expect("one row").get("cents"))
///     },
/// )??;
/// # let _ = cents;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Database {
    queries: CohortStage<Query, Answer>,
    /// The processor that has the connections, unless each has its own.
    processor: Option<usize>,
}

impl Database {
    /// Declares the stages `postgres` and `postgres connections`. Declare them behind the stages whose operations
    /// execute statements, so that one sweep of the wavefront collects and sends a cohort.
    pub fn declare(graph: &mut Graph, config: Config) -> Self {
        let (max_queued, processor) = (config.max_queued, config.processor);
        let config = Arc::new(config);
        let place = graph.reserve("postgres");
        let connections: SharedStage<()> = graph.shared("postgres connections", ());
        let make = move |_processor| Pool::new(config.clone(), connections);
        let handler =
            |pool: &mut Rc<Pool>, cohort: &mut Cohort<Query, Answer>| pool.enqueue(cohort);
        let queries = graph
            .declare(place)
            .capacity(max_queued.max(1))
            .max_cohort(MAX_COHORT)
            .cohort(make, handler);
        Self { queries, processor }
    }

    /// Executes a statement and returns its rows.
    ///
    /// # Panics
    /// If it is not called within an operation, or if the program does not have the processor of
    /// [`Config::on_processor`].
    ///
    /// # Errors
    /// [`Error`]. An error of one query never affects others.
    pub fn query(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Rows, Error>> + use<> {
        let encoded = statement.encode(parameters);
        let call = encoded.map(|message| {
            let query = Query { statement: statement.clone(), message };
            match self.processor {
                None => self.queries.call(query),
                Some(processor) => self.queries.call_on(processor, query),
            }
        });
        async move { call?.await? }
    }

    /// Executes a statement that returns exactly one row.
    ///
    /// # Panics
    /// Like [`query`](Self::query).
    ///
    /// # Errors
    /// Like [`query`](Self::query), and [`Error::RowCount`].
    pub fn query_one(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Rows, Error>> + use<> {
        let query = self.query(statement, parameters);
        async move {
            let rows = query.await?;
            match rows.len() {
                1 => Ok(rows),
                rows => Err(Error::RowCount { expected: "one row", rows }),
            }
        }
    }

    /// Executes a statement and returns the number of rows that it has inserted, changed or deleted.
    ///
    /// # Panics
    /// Like [`query`](Self::query).
    ///
    /// # Errors
    /// Like [`query`](Self::query).
    pub fn execute(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<u64, Error>> + use<> {
        let query = self.query(statement, parameters);
        async move { Ok(query.await?.rows_affected()) }
    }
}

/// Maximum number of queries that one call of the handler queues.
const MAX_COHORT: usize = 512;
