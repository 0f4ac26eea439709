//! Random schedules, compared with the model of a connection: a pipe of bytes in each direction.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use phalanx_driver::{Config, Done, FileTransfer, Request, Socket, Token};
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

use crate::harness::{DriverKind, Harness};
use crate::peer::Peer;

crate::on_all!(streams_stay_streams);

/// The length of a file, in bytes.
const FILE: usize = 9000;

#[derive(Clone, Debug)]
enum Step {
    PeerWrites(usize),
    PeerReads,
    Send(usize, usize),
    SendFile(usize, usize),
    Receive,
    Cancel,
    Drop,
    Turn,
    PeerEnds,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        4 => (1_usize..5000).prop_map(Step::PeerWrites),
        3 => Just(Step::PeerReads),
        4 => (0_usize..3000, 0_usize..6000).prop_map(|(head, body)| Step::Send(head, body)),
        3 => (0_usize..3000, 0_usize..FILE).prop_map(|(head, from)| Step::SendFile(head, from)),
        6 => Just(Step::Receive),
        1 => Just(Step::Cancel),
        3 => Just(Step::Drop),
        5 => Just(Step::Turn),
        1 => Just(Step::PeerEnds),
    ];
    prop::collection::vec((0_usize..3, step), 1..120)
}

/// A connection: the bytes that each side has written, and those that have arrived.
struct Stream {
    socket: Socket,
    peer: Peer,
    to_us: Vec<u8>,
    from_us: Vec<u8>,
    received: Vec<u8>,
    peer_got: Vec<u8>,
    receive: Option<Token>,
    send: Option<Token>,
    /// The rest of a file that may be sent, if this is the send of a file.
    file: Vec<u8>,
    has_ended: bool,
    has_received_end: bool,
}

fn streams_stay_streams(io: &mut Harness) {
    let kind = io.kind;
    let cases = Cases { cases: 300, failure_persistence: None, ..Cases::default() };
    TestRunner::new(cases)
        .run(&steps(), |steps| {
            follow(kind, &steps);
            Ok(())
        })
        .unwrap();
}

fn follow(kind: DriverKind, steps: &[(usize, Step)]) {
    let config = Config { entries: 4, buffers: 6, buffer_size: 700 };
    let mut io = Harness::new(kind, &config);
    let disk = io.disk();
    let content = crate::harness::pattern(FILE);
    disk.write("file", &content);
    let file = disk.open("file");
    let mut held = Vec::new();
    let mut counter = 0_u8;
    let mut streams: Vec<Stream> = (0..3).map(|_| Stream::new(&mut io)).collect();
    for (index, step) in steps {
        let stream = &mut streams[*index];
        let mut next = |length: usize| -> Vec<u8> {
            (0..length)
                .map(|_| {
                    counter = counter.wrapping_mul(5).wrapping_add(3);
                    counter
                })
                .collect()
        };
        match step {
            Step::PeerWrites(length) if !stream.has_ended => {
                let bytes = next(*length);
                stream.peer.write_all(&bytes).unwrap();
                stream.to_us.extend(bytes);
            }
            Step::PeerReads => stream.peer_reads(),
            Step::Send(head, body) if stream.send.is_none() => {
                let (head, body) = (next(*head), next(*body));
                stream.from_us.extend_from_slice(&head);
                stream.from_us.extend_from_slice(&body);
                stream.send = Some(io.send(stream.socket, &head, body));
            }
            Step::SendFile(head, from) if stream.send.is_none() => {
                let head = next(*head);
                stream.from_us.extend_from_slice(&head);
                stream.file = content[*from..].to_vec();
                let (file, length) = (file.clone(), stream.file.len() as u64 + 1);
                let (socket, offset) = (stream.socket, *from as u64);
                let transfer = FileTransfer::Copy;
                let request = Request::SendFile { socket, head, file, offset, length, transfer };
                stream.send = Some(io.start(request));
            }
            Step::Receive if stream.receive.is_none() => {
                stream.receive = Some(io.receive(stream.socket));
            }
            Step::Cancel => {
                if let Some(receive) = stream.receive {
                    io.driver.cancel(receive);
                }
            }
            Step::Drop => held.clear(),
            Step::Turn => io.turn(Duration::ZERO),
            Step::PeerEnds if !stream.has_ended => {
                stream.peer.shutdown(Shutdown::Write).unwrap();
                stream.has_ended = true;
            }
            _ => {}
        }
        for stream in &mut streams {
            stream.collect(&mut io, Some(&mut held));
        }
    }
    // With any schedule, all bytes arrive, once and in order.
    held.clear();
    for stream in &mut streams {
        while stream.send.is_some() {
            stream.peer_reads();
            io.turn(Duration::from_millis(1));
            stream.collect(&mut io, None);
        }
        if !stream.has_ended {
            stream.peer.shutdown(Shutdown::Write).unwrap();
        }
        stream.collect(&mut io, None);
        while !stream.has_received_end {
            if stream.receive.is_none() {
                stream.receive = Some(io.receive(stream.socket));
            }
            io.turn(Duration::from_millis(1000));
            stream.collect(&mut io, None);
        }
        assert!(stream.received == stream.to_us);
        io.driver.close(stream.socket);
        io.turn(Duration::ZERO);
        stream.peer.set_nonblocking(false).unwrap();
        stream.peer.read_to_end(&mut stream.peer_got).unwrap();
        assert!(stream.peer_got == stream.from_us);
    }
}

impl Stream {
    fn new(io: &mut Harness) -> Stream {
        let (socket, peer) = io.pair();
        Stream {
            socket,
            peer,
            to_us: Vec::new(),
            from_us: Vec::new(),
            received: Vec::new(),
            peer_got: Vec::new(),
            receive: None,
            send: None,
            file: Vec::new(),
            has_ended: false,
            has_received_end: false,
        }
    }

    fn peer_reads(&mut self) {
        self.peer.set_nonblocking(true).unwrap();
        let mut part = [0; 4096];
        while let Ok(read @ 1..) = self.peer.read(&mut part) {
            self.peer_got.extend_from_slice(&part[..read]);
        }
        self.peer.set_nonblocking(false).unwrap();
    }

    /// Takes completions, and keeps chunks in `held` so that buffers are scarce.
    fn collect(&mut self, io: &mut Harness, held: Option<&mut Vec<phalanx_driver::Chunk>>) {
        if let Some(result) = self.send.and_then(|token| io.take(token)) {
            match result.unwrap() {
                Done::Sent(_) => {}
                // The part that was in the page cache.
                Done::SentFile { bytes, .. } => {
                    self.from_us.extend_from_slice(&self.file[..bytes as usize]);
                }
                other => panic!("{other:?}"),
            }
            self.send = None;
        }
        if let Some(result) = self.receive.and_then(|token| io.take(token)) {
            self.receive = None;
            match result {
                Ok(Done::Received(chunk)) => {
                    self.has_received_end |= chunk.is_empty();
                    assert!(!self.has_received_end || chunk.is_empty(), "bytes after the end");
                    self.received.extend_from_slice(&chunk);
                    if let Some(held) = held {
                        held.push(chunk);
                    }
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ECANCELED)),
            }
        }
    }
}
