//! Tests of the server process with raw bytes, and with `redis-cli` if installed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use phalanx_testkit::process::{Process, clean};
use phalanx_testkit::tcp::{self, talk};
use phalanx_testkit::{driver, eventually};

phalanx_testkit::per_driver!(crate::on:
    each_command_answers,
    a_pipeline_is_answered_in_order,
    many_clients_count_together,
    a_scan_finds_every_key_once_at_rest,
    invalid_input_gets_an_error_and_a_close,
    values_of_any_bytes_and_megabytes,
    a_reply_may_be_larger_than_memory,
    too_many_clients_are_rejected,
    it_shuts_down_gracefully,
    redis_cli_works,
);

/// Runs a test on this driver, if the machine has it.
fn on(driver: &'static str, test: fn(&str)) {
    let available = || {
        let process = Server::process(driver, &[]);
        process.next_line().map(drop).ok_or_else(|| process.stderr())
    };
    if driver::is_selected(driver, available) {
        test(driver);
    }
}

struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    fn start(driver: &str) -> Self {
        Self::start_with(driver, &["--processors", "2"])
    }

    fn start_with(driver: &str, arguments: &[&str]) -> Self {
        let process = Self::process(driver, arguments);
        Self { address: process.address(), process }
    }

    fn process(driver: &str, arguments: &[&str]) -> Process {
        let mut command = clean(env!("CARGO_BIN_EXE_kv"));
        command.args(["--listen", "127.0.0.1:0", "--driver", driver]).args(arguments);
        Process::start(command)
    }

    fn connect(&self) -> TcpStream {
        tcp::connect(self.address)
    }

    /// All answers to a client that sends `input` and then shuts down its sending direction.
    fn all(&self, input: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(input).expect("sent");
        stream.shutdown(Shutdown::Write).expect("an end");
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).expect("answers and an end");
        String::from_utf8_lossy(&answers).into_owned()
    }
}

/// The number in the rest of a line.
fn rest_of_line(stream: &mut TcpStream) -> u64 {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a line");
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).trim().parse().expect("a number")
}

