//! Connections that end: by a statement, by an operator, with the server.

use std::time::Duration;

use phalanx_postgres::{Config, Error, Statement, Type};

use super::{execute, number, run, shared_server, start_server};

/// A query that ends its own connection fails; the other queries, in its transaction and in others, do not. If it is not
/// batchable, it may have had effects that outlive a rollback.
#[test]
fn a_statement_that_ends_its_connection_fails_alone() {
    let Some(config) = shared_server() else { return };
    run(config, |database| async move {
        execute(database, "CREATE TABLE survivors (id int)").await.unwrap();
        let insert = Statement::new("INSERT INTO survivors VALUES ($1)", &[Type::INT4]).batchable();
        let kill = Statement::new("SELECT pg_terminate_backend(pg_backend_pid())", &[]);
        for (kill, shares) in [(kill.clone(), false), (kill.batchable(), true)] {
            let before: Vec<_> = (0..5).map(|id| database.query(&insert, &[&id])).collect();
            let killed = database.query(&kill, &[]);
            let after: Vec<_> = (5..10).map(|id| database.query(&insert, &[&id])).collect();
            for query in before.into_iter().chain(after) {
                query.await.unwrap();
            }
            match killed.await.unwrap_err() {
                Error::Database(error) => assert_eq!((error.code(), shares), ("57P01", true)),
                Error::ConnectionLost { reason } => {
                    assert!(reason.contains("57P01") && !shares, "{reason}")
                }
                error => panic!("{error}"),
            }
        }
        assert_eq!(number(database, "SELECT count(*) FROM survivors").await, 20);
    });
}

#[test]
fn an_idle_connection_that_ends_is_replaced() {
    let Some(config) = shared_server() else { return };
    run(config.parameter("application_name", "idle"), |database| async move {
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE application_name = 'idle' AND pid <> pg_backend_pid()";
        for _ in 0..3 {
            assert_eq!(number(database, "SELECT 1::int8").await, 1);
            // Its own end, as an operator would cause it.
            let end = Statement::new("SELECT pg_sleep(0)", &[]);
            database.query(&end, &[]).await.unwrap();
            execute(database, kill).await.unwrap();
        }
    });
}

/// Queries before, during and after restarts: each is executed once or reports that nobody knows. A crash reports
/// nothing, so the outcome is unknown; idempotent statements are repeated.
#[test]
fn queries_survive_restarts_and_crashes_of_the_server() {
    let Some(mut server) = start_server(&[]) else { return };
    let config = Config::unix(server.socket()).queue_timeout(Duration::from_secs(60));
    let (sender, receiver) = std::sync::mpsc::channel();
    let restarter = std::thread::spawn(move || {
        receiver.recv().unwrap();
        let pause = || std::thread::sleep(Duration::from_millis(100));
        pause();
        server.restart().unwrap();
        pause();
        server.crash().unwrap();
        server.resume().unwrap();
        server
    });
    let restarter = run(config, move |database| async move {
        execute(database, "CREATE TABLE restarts (id int)").await.unwrap();
        let insert = Statement::new("INSERT INTO restarts VALUES ($1)", &[Type::INT4]).batchable();
        let find = Statement::new("SELECT 1 FROM pg_sleep(0.01)", &[]).idempotent();
        let (mut executed, mut unknown, mut id) = (0, 0, 0);
        sender.send(()).unwrap();
        loop {
            let is_last = restarter.is_finished();
            let mut insert_next = || {
                id += 1;
                database.query(&insert, &[&id])
            };
            let queries: Vec<_> = (0..10).map(|_| insert_next()).collect();
            let found = database.query(&find, &[]);
            for query in queries {
                match query.await {
                    Ok(_) => executed += 1,
                    Err(Error::ConnectionLost { .. }) => unknown += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(found.await.unwrap().len(), 1);
            if is_last {
                break;
            }
        }
        assert!(executed > 0);
        let rows = number(database, "SELECT count(*) FROM restarts").await;
        assert!((executed..=executed + unknown).contains(&rows), "{rows} {executed} {unknown}");
        let repeated = "SELECT count(*) FROM restarts GROUP BY id HAVING count(*) > 1";
        assert!(execute(database, repeated).await.unwrap().is_empty());
        restarter
    });
    drop(restarter.join().unwrap());
}

#[test]
fn queries_fail_in_time_while_no_server_is_reached() {
    let config = Config::unix("/nonexistent/.s.PGSQL.5432");
    run(config.queue_timeout(Duration::from_millis(100)), |database| async move {
        let error = execute(database, "SELECT 1").await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("No such file"), "{error}");
    });
}

/// An idempotent query that takes too long is not repeated when it is alone; the others are. The server does not
/// continue with it.
#[test]
fn a_query_that_takes_too_long_is_given_up() {
    let Some(config) = shared_server() else { return };
    run(config.query_timeout(Duration::from_secs(1)), |database| async move {
        let fast = Statement::new("SELECT 1", &[]).batchable().idempotent();
        let slow = Statement::new("SELECT 1 FROM pg_sleep(10000)", &[]).batchable().idempotent();
        let queries = [&fast, &slow, &fast].map(|statement| database.query(statement, &[]));
        let [first, second, third] = queries;
        assert_eq!(first.await.unwrap().len(), 1);
        assert!(matches!(second.await, Err(Error::ConnectionLost { .. })));
        assert_eq!(third.await.unwrap().len(), 1);
        let executing = "SELECT count(*) FROM pg_stat_activity \
                         WHERE state = 'active' AND query LIKE '%pg_sleep(10000)' AND pid <> pg_backend_pid()";
        while number(database, executing).await > 0 {
            phalanx::sleep(Duration::from_millis(10)).await;
        }
    });
}
