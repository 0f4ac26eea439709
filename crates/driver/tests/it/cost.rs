//! System calls per request in steady state.

use std::io::{Read, Write};
use std::time::Duration;

use crate::harness::{DriverKind, Harness};

crate::on_both!(an_echo_takes_few_system_calls, an_idle_reap_is_cheap);

fn an_echo_takes_few_system_calls(io: &mut Harness) {
    const SOCKETS: usize = 32;
    const ROUNDS: u64 = 100;
    let mut pairs: Vec<_> = (0..SOCKETS).map(|_| io.pair()).collect();
    let mut receives: Vec<_> = pairs.iter().map(|(socket, _)| io.receive(*socket)).collect();
    io.idle(Duration::from_millis(20));
    let mut before = 0;
    for round in 0..ROUNDS + 1 {
        if round == 1 {
            before = io.driver.system_calls();
        }
        for (_, peer) in &mut pairs {
            peer.write_all(b"request").unwrap();
        }
        let mut sends = Vec::new();
        for ((socket, _), receive) in pairs.iter().zip(&mut receives) {
            let request = io.chunk(*receive).unwrap();
            sends.push(io.send(*socket, &request, "reply"));
            *receive = io.receive(*socket);
        }
        for send in sends {
            io.sent(send).unwrap();
        }
        for (_, peer) in &mut pairs {
            peer.read_exact(&mut [0; 12]).unwrap();
        }
    }
    let calls = io.driver.system_calls() - before;
    let requests = ROUNDS * SOCKETS as u64;
    println!("{:?}: {:.3} system calls per request", io.kind, calls as f64 / requests as f64);
    match io.kind {
        // The kernel completes about 20 receives per call, and another call submits the sends.
        DriverKind::Uring => assert!(calls <= ROUNDS * 6, "{calls}"),
        // A receive and a send each, and one wait per batch.
        _ => assert!(calls <= 2 * requests + ROUNDS * 6, "{calls}"),
    }
}

fn an_idle_reap_is_cheap(io: &mut Harness) {
    let (socket, _peer) = io.pair();
    io.receive(socket);
    io.idle(Duration::from_millis(10));
    let before = io.driver.system_calls();
    for _ in 0..100 {
        io.driver.submit().unwrap();
        assert_eq!(io.driver.reap(&mut Vec::new()).unwrap(), 0);
    }
    let calls = io.driver.system_calls() - before;
    match io.kind {
        DriverKind::Uring => assert_eq!(calls, 0),
        _ => assert!(calls <= 100),
    }
}
