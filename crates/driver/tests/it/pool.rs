//! Receives when the buffers run out.

use std::io::Write;
use std::time::Duration;

use phalanx_driver::{Config, Done};

use crate::harness::{Harness, pattern, run_with, write_all};

fn small() -> Config {
    Config { entries: 8, buffers: 4, buffer_size: 1024 }
}

fn run_with_few_buffers(driver: &str, test: fn(&mut Harness)) {
    run_with(driver, small(), test);
}

phalanx_testkit::per_driver!(super::run_with_few_buffers, sim:
    receives_wait_for_buffers,
    running_ahead_does_not_starve_others,
    many_more_sockets_than_buffers,
    more_requests_than_the_queue_holds,
    cancelled_while_waiting_for_a_buffer,
);

fn receives_wait_for_buffers(io: &mut Harness) {
    let (socket, peer) = io.pair();
    let writer = write_all(&peer, pattern(64 << 10));
    let mut chunks: Vec<_> = (0..4).map(|_| io.received(socket).unwrap()).collect();
    let mut received: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.to_vec()).collect();
    let receive = io.receive(socket);
    io.idle(Duration::from_millis(30));
    assert!(io.take(receive).is_none(), "there was no buffer");
    chunks.pop();
    received.extend_from_slice(&io.chunk(receive).unwrap());
    chunks.clear();
    received.extend(io.received_exactly(socket, (64 << 10) - received.len()));
    assert!(received == pattern(64 << 10));
    writer.join().unwrap();
}

fn running_ahead_does_not_starve_others(io: &mut Harness) {
    let (greedy, peer) = io.pair();
    let receive = io.receive(greedy);
    io.driver.submit().unwrap();
    let writer = write_all(&peer, pattern(32 << 10));
    let first = io.chunk(receive).unwrap().to_vec();
    io.idle(Duration::from_millis(30));
    let (other, mut other_peer) = io.pair();
    other_peer.write_all(b"other").unwrap();
    assert_eq!(*io.received(other).unwrap(), *b"other");
    let rest = io.received_exactly(greedy, (32 << 10) - first.len());
    assert!([first, rest].concat() == pattern(32 << 10));
    writer.join().unwrap();
}

fn many_more_sockets_than_buffers(io: &mut Harness) {
    let mut pairs: Vec<_> = (0..50).map(|_| io.pair()).collect();
    for round in 0..5_u8 {
        let receives: Vec<_> = pairs.iter().map(|(socket, _)| io.receive(*socket)).collect();
        // Only some receive bytes at first; the others must not occupy buffers.
        for part in [1, 0] {
            for (number, (_, peer)) in pairs.iter_mut().enumerate() {
                if number % 2 == part {
                    peer.write_all(&[number as u8, round]).unwrap();
                }
            }
            // Takes completions in order of arrival, because a completion that was not taken keeps its buffer.
            let mut missing = receives.len() / 2;
            while missing > 0 {
                io.turn(Duration::from_secs(5));
                for (number, receive) in receives.iter().enumerate() {
                    if let Some(result) = io.take(*receive) {
                        assert_eq!(number % 2, part);
                        let Done::Received(chunk) = result.unwrap() else { panic!() };
                        assert_eq!(*chunk, [number as u8, round]);
                        missing -= 1;
                    }
                }
            }
        }
    }
}

fn more_requests_than_the_queue_holds(io: &mut Harness) {
    let mut pairs: Vec<_> = (0..150).map(|_| io.pair()).collect();
    let mut sends = Vec::new();
    let mut receives = Vec::new();
    for (number, (socket, _)) in pairs.iter().enumerate() {
        sends.push(io.send(*socket, &[number as u8], "body"));
        receives.push(io.receive(*socket));
    }
    for send in sends {
        io.sent(send).unwrap();
    }
    for (number, ((_, peer), receive)) in pairs.iter_mut().zip(receives).enumerate() {
        let mut received = [0; 5];
        std::io::Read::read_exact(peer, &mut received).unwrap();
        assert_eq!(received, [number as u8, b'b', b'o', b'd', b'y']);
        peer.write_all(&received).unwrap();
        assert_eq!(*io.chunk(receive).unwrap(), received);
    }
}

fn cancelled_while_waiting_for_a_buffer(io: &mut Harness) {
    let (socket, peer) = io.pair();
    let writer = write_all(&peer, pattern(8 << 10));
    let chunks: Vec<_> = (0..4).map(|_| io.received(socket).unwrap()).collect();
    let mut received: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.to_vec()).collect();
    let receive = io.receive(socket);
    io.idle(Duration::from_millis(10));
    io.driver.cancel(receive);
    assert_eq!(io.error(receive), libc::ECANCELED);
    let again = io.receive(socket);
    io.idle(Duration::from_millis(10));
    drop(chunks);
    received.extend_from_slice(&io.chunk(again).unwrap());
    received.extend(io.received_exactly(socket, (8 << 10) - received.len()));
    assert!(received == pattern(8 << 10));
    writer.join().unwrap();
}
