//! Submits of a processor that has a backlog.

use std::time::Duration;

use crate::harness::{DriverKind, Harness, read_slowly, write_all};

const SHORT_TIMEOUT: Duration = Duration::from_millis(5);

// In a simulation, completions do not queue.
crate::on_both!(the_queue_delay_is_measured, parking_resets_the_queue_delay);
crate::on_all!(completions_stay_in_the_kernel, requests_are_submitted);

fn completions_stay_in_the_kernel(io: &mut Harness) {
    let (socket, peer) = io.pair();
    let token = io.receive(socket);
    io.driver.submit().unwrap();
    write_all(&peer, *b"x").join().unwrap();
    io.driver.submit_backlogged().unwrap();
    assert_eq!(&io.chunk(token).unwrap()[..], b"x");
}

fn requests_are_submitted(io: &mut Harness) {
    let (socket, peer) = io.pair();
    let (token, received) = (io.send(socket, b"", "hello".as_bytes()), read_slowly(peer, 5));
    io.driver.submit_backlogged().unwrap();
    if io.kind == DriverKind::Sim {
        io.sent(token).unwrap();
    }
    // The submit alone has sent it, because the driver is not called again before this point.
    assert_eq!(received.join().unwrap(), b"hello");
}

fn the_queue_delay_is_measured(io: &mut Harness) {
    io.idle(SHORT_TIMEOUT);
    assert_eq!(io.driver.queue_delay(), Duration::ZERO, "reaping was not skipped");
    io.driver.submit_backlogged().unwrap();
    assert_eq!(io.driver.queue_delay(), Duration::ZERO, "the probe is sent now");
    std::thread::sleep(SHORT_TIMEOUT);
    assert!(io.driver.queue_delay() >= SHORT_TIMEOUT, "the probe is still queued");
    io.driver.submit().unwrap();
    io.driver.reap(&mut Vec::new()).unwrap();
    assert!(io.driver.queue_delay() >= SHORT_TIMEOUT, "the probe was reaped since");
    assert_eq!(io.driver.queue_delay(), Duration::ZERO, "reaping was not skipped since");
}

fn parking_resets_the_queue_delay(io: &mut Harness) {
    io.idle(SHORT_TIMEOUT);
    io.driver.submit_backlogged().unwrap();
    io.driver.queue_delay();
    std::thread::sleep(SHORT_TIMEOUT);
    io.idle(2 * SHORT_TIMEOUT);
    assert_eq!(io.driver.queue_delay(), Duration::ZERO);
}
