//! Sending files: in order, no more than the file contains, and without delaying other requests.

use std::fs;
use std::io::Read;
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_driver::{File, FileTransfer, Request, Socket, Token};

use crate::disk::Disk;
use crate::harness::{DriverKind, Harness, pattern, read_slowly};
use crate::peer::Peer;

crate::on_all!(
    head_and_file_in_every_combination,
    many_bytes_to_a_slow_reader,
    no_more_than_there_is,
    ranges_beyond_any_file,
    only_one_at_a_time,
    a_cancelled_one_ends,
    closing_ends_it,
    dropped_in_flight,
    a_client_that_has_left,
    without_a_copy,
);
crate::on_both!(
    a_cached_file_takes_few_system_calls,
    cut_off_under_way,
    cut_off_without_a_copy,
    every_file_gets_its_turn,
    the_delay_of_files_is_measured
);

const MIB: usize = 1 << 20;

/// A file of [`pattern`].
fn file(io: &Harness, length: usize) -> (Disk, File) {
    let disk = io.disk();
    disk.write("file", &pattern(length));
    let file = disk.open("file");
    (disk, file)
}

/// Sends all of this part. Bytes that are not in the page cache are read and sent.
fn send_all(io: &mut Harness, socket: Socket, head: &str, file: &File, offset: u64, length: u64) {
    let token = io.send_file(socket, head, file, offset, length);
    let mut sent = io.sent_file(token).unwrap();
    while sent < length {
        let (offset, length) = (offset + sent, (length - sent).min(9999));
        let (file, buffer) = (file.clone(), Vec::new());
        let read = io.start(Request::ReadAt { file, buffer, offset, length: length as usize });
        let bytes = io.read(read);
        assert_eq!(bytes.len() as u64, length);
        let send = io.send(socket, b"", bytes);
        io.sent(send).unwrap();
        sent += length;
    }
}

fn head_and_file_in_every_combination(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    let (_disk, file) = file(io, 300_000);
    for head in ["", "head"] {
        for (offset, length) in [(0, 0), (0, 1), (7, 5000), (65_000, 70_000), (299_999, 1)] {
            send_all(io, socket, head, &file, offset, length);
            let mut received = vec![0; head.len() + length as usize];
            peer.read_exact(&mut received).unwrap();
            let (from, to) = (offset as usize, (offset + length) as usize);
            assert_eq!(&received[..head.len()], head.as_bytes());
            assert!(received[head.len()..] == pattern(to)[from..], "{length} bytes from {offset}");
        }
    }
}

fn many_bytes_to_a_slow_reader(io: &mut Harness) {
    const LENGTH: usize = 8 * MIB;
    let (socket, peer) = io.pair();
    if let Some(fd) = io.driver.fd(socket) {
        socket2::SockRef::from(&fd).set_send_buffer_size(16 << 10).unwrap();
    }
    let (_disk, file) = file(io, LENGTH);
    let reader = read_slowly(peer, LENGTH);
    send_all(io, socket, "", &file, 0, LENGTH as u64);
    assert!(reader.join().unwrap() == pattern(LENGTH));
}

fn no_more_than_there_is(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    let (_disk, file) = file(io, 200_001);
    for (offset, expected) in
        [(0, 200_001), (70_000, 130_001), (200_000, 1), (200_001, 0), (1 << 40, 0)]
    {
        let token = io.send_file(socket, "head", &file, offset, 1 << 30);
        let sent = io.sent_file(token).unwrap();
        assert!(
            sent == expected || sent < expected && io.kind == DriverKind::Sim,
            "{sent} from {offset}"
        );
        let mut received = vec![0; 4 + sent as usize];
        peer.read_exact(&mut received).unwrap();
        assert!(
            received[4..] == pattern(200_001)[(offset as usize).min(200_001)..][..sent as usize]
        );
    }
}

fn ranges_beyond_any_file(io: &mut Harness) {
    let (socket, _peer) = io.pair();
    let (_disk, file) = file(io, 10);
    for (offset, length) in [(u64::MAX, 1), (1, u64::MAX), (1 << 63, 0)] {
        let token = io.send_file(socket, "head", &file, offset, length);
        assert_eq!(io.error(token), libc::EINVAL);
    }
    let stale = socket;
    io.driver.close(socket);
    let token = io.send_file(stale, "head", &file, 0, 1);
    assert_eq!(io.error(token), libc::EBADF);
}

/// A send that waits for its reader.
fn blocked_send(io: &mut Harness, file: &File) -> (Socket, Peer, Token) {
    let (socket, peer) = io.pair();
    if let Some(world) = &io.outside.0 {
        // All of the file is cached, so that the send does not end early.
        world.set_faults(phalanx_driver::sim::Faults::NONE);
    }
    let token = io.send_file(socket, "head", file, 0, 16 * MIB as u64);
    io.idle(Duration::from_millis(20));
    assert!(io.take(token).is_none(), "it waits");
    (socket, peer, token)
}

