//! Servers on threads, and a client that speaks HTTP/1.1 as text.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use phalanx::Runtime;
use phalanx::runtime::Control;
use phalanx_axum::{ServeError, Server, serve};

/// The server of an application, without signal handlers.
pub(crate) type AppServer = Server<Router, phalanx_axum::ForRequests>;

/// A runtime of tokio beside a server.
pub(crate) fn side_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A running server. Dropping it drains it and checks how it ends.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) control: Control,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

/// Serves `app` on two processors.
pub(crate) fn served(app: Router) -> Served {
    served_with(app, |server| server.processors(2))
}

/// Serves `app` with options.
pub(crate) fn served_with(app: Router, options: impl FnOnce(AppServer) -> AppServer) -> Served {
    let runtime = Runtime::new().signals(false);
    let server = options(serve("127.0.0.1:0", app).runtime(runtime));
    let address = server.local_addr().unwrap();
    let (sender, started) = channel();
    let thread = std::thread::spawn(move || {
        server.run_with_ready(move |control| sender.send(control).expect("the test waits for it"))
    });
    let control = started.recv().expect("the server starts");
    Served { address, control, thread: Some(thread) }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.control.drain();
        let ended = self.thread.take().expect("it ends once").join();
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

impl Served {
    /// A connection to the server that fails a test instead of hanging.
    pub(crate) fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        client
    }

    /// The answer to a request on a connection of its own. `head` is the request line and any fields.
    pub(crate) fn request(&self, head: &str, body: &[u8]) -> String {
        let mut client = self.connect();
        let length = body.len();
        let head = format!(
            "{head}\r\nhost: localhost\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(body).unwrap();
        read_text(&mut client)
    }

    /// Like [`request`](Self::request) for a GET.
    pub(crate) fn get(&self, path: &str) -> String {
        self.request(&format!("GET {path} HTTP/1.1"), b"")
    }
}

/// Reads to the end.
pub(crate) fn read_text(client: &mut TcpStream) -> String {
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// Reads until the input ends with `end`.
pub(crate) fn read_until(client: &mut TcpStream, end: &str) -> String {
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(end.as_bytes()) {
        client.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    String::from_utf8(answer).unwrap()
}
