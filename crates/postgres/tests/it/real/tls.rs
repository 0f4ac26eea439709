//! Encrypted connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use phalanx_postgres::tls::Connector;
use phalanx_postgres::{Config, Error, Statement, Type};
use phalanx_testkit::authority::Authority;
use phalanx_testkit::postgres::PostgresServer;

use super::{SETTINGS, execute, execute_cohort, number, run};

/// The name in the server's certificate.
const HOST: &str = "db.example";

/// A server that accepts encrypted connections only, over TCP.
fn server() -> Option<&'static (PostgresServer, SocketAddr, Authority)> {
    static SERVER: OnceLock<Option<(PostgresServer, SocketAddr, Authority)>> = OnceLock::new();
    let start = || {
        let authority = Authority::new();
        let pair = authority.sign("server", &[HOST]);
        let started = PostgresServer::start_tls(&SETTINGS, (&pair.certificate, &pair.key))
            .expect("the server starts");
        let Some((server, address)) = started else {
            eprintln!("skipped: PostgreSQL is not installed");
            return None;
        };
        Some((server, address, authority))
    };
    SERVER.get_or_init(start).as_ref()
}

fn trusting(authority: &Path) -> Connector {
    Connector::load(Some(authority), None, &[]).unwrap()
}

/// The error of a query with this configuration.
fn refusal(config: Config) -> String {
    let query = |database| async move { execute(database, "SELECT 1").await.unwrap_err() };
    let error = run(config.queue_timeout(Duration::from_secs(60)), query);
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    error.to_string()
}

#[test]
fn queries_are_encrypted() {
    let Some((_, address, authority)) = server() else { return };
    let config = Config::tcp(*address).tls(trusting(&authority.certificate()), HOST);
    run(config, |database| async move {
        let encrypted = "SELECT ssl::int::int8 FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert_eq!(number(database, encrypted).await, 1);
        // Many records in both directions.
        let echo = Statement::new("SELECT repeat($1, 3)", &[Type::TEXT]).batchable();
        let long: Vec<_> = (0..60).map(|n| format!("{n}-").repeat(5_000)).collect();
        let parameters: Vec<[&(dyn phalanx_postgres::ToSql + Sync); 1]> =
            long.iter().map(|text| [text as _]).collect();
        let parameters: Vec<&[_]> = parameters.iter().map(|one| &one[..]).collect();
        for (rows, text) in
            execute_cohort(database, &echo, &parameters).await.into_iter().zip(&long)
        {
            let rows = rows.unwrap();
            assert_eq!(rows.first().unwrap().get::<&str>(0), text.repeat(3));
        }
    });
}

#[test]
fn passwords_are_sent_in_clear_text_only_if_encrypted() {
    let Some((_, address, authority)) = server() else { return };
    let config = || Config::tcp(*address).tls(trusting(&authority.certificate()), HOST);
    run(config(), |database| async move {
        execute(database, "CREATE USER password PASSWORD 'secret'").await.unwrap();
    });
    let user = config().database("postgres").user("password");
    run(user.clone().password("secret"), |database| async move {
        assert_eq!(number(database, "SELECT 2::int8").await, 2);
    });
    assert!(refusal(user.password("wrong")).contains("password authentication failed"));
}

#[test]
fn certificates_are_verified() {
    let Some((_, address, authority)) = server() else { return };
    let other = refusal(Config::tcp(*address).tls(trusting(&authority.certificate()), "other"));
    assert!(other.contains("TLS with other: ") && other.contains("certificate"), "{other}");
    let other_authority = Authority::new();
    let untrusted =
        refusal(Config::tcp(*address).tls(trusting(&other_authority.certificate()), HOST));
    assert!(untrusted.contains("certificate"), "{untrusted}");
    let plain = refusal(Config::tcp(*address));
    assert!(plain.contains("no encryption"), "{plain}");
}

/// A connection never goes on without encryption.
#[test]
fn a_server_without_tls_is_refused() {
    let authority = Authority::new();
    for (answer, expected) in [(b"N", "does not offer TLS"), (b"X", "'X'")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut client = listener.accept().unwrap().0;
            let mut request = [0; 8];
            client.read_exact(&mut request).unwrap();
            assert_eq!(request, *b"\0\0\0\x08\x04\xd2\x16\x2f");
            client.write_all(answer).unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, b"", "nothing was sent in clear text");
        });
        let error = refusal(Config::tcp(address).tls(trusting(&authority.certificate()), HOST));
        assert!(error.contains(expected), "{error}");
        server.join().unwrap();
    }
}
