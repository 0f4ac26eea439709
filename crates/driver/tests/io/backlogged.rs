//! What has come while its caller has enough to do.

use std::time::Duration;

use crate::harness::{DriverKind, Harness, read_slowly, write_all};

const MOMENT: Duration = Duration::from_millis(5);

// A simulation has no line to wait in.
crate::on_both!(how_long_it_waits_is_told, who_has_slept_has_left_nobody_waiting);
crate::on_all!(what_is_left_outside_comes_later, what_is_handed_over_is_done);

fn what_is_left_outside_comes_later(io: &mut Harness) {
    let (socket, peer) = io.pair();
    let token = io.receive(socket);
    io.driver.submit().unwrap();
    write_all(&peer, *b"x").join().unwrap();
    io.driver.submit_backlogged().unwrap();
    assert_eq!(&io.chunk(token).unwrap()[..], b"x");
}

fn what_is_handed_over_is_done(io: &mut Harness) {
    let (socket, peer) = io.pair();
    let (token, got) = (io.send(socket, b"", "hello".as_bytes()), read_slowly(peer, 5));
    io.driver.submit_backlogged().unwrap();
    if io.kind == DriverKind::Sim {
        io.sent(token).unwrap();
    }
    // The others have sent it: nobody turns the driver meanwhile.
    assert_eq!(got.join().unwrap(), b"hello");
}

fn how_long_it_waits_is_told(io: &mut Harness) {
    io.idle(MOMENT);
    assert_eq!(io.driver.queue_delay(), Duration::ZERO, "nothing was left outside");
    io.driver.submit_backlogged().unwrap();
    assert_eq!(io.driver.queue_delay(), Duration::ZERO, "something is sent now to find out");
    std::thread::sleep(MOMENT);
    assert!(io.driver.queue_delay() >= MOMENT, "it still waits");
    io.driver.submit().unwrap();
    io.driver.reap(&mut Vec::new()).unwrap();
    assert!(io.driver.queue_delay() >= MOMENT, "it has come by since");
    assert_eq!(io.driver.queue_delay(), Duration::ZERO, "nothing was left outside since");
}

fn who_has_slept_has_left_nobody_waiting(io: &mut Harness) {
    io.idle(MOMENT);
    io.driver.submit_backlogged().unwrap();
    io.driver.queue_delay();
    std::thread::sleep(MOMENT);
    io.idle(2 * MOMENT);
    assert_eq!(io.driver.queue_delay(), Duration::ZERO);
}
