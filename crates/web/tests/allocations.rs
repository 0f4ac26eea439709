//! Calls of the general allocator per request, once a file is cached.
//!
//! The client of this test uses one buffer and does not allocate. Calls are counted in the whole process,
//! including the server's threads; `PHALANX_ALLOCATIONS=1` shows their origins.

#[path = "it/common.rs"]
mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use common::{connect, on_each_driver};
use phalanx_testkit::allocations::{self, CountingAllocator};
use phalanx_web::Config;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A typical request of a browser.
const REQUEST: &str = "GET /small HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\n\
    Accept: text/html,*/*\r\nAccept-Encoding: gzip, br\r\nConnection: keep-alive\r\n\r\n";

/// Sends so many requests, one after another.
fn ask(stream: &mut TcpStream, times: usize) {
    let mut answer = [0; 4096];
    for _ in 0..times {
        stream.write_all(REQUEST.as_bytes()).unwrap();
        let mut length = 0;
        while !answer[..length].ends_with(b"content of a small file") {
            let more = stream.read(&mut answer[length..]).unwrap();
            assert!(more > 0, "closed");
            length += more;
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
    }
}

#[test]
fn a_request_on_a_persistent_connection_does_not_allocate() {
    let configure = |home: &std::path::Path| {
        fs::write(home.join("small"), "content of a small file").unwrap();
        Config::with_root(home)
    };
    on_each_driver(configure, |server, _| {
        let mut stream = connect(server);
        // Pools grow, the file gets cached, and the next check of the disk is some time away.
        ask(&mut stream, 300);
        let fewest = allocations::min_calls(|| ask(&mut stream, 200));
        println!("{fewest} calls of the allocator for 200 requests");
        allocations::print_origins(|| ask(&mut stream, 2));
        // Timers and checks of the disk cause a few calls independent of the requests.
        assert!(fewest < 20, "{fewest} calls for 200 requests");
    });
}
