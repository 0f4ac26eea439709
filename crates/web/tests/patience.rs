//! What only an embedder can set: how long a client may take to read a piece of an answer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{Choice, Control};
use phalanx_web::{Config, Listen, serve};

/// Longer than anything takes on a loaded machine; only a test that fails waits for so long.
const LONG: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_millis(300);

fn on_each_driver(test: fn(SocketAddr)) {
    let named = std::env::var("PHALANX_DRIVER").unwrap_or_default();
    for driver in [Choice::Uring, Choice::Poll] {
        if ["uring", "poll"].contains(&named.as_str()) && named != driver.to_string() {
            continue;
        }
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("large"), vec![7; 24 << 20]).unwrap();
        std::fs::write(root.path().join("small"), "small").unwrap();
        let mut config = Config::of(root.path());
        config.listen = vec![Listen::plain((Ipv4Addr::LOCALHOST, 0))];
        let runtime = &mut config.runtime;
        (runtime.driver, runtime.pin, runtime.signals) = (driver, false, false);
        config.timeouts.send = LIMIT;
        let (up, is_up) = channel::<(SocketAddr, Control)>();
        let server = thread::spawn(move || {
            let ready = |serving: &phalanx_web::Serving<'_>| {
                up.send((serving.addresses[0], serving.up.control.clone())).unwrap();
            };
            serve(config, ready).map_err(|error| error.to_string())
        });
        let Ok((address, control)) = is_up.recv_timeout(LONG) else {
            let error = server.join().unwrap().unwrap_err();
            assert!(driver == Choice::Uring && error.contains("io_uring"), "{error}");
            println!("skipped: {error}");
            continue;
        };
        test(address);
        control.drain();
        server.join().unwrap().unwrap();
    }
}

fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    stream
}

/// Reads to the end, which may be a reset.
fn rest(mut stream: TcpStream) -> usize {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes.len()
}

#[test]
fn who_does_not_read_is_cut_off() {
    on_each_driver(|address| {
        let idle = ask(address, "/large");
        // Slow, but each piece of it is taken in time: that is no fault.
        let mut slow = ask(address, "/large");
        let begun = Instant::now();
        let mut taken = 0;
        while begun.elapsed() < 4 * LIMIT {
            // Far more than the server sends at a time, far less than there is.
            let mut piece = vec![0; 1 << 20];
            slow.read_exact(&mut piece).unwrap();
            taken += piece.len();
            thread::sleep(LIMIT / 5);
        }
        assert!(rest(slow) + taken > 24 << 20, "all of it, and a head");
        assert!(rest(idle) < 24 << 20, "what sockets hold, and then the end");
        assert!(rest(ask(address, "/small")) > 5);
    });
}
