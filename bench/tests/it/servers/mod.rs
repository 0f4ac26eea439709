//! Servers in this process: ours, and one that misbehaves by a script.

pub(crate) mod tls;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx::runtime::{DriverChoice, DriverKind};
use phalanx_bench::baselines::{floor::Floor, twin};
use socket2::SockRef;

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    (listener, url)
}

/// Starts the floor for the remaining life of this process.
pub(crate) fn floor(driver: DriverChoice) -> String {
    let (listener, url) = listen();
    let kind = if driver == DriverChoice::Poll { DriverKind::Poll } else { DriverKind::Uring };
    thread::spawn(move || Floor::new(kind, listener).unwrap().serve().unwrap());
    url
}

/// Starts the twin for the remaining life of this process.
pub(crate) fn twin(root: &Path) -> String {
    let ((listener, url), root) = (listen(), root.to_owned());
    thread::spawn(move || twin::serve(&listener, &root, 8).unwrap());
    url
}

/// Handling of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    Answer,
    AnswerAndClose,
    NotFound,
    /// Closes the connection within the body.
    Truncate,
    Reset,
    Nonsense,
    /// Never answers.
    Stall,
    /// Answers after a tenth of a second.
    Late,
}

/// Counts of the handled requests.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<HashMap<Act, u64>>>);

impl Told {
    pub(crate) fn count(&self, act: Act) -> u64 {
        self.0.lock().unwrap().get(&act).copied().unwrap_or_default()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.0.lock().unwrap().values().sum()
    }
}

/// A server that handles its `n`th request as `script` returns.
pub(crate) fn scripted(script: impl Fn(usize) -> Act + Send + Sync + 'static) -> (String, Told) {
    let (listener, url) = listen();
    let (told, next, script) = (Told::default(), Arc::new(AtomicUsize::new(0)), Arc::new(script));
    let told_here = told.clone();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (told, next, script) = (told.clone(), next.clone(), script.clone());
            let mut connection = connection.unwrap();
            thread::spawn(move || {
                while read_head(&mut connection) {
                    let act = script(next.fetch_add(1, Ordering::Relaxed));
                    *told.0.lock().unwrap().entry(act).or_default() += 1;
                    if !perform(act, &mut connection) {
                        break;
                    }
                }
            });
        }
    });
    (url, told_here)
}

fn read_head(connection: &mut TcpStream) -> bool {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// Handles a request; returns whether the connection continues.
fn perform(act: Act, connection: &mut TcpStream) -> bool {
    let bytes: &[u8] = match act {
        Act::Answer | Act::Late => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        Act::AnswerAndClose => {
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
        }
        Act::NotFound => b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Act::Truncate => b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello",
        Act::Nonsense => b"220 mail.example ESMTP\r\n\r\n",
        Act::Reset | Act::Stall => b"",
    };
    if act == Act::Late {
        thread::sleep(Duration::from_millis(100));
    }
    let written = connection.write_all(bytes).is_ok();
    if act == Act::Reset {
        SockRef::from(&*connection).set_linger(Some(Duration::ZERO)).unwrap();
    }
    written && matches!(act, Act::Answer | Act::Late | Act::NotFound | Act::Stall)
}
