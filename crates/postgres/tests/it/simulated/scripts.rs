//! Answers and ends of connections that a real server gives rarely.

use std::time::Duration;

use phalanx::net::{IoTimeout, Stream};
use phalanx::sleep;
use phalanx_postgres::{Config, Database, Error, Statement, Type};
use phalanx_testkit::postgres::messages::{put, put_error, put_welcome, take};

use super::scripted::{HOUR, NextStep, serve, with_server};

/// A statement, which a script sees without its first word.
pub(super) fn statement(text: &str) -> Statement {
    Statement::new(&format!("SELECT {text}"), &[])
}

/// A row without columns.
const ROW: &[u8] = &[0, 0];

pub(super) fn complete(output: &mut Vec<u8>) -> NextStep {
    put(output, b'C', b"SELECT 1\0");
    NextStep::Continue
}

/// The rows before an error are not those of the next query, and do not count for its limit.
#[test]
fn rows_before_an_error_are_dropped() {
    let server = async |stream: Stream, _| {
        serve(stream, |text, output| {
            if text == "one row" {
                put(output, b'D', ROW);
                return complete(output);
            }
            let row = vec![0; if text == "a long row, then an error" { 2_000 } else { 2 }];
            (0..4).for_each(|_| put(output, b'D', &row));
            put_error(output, "ERROR", "22012");
            NextStep::Skip
        })
        .await;
    };
    let main = async |database: Database| {
        let right = statement("one row");
        for wrong in ["four rows, then an error", "a long row, then an error"] {
            for wrong in [statement(wrong), statement(wrong).batchable()] {
                for right in [right.clone(), right.clone().batchable()] {
                    let queries =
                        [&right, &wrong, &right].map(|statement| database.query(statement, &[]));
                    let [first, second, third] = queries;
                    assert_eq!(first.await.unwrap().len(), 1);
                    assert_eq!(second.await.unwrap_err().database().unwrap().code(), "22012");
                    assert_eq!(third.await.unwrap().len(), 1);
                }
            }
        }
    };
    with_server(|config| config.max_result_bytes(1_000), server, main);
}

/// The rows of ten queries that share a transaction are more than a connection may hold.
#[test]
fn results_of_a_transaction_are_bounded_together() {
    const ROWS: usize = 4;
    let server = async |stream: Stream, _| {
        serve(stream, |_, output| {
            (0..ROWS).for_each(|_| put(output, b'D', &[0; 200]));
            complete(output)
        })
        .await;
    };
    let main = async |database: Database| {
        let query = statement("four rows").batchable();
        for (query, is_repeated) in [(query.clone(), false), (query.idempotent(), true)] {
            let queries: Vec<_> = (0..10).map(|_| database.query(&query, &[])).collect();
            let mut executed = Vec::new();
            for query in queries {
                executed.push(match query.await {
                    Ok(rows) => rows.len() == ROWS,
                    Err(Error::NoSpaceForResult { max: 2_000 }) => false,
                    Err(error) => panic!("{error}"),
                });
            }
            // Two results of four rows have 1,640 bytes.
            let expected: Vec<_> = (0..10).map(|index| index < 2 || is_repeated).collect();
            assert_eq!(executed, expected);
        }
    };
    with_server(
        |config| config.max_result_bytes(1_000).max_shared_result_bytes(2_000),
        server,
        main,
    );
}

