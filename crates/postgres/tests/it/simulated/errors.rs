//! Errors of the server and of the configuration, and statements that take too long.

use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::net::{IoTimeout, Stream};
use phalanx::sleep;
use phalanx_postgres::tls::Connector;
use phalanx_postgres::{Config, Database, Error};
use phalanx_testkit::authority::Authority;
use phalanx_testkit::postgres::messages::put_error;

use super::scripted::{HOUR, NextStep, serve, with_server};
use super::scripts::{complete, statement};

/// An operator ends the server process while it skips the rest of a transaction.
#[test]
fn the_end_of_a_connection_may_follow_an_error() {
    let server = async |stream: Stream, number| {
        serve(stream, |text, output| {
            if text == "fine" && number > 0 {
                return complete(output);
            }
            put_error(output, "ERROR", "22012");
            if number > 0 {
                return NextStep::Skip;
            }
            put_error(output, "FATAL", "57P01");
            NextStep::Close
        })
        .await;
    };
    let main = async |database: Database| {
        let queries = ["wrong", "fine"].map(|text| database.execute(&statement(text), &[]));
        let [wrong, valid] = queries;
        assert_eq!(wrong.await.unwrap_err().database().unwrap().code(), "22012");
        assert_eq!(valid.await.unwrap(), 1);
    };
    with_server(|config| config, server, main);
}

/// It may be a procedure that has committed.
#[test]
fn a_statement_that_raises_the_error_of_an_unknown_one_is_executed_once() {
    let server = async |stream: Stream, _| {
        let mut executed = 0;
        serve(stream, |text, output| {
            if text == "fine" {
                assert_eq!(executed, 1);
                return complete(output);
            }
            executed += 1;
            put_error(output, "ERROR", "26000");
            NextStep::Skip
        })
        .await;
    };
    let main = async |database: Database| {
        let error = database.execute(&statement("wrong"), &[]).await.unwrap_err();
        assert_eq!(error.database().unwrap().code(), "26000");
        database.execute(&statement("fine"), &[]).await.unwrap();
    };
    with_server(|config| config, server, main);
}

#[test]
fn a_statement_that_takes_too_long_is_cancelled() {
    static SLOW: AtomicUsize = AtomicUsize::new(0);
    static CANCELLED: AtomicUsize = AtomicUsize::new(0);
    let server = async |stream: Stream, _| {
        serve(stream, |text, _| {
            if text == "cancel" {
                CANCELLED.fetch_add(1, Ordering::Relaxed);
                return NextStep::Close;
            }
            SLOW.fetch_add(1, Ordering::Relaxed);
            NextStep::Pause(100 * HOUR)
        })
        .await;
    };
    let main = async |database: Database| {
        let error = database.execute(&statement("slow"), &[]).await.unwrap_err();
        assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
        sleep(HOUR).await;
    };
    with_server(|config| config.query_timeout(2 * HOUR), server, main);
    let [slow, cancelled] = [&SLOW, &CANCELLED].map(|count| count.load(Ordering::Relaxed));
    assert!(slow > 0 && slow == cancelled, "{slow} {cancelled}");
}

/// Its text is not authenticated, and does not say that the next attempt fails, too.
#[test]
fn a_server_that_cannot_start_a_process_is_tried_again() {
    let server = async |stream: Stream, number| {
        let answer: &[u8] = if number < 3 { b"Efork failed\0" } else { b"N" };
        let _ = stream.read_exact(&mut [0; 8], IoTimeout::NONE).await;
        let _ = stream.write(answer.to_vec(), IoTimeout::NONE).await;
    };
    let main = async |database: Database| {
        let error = database.execute(&statement("any"), &[]).await.unwrap_err();
        assert!(error.to_string().contains("does not offer TLS"), "{error}");
    };
    let encrypted = |config: Config| {
        let authority = Authority::new();
        let connector = Connector::load(Some(&authority.certificate()), None, &[]).unwrap();
        config.tls(connector, "db.example")
    };
    with_server(encrypted, server, main);
}

#[test]
fn a_configuration_that_cannot_be_sent_fails_at_once() {
    let server = async |stream: Stream, _| serve(stream, |_, output| complete(output)).await;
    let main = async |database: Database| {
        let Err(Error::Unavailable { waited, reason }) =
            database.execute(&statement("any"), &[]).await
        else {
            panic!("the server has accepted it");
        };
        assert!(waited < HOUR, "{waited:?}");
        assert!(reason.contains("the user, the database or a parameter"), "{reason}");
    };
    for config in [
        |config: Config| config.user("a\0b"),
        |config: Config| config.database("a\0b"),
        |config: Config| config.parameter("search_path", "a\0b"),
    ] {
        with_server(config, server, main);
    }
}
