//! Starts the server, sends it data, and stops it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A server process, and its address.
fn start() -> (Server, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_echo"));
    let mut server = command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
    (Server(server), address)
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn client(address: &str) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client
}

#[test]
fn sent_data_is_echoed() {
    let (mut server, address) = start();
    // Sequentially, concurrently, and with more than any buffer holds.
    let mut one = client(&address);
    for text in ["hello", "again"] {
        one.write_all(text.as_bytes()).unwrap();
        let mut back = vec![0; text.len()];
        one.read_exact(&mut back).unwrap();
        assert_eq!(back, text.as_bytes());
    }
    std::thread::scope(|scope| {
        for n in 0..20u8 {
            let address = &address;
            scope.spawn(move || {
                let mut client = client(address);
                let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8 ^ n).collect();
                let mut writer = client.try_clone().unwrap();
                let sent = bytes.clone();
                let sender = std::thread::spawn(move || {
                    writer.write_all(&sent).unwrap();
                    writer.shutdown(Shutdown::Write).unwrap();
                });
                let mut back = Vec::new();
                client.read_to_end(&mut back).unwrap();
                assert!(back == bytes, "client {n}");
                sender.join().unwrap();
            });
        }
    });
    // It stops on request, even with a connected client.
    let pid = rustix::process::Pid::from_child(&server.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.0.wait().unwrap().success());
    assert_eq!(one.read(&mut [0]).unwrap(), 0);
}
