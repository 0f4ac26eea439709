//! Requests that a server does not complete.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use h2::Reason;
use http::StatusCode;
use phalanx_testkit::eventually;
use phalanx_web::HealthCheck;

use super::server::*;
use crate::common::metric;
use crate::proxy::backend::down;

/// A request that the server has not processed is sent again on a new connection, with its body, but only once.
#[test]
fn refused_requests_are_repeated() {
    let serve = |(request, mut respond, number): Call| -> Served {
        Box::pin(async move {
            let is_refused = number == 0 || request.method() == "PUT";
            let (content, _) = read_to_end(&mut request.into_body()).await;
            assert_eq!(content, b"hello");
            if is_refused {
                return respond.send_reset(Reason::REFUSED_STREAM);
            }
            let mut answer = respond.send_response(head(200), false).unwrap();
            send(&mut answer, content.into(), true).await;
        })
    };
    with_server(
        move || H2Server::new(100, serve),
        |_| (),
        |server, backend| async move {
            let client = connect(&server).await;
            for (method, status) in [("POST", 200), ("PUT", 502)] {
                let mut client = client.clone().ready().await.unwrap();
                let (response, mut body) = start(&mut client, method, true);
                send(&mut body, "hello".into(), true).await;
                let response = response.await.unwrap();
                assert_eq!(response.status(), status);
                if status == 200 {
                    assert_eq!(read_to_end(&mut response.into_body()).await.0, b"hello");
                    assert_eq!(backend.accepted(), 2);
                }
            }
            assert_eq!(metric(&server, "http_upstream_retries_total"), Some(2));
        },
    );
}

#[test]
fn resets() {
    let (begun, reset) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let start_server = || {
        begun.store(false, Relaxed);
        reset.store(0, Relaxed);
        let (begun, reset) = (begun.clone(), reset.clone());
        H2Server::new(100, move |(request, mut respond, _): Call| -> Served {
            let (begun, reset) = (begun.clone(), reset.clone());
            Box::pin(async move {
                match request.method().as_str() {
                    "GET" => respond.send_reset(Reason::INTERNAL_ERROR),
                    "POST" => {
                        let mut answer = respond.send_response(head(200), false).unwrap();
                        send(&mut answer, "hello".into(), false).await;
                        // The client has got the content.
                        read_to_end(&mut request.into_body()).await;
                        answer.send_reset(Reason::INTERNAL_ERROR);
                    }
                    _ => {
                        begun.store(true, Relaxed);
                        let reason = poll_fn(|context| respond.poll_reset(context)).await;
                        assert_eq!(reason.unwrap(), Reason::CANCEL);
                        reset.store(1, Relaxed);
                    }
                }
            })
        })
    };
    with_server(
        start_server,
        |_| (),
        |server, backend| {
            let (begun, reset) = (begun.clone(), reset.clone());
            async move {
                let client = connect(&server).await;
                // By the server, before and within the response.
                assert_eq!(get(&client).await.0, StatusCode::BAD_GATEWAY);
                let (response, mut body) = start(&mut client.clone(), "POST", true);
                let mut content = response.await.unwrap().into_body();
                assert_eq!(piece(&mut content).await.unwrap(), "hello");
                body.send_data("".into(), true).unwrap();
                let error = content.data().await.unwrap().unwrap_err();
                assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
                // By the client.
                let (response, mut body) = start(&mut client.clone(), "DELETE", true);
                body.send_data("a".into(), false).unwrap();
                while !begun.load(Relaxed) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                body.send_reset(Reason::CANCEL);
                drop(response);
                while reset.load(Relaxed) == 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                assert_eq!(backend.accepted(), 1);
                for (reason, count) in [("closed", 1), ("truncated", 1), ("client-closed", 1)] {
                    let name = format!("http_upstream_failures_total{{reason=\"{reason}\"}}");
                    assert_eq!(metric(&server, &name), Some(count), "{reason}");
                }
            }
        },
    );
}

/// A server that ends within a response, and then is down.
#[test]
fn a_server_that_dies() {
    let serve = |(_, mut respond, _): Call| -> Served {
        Box::pin(async move {
            let mut answer = respond.send_response(head(200), false).unwrap();
            send(&mut answer, "hello".into(), false).await;
            std::future::pending::<()>().await;
        })
    };
    with_server(
        move || H2Server::new(100, serve),
        |proxy| proxy.connect_timeout = Duration::from_secs(60),
        |server, mut backend| async move {
            let client = connect(&server).await;
            let (response, _body) = start(&mut client.clone(), "GET", false);
            let mut content = response.await.unwrap().into_body();
            assert_eq!(piece(&mut content).await.unwrap(), "hello");
            tokio::task::spawn_blocking(move || backend.stop()).await.unwrap();
            assert!(content.data().await.unwrap().is_err());
            assert_eq!(get(&client).await.0, StatusCode::BAD_GATEWAY);
        },
    );
}

/// The other server of a group gets the requests of one that is down.
#[test]
fn the_next_server() {
    let serve = |(_, mut respond, _): Call| -> Served {
        Box::pin(async move { drop(respond.send_response(head(200), true).unwrap()) })
    };
    with_server(
        move || H2Server::new(100, serve),
        |proxy| proxy.to.insert(0, format!("h2c://{}", down()).parse().unwrap()),
        |server, backend| async move {
            let client = connect(&server).await;
            for _ in 0..10 {
                assert_eq!(get(&client).await.0, StatusCode::OK);
            }
            assert_eq!(backend.accepted(), 1);
            assert_eq!(metric(&server, "http_upstream_ejections_total"), Some(1));
        },
    );
}

#[test]
fn health_checks() {
    let is_up = Arc::new(AtomicBool::new(false));
    let start_server = || {
        let is_up = is_up.clone();
        H2Server::new(100, move |(request, mut respond, _): Call| -> Served {
            let is_up = is_up.clone();
            Box::pin(async move {
                let is_check = request.uri().path() == "/up";
                let status = if is_check && !is_up.load(Relaxed) { 500 } else { 200 };
                respond.send_response(head(status), true).unwrap();
            })
        })
    };
    with_server(
        start_server,
        |proxy| {
            let interval = Duration::from_millis(20);
            let path = "/up".to_owned();
            proxy.health = Some(HealthCheck { path, interval, ..HealthCheck::default() });
        },
        |server, backend| {
            let is_up = is_up.clone();
            async move {
                let backend = backend;
                let name = format!("http_upstream_up{{server=\"h2c://{}\"}}", backend.address);
                for (up, value) in [(false, 0), (true, 1), (false, 0)] {
                    is_up.store(up, Relaxed);
                    let (server, name) = (server.clone(), name.clone());
                    let changed = move || {
                        let is = || metric(&server, &name).filter(|found| *found == value);
                        eventually("the gauge changes", is);
                    };
                    tokio::task::spawn_blocking(changed).await.unwrap();
                }
            }
        },
    );
}
