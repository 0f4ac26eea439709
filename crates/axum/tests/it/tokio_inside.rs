//! Servers within programs of tokio.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use axum::Router;
use axum::routing::get;
use phalanx_axum::{ForRequests, Server, serve};
use phalanx_testkit::within_limit;

#[test]
fn one_line_of_a_tokio_program_changes() {
    within_limit(|| {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            // Its timer belongs to the runtime that awaits the server.
            let app = Router::new().route(
                "/",
                get(|| async {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                    "awake"
                }),
            );
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let client = std::thread::spawn(move || {
                let mut client = std::net::TcpStream::connect(address).unwrap();
                client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
                let mut answer = String::new();
                client.read_to_string(&mut answer).unwrap();
                stop.send(()).unwrap();
                answer
            });
            let stopped = async { stopped.await.unwrap() };
            serve(listener, app).processors(1).with_graceful_shutdown(stopped).await.unwrap();
            assert!(client.join().unwrap().ends_with("\r\n\r\nawake"));
        });
    });
}

#[test]
fn a_dropped_server_ends() {
    within_limit(|| {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let app = Router::new().route("/", get(|| async { "yes" }));
            let server = tokio::spawn(async move {
                serve(listener, app).with_graceful_shutdown(std::future::pending()).await
            });
            tokio::task::yield_now().await;
            server.abort();
            assert!(server.await.unwrap_err().is_cancelled());
            while std::net::TcpStream::connect(address).is_ok() {
                tokio::task::yield_now().await;
            }
        });
    });
}

#[test]
fn unix_sockets_of_tokio_and_of_the_standard_library() {
    within_limit(|| {
        let folder = tempfile::tempdir().unwrap();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let app = Router::new().route("/", get(|| async { "yes" }));
        tokio.block_on(async {
            let path = folder.path().join("tokio");
            let of_tokio = serve(tokio::net::UnixListener::bind(&path).unwrap(), app.clone());
            asked_once(of_tokio, path).await;
            let path = folder.path().join("std");
            let of_std = serve(std::os::unix::net::UnixListener::bind(&path).unwrap(), app.clone());
            asked_once(of_std, path).await;
        });
    });
}

/// Awaits a server until it has answered one request.
async fn asked_once(server: Server<Router, ForRequests>, path: PathBuf) {
    assert_eq!(server.local_addr().unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let client = std::thread::spawn(move || {
        let mut client = UnixStream::connect(path).unwrap();
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        stop.send(()).unwrap();
        answer
    });
    let stopped = async { stopped.await.unwrap() };
    server.processors(2).with_graceful_shutdown(stopped).await.unwrap();
    assert!(client.join().unwrap().ends_with("\r\n\r\nyes"));
}
