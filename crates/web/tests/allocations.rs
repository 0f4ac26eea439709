//! How often the server calls the general allocator for a request, once it has been asked before.
//!
//! The client of this test uses a buffer of its own and calls none. Calls are counted in the whole
//! process, the server's threads included; with `PHALANX_ALLOCATIONS=1` it is shown where they come
//! from.

mod common;
#[path = "common/counted.rs"]
mod counted;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use common::{connect, on_each_driver};
use phalanx_web::Config;

/// As a browser asks.
const REQUEST: &str = "GET /small HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\n\
    Accept: text/html,*/*\r\nAccept-Encoding: gzip, br\r\nConnection: keep-alive\r\n\r\n";

/// Asks so many times, one after the other.
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
fn a_request_on_a_connection_that_is_kept_calls_no_allocator() {
    let configure = |home: &std::path::Path| {
        fs::write(home.join("small"), "content of a small file").unwrap();
        Config::of(home)
    };
    on_each_driver(configure, |server, _| {
        let mut stream = connect(server);
        // Pools grow, the file comes into the cache, and its looks at the disk are over for a while.
        ask(&mut stream, 300);
        let fewest = counted::fewest(|| ask(&mut stream, 200));
        println!("{fewest} calls of the allocator for 200 requests");
        counted::show(|| ask(&mut stream, 2));
        // Timers and looks at the disk are not of a request: they come now and then.
        assert!(fewest < 20, "{fewest} calls for 200 requests");
    });
}
