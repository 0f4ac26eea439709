//! Tests on a real PostgreSQL server. They are skipped where none is installed.

mod abandoned;
mod authentication;
mod basics;
mod bounds;
mod draining;
mod failing;
#[cfg(target_os = "linux")]
mod keepalive;
mod lost;
mod tls;

use std::future::Future;
use std::sync::OnceLock;

use phalanx::Runtime;
use phalanx_postgres::{Config, Database, Error, Rows, Statement, ToSql};
use phalanx_testkit::postgres::PostgresServer;

/// Settings of all servers: a test needs no durability.
const SETTINGS: [&str; 3] = ["fsync = off", "shared_buffers = 16MB", "max_connections = 40"];

/// Starts a server, or says that a test is skipped.
fn start_server(settings: &[&str]) -> Option<PostgresServer> {
    let settings = [&SETTINGS, settings].concat();
    let server = PostgresServer::start(&settings).expect("the server starts");
    if server.is_none() {
        eprintln!("skipped: PostgreSQL is not installed");
    }
    server
}

/// The server that most tests share.
fn shared_server() -> Option<Config> {
    static SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();
    let server = SERVER.get_or_init(|| start_server(&[])).as_ref();
    Some(Config::unix(server?.socket()))
}

/// Runs `main` as a program with a database.
fn run<F>(config: Config, main: impl FnOnce(Database) -> F + Send + 'static) -> F::Output
where
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let runtime = Runtime::new().processors(1).signals(false);
    runtime.block_on(|graph| Database::declare(graph, config), main).expect("the program runs")
}

/// Executes a statement without parameters.
async fn execute(database: Database, sql: &str) -> Result<Rows, Error> {
    database.query(&Statement::new(sql, &[]), &[]).await
}

/// Invokes an execution for each list of parameters, all in one cohort, and awaits their results.
async fn execute_cohort(
    database: Database,
    statement: &Statement,
    parameters: &[&[&(dyn ToSql + Sync)]],
) -> Vec<Result<Rows, Error>> {
    let queries = parameters.iter().map(|parameters| database.query(statement, parameters));
    let queries: Vec<_> = queries.collect();
    let mut results = Vec::new();
    for query in queries {
        results.push(query.await);
    }
    results
}

/// The number in the only row of a query.
async fn number(database: Database, sql: &str) -> i64 {
    execute(database, sql).await.unwrap().first().unwrap().get(0)
}