/// A server that does not read before its answers are read, and answers meanwhile.
#[test]
fn answers_are_processed_while_a_batch_is_sent() {
    let server = async |stream: Stream, number| {
        if number > 0 {
            return serve(stream, |_, output| complete(output)).await;
        }
        let (mut input, mut output, mut has_started) = (Vec::new(), Vec::new(), false);
        loop {
            stream.read(&mut input, IoTimeout::NONE).await.unwrap();
            while let Some((tag, _)) = take(&mut input, &mut has_started) {
                match tag {
                    0 => put_welcome(&mut output),
                    b'P' => put(&mut output, b'1', b""),
                    b'D' => put(&mut output, b'n', b""),
                    b'S' => put(&mut output, b'Z', b"I"),
                    _ => {}
                }
            }
            if input.len() > 100 {
                // The start of a long query.
                put_error(&mut output, "FATAL", "57P01");
            }
            if !output.is_empty() {
                stream.write(std::mem::take(&mut output), IoTimeout::NONE).await.unwrap();
            }
            if input.len() > 100 {
                return sleep(10 * HOUR).await;
            }
        }
    };
    let main = async |database: Database| {
        let long = Statement::new("SELECT a long query", &[Type::TEXT]).batchable();
        let executed = database.execute(&long, &[&"x".repeat(100 << 10)]);
        let executed = phalanx::timeout(2 * HOUR, executed).await;
        assert_eq!(executed.expect("it is executed on the next connection").unwrap(), 1);
    };
    with_server(|config| config.query_timeout(5 * HOUR), server, main);
}

/// The limit on silence is not one on the whole time in which a batch is sent.
#[test]
fn a_server_may_read_slowly() {
    let server = async |stream: Stream, _| {
        let (mut input, mut output, mut has_started) = (Vec::new(), Vec::new(), false);
        let mut next = 0;
        while let Ok(1..) = stream.read(&mut input, IoTimeout::NONE).await {
            while let Some((tag, _)) = take(&mut input, &mut has_started) {
                match tag {
                    0 => put_welcome(&mut output),
                    b'P' => put(&mut output, b'1', b""),
                    b'D' => put(&mut output, b'n', b""),
                    b'B' => put(&mut output, b'2', b""),
                    b'E' => drop(complete(&mut output)),
                    b'S' => put(&mut output, b'Z', b"I"),
                    _ => {}
                }
            }
            // An hour for each 64 KiB.
            if input.len() > next {
                next = input.len() + (32 << 10);
                sleep(HOUR / 2).await;
            }
            if !output.is_empty() {
                stream.write(std::mem::take(&mut output), IoTimeout::NONE).await.unwrap();
            }
        }
    };
    let main = async |database: Database| {
        let before = phalanx::time::now();
        let long = Statement::new("SELECT a long query", &[Type::TEXT]).batchable();
        assert_eq!(database.execute(&long, &[&"x".repeat(200 << 10)]).await.unwrap(), 1);
        let elapsed = phalanx::time::now() - before;
        assert!(elapsed > 3 * HOUR, "the server was not slow: {elapsed:?}");
    };
    with_server(|config| config.query_timeout(3 * HOUR), server, main);
}

/// A pooler that has lost its server does not know what was committed. A server process that an operator ends does know.
#[test]
fn the_end_of_a_connection_repeats_only_what_has_had_no_effect() {
    let server = async |stream: Stream, number| {
        serve(stream, |text, output| {
            if number > 0 {
                return complete(output);
            }
            let code = if text.contains("pooler") { "08P01" } else { "57P01" };
            put_error(output, "FATAL", code);
            NextStep::Close
        })
        .await;
    };
    for (text, batchable, idempotent, is_repeated) in [
        ("pooler", false, false, false),
        ("pooler", true, false, false),
        ("pooler", false, true, true),
        // A procedure that has committed and continues.
        ("told to end", false, false, false),
        ("told to end", true, false, true),
        ("told to end", false, true, true),
        ("not bound, and told to end", false, false, true),
    ] {
        let main = move |database: Database| async move {
            let mut statement = statement(text);
            statement = if batchable { statement.batchable() } else { statement };
            statement = if idempotent { statement.idempotent() } else { statement };
            let result = database.execute(&statement, &[]).await;
            match result {
                Ok(1) => assert!(is_repeated, "{text} {batchable} {idempotent}"),
                Err(Error::ConnectionLost { .. }) => {
                    assert!(!is_repeated, "{text} {batchable} {idempotent}")
                }
                other => panic!("{other:?}"),
            }
        };
        with_server(|config| config, server, main);
    }
}

