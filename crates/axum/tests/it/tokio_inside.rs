//! Servers within programs of tokio.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use axum::Router;
use axum::routing::get;
use phalanx_axum::{ForRequests, Server, serve};
use phalanx_testkit::within_limit;

use crate::harness::{served_with, side_runtime};

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

/// The flavor of the runtime that handlers find.
fn flavor() -> Router {
    let flavor = || async {
        let handle = tokio::runtime::Handle::try_current();
        handle.map_or_else(|_| "none".to_owned(), |handle| format!("{:?}", handle.runtime_flavor()))
    };
    Router::new().route("/", get(flavor))
}

/// Nothing observes the signal of a server that is not awaited.
#[test]
fn a_server_with_a_signal_of_its_own_is_awaited() {
    within_limit(|| {
        let server = serve("127.0.0.1:0", flavor()).with_graceful_shutdown(std::future::ready(()));
        let error = server.run().unwrap_err();
        assert!(error.to_string().contains("await"), "{error}");
    });
}

#[test]
fn a_side_runtime_has_precedence_over_that_of_the_program() {
    within_limit(|| {
        let side = side_runtime();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (expected, handle) in [("CurrentThread", None), ("MultiThread", Some(side.handle()))] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("socket");
            tokio.block_on(async {
                let server = serve(tokio::net::UnixListener::bind(&path).unwrap(), flavor());
                let server = match handle {
                    Some(handle) => server.side_runtime(handle.clone()),
                    None => server,
                };
                assert_one_response(server, path, expected).await;
            });
        }
    });
}

#[test]
fn the_order_of_a_servers_options_is_free() {
    within_limit(|| {
        let side = side_runtime();
        let server = served_with(flavor(), |server| {
            let runtime = phalanx::Runtime::new().signals(false);
            server.side_runtime(side.handle().clone()).runtime(runtime)
        });
        assert!(server.get("/").ends_with("\r\n\r\nMultiThread"));
    });
}

/// tokio does not know that a processor must not block.
#[test]
fn a_side_runtime_runs_blocking_code_in_its_place() {
    within_limit(|| {
        let side = side_runtime();
        let place = || async {
            let here = std::thread::current().id();
            let place = tokio::task::block_in_place(|| std::thread::current().id());
            format!("{}", place == here)
        };
        let spawn = || async { drop(tokio::task::spawn_local(std::future::ready(()))) };
        let app = Router::new().route("/place", get(place)).route("/local", get(spawn));
        let server = served_with(app, |server| server.side_runtime(side.handle().clone()));
        assert!(server.get("/place").ends_with("\r\n\r\ntrue"));
        assert!(server.get("/local").starts_with("HTTP/1.1 500 "));
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
            assert_one_response(of_tokio, path, "yes").await;
            let path = folder.path().join("std");
            let of_std = serve(std::os::unix::net::UnixListener::bind(&path).unwrap(), app.clone());
            assert_one_response(of_std, path, "yes").await;
        });
    });
}

/// Awaits a server until it has answered one request with this text.
async fn assert_one_response(server: Server<Router, ForRequests>, path: PathBuf, expected: &str) {
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
    let answer = client.join().unwrap();
    assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{answer}");
}
