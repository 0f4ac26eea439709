//! Clients that leave while they wait for a compressed file, and a shutdown meanwhile.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::eventually;
use phalanx_testkit::http::Client;
use phalanx_testkit::http2::Connection;
use phalanx_web::Config;

use crate::common::{Server, metric, on_each_driver};

/// Files of the largest size that is compressed; as many as may wait.
const FILES: u32 = 16;
const LENGTH: usize = 4 << 20;
/// Time in which the server notices that clients have left, unless it is overloaded.
const NOTICED: Duration = Duration::from_secs(2);

fn configure(home: &Path) -> Config {
    let root = home.join("root");
    fs::create_dir(&root).unwrap();
    // Numbers that do not repeat, so that all files take longer than the second in which a client's leaving is noticed.
    let lines =
        (0..LENGTH as u32 / 8).map(|n| format!("{} and on\n", n.wrapping_mul(2_654_435_761)));
    let text: String = lines.collect();
    fs::write(home.join("text"), &text[..LENGTH]).unwrap();
    let mut config = Config::with_root(&root);
    (config.h2c, config.hosts[0].compress, config.max_queue_delay) = (true, true, None);
    config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
    config
}

/// Creates a file that the server has not compressed. Returns its path on the server.
fn new_file(home: &Path) -> String {
    let root = home.join("root");
    let name = format!("/{}.txt", fs::read_dir(&root).unwrap().count());
    fs::hard_link(home.join("text"), root.join(&name[1..])).unwrap();
    name
}

/// A client that waits for a file.
fn ask(server: &Server, path: &str) -> Client {
    let mut client = Client::connect(server.address);
    let fields = "Host: a\r\nAccept-Encoding: br, identity;q=0\r\n";
    client.send(format!("GET {path} HTTP/1.1\r\n{fields}\r\n"));
    client
}

/// Like [`ask`], on an HTTP/2 stream.
fn ask_on(connection: &mut Connection, stream: u32, path: &str) {
    let [scheme, authority] = [(":scheme", "http"), (":authority", "a")];
    let accepts = ("accept-encoding", "br, identity;q=0");
    let head = [(":method", "GET"), scheme, (":path", path), authority, accepts];
    connection.headers(stream, true, &head);
}

/// The number of compressions that the server has stopped because no client waits for them.
fn abandoned(server: &Server) -> usize {
    metric(server, "phalanx_web_compressions_abandoned_total").unwrap()
}

/// Has clients ask for new files and leave after the first response, until the server gives up what they waited for.
fn all_leave(server: &Server, home: &Path, ask_and_leave: impl Fn(&[String])) {
    let before = abandoned(server);
    eventually("compressions are given up", || {
        let paths: Vec<_> = (0..FILES).map(|_| new_file(home)).collect();
        ask_and_leave(&paths);
        let left = Instant::now();
        while abandoned(server) == before && left.elapsed() < NOTICED {
            thread::sleep(Duration::from_millis(10));
        }
        // A fast server may have compressed all files before it noticed that the clients had left.
        (abandoned(server) > before).then(|| {
            let response = ask(server, paths.last().unwrap()).response();
            assert_eq!((response.status, response.field("Content-Encoding")), (200, Some("br")));
        })
    });
}

#[test]
fn nothing_is_compressed_for_clients_that_have_left() {
    on_each_driver(configure, |server, home| {
        all_leave(server, home, |paths| {
            let mut clients: Vec<_> = paths.iter().map(|path| ask(server, path)).collect();
            assert_eq!(clients[0].response().status, 200);
        });
        all_leave(server, home, |paths| {
            let mut client = Connection::open(server.address, &[]);
            for (stream, path) in (1..).step_by(2).zip(paths) {
                ask_on(&mut client, stream, path);
            }
            client.read_until(|client| client.status(1) == Some(200));
            (0..FILES).for_each(|n| client.cancel(2 * n + 1));
        });
    });
}

#[test]
fn a_client_that_leaves_does_not_concern_another() {
    on_each_driver(configure, |server, home| {
        let (path, before) = (new_file(home), abandoned(server));
        let mut client = Connection::open(server.address, &[]);
        [1, 3, 5].into_iter().for_each(|stream| ask_on(&mut client, stream, &path));
        client.cancel(1);
        client.cancel(5);
        client.read_until(|client| client.status(3) == Some(200));
        assert_eq!(abandoned(server), before);
    });
}

#[test]
fn a_shutdown_does_not_wait_for_compression() {
    on_each_driver(configure, |server, home| {
        let paths: Vec<_> = (0..FILES).map(|_| new_file(home)).collect();
        let mut clients: Vec<_> = paths.iter().map(|path| ask(server, path)).collect();
        assert_eq!(clients[0].response().status, 200);
        server.control.drain();
        let statuses = clients[1..].iter_mut().map(|client| client.response().status);
        let statuses: Vec<_> = statuses.collect();
        assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
        assert!(statuses.contains(&503), "{statuses:?}");
    });
}