/// An idempotent query that ends every connection fails, and its idempotent neighbours do not.
#[test]
fn an_idempotent_query_that_ends_every_connection_fails_alone() {
    let server = async |stream: Stream, _| {
        serve(stream, |text, output| match text {
            "deadly" => NextStep::Close,
            _ => complete(output),
        })
        .await;
    };
    let main = async |database: Database| {
        for shares in [false, true] {
            let [valid, fatal] = ["fine", "deadly"].map(|text| {
                let statement = statement(text).idempotent();
                if shares { statement.batchable() } else { statement }
            });
            let queries = [&valid, &fatal, &valid].map(|statement| database.query(statement, &[]));
            let [first, second, third] = queries;
            first.await.unwrap();
            assert!(matches!(second.await, Err(Error::ConnectionLost { .. })));
            third.await.unwrap();
        }
    };
    with_server(|config| config, server, main);
}

/// The server prepares one statement of a cohort only when a lock is free.
#[test]
fn a_statement_whose_preparation_waits_fails_alone() {
    let server = async |stream: Stream, _| {
        serve(stream, |_, output| complete(output)).await;
    };
    let main = async |database: Database| {
        let statements = ["fine", "waits for a lock", "fine, too"].map(statement);
        let queries = statements.each_ref().map(|statement| database.query(statement, &[]));
        let [first, second, third] = queries;
        first.await.unwrap();
        let error = second.await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        third.await.unwrap();
    };
    with_server(|config| config, server, main);
}

/// A second connection is rejected while the first one works.
#[test]
fn queries_do_not_fail_while_another_connection_works() {
    let server = async |stream: Stream, number| {
        if number > 0 {
            let mut output = Vec::new();
            put_error(&mut output, "FATAL", "28P01");
            let _ = stream.write(output, IoTimeout::NONE).await;
            return;
        }
        serve(stream, |_, output| {
            complete(output);
            NextStep::Pause(HOUR / 60)
        })
        .await;
    };
    let main = async |database: Database| {
        let slow = statement("slow");
        database.execute(&slow, &[]).await.unwrap();
        let queries: Vec<_> = (0..3).map(|_| database.query(&slow, &[])).collect();
        for query in queries {
            query.await.unwrap();
        }
    };
    with_server(
        |config| config.connections(2).max_batch(1).queue_timeout(Duration::from_secs(10)),
        server,
        main,
    );
}

/// The time in which queries wait behind others on a connection is not one in which the database cannot be reached.
#[test]
fn the_limit_of_waiting_begins_when_the_connection_is_lost() {
    let server = async |stream: Stream, number| {
        let mut executed = 0;
        match number {
            0 => {
                serve(stream, |_, output| {
                    executed += 1;
                    match executed {
                        // It waits in the middle, so that the connection is lost while queries wait.
                        2 => NextStep::Close,
                        _ => {
                            complete(output);
                            NextStep::Pause(2 * HOUR)
                        }
                    }
                })
                .await;
            }
            // Two attempts fail.
            1 | 2 => drop(stream),
            _ => serve(stream, |_, output| complete(output)).await,
        }
    };
    let main = async |database: Database| {
        let query = statement("query").idempotent();
        let queries: Vec<_> = (0..4).map(|_| database.query(&query, &[])).collect();
        for query in queries {
            query.await.unwrap();
        }
    };
    with_server(|config: Config| config.max_batch(1).query_timeout(5 * HOUR), server, main);
}

/// The server has not proved that it knows the password.
#[test]
fn a_server_that_skips_the_end_of_the_authentication_is_rejected() {
    let server = async |stream: Stream, _| {
        let (mut input, mut has_started) = (Vec::new(), false);
        while let Ok(1..) = stream.read(&mut input, IoTimeout::NONE).await {
            let mut output = Vec::new();
            while let Some((tag, _)) = take(&mut input, &mut has_started) {
                match tag {
                    0 => put(&mut output, b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"),
                    _ => put_welcome(&mut output),
                }
            }
            if !output.is_empty() && stream.write(output, IoTimeout::NONE).await.is_err() {
                return;
            }
        }
    };
    let main = async |database: Database| {
        let error = database.query(&statement("query"), &[]).await.unwrap_err();
        assert!(error.to_string().contains("has not proved"), "{error}");
    };
    with_server(|config| config.password("secret"), server, main);
}