fn each_command_answers(driver: &str) {
    let server = Server::start(driver);
    let client = &mut server.connect();
    talk(client, b"*1\r\n$4\r\nPING\r\n", "+PONG\r\n");
    talk(client, b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n");
    talk(client, b"SET k v\r\n", "+OK\r\n");
    talk(client, b"get k\r\n", "$1\r\nv\r\n");
    talk(client, b"GET none\r\n", "$-1\r\n");
    talk(client, b"SET k w NX\r\n", "$-1\r\n");
    talk(client, b"SET k w XX GET\r\n", "$1\r\nv\r\n");
    talk(client, b"APPEND k xyz\r\nSTRLEN k\r\n", ":4\r\n:4\r\n");
    talk(
        client,
        b"INCR n\r\nINCRBY n 41\r\nDECR n\r\nDECRBY n 2\r\n",
        ":1\r\n:42\r\n:41\r\n:39\r\n",
    );
    talk(client, b"INCR k\r\n", "-ERR value is not an integer or out of range\r\n");
    talk(client, b"MSET a 1 b 2 c 3\r\n", "+OK\r\n");
    talk(client, b"MGET a none c b\r\n", "*4\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n$1\r\n2\r\n");
    talk(client, b"EXISTS a b a none\r\n", ":3\r\n");
    talk(client, b"DBSIZE\r\n", ":5\r\n");
    talk(client, b"DEL a b none\r\n", ":2\r\n");
    // Half a second may pass between two cohorts on a busy machine, but not half a century.
    talk(client, b"EXPIRE c 100\r\n", ":1\r\n");
    talk(client, b"SET c 3 EX 4000000000\r\nTTL c\r\n", "+OK\r\n:");
    assert!((3_000_000_000..=4_000_000_000).contains(&rest_of_line(client)));
    talk(client, b"TTL n\r\nTTL none\r\n", ":-1\r\n:-2\r\n");
    talk(client, b"SET short v PX 1\r\n", "+OK\r\n");
    std::thread::sleep(Duration::from_millis(20));
    talk(client, b"GET short\r\n", "$-1\r\n");
    talk(client, b"KEYS [n]\r\n", "*1\r\n$1\r\nn\r\n");
    talk(client, b"SELECT 0\r\nSELECT 1\r\n", "+OK\r\n-ERR DB index is out of range\r\n");
    talk(client, b"HELLO 3\r\n", "-NOPROTO unsupported protocol version\r\n");
    talk(client, b"CONFIG GET save\r\nCOMMAND DOCS\r\n", "*0\r\n*0\r\n");
    talk(client, b"FLUSHALL\r\nDBSIZE\r\n", "+OK\r\n:0\r\n");
    talk(
        client,
        b"GET\r\nFLY\r\n\r\n",
        "-ERR wrong number of arguments for 'get' command\r\n-ERR unknown command 'FLY'\r\n",
    );
    talk(client, b"QUIT\r\nPING\r\n", "+OK\r\n");
    assert_eq!(client.read(&mut [0]).expect("an end"), 0);
}

/// However it is split, and whatever partitions its keys belong to, a pipeline is answered in order, and its
/// commands on one key run in order.
fn a_pipeline_is_answered_in_order(driver: &str) {
    let server = Server::start(driver);
    let (mut input, mut expected) = (String::new(), String::new());
    for n in 0..5000 {
        // Each key four times in a row, over all partitions.
        input += &format!("INCR key:{}\r\n", n / 4);
        expected += &format!(":{}\r\n", n % 4 + 1);
    }
    assert_eq!(server.all(input.as_bytes()), expected);

    let (mut input, mut expected) = (String::new(), String::new());
    for n in 0..500 {
        input += &format!("MSET a {n} b {n} c {n}\r\nMGET c a b\r\n");
        let value = format!("${}\r\n{n}\r\n", n.to_string().len());
        expected += &format!("+OK\r\n*3\r\n{}", value.repeat(3));
    }
    let mut stream = server.connect();
    for piece in input.as_bytes().chunks(977) {
        stream.write_all(piece).expect("sent");
    }
    stream.shutdown(Shutdown::Write).expect("an end");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("answers");
    assert!(answers == expected, "500 pairs of MSET and MGET, in order");
}

fn many_clients_count_together(driver: &str) {
    let server = Server::start(driver);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let answers = server.all("INCR n\r\nINCR m\r\n".repeat(500).as_bytes());
                assert_eq!(answers.lines().count(), 1000);
            });
        }
    });
    assert_eq!(server.all(b"MGET n m\r\n"), "*2\r\n$4\r\n8000\r\n$4\r\n8000\r\n");
}

