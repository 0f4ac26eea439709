//! Servers with TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use phalanx_testkit::authority::Authority;
use phalanx_testkit::http::Client;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::common::{Server, get, on_each_driver};
use crate::proxy::backend::{Backend, passing};

pub(super) type Session = StreamOwned<ServerConnection, TcpStream>;

/// Reads a request without a body. Returns false at the end.
fn request(session: &mut Session) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if !matches!(session.read(&mut byte), Ok(1)) {
            return false;
        }
        head.push(byte[0]);
    }
    true
}

/// A server that speaks one of these protocols, with a certificate of `authority` for its address.
pub(super) fn with_protocols(
    authority: &Authority,
    protocols: &[&[u8]],
    serve: impl Fn(Session, usize) + Send + Sync + 'static,
) -> Backend {
    backend_with(authority, (None, protocols), serve)
}

/// A server with a certificate of `authority` for the `name`, by default for its address.
fn backend(
    authority: &Authority,
    name: Option<&str>,
    serve: impl Fn(Session, usize) + Send + Sync + 'static,
) -> Backend {
    backend_with(authority, (name, &[]), serve)
}

fn backend_with(
    authority: &Authority,
    (name, protocols): (Option<&str>, &[&[u8]]),
    serve: impl Fn(Session, usize) + Send + Sync + 'static,
) -> Backend {
    let config: Arc<Mutex<Option<Arc<ServerConfig>>>> = Arc::default();
    let used = config.clone();
    let backend = Backend::new(move |peer, number| {
        let config = used.lock().unwrap().clone().expect("it is set before the first request");
        let session = ServerConnection::new(config).unwrap();
        serve(StreamOwned::new(session, peer.stream), number);
    });
    let address = backend.address.ip().to_string();
    let pair = authority.sign("server", &[name.unwrap_or(&address)]);
    let provider = rustls::crypto::ring::default_provider();
    let made = ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            CertificateDer::pem_file_iter(pair.certificate).unwrap().map(Result::unwrap).collect(),
            PrivateKeyDer::from_pem_file(pair.key).unwrap(),
        );
    let mut made = made.unwrap();
    made.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    *config.lock().unwrap() = Some(Arc::new(made));
    backend
}

/// Runs `test` with a proxy before the server that `start` makes, which is verified by the authority in this file.
fn with_tls(
    start: impl Fn(&Authority) -> Backend,
    ca: impl Fn(&Authority) -> PathBuf,
    test: impl Fn(&Server, &Backend),
) {
    with_authority("https", start, ca, test);
}

/// Like [`with_tls`], with another scheme, and with the authority that has signed the certificate.
pub(super) fn with_tls_at(
    scheme: &str,
    start: impl Fn(&Authority) -> Backend,
    test: impl Fn(&Server, &Backend),
) {
    with_authority(scheme, start, Authority::certificate, test);
}

fn with_authority(
    scheme: &str,
    start: impl Fn(&Authority) -> Backend,
    ca: impl Fn(&Authority) -> PathBuf,
    test: impl Fn(&Server, &Backend),
) {
    let running = Mutex::new(None);
    let config = |_: &std::path::Path| {
        let authority = Authority::new();
        let backend = start(&authority);
        let config = passing(backend.address, |proxy| {
            proxy.to = vec![format!("{scheme}://{}", backend.address).parse().unwrap()];
            proxy.authorities = Some(ca(&authority));
        });
        *running.lock().unwrap() = Some((backend, authority));
        config
    };
    on_each_driver(config, |server, _| {
        let (backend, _authority) = running.lock().unwrap().take().expect("it was started");
        test(server, &backend);
    });
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

fn answers(mut session: Session, _: usize) {
    while request(&mut session) {
        session.write_all(OK.as_bytes()).unwrap();
    }
}

#[test]
fn a_verified_connection_is_used_again() {
    let start = |authority: &Authority| backend(authority, None, answers);
    with_tls(start, Authority::certificate, |server, backend| {
        let mut client = Client::connect(server.address);
        for _ in 0..3 {
            assert_eq!(client.get("/api").text(), "hi");
        }
        assert_eq!(backend.accepted(), 1);
    });
}

#[test]
fn a_connection_that_cannot_be_verified_is_502() {
    let get_502 = |server: &Server, _: &Backend| {
        assert!(get(server, "/api").starts_with("HTTP/1.1 502 "));
    };
    // A certificate for another name, and another authority.
    let start = |authority: &Authority| backend(authority, Some("other.test"), answers);
    with_tls(start, Authority::certificate, get_502);
    let start = |authority: &Authority| backend(authority, None, answers);
    let other = Authority::new();
    with_tls(start, |_| other.certificate(), get_502);
    // A server without TLS.
    let start = |_: &Authority| {
        Backend::new(|mut peer, _| {
            peer.say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            peer.drain();
        })
    };
    with_tls(start, Authority::certificate, get_502);
}

/// Half of a TLS record follows the response. The response that starts in this record must not answer the next request.
#[test]
fn a_connection_within_a_record_is_not_used_again() {
    let serve = |mut session: Session, number: usize| {
        assert!(request(&mut session));
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
        let mut seal = || {
            let mut record = Vec::new();
            session.conn.writer().write_all(response.as_bytes()).unwrap();
            session.conn.write_tls(&mut record).unwrap();
            record
        };
        let (whole, other) = (seal(), seal());
        let bytes = [&whole[..], &other[..other.len() / 2]].concat();
        session.sock.write_all(&bytes).unwrap();
        // The proxy closes the connection.
        assert!(!request(&mut session), "it is used again");
    };
    let start = move |authority: &Authority| backend(authority, None, serve);
    with_tls(start, Authority::certificate, |server, _| {
        let mut client = Client::connect(server.address);
        for number in 0..3 {
            assert_eq!(client.get("/api").text(), number.to_string());
        }
    });
}
