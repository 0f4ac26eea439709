//! A TLS server with an untrusted certificate.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Counts of a server of [`sealed`].
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) requests: Arc<AtomicU64>,
    pub(crate) handshakes: Arc<AtomicU64>,
}

/// A server that answers every request over TLS, for the remaining life of this process. Returns its URL.
pub(crate) fn sealed() -> (String, Seen) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
    let (config, seen) = (Arc::new(config), Seen::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let told = seen.clone();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (config, seen) = (config.clone(), seen.clone());
            let connection = connection.unwrap();
            thread::spawn(move || {
                let session = ServerConnection::new(config).unwrap();
                serve(StreamOwned::new(session, connection), &seen);
            });
        }
    });
    (format!("https://{address}/"), told)
}

fn serve(mut stream: StreamOwned<ServerConnection, std::net::TcpStream>, seen: &Seen) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let mut first = true;
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        if std::mem::take(&mut first) {
            seen.handshakes.fetch_add(1, Ordering::Relaxed);
        }
        bytes.extend_from_slice(&piece[..count]);
        while let Some(end) = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            bytes.drain(..end + 4);
            seen.requests.fetch_add(1, Ordering::Relaxed);
            // More than a TLS record holds.
            let body = "hello".repeat(5000);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
        }
    }
}
