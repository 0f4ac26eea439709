//! The bounds of queues and results.

use phalanx_postgres::{Error, Statement, Type};

use super::{execute, run, shared_server};

#[test]
fn queries_beyond_a_bound_are_rejected_at_once() {
    let Some(config) = shared_server() else { return };
    run(config.max_queued(10).max_queued_bytes(10_000), |database| async move {
        let statement = Statement::new("SELECT length($1)", &[Type::TEXT]);
        let long = "x".repeat(4_000);
        for (text, count, fits) in [("short", 15, 10), (&long, 5, 2)] {
            let queries: Vec<_> =
                (0..count).map(|_| database.query(&statement, &[&text])).collect();
            let mut executed = 0;
            for query in queries {
                match query.await {
                    Ok(_) => executed += 1,
                    Err(Error::Busy { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(executed, fits);
        }
        let endless = "x".repeat(10_000);
        let error = database.query(&statement, &[&endless]).await.unwrap_err();
        assert!(matches!(error, Error::TooLong { max: 10_000, .. }), "{error}");
    });
}

#[test]
fn a_result_beyond_the_bound_fails_alone() {
    let Some(config) = shared_server() else { return };
    run(config.max_result_bytes(20_000), |database| async move {
        let one = Statement::new("SELECT repeat('x', $1)", &[Type::INT4]).batchable();
        let many =
            Statement::new("SELECT repeat('x', 100) FROM generate_series(1, $1)", &[Type::INT4]);
        for statement in [&one, &many.batchable()] {
            let queries: Vec<_> = [10, 1_000_000, 20]
                .iter()
                .map(|count| database.query(statement, &[count]))
                .collect();
            let mut results = Vec::new();
            for query in queries {
                results.push(query.await);
            }
            assert!(matches!(results[1], Err(Error::ResultTooLarge { max: 20_000 })));
            assert!(results[0].is_ok() && results[2].is_ok());
        }
        assert_eq!(execute(database, "SELECT 1").await.unwrap().len(), 1);
    });
}

#[test]
fn a_row_without_space_for_its_result_is_inserted() {
    let Some(config) = shared_server() else { return };
    run(config.max_shared_result_bytes(30_000), |database| async move {
        execute(database, "CREATE TABLE long_rows (content text)").await.unwrap();
        let sql = "INSERT INTO long_rows VALUES (repeat('x', $1)) RETURNING content";
        let insert = Statement::new(sql, &[Type::INT4]).batchable();
        // The first query prepares the statement.
        database.query(&insert, &[&1]).await.unwrap();
        let length = 10_000;
        let queries: Vec<_> = (0..5).map(|_| database.query(&insert, &[&length])).collect();
        let mut kept = 0;
        for query in queries {
            match query.await {
                Ok(rows) => kept += rows.len(),
                Err(error) => assert!(matches!(error, Error::NoSpaceForResult { .. }), "{error}"),
            }
        }
        assert_eq!(kept, 2);
        let count = Statement::new("SELECT count(*) FROM long_rows", &[]);
        let rows = database.query(&count, &[]).await.unwrap();
        assert_eq!(rows.first().unwrap().get::<i64>(0), 6);
    });
}

#[test]
fn more_queries_than_a_batch_are_served_by_many_connections() {
    let Some(config) = shared_server() else { return };
    run(config.max_batch(3).connections(4), |database| async move {
        let statement = Statement::new("SELECT $1", &[Type::INT4]).batchable();
        let numbers: Vec<i32> = (0..500).collect();
        let queries: Vec<_> =
            numbers.iter().map(|number| database.query(&statement, &[number])).collect();
        for (number, query) in numbers.iter().zip(queries) {
            assert_eq!(query.await.unwrap().first().unwrap().get::<i32>(0), *number);
        }
    });
}

/// Each query waits until four connections execute one.
#[test]
fn queries_of_one_cohort_are_executed_on_many_connections() {
    let Some(config) = shared_server() else { return };
    let config = config.max_batch(1).connections(4).parameter("application_name", "meeting");
    run(config, |database| async move {
        let create = "CREATE FUNCTION meet() RETURNS int LANGUAGE plpgsql AS $$ DECLARE present int; BEGIN LOOP \
                      PERFORM pg_stat_clear_snapshot(); \
                      SELECT count(*) INTO present FROM pg_stat_activity WHERE application_name = 'meeting' \
                      AND state = 'active' AND query = 'SELECT meet(), pg_backend_pid()'; \
                      EXIT WHEN present = 4; PERFORM pg_sleep(0.01); END LOOP; \
                      PERFORM pg_sleep(0.1); RETURN present; END $$";
        execute(database, create).await.unwrap();
        let meet = Statement::new("SELECT meet(), pg_backend_pid()", &[]);
        let queries: Vec<_> = (0..4).map(|_| database.query(&meet, &[])).collect();
        let mut processes = std::collections::HashSet::new();
        for query in queries {
            processes.insert(query.await.unwrap().first().unwrap().get::<i32>(1));
        }
        assert_eq!(processes.len(), 4);
    });
}

/// An error whose text quotes a parameter, and a notice.
#[test]
fn errors_and_notices_have_any_length() {
    let Some(config) = shared_server() else { return };
    run(config.max_queued_bytes(64 << 20), |database| async move {
        let number = Statement::new("SELECT $1::int", &[Type::TEXT]).batchable();
        let texts = ["1".to_owned(), "x".repeat(20 << 20), "2".to_owned()];
        let queries = texts.each_ref().map(|text| database.query(&number, &[text]));
        let [first, second, third] = queries;
        assert_eq!(first.await.unwrap().len(), 1);
        let error = second.await.unwrap_err();
        let error = error.database().unwrap_or_else(|| panic!("{error}"));
        assert_eq!(error.code(), "22P02");
        assert!(error.message().len() < 100_000);
        assert_eq!(third.await.unwrap().len(), 1);
        let notice = "DO $$ BEGIN RAISE NOTICE '%', repeat('x', 20000000); END $$";
        execute(database, notice).await.unwrap();
    });
}
