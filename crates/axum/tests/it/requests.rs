//! Requests and their answers over HTTP/1.1.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Multipart, Path, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use phalanx::Runtime;
use phalanx_axum::{Options, serve};
use phalanx_compat::local;
use phalanx_testkit::within_limit;
use tower_service::Service;

use crate::harness::{read_text, read_until, served, served_with};

#[test]
fn extractors_and_json() {
    let app = Router::new()
        .route(
            "/hello/{name}",
            get(|Path(name): Path<String>| async move { format!("hello {name}") }),
        )
        .route(
            "/sum",
            post(|Json(numbers): Json<Vec<u32>>| async move { Json(numbers.iter().sum::<u32>()) }),
        )
        .fallback(|| async { (axum::http::StatusCode::NOT_FOUND, "nothing here") });
    within_limit(move || {
        let server = served(app);
        let answer = server.get("/hello/ada");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello ada"),
            "{answer}"
        );
        let answer =
            server.request("POST /sum HTTP/1.1\r\ncontent-type: application/json", b"[1,2,39]");
        assert!(answer.ends_with("\r\n\r\n42"), "{answer}");
        assert!(server.get("/none").starts_with("HTTP/1.1 404 "));
    });
}

#[test]
fn bodies_are_streamed_both_ways() {
    // Echoes each piece of the body as it arrives.
    let app = Router::new().route("/", post(|body: Body| async { Response::new(body) }));
    within_limit(move || {
        let server = served(app);
        let body: Vec<_> = (0..1_000_000).map(|at| b'a' + (at % 23) as u8).collect();
        let mut client = server.connect();
        let mut writer = client.try_clone().unwrap();
        let sent = body.clone();
        let writing = std::thread::spawn(move || {
            let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\nconnection: close\r\n\r\n";
            writer.write_all(head.as_bytes()).unwrap();
            writer.write_all(&sent).unwrap();
        });
        let answer = read_text(&mut client);
        writing.join().unwrap();
        assert!(answer.ends_with(std::str::from_utf8(&body).unwrap()), "{} bytes", answer.len());
    });
}

#[test]
fn multipart_forms() {
    let app = Router::new().route(
        "/",
        post(|mut form: Multipart| async move {
            let mut output = String::new();
            while let Some(field) = form.next_field().await.unwrap() {
                let name = field.name().unwrap().to_owned();
                output += &format!("{name}={};", field.text().await.unwrap());
            }
            output
        }),
    );
    within_limit(move || {
        let body = "--x\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n1\r\n\
            --x\r\ncontent-disposition: form-data; name=\"b\"; filename=\"f\"\r\n\r\n2\r\n--x--\r\n";
        let head = "POST / HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=x";
        let answer = served(app).request(head, body.as_bytes());
        assert!(answer.ends_with("\r\n\r\na=1;b=2;"), "{answer}");
    });
}

#[test]
fn a_panic_is_answered_with_500_and_hurts_nobody_else() {
    async fn panics() {
        panic!("by intent");
    }
    let app = Router::new().route("/panic", get(panics)).route("/", get(|| async { "fine" }));
    within_limit(move || {
        let server = served(app);
        assert!(server.get("/panic").starts_with("HTTP/1.1 500 "));
        assert!(server.get("/").ends_with("fine"));
    });
}

#[test]
fn a_full_stage_answers_503() {
    within_limit(|| {
        let (sender, receiver) = channel();
        let (resume_sender, resume_receiver) = channel::<()>();
        let resume_receiver = Arc::new(Mutex::new(resume_receiver));
        // Blocks the only processor until all other requests are there.
        let block = move || {
            let (sender, resume_receiver) = (sender.clone(), resume_receiver.clone());
            async move {
                sender.send(()).unwrap();
                resume_receiver.lock().unwrap().recv().unwrap();
            }
        };
        let app = Router::new().route("/", get(|| async { "yes" })).route("/block", get(block));
        let options = Options::new().cohorts().capacity(1);
        let server = served_with(app, |server| server.processors(1).options(options));
        let mut clients: Vec<_> = (0..16).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            read_until(client, "yes");
        }
        let mut blocker = server.connect();
        blocker.write_all(b"GET /block HTTP/1.0\r\n\r\n").unwrap();
        receiver.recv().unwrap();
        for client in &mut clients {
            let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            client.write_all(request).unwrap();
        }
        resume_sender.send(()).unwrap();
        let answers: Vec<_> = clients.iter_mut().map(read_text).collect();
        let count =
            |status: &str| answers.iter().filter(|answer| answer.starts_with(status)).count();
        let (served, rejected) = (count("HTTP/1.1 200 "), count("HTTP/1.1 503 "));
        assert!(served + rejected == 16 && served > 0 && rejected > 0, "{answers:?}");
    });
}

#[test]
fn the_address_of_the_client() {
    let app = Router::new()
        .route(
            "/",
            get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.ip().to_string() }),
        )
        .into_make_service_with_connect_info::<SocketAddr>();
    within_limit(move || {
        let runtime = Runtime::new().signals(false);
        let server = serve("127.0.0.1:0", app).processors(1).runtime(runtime);
        let address = server.local_addr().unwrap();
        let served = server.run_with_ready(|control| {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            let answer = read_text(&mut client);
            control.drain();
            assert!(answer.ends_with("\r\n\r\n127.0.0.1"), "{answer}");
        });
        served.unwrap();
    });
}

#[test]
fn handlers_use_what_is_not_send() {
    async fn handler(body: Bytes) -> String {
        local(async move {
            let shared = std::rc::Rc::new(body.len());
            phalanx::yield_now().await;
            shared.to_string()
        })
        .await
    }
    within_limit(|| {
        let answer =
            served(Router::new().route("/", post(handler))).request("POST / HTTP/1.1", b"abc");
        assert!(answer.ends_with("\r\n\r\n3"), "{answer}");
    });
}

/// A service that is ready at its third poll with a real waker.
#[derive(Clone, Default)]
struct NotReadyService {
    polls: usize,
}

impl Service<Request> for NotReadyService {
    type Response = Response;
    type Error = Infallible;
    type Future = Ready<Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if context.waker().will_wake(std::task::Waker::noop()) {
            return Poll::Pending;
        }
        self.polls += 1;
        if self.polls < 3 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        assert_eq!(std::mem::take(&mut self.polls), 3, "it is ready");
        ready(Ok(request.uri().path().to_owned().into_response()))
    }
}

#[test]
fn a_service_that_is_not_ready_is_awaited() {
    within_limit(move || {
        let runtime = Runtime::new().signals(false);
        let server =
            serve("127.0.0.1:0", NotReadyService::default()).processors(1).runtime(runtime);
        let address = server.local_addr().unwrap();
        let served = server.run_with_ready(|control| {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.write_all(b"GET /a HTTP/1.0\r\n\r\n").unwrap();
            let answer = read_text(&mut client);
            control.drain();
            assert!(answer.ends_with("\r\n\r\n/a"), "{answer}");
        });
        served.unwrap();
    });
}