fn a_scan_finds_every_key_once_at_rest(driver: &str) {
    let server = Server::start(driver);
    let set: String = (0..1000).map(|n| format!("SET key:{n} v\r\nSET other:{n} v\r\n")).collect();
    server.all(set.as_bytes());
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let answer = server.all(format!("SCAN {cursor} MATCH key:* COUNT 37\r\n").as_bytes());
        let mut words = answer.lines().filter(|line| !line.starts_with(['*', '$']));
        words.next().expect("a cursor").clone_into(&mut cursor);
        found.extend(words.map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    let mut expected: Vec<_> = (0..1000).map(|n| format!("key:{n}")).collect();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(server.all(b"SCAN 65535\r\n"), "*2\r\n$1\r\n0\r\n*0\r\n");
}

fn invalid_input_gets_an_error_and_a_close(driver: &str) {
    let server = Server::start(driver);
    for (input, message) in [
        ("*1\r\n!4\r\n", "expected '$', got '!'"),
        ("*999999999\r\n", "invalid multibulk length"),
        ("*1\r\n$999999999\r\n", "invalid bulk length"),
        ("SET \"k\r\n", "unbalanced quotes in request"),
    ] {
        // Not shut down by the client: the server closes.
        let mut stream = server.connect();
        stream.write_all(format!("PING\r\n{input}PING\r\n").as_bytes()).expect("sent");
        let mut answers = String::new();
        stream.read_to_string(&mut answers).expect("an answer and an end");
        assert_eq!(answers, format!("+PONG\r\n-ERR Protocol error: {message}\r\n"));
    }
}

fn values_of_any_bytes_and_megabytes(driver: &str) {
    let server = Server::start(driver);
    let value: Vec<u8> = (0..3_000_000u32).map(|n| (n * 7 % 256) as u8).collect();
    let head = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n", value.len());
    let set = [head.as_bytes(), &value, b"\r\n"].concat();
    let mut stream = server.connect();
    talk(&mut stream, &set, "+OK\r\n");
    stream.write_all(b"GET big\r\n").expect("sent");
    let mut answer = vec![0; value.len() + "$3000000\r\n\r\n".len()];
    stream.read_exact(&mut answer).expect("all of it");
    assert!(answer == [b"$3000000\r\n", value.as_slice(), b"\r\n"].concat());
}

/// A command reads a value many times. The server copies no more of the replies than the client reads.
fn a_reply_may_be_larger_than_memory(driver: &str) {
    const COUNT: usize = 60_000;
    let server = Server::start(driver);
    let mut stream = server.connect();
    let value = "x".repeat(4 << 20);
    talk(&mut stream, format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4194304\r\n{value}\r\n"), "+OK\r\n");
    let request = format!("*{}\r\n$4\r\nMGET\r\n{}", COUNT + 1, "$1\r\nk\r\n".repeat(COUNT));
    let element = format!("$4194304\r\n{value}\r\n");
    talk(&mut stream, request, &format!("*60000\r\n{element}{element}"));
    let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", server.process.pid()))
    else {
        return;
    };
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux has it");
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 300 << 10, "{kib} KiB for a reply of 240 GB");
}

fn too_many_clients_are_rejected(driver: &str) {
    let server = Server::start_with(driver, &["--processors", "1", "--max-clients", "2"]);
    let (mut one, mut two) = (server.connect(), server.connect());
    talk(&mut one, b"PING\r\n", "+PONG\r\n");
    talk(&mut two, b"PING\r\n", "+PONG\r\n");
    assert_eq!(server.connect().read(&mut [0]).expect("an end"), 0);
    talk(&mut one, b"QUIT\r\n", "+OK\r\n");
    assert_eq!(one.read(&mut [0]).expect("an end"), 0);
    drop(one);
    // The place is free once the server has noticed the disconnect.
    eventually("a place", || {
        let mut again = server.connect();
        let mut answer = [0; 7];
        let sent = again.write_all(b"PING\r\n").is_ok();
        (sent && again.read_exact(&mut answer).is_ok()).then_some(())
    });
}

/// The server stops on request, with and without idle clients.
fn it_shuts_down_gracefully(driver: &str) {
    let mut server = Server::start(driver);
    let mut idle = server.connect();
    talk(&mut idle, b"PING\r\n", "+PONG\r\n");
    server.process.shut_down();
    assert_eq!(idle.read(&mut [0]).expect("an end"), 0);
}

fn redis_cli_works(driver: &str) {
    let server = Server::start(driver);
    let port = server.address.port().to_string();
    let cli = |words: &[&str]| {
        let output =
            Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", &port]).args(words).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match cli(&["PING"]) {
        Err(error) => return println!("skipped: redis-cli: {error}"),
        Ok(answer) => assert_eq!(answer, "PONG"),
    }
    let answer = |words: &[&str]| cli(words).expect("it ran before");
    assert_eq!(answer(&["SET", "greeting", "hello there"]), "OK");
    assert_eq!(answer(&["GET", "greeting"]), "hello there");
    assert_eq!(answer(&["INCR", "visits"]), "1");
    assert_eq!(answer(&["MGET", "greeting", "visits"]), "hello there\n1");
    assert_eq!(answer(&["--scan"]).lines().count(), 2);
    assert!(answer(&["INFO"]).contains("db0:keys=2"));
    assert_eq!(answer(&["-2", "DBSIZE"]), "2");
}
