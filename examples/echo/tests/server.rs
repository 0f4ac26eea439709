//! Starts the server, sends it data, and stops it.

use std::io::{Read, Write};
use std::net::Shutdown;

use phalanx_testkit::process::{Process, clean};
use phalanx_testkit::tcp::{connect, talk};

#[test]
fn sent_data_is_echoed() {
    let mut command = clean(env!("CARGO_BIN_EXE_echo"));
    command.arg("127.0.0.1:0");
    let mut server = Process::start(command);
    let address = server.address();
    // Sequentially, concurrently, and with more than any buffer holds.
    let mut one = connect(address);
    talk(&mut one, "hello", "hello");
    talk(&mut one, "again", "again");
    std::thread::scope(|scope| {
        for n in 0..20u8 {
            scope.spawn(move || {
                let mut client = connect(address);
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
    server.shut_down();
    assert_eq!(one.read(&mut [0]).unwrap(), 0);
}