fn only_one_at_a_time(io: &mut Harness) {
    let (_disk, file) = file(io, 16 * MIB);
    let (socket, peer, first) = blocked_send(io, &file);
    let others = [io.send_file(socket, "x", &file, 0, 1), io.send(socket, b"x", "")];
    for token in others {
        assert_eq!(io.error(token), libc::EBUSY);
    }
    drop(peer);
    let error = io.error(first);
    assert!([libc::EPIPE, libc::ECONNRESET].contains(&error), "{error}");
    // The same in the other order.
    let (socket, _peer) = io.pair();
    let first = io.send(socket, b"head", vec![7; 64 << 20]);
    io.idle(Duration::from_millis(5));
    let second = io.send_file(socket, "x", &file, 0, 1);
    assert_eq!(io.error(second), libc::EBUSY);
    assert!(io.take(first).is_none());
}

fn a_cancelled_one_ends(io: &mut Harness) {
    let (_disk, file) = file(io, 16 * MIB);
    let (socket, mut peer, token) = blocked_send(io, &file);
    io.driver.cancel(token);
    assert_eq!(io.error(token), libc::ECANCELED);
    // None of its bytes follow the next send.
    let next = io.send(socket, b"the end", "");
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        let mut part = vec![0; 1 << 16];
        while !received.ends_with(b"the end") {
            let read = peer.read(&mut part).unwrap();
            assert!(read > 0);
            received.extend_from_slice(&part[..read]);
        }
        received
    });
    io.sent(next).unwrap();
    let received = reader.join().unwrap();
    let length = received.len() - 4 - 7;
    assert!(length < 16 * MIB && received[4..4 + length] == pattern(length));
    // A send that was not started.
    let token = io.send_file(socket, "head", &file, 0, 1);
    io.driver.cancel(token);
    assert_eq!(io.error(token), libc::ECANCELED);
}

fn closing_ends_it(io: &mut Harness) {
    let (_disk, file) = file(io, 16 * MIB);
    let (socket, _peer, token) = blocked_send(io, &file);
    io.driver.close(socket);
    assert_eq!(io.error(token), libc::ECANCELED);
    let (socket, _peer) = io.pair();
    let token = io.send_file(socket, "head", &file, 0, 1);
    io.driver.close(socket);
    assert_eq!(io.error(token), libc::ECANCELED);
    io.idle(Duration::from_millis(5));
}

fn dropped_in_flight(io: &mut Harness) {
    let (_disk, file) = file(io, 16 * MIB);
    let (_socket, mut peer, _token) = blocked_send(io, &file);
    let kind = io.kind;
    drop(std::mem::replace(io, Harness::new(DriverKind::Poll, &phalanx_driver::Config::default())));
    if kind != DriverKind::Sim {
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        assert!(received.len() < 4 + 16 * MIB, "it was closed");
    }
}

fn a_client_that_has_left(io: &mut Harness) {
    let (socket, peer) = io.pair();
    let (_disk, file) = file(io, 16 * MIB);
    if let Some(world) = &io.outside.0 {
        world.set_faults(phalanx_driver::sim::Faults::NONE);
    }
    io.driver.shutdown(socket, Shutdown::Write).unwrap();
    let token = io.send_file(socket, "", &file, 0, 1);
    assert_eq!(io.error(token), libc::EPIPE);
    drop(peer);
}

fn without_a_copy(io: &mut Harness) {
    io.transfer = FileTransfer::ZeroCopy;
    for test in [
        head_and_file_in_every_combination,
        many_bytes_to_a_slow_reader,
        no_more_than_there_is,
        ranges_beyond_any_file,
        only_one_at_a_time,
        a_cancelled_one_ends,
        closing_ends_it,
        a_client_that_has_left,
    ] {
        test(io);
    }
}

/// A file of the kernel, if the file system reports that all of it is cached.
fn known(io: &Harness, length: usize) -> Option<(Disk, File)> {
    let (disk, file) = file(io, length);
    let all = file.read_now(&mut vec![0; length], 0).unwrap();
    if !all.complete {
        println!("skipped: this file system does not report what is cached");
    }
    all.complete.then_some((disk, file))
}

