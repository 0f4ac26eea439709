//! The limit on the time a client takes for a block of a response, which only an embedder can set this short.

use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::eventually;

use crate::common::{LARGE, ask, read_to_end};

/// A large file has four times that. The slow client pauses for half of it, so that the machine may stall
/// too.
const LIMIT: Duration = Duration::from_millis(600);

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let configure = |home: &std::path::Path| {
        let mut config = crate::common::small_and_large(home);
        config.timeouts.send = LIMIT;
        config
    };
    crate::common::on_each_driver(configure, |server, _| {
        let mut idle = ask(server, "/large");
        // Slow, but each block is received in time, unless the machine stalls for longer than the limit.
        let is_served = || {
            let mut slow = ask(server, "/large");
            let started = Instant::now();
            let mut taken = 0;
            // A large file is sent in units of four blocks, with four times the limit.
            while started.elapsed() < 8 * LIMIT {
                // Far more than the server sends at once, far less than the file.
                let mut piece = vec![0; 1 << 20];
                slow.read_exact(&mut piece).ok()?;
                taken += piece.len();
                thread::sleep(LIMIT / 2);
            }
            // All of it, and a head.
            (read_to_end(&mut slow).len() + taken > LARGE).then_some(())
        };
        eventually("a slow client receives everything", is_served);
        assert!(read_to_end(&mut idle).len() < LARGE, "what sockets hold, and then the end");
        assert!(read_to_end(&mut ask(server, "/small")).len() > 5);
    });
}
