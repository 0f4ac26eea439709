//! How often the server calls the general allocator for a request, once it has been asked before.
//!
//! The client of this test uses a buffer of its own and calls none. Calls are counted in the whole
//! process, the server's threads included; with `PHALANX_ALLOCATIONS=1` it is shown where they come
//! from.
//!
//! # Safety
//! The allocator is the system's; beside it a number is counted.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{connect, on_each_driver};
use phalanx_web::Config;

struct Counted;

static CALLS: AtomicU64 = AtomicU64::new(0);
static TRACED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    CALLS.fetch_add(1, Ordering::Relaxed);
    if TRACED.load(Ordering::Relaxed) && !TELLING.replace(true) {
        eprintln!("{}", std::backtrace::Backtrace::force_capture());
        TELLING.set(false);
    }
}

// SAFETY: the system's allocator, which is asked for the same.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

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
        let fewest = (0..5).map(|_| {
            let before = CALLS.load(Ordering::Relaxed);
            ask(&mut stream, 200);
            CALLS.load(Ordering::Relaxed) - before
        });
        let fewest = fewest.min().unwrap();
        println!("{fewest} calls of the allocator for 200 requests");
        if std::env::var_os("PHALANX_ALLOCATIONS").is_some() {
            TRACED.store(true, Ordering::Relaxed);
            ask(&mut stream, 2);
            TRACED.store(false, Ordering::Relaxed);
        }
        // Timers and looks at the disk are not of a request: they come now and then.
        assert!(fewest < 20, "{fewest} calls for 200 requests");
    });
}
