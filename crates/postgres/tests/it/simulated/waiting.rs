//! Queries that wait for a connection.

use std::time::Duration;

use phalanx::net::{IoTimeout, Stream};
use phalanx_postgres::{Database, Error};
use phalanx_testkit::postgres::messages::{put, put_welcome, take};

use super::scripted::{HOUR, serve, with_server};
use super::scripts::{complete, statement};

#[test]
fn queries_without_a_limit_wait_until_the_server_accepts_connections() {
    let server = async |stream: Stream, number| match number {
        0..3 => drop(stream),
        _ => serve(stream, |_, output| complete(output)).await,
    };
    let main = async |database: Database| {
        let query = statement("query");
        let queries = [(); 2].map(|()| database.query(&query, &[]));
        for query in queries {
            query.await.unwrap();
        }
    };
    with_server(|config| config.queue_timeout(Duration::MAX), server, main);
}

/// The network loses the messages of the server.
#[test]
fn the_limit_of_waiting_holds_while_a_connection_is_opened() {
    let server = async |stream: Stream, _| {
        while let Ok(1..) = stream.read(&mut Vec::new(), IoTimeout::NONE).await {}
    };
    let main = async |database: Database| {
        let query = statement("query");
        for pause in [Duration::ZERO, HOUR] {
            phalanx::sleep(pause).await;
            let Err(Error::Unavailable { waited, .. }) = database.query(&query, &[]).await else {
                panic!("it was not executed");
            };
            assert!(waited >= 2 * HOUR && waited < 3 * HOUR, "{waited:?}");
        }
    };
    with_server(|config| config.connect_timeout(50 * HOUR).queue_timeout(2 * HOUR), server, main);
}

#[test]
fn queries_that_may_not_wait_fail_at_once() {
    let main = async |database: Database| {
        let error = database.query(&statement("query"), &[]).await.unwrap_err();
        assert!(error.to_string().contains("has not answered"), "{error}");
    };
    let server = async |_: Stream, _| phalanx::sleep(Duration::from_secs(60)).await;
    with_server(|config| config.queue_timeout(Duration::ZERO), server, main);
}

/// An answer that makes no sense ends one connection. The queries behind it were not sent there.
#[test]
fn a_wrong_answer_of_a_new_connection_fails_no_query_that_waits() {
    let server = async |stream: Stream, number| {
        if number > 0 {
            return serve(stream, |_, output| complete(output)).await;
        }
        let (mut input, mut output, mut has_started) = (Vec::new(), Vec::new(), false);
        while let Ok(1..) = stream.read(&mut input, IoTimeout::NONE).await {
            while let Some((tag, _)) = take(&mut input, &mut has_started) {
                match tag {
                    0 => put_welcome(&mut output),
                    b'P' => put(&mut output, b'1', b""),
                    b'D' => put(&mut output, b'n', b""),
                    b'E' => put(&mut output, b'?', b""),
                    b'S' => put(&mut output, b'Z', b"I"),
                    _ => {}
                }
            }
            if stream.write(std::mem::take(&mut output), IoTimeout::NONE).await.is_err() {
                return;
            }
        }
    };
    let main = async |database: Database| {
        let query = statement("query");
        let [sent, waiting] = [(); 2].map(|()| database.query(&query, &[]));
        assert!(matches!(sent.await, Err(Error::ConnectionLost { .. })));
        waiting.await.unwrap();
    };
    with_server(|config| config.max_batch(1), server, main);
}
