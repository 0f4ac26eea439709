//! The arms on Phalanx.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::{Graph, Runtime};
use phalanx_postgres::{Config, Database, Statement, Type};
use phalanx_testkit::postgres::PostgresServer;

use crate::load::{Load, Scene};

const PROCESSORS: usize = 2;

/// Executes statements, one after the other.
pub(crate) fn execute(server: &PostgresServer, statements: &[&str]) -> Result<(), Box<dyn Error>> {
    let config = Config::unix(server.socket());
    let statements: Vec<_> = statements.iter().map(|sql| Statement::new(sql, &[])).collect();
    let runtime = Runtime::new().processors(1);
    let executed = runtime.block_on(
        |graph| Database::declare(graph, config),
        |database| async move {
            for statement in statements {
                database.execute(&statement, &[]).await?;
            }
            Ok::<(), phalanx_postgres::Error>(())
        },
    )?;
    Ok(executed?)
}

/// Each cohort is one transaction.
pub(crate) fn batched(load: Arc<Load>) -> Result<(), Box<dyn Error + Send + Sync>> {
    serve(load, Statement::batchable, |config| config)
}

/// As `batched`, with one connection for both processors.
pub(crate) fn one(load: Arc<Load>) -> Result<(), Box<dyn Error + Send + Sync>> {
    serve(load, Statement::batchable, |config| config.on_processor(0))
}

/// Each query is a transaction.
pub(crate) fn single(load: Arc<Load>) -> Result<(), Box<dyn Error + Send + Sync>> {
    serve(load, |statement| statement, |config| config)
}

fn serve(
    load: Arc<Load>,
    declare: fn(Statement) -> Statement,
    configure: fn(Config) -> Config,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let types: &[Type] = match load.scene {
        Scene::Insert => &[Type::TEXT, Type::INT8],
        Scene::Select => &[Type::INT8],
    };
    let statement = declare(Statement::new(load.scene.sql(), types));
    let mut graph = Graph::new();
    let callers = graph.shared("callers", ());
    let config = configure(Config::unix(&load.socket));
    let database = Database::declare(&mut graph, config);
    let running = Arc::new(AtomicUsize::new(load.callers / PROCESSORS * PROCESSORS));
    Runtime::new().processors(PROCESSORS).signals(false).run(graph, |start| {
        for _ in 0..load.callers / PROCESSORS {
            let (load, statement) = (load.clone(), statement.clone());
            let (running, control) = (running.clone(), start.control());
            callers.dispatch(move |_| async move {
                while query(database, &load, &statement).await {}
                if running.fetch_sub(1, Ordering::Relaxed) == 1 {
                    control.drain();
                }
            })?;
        }
        Ok(())
    })?;
    Ok(())
}

async fn query(database: Database, load: &Load, statement: &Statement) -> bool {
    let key = load.key();
    let rows = match load.scene {
        Scene::Insert => database.query(statement, &[&"customer", &key]).await,
        Scene::Select => database.query(statement, &[&key]).await,
    };
    let rows = rows.expect("the query succeeds");
    let row = rows.first().expect("one row");
    match load.scene {
        Scene::Insert => assert!(row.get::<i64>(0) > 0),
        Scene::Select => assert!(row.get::<i64>(2) == key && !row.get::<&str>(1).is_empty()),
    }
    load.finish()
}
