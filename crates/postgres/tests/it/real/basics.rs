//! Statements, parameters, results.

use phalanx::{Graph, Runtime};
use phalanx_postgres::{Database, Error, Statement, Type};

use super::{execute, execute_cohort, number, run, shared_server};

#[test]
fn values_of_many_types_return_as_they_were_sent() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        let statement = Statement::new(
            "SELECT $1 AS a, $2 AS b, $3 AS c, $4 AS d, $5 AS e, $6 AS f",
            &[Type::BOOL, Type::INT2, Type::INT8, Type::FLOAT8, Type::TEXT, Type::BYTEA],
        );
        let bytes = vec![0_u8, 255, 1];
        let missing: Option<&str> = None;
        let rows = database
            .query(&statement, &[&true, &-2_i16, &i64::MAX, &0.5_f64, &missing, &bytes])
            .await
            .unwrap();
        let row = rows.first().unwrap();
        assert!(row.get::<bool>("a"));
        assert_eq!(row.get::<i16>("b"), -2);
        assert_eq!(row.get::<i64>("c"), i64::MAX);
        assert_eq!(row.get::<f64>("d"), 0.5);
        assert_eq!(row.get::<Option<String>>("e"), None);
        assert_eq!(row.get::<&[u8]>("f"), bytes);
        assert_eq!(rows.columns()[4].type_(), &Type::TEXT);
    });
}

#[test]
fn results_of_any_size_arrive() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        let statement = Statement::new(
            "SELECT i, repeat('x', i) AS text FROM generate_series(0, $1 - 1) AS i",
            &[Type::INT4],
        );
        for count in [0, 1, 10, 1000] {
            let rows = database.query(&statement, &[&count]).await.unwrap();
            assert_eq!(rows.len(), count as usize);
            for (expected, row) in (0..count).zip(&rows) {
                assert_eq!(row.get::<i32>("i"), expected);
                assert_eq!(row.get::<&str>("text").len(), expected as usize);
            }
        }
    });
}

#[test]
fn changes_report_the_number_of_rows() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        execute(database, "CREATE TABLE changed (id int PRIMARY KEY)").await.unwrap();
        let insert =
            Statement::new("INSERT INTO changed SELECT generate_series(1, $1)", &[Type::INT4]);
        assert_eq!(database.execute(&insert, &[&20]).await.unwrap(), 20);
        let delete = Statement::new("DELETE FROM changed WHERE id > $1", &[Type::INT4]);
        assert_eq!(database.execute(&delete, &[&15]).await.unwrap(), 5);
        assert_eq!(number(database, "SELECT count(*) FROM changed").await, 15);
    });
}

#[test]
fn the_number_of_rows_is_checked() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        let series = Statement::new("SELECT generate_series(1, $1)", &[Type::INT4]);
        assert_eq!(database.query_one(&series, &[&1]).await.unwrap().len(), 1);
        for count in [0, 2] {
            let error = database.query_one(&series, &[&count]).await.unwrap_err();
            assert!(matches!(error, Error::RowCount { rows, .. } if rows == count as usize));
        }
    });
}

/// The first query of a cohort tells whether all are one transaction.
#[test]
fn a_cohort_of_batchable_statements_is_one_transaction() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        let sql = "SELECT pg_current_xact_id()::text AS transaction";
        for (statement, expected) in
            [(Statement::new(sql, &[]), 20), (Statement::new(sql, &[]).batchable(), 1)]
        {
            let results = execute_cohort(database, &statement, &[&[][..]; 20]).await;
            let mut transactions: Vec<String> = results
                .into_iter()
                .map(|rows| rows.unwrap().first().unwrap().get("transaction"))
                .collect();
            transactions.sort();
            transactions.dedup();
            assert_eq!(transactions.len(), expected);
        }
    });
}

#[test]
fn statements_are_prepared_again_when_their_columns_change() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        execute(database, "CREATE TABLE growing (a int)").await.unwrap();
        execute(database, "INSERT INTO growing VALUES (1)").await.unwrap();
        let all = Statement::new("SELECT * FROM growing", &[]).batchable();
        assert_eq!(database.query(&all, &[]).await.unwrap().columns().len(), 1);
        execute(database, "ALTER TABLE growing ADD COLUMN b text DEFAULT 'new'").await.unwrap();
        for rows in execute_cohort(database, &all, &[&[][..]; 3]).await {
            assert_eq!(rows.unwrap().first().unwrap().get::<&str>("b"), "new");
        }
        execute(database, "DISCARD ALL").await.unwrap();
        assert_eq!(database.query(&all, &[]).await.unwrap().columns().len(), 2);
    });
}

/// More statements than a connection keeps.
#[test]
fn the_least_recently_used_statements_are_closed() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        let first = Statement::new("SELECT 0", &[]);
        for number in 0..600 {
            let statement = Statement::new(&format!("SELECT {number}"), &[]);
            let rows = database.query(&statement, &[]).await.unwrap();
            assert_eq!(rows.first().unwrap().get::<i32>(0), number);
            database.query(&first, &[]).await.unwrap();
        }
        let prepared = number(database, "SELECT count(*) FROM pg_prepared_statements").await;
        assert!((500..=514).contains(&prepared), "{prepared}");
    });
}

#[test]
fn a_dropped_query_is_executed_and_disturbs_no_other() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        execute(database, "CREATE TABLE dropped (id int)").await.unwrap();
        let insert = Statement::new("INSERT INTO dropped VALUES ($1)", &[Type::INT4]).batchable();
        for id in 0..100 {
            let query = database.query(&insert, &[&id]);
            if id % 2 == 0 {
                drop(query);
            } else {
                assert_eq!(query.await.unwrap().rows_affected(), 1);
            }
        }
        assert_eq!(number(database, "SELECT count(*) FROM dropped").await, 100);
    });
}

/// The identifier of the server's process tells which connection executes a query.
#[test]
fn one_processor_can_have_the_connection_of_all() {
    let Some(config) = shared_server() else { return };
    for (config, connections) in [(config.clone(), 2), (config.on_processor(1), 1)] {
        let process = Statement::new("SELECT pg_backend_pid()", &[]);
        let runtime = Runtime::new().processors(2).signals(false);
        let declare =
            |graph: &mut Graph| (graph.shared("callers", ()), Database::declare(graph, config));
        let processes = runtime.block_on(declare, async move |(callers, database)| {
            let mut processes = Vec::new();
            for processor in 0..2 {
                let process = process.clone();
                let call = callers.call_on(processor, move |_| async move {
                    let rows = database.query(&process, &[]).await.unwrap();
                    rows.first().unwrap().get::<i32>(0)
                });
                processes.push(call.await.unwrap());
            }
            processes
        });
        let processes = processes.unwrap();
        assert_eq!(processes[0] == processes[1], connections == 1);
    }
}
