//! Clients that are too slow.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::{TIMEOUT, eventually};
use socket2::{Domain, Socket, Type};

use crate::guard::harness::{Server, connect, get, on_each_driver, read_to_end};

/// A body has its own time limit, separate from that of the head.
#[test]
fn a_slow_body_times_out() {
    on_each_driver(
        |config, _| {
            config.timeouts.request = TIMEOUT;
            config.timeouts.body = Duration::from_millis(500);
        },
        |server, _| {
            let mut client = connect(server);
            let head = "POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n";
            client.write_all(head.as_bytes()).unwrap();
            let started = Instant::now();
            while client.write_all(b"x").is_ok() {
                assert!(started.elapsed() < TIMEOUT, "it is waited for without end");
                thread::sleep(Duration::from_millis(50));
            }
            // A head may take longer than that.
            let mut client = connect(server);
            client.write_all(b"GET /small HTTP/1.0\r\n").unwrap();
            thread::sleep(Duration::from_millis(1000));
            client.write_all(b"\r\n").unwrap();
            assert!(read_to_end(&mut client).ends_with("\r\n\r\nsmall"));
        },
    );
}

/// Requests the large file with a small window, so that most of it stays on the server.
fn slow(server: &Server) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.connect(&server.address.into()).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
    stream
}

/// A client that always receives something, but below the minimum rate.
#[test]
fn below_the_minimum_rate() {
    on_each_driver(
        |config, _| {
            config.timeouts.min_send_rate = Some(100 << 20);
            config.timeouts.send = TIMEOUT;
        },
        |server, _| {
            let mut client = slow(server);
            let (started, mut taken) = (Instant::now(), 0);
            let mut piece = [0; 16 * 1024];
            // 160 KB per second, each block in less than a second, until well after the grace period. Then
            // whatever the kernel has buffered, as fast as possible.
            while let Ok(count @ 1..) = client.read(&mut piece) {
                taken += count;
                if started.elapsed() < Duration::from_secs(8) {
                    thread::sleep(Duration::from_millis(100));
                }
            }
            assert!(taken < 24 << 20, "cut off before the end");
            // A client that is fast enough on average receives everything, unless the machine stalls.
            eventually("a fast client", || (get(server, "/large").len() > 24 << 20).then_some(()));
        },
    );
}
