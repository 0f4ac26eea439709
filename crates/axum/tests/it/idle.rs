//! Many idle connections, to a server in a process of its own.
//!
//! `PHALANX_IDLE_CONNECTIONS=10000 cargo test -p phalanx-axum idle -- --nocapture` opens 10,000.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use phalanx::Runtime;
use phalanx_axum::{Options, serve};
use phalanx_testkit::procfs::resident_bytes;

/// The number of connections, unless the variable above sets another: a multiple of [`BATCH`].
const CONNECTIONS: usize = 1_000;
/// Connections that open at the same time: the backlog of the listener is bounded.
const BATCH: usize = 100;
/// Bytes of memory that a connection may take; 21 KB were measured.
const MAX_BYTES: u64 = 32 << 10;
/// Set in the process of the server.
const SERVER: &str = "PHALANX_TEST_IDLE_SERVER";

/// Prints its address, and serves until the end of its input.
fn run_server() {
    let app = Router::new().route("/", get(|| async { "yes" }));
    // Longer than the test.
    let options = Options::new().header_timeout(Duration::from_secs(3600));
    let runtime = Runtime::new().signals(false);
    let server = serve("127.0.0.1:0", app).processors(2).runtime(runtime).options(options);
    let address = server.local_addr().unwrap();
    let ran = server.run_with_ready(|control| {
        println!("address {address}");
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            control.drain();
        });
    });
    ran.unwrap();
}

fn start() -> (Child, SocketAddr) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "idle::idle_connections_take_little_memory", "--nocapture"]);
    command.env(SERVER, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut found = lines.map(|line| line.unwrap());
    let address = found.find_map(|line| Some(line.split_once("address ")?.1.parse().unwrap()));
    // The rest of the output is discarded.
    std::thread::spawn(move || found.for_each(drop));
    (child, address.expect("the server prints its address"))
}

fn request(client: &mut TcpStream) {
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
}

fn read_answer(client: &mut TcpStream) {
    let (mut answer, mut length) = ([0; 1024], 0);
    while !answer[..length].ends_with(b"yes") {
        let read = client.read(&mut answer[length..]).unwrap();
        assert!(read > 0, "the server closed the connection");
        length += read;
    }
}

#[test]
fn idle_connections_take_little_memory() {
    if std::env::var_os(SERVER).is_some() {
        return run_server();
    }
    let wanted = std::env::var("PHALANX_IDLE_CONNECTIONS").ok();
    let connections = wanted.map_or(CONNECTIONS, |number| number.parse().expect("a number"));
    let limit = phalanx::runtime::raise_open_files();
    if limit.is_some_and(|limit| (limit as usize) < connections + 1_000) {
        return eprintln!("skipped: the process may open {limit:?} files only");
    }
    let (mut server, address) = start();
    let mut clients = Vec::with_capacity(connections);
    let mut open = |count: usize| {
        for _ in 0..count / BATCH {
            let first = clients.len();
            for _ in 0..BATCH {
                let mut client = TcpStream::connect(address).unwrap();
                client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                request(&mut client);
                clients.push(client);
            }
            clients[first..].iter_mut().for_each(read_answer);
        }
    };
    open(BATCH);
    let before = resident_bytes(server.id());
    open(connections - BATCH);
    let bytes = resident_bytes(server.id()).saturating_sub(before) / (connections - BATCH) as u64;
    eprintln!("{connections} idle connections: {bytes} bytes of memory each");
    assert!(bytes < MAX_BYTES, "{bytes} bytes for a connection");
    for client in clients.iter_mut().step_by(connections / 10) {
        request(client);
        read_answer(client);
    }
    drop(server.stdin.take());
    // The drain closes all of them.
    let ends = clients.iter_mut().filter_map(|client| client.read(&mut [0]).ok());
    assert_eq!(ends.filter(|bytes| *bytes == 0).count(), connections);
    assert!(server.wait().unwrap().success());
}
