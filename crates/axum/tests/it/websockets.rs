//! WebSockets, whose tasks axum spawns on tokio, and server-sent events.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{any, get};
use phalanx::Runtime;
use phalanx_testkit::within_limit;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::harness::{read_until, served_with, side_runtime};

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Text(_) | Message::Binary(_))
            && socket.send(message).await.is_err()
        {
            break;
        }
    }
}

#[test]
fn a_websocket_echoes_large_messages() {
    within_limit(|| {
        let side = side_runtime();
        let handler = |upgrade: WebSocketUpgrade| async { upgrade.on_upgrade(echo) };
        let app = Router::new().route("/", any(handler));
        let server =
            served_with(app, |server| server.processors(2).side_runtime(side.handle().clone()));
        let (mut client, _) =
            tungstenite::client(format!("ws://{}/", server.address), server.connect()).unwrap();
        for length in [0, 10, 300_000] {
            let message = tungstenite::Message::binary(vec![7; length]);
            client.send(message.clone()).unwrap();
            assert!(client.read().unwrap() == message);
        }
        client.close(None).unwrap();
        while client.read().is_ok() {}
        // A second one is open when the server drains, which closes it.
        let (mut client, _) =
            tungstenite::client(format!("ws://{}/", server.address), server.connect()).unwrap();
        client.send(tungstenite::Message::text("hello")).unwrap();
        assert_eq!(client.read().unwrap().into_text().unwrap().as_str(), "hello");
        drop(server);
        assert!(client.read().is_err());
    });
}

/// Over TLS, the socket takes less at a time than a stream encrypts.
#[test]
fn the_end_of_a_long_message_arrives_over_tls() {
    within_limit(|| {
        let side = side_runtime();
        let send = |mut socket: WebSocket| async move {
            socket.send(Message::Binary(vec![7; MESSAGE_BYTES].into())).await.unwrap();
            // The client answers when it has received everything.
            socket.recv().await.unwrap().unwrap();
            socket.send(Message::Binary(vec![8; MESSAGE_BYTES].into())).await.unwrap();
            drop(socket);
        };
        let handler = move |upgrade: WebSocketUpgrade| async move { upgrade.on_upgrade(send) };
        let app = Router::new().route("/", any(handler));
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let client = tls_client(&certificate, &key);
        let server = served_with(app, |server| {
            server.processors(1).tls(certificate, key).side_runtime(side.handle().clone())
        });
        let stream = rustls::StreamOwned::new(client, server.connect());
        let (mut client, _) = tungstenite::client("ws://localhost/", stream).unwrap();
        assert!(client.read().unwrap() == tungstenite::Message::binary(vec![7; MESSAGE_BYTES]));
        client.send(tungstenite::Message::text("received")).unwrap();
        assert!(client.read().unwrap() == tungstenite::Message::binary(vec![8; MESSAGE_BYTES]));
    });
}

/// Over HTTP/2, the connection is not one of the WebSocket alone.
#[test]
fn the_drain_closes_a_websocket_over_http2() {
    within_limit(|| {
        let side = side_runtime();
        let handler = |mut socket: WebSocket| async move {
            while socket.send(Message::text("hello")).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let handler = move |upgrade: WebSocketUpgrade| async move { upgrade.on_upgrade(handler) };
        let app = Router::new().route("/", any(handler));
        let runtime = Runtime::new().signals(false).shutdown_timeout(Duration::from_secs(3600));
        let server = served_with(app, |server| {
            server.processors(1).runtime(runtime).side_runtime(side.handle().clone())
        });
        let mut client = server.connect();
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        // CONNECT http://x/ with these fields.
        let block = b"\x02\x07CONNECT\x86\x84\x41\x01x\0\x09:protocol\x09websocket\
                      \0\x15sec-websocket-version\x0213";
        client.write_all(&[0, 0, block.len() as u8, 1, 4, 0, 0, 0, 1]).unwrap();
        client.write_all(block).unwrap();
        let (mut received, mut byte) = (Vec::new(), [0]);
        while !received.ends_with(b"hello") {
            client.read_exact(&mut byte).unwrap();
            received.push(byte[0]);
        }
        drop(server);
    });
}

/// The length of a message for which no buffer on the way has room.
const MESSAGE_BYTES: usize = 8 << 20;

/// Writes a certificate and its key, and makes a client that trusts it.
fn tls_client(certificate: &Path, key: &Path) -> ClientConnection {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(certificate, certified.cert.pem()).unwrap();
    std::fs::write(key, certified.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap()
}

#[test]
fn server_sent_events_with_keep_alive() {
    within_limit(|| {
        let side = side_runtime();
        let events = || async {
            let first = std::iter::once(Ok::<_, Infallible>(Event::default().data("first")));
            let never = Pending(Some(first));
            let keep_alive = KeepAlive::new().interval(Duration::from_millis(5)).text("beat");
            Sse::new(never).keep_alive(keep_alive)
        };
        let app = Router::new().route("/", get(events));
        let server =
            served_with(app, |server| server.processors(1).side_runtime(side.handle().clone()));
        let mut client = server.connect();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let head = read_until(&mut client, "data: first\n\n");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        read_until(&mut client, ": beat\n\n");
        read_until(&mut client, ": beat\n\n");
    });
}

/// A stream of some items that does not end.
struct Pending<I>(Option<I>);

impl<I: Iterator + Unpin> futures_core::Stream for Pending<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        match self.0.as_mut().and_then(Iterator::next) {
            Some(item) => std::task::Poll::Ready(Some(item)),
            None => std::task::Poll::Pending,
        }
    }
}