fn a_cached_file_takes_few_system_calls(io: &mut Harness) {
    let Some((_disk, file)) = known(io, MIB) else { return };
    let (socket, mut peer) = io.pair();
    if let Some(fd) = io.driver.fd(socket) {
        socket2::SockRef::from(&fd).set_send_buffer_size(8 * MIB).unwrap();
    }
    let reader = thread::spawn(move || peer.read_exact(&mut vec![0; MIB + 4]).map(|()| peer));
    io.idle(Duration::from_millis(5));
    let before = io.driver.system_calls();
    let token = io.send_file(socket, "head", &file, 0, MIB as u64);
    assert_eq!(io.sent_file(token).unwrap(), MIB as u64);
    let calls = io.driver.system_calls() - before;
    println!("{:?}: {calls} system calls for a mebibyte", io.kind);
    // Two steps of nine probes and a send, and the last byte; more if the reader is slow.
    assert!(calls < 160, "{calls}");
    reader.join().unwrap().unwrap();
}

fn cut_off_under_way(io: &mut Harness) {
    let Some(received) = cut_off(io) else { return };
    assert!(received == pattern(received.len()), "only the content of the file");
}

/// Pages that wait in the socket may be cleared, but the request ends early, so that the caller knows.
fn cut_off_without_a_copy(io: &mut Harness) {
    io.transfer = FileTransfer::ZeroCopy;
    let Some(received) = cut_off(io) else { return };
    let same = |(received, byte): (&u8, &u8)| received == byte || *received == 0;
    assert!(
        received.iter().zip(&pattern(received.len())).all(same),
        "content of the file, or zeros"
    );
}

/// Truncates a file while it is sent. Returns the bytes that the peer received of it.
fn cut_off(io: &mut Harness) -> Option<Vec<u8>> {
    let (disk, file) = known(io, 16 * MIB)?;
    let (socket, mut peer, token) = blocked_send(io, &file);
    let Disk::Real(root) = &disk else { panic!() };
    let path = root.path().join("file");
    fs::File::options().write(true).open(path).unwrap().set_len(8192).unwrap();
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        received
    });
    let sent = io.sent_file(token).unwrap();
    assert!(sent < 16 * MIB as u64, "there is no more");
    io.driver.close(socket);
    let mut received = reader.join().unwrap();
    assert_eq!(received.len() as u64, 4 + sent);
    Some(received.split_off(4))
}

fn every_file_gets_its_turn(io: &mut Harness) {
    const FILES: usize = 8;
    let Some((_disk, file)) = known(io, 4 * MIB) else { return };
    let mut pairs: Vec<_> = (0..FILES).map(|_| io.pair()).collect();
    for (socket, peer) in &mut pairs {
        let fd = io.driver.fd(*socket).unwrap();
        socket2::SockRef::from(&fd).set_send_buffer_size(8 * MIB).unwrap();
        peer.set_nonblocking(true).unwrap();
    }
    for (socket, _) in &pairs {
        io.send_file(*socket, "", &file, 0, 4 * MIB as u64);
    }
    let mut received = [0; FILES];
    let mut part = vec![0; 4 * MIB];
    for round in 1..=200 {
        // Each submit is a turn of the files, and each reap may be one.
        let turns = 2 * round - 1;
        io.driver.submit().unwrap();
        for ((_, peer), received) in pairs.iter().zip(&mut received) {
            let mut peer = peer.try_clone().unwrap();
            while let Ok(read @ 1..) = peer.read(&mut part) {
                *received += read;
            }
        }
        // Bytes of all turns so far, because the network may deliver those of an earlier turn late.
        assert!(received.iter().sum::<usize>() <= turns * 2 * MIB, "{turns} turns: {received:?}");
        io.driver.reap(&mut Vec::new()).unwrap();
        if received.iter().all(|received| *received > 0) {
            return;
        }
    }
    panic!("a file waits forever: {received:?}");
}

fn the_delay_of_files_is_measured(io: &mut Harness) {
    const FILES: usize = 48;
    const SHORT_TIMEOUT: Duration = Duration::from_millis(5);
    let Some((_disk, file)) = known(io, 16 * MIB) else { return };
    // A file that waits for its client is not delayed by the driver.
    let (_socket, _peer, _token) = blocked_send(io, &file);
    while io.driver.queue_delay() > Duration::ZERO {
        io.idle(SHORT_TIMEOUT);
    }
    let pairs: Vec<_> = (0..FILES).map(|_| io.pair()).collect();
    let start = Instant::now();
    for (socket, _) in &pairs {
        let fd = io.driver.fd(*socket).unwrap();
        socket2::SockRef::from(&fd).set_send_buffer_size(MIB).unwrap();
        io.send_file(*socket, "", &file, 0, 256 << 10);
    }
    io.driver.submit().unwrap();
    assert!(io.driver.queue_delay() <= start.elapsed());
    // More than the bytes of one turn are left.
    let submitted = Instant::now();
    while submitted.elapsed() < SHORT_TIMEOUT {
        thread::yield_now();
    }
    io.driver.submit().unwrap();
    assert!(io.driver.queue_delay() >= SHORT_TIMEOUT);
    assert_eq!(io.driver.queue_delay(), Duration::ZERO, "it is reported once");
}
