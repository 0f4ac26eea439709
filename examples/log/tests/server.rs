//! Tests of the server process: lines are acknowledged, and acknowledged lines survive a kill.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx_testkit::process::{Process, clean};
use phalanx_testkit::{eventually, tcp};

struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    fn start(directory: &Path) -> Self {
        let mut command = clean(env!("CARGO_BIN_EXE_log"));
        command.arg("127.0.0.1:0").arg(directory);
        let process = Process::start(command);
        Self { address: process.address(), process }
    }

    fn client(&self) -> Client {
        let stream = tcp::connect(self.address);
        Client { answers: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    /// Stops the server. Returns the printed numbers of lines and syncs.
    fn finish(mut self) -> (u64, u64) {
        let output = self.process.shut_down().join(" ");
        let figures: Vec<u64> = output.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [lines, syncs, ..] = figures[..] else { panic!("{output:?}") };
        (lines, syncs)
    }
}

struct Client {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Client {
    fn send(&mut self, lines: &str) -> std::io::Result<()> {
        self.stream.write_all(lines.as_bytes())
    }

    /// The position of the next line; `None` at the end of the connection.
    fn place(&mut self) -> Option<usize> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        if !read.is_ok_and(|read| read > 0) {
            return None;
        }
        Some(line.trim().parse().unwrap_or_else(|_| panic!("{line:?}")))
    }
}

fn at(log: &str, place: usize) -> &str {
    log[place..].split_inclusive('\n').next().unwrap()
}

#[test]
fn lines_are_at_the_acknowledged_positions() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("log"), "of old\nand to").unwrap();
    let server = Server::start(home.path());
    let mut client = server.client();
    client.send("one\ntwo\nthr").unwrap();
    let first = [client.place().unwrap(), client.place().unwrap()];
    client.send("ee\n\nfive\n").unwrap();
    let rest = [(); 3].map(|()| client.place().unwrap());
    let log = fs::read_to_string(home.path().join("log")).unwrap();
    assert_eq!(log, "of old\nand to\none\ntwo\nthree\n\nfive\n");
    let places = [&first[..], &rest[..]].concat();
    let found: Vec<_> = places.into_iter().map(|place| at(&log, place)).collect();
    assert_eq!(found, ["one\n", "two\n", "three\n", "\n", "five\n"]);
    // Longer than a line may be.
    let _ = client.send(&"x".repeat(100_000));
    assert_eq!(client.place(), None);
    assert_eq!(server.finish().0, 5);
}

#[test]
fn an_output_without_a_reader_is_no_error() {
    let home = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = clean(env!("CARGO_BIN_EXE_log"));
    let mut server = command.arg("127.0.0.1:0").arg(home.path()).stdout(writer).spawn().unwrap();
    drop(command);
    let mut line = String::new();
    let mut output = BufReader::new(reader);
    output.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    drop(output);
    // At its end it prints the numbers of lines and syncs.
    let signalled = Command::new("kill").arg(server.id().to_string()).status().unwrap();
    let end = eventually("its end", || server.try_wait().unwrap());
    assert!(signalled.success());
    assert!(end.success(), "{end}");
}

#[test]
fn many_clients_share_their_syncs() {
    const CLIENTS: usize = 40;
    const LINES: usize = 25;
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path());
    std::thread::scope(|scope| {
        for n in 0..CLIENTS {
            let (mut client, home) = (server.client(), home.path());
            scope.spawn(move || {
                let mut places = Vec::new();
                for line in 0..LINES {
                    client.send(&format!("{n}:{line}\n")).unwrap();
                    places.push(client.place().unwrap());
                }
                assert!(places.is_sorted(), "a client's lines stay in order");
                let log = fs::read_to_string(home.join("log")).unwrap();
                for (line, place) in places.into_iter().enumerate() {
                    assert_eq!(at(&log, place), format!("{n}:{line}\n"));
                }
            });
        }
    });
    let (lines, syncs) = server.finish();
    println!("{lines} lines, {syncs} syncs");
    assert_eq!(lines, (CLIENTS * LINES) as u64);
    assert!(syncs >= LINES as u64 && syncs < lines / 2, "{syncs} syncs for {lines} lines");
    assert_eq!(fs::read_to_string(home.path().join("log")).unwrap().lines().count(), 1000);
}

#[test]
fn acknowledged_lines_survive_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let mut answered = Vec::new();
    for round in 0..3 {
        let mut server = Server::start(home.path());
        let count = &AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let clients = (0..8).map(|n| {
                let mut client = server.client();
                scope.spawn(move || {
                    let mut answered = Vec::new();
                    for line in 0.. {
                        let line = format!("{round}:{n}:{line}\n");
                        if client.send(&line).is_err() {
                            break;
                        }
                        match client.place() {
                            Some(place) => answered.push((place, line)),
                            None => break,
                        }
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    answered
                })
            });
            let clients: Vec<_> = clients.collect();
            eventually("100 answers", || (count.load(Ordering::Relaxed) >= 100).then_some(()));
            server.process.kill();
            clients.into_iter().for_each(|client| answered.extend(client.join().unwrap()));
        });
    }
    let log = fs::read_to_string(home.path().join("log")).unwrap();
    assert!(answered.len() >= 300, "{} answers", answered.len());
    for (place, line) in answered {
        assert_eq!(at(&log, place), line);
    }
}
