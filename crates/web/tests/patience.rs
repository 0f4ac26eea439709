//! What only an embedder can set: how long a client may take to read a piece of an answer.

mod common;

use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use common::{LARGE, ask, rest};

/// A large file has four times that. The slow client rests for half of it, and its machine may stand still besides.
const LIMIT: Duration = Duration::from_millis(600);

#[test]
fn who_does_not_read_is_cut_off() {
    let configure = |home: &std::path::Path| {
        let mut config = common::small_and_large(home);
        config.timeouts.send = LIMIT;
        config
    };
    common::on_each_driver(configure, |server, _| {
        let mut idle = ask(server, "/large");
        // Slow, but each piece of it is taken in time: that is no fault.
        let mut slow = ask(server, "/large");
        let begun = Instant::now();
        let mut taken = 0;
        // A large file leaves by four times what the limit is for, and has as much time for it.
        while begun.elapsed() < 8 * LIMIT {
            // Far more than the server sends at a time, far less than there is.
            let mut piece = vec![0; 1 << 20];
            slow.read_exact(&mut piece).unwrap();
            taken += piece.len();
            thread::sleep(LIMIT / 2);
        }
        assert!(rest(&mut slow).len() + taken > LARGE, "all of it, and a head");
        assert!(rest(&mut idle).len() < LARGE, "what sockets hold, and then the end");
        assert!(rest(&mut ask(server, "/small")).len() > 5);
    });
}
