//! Connections that are given up while the server sends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use phalanx::Runtime;
use phalanx_postgres::{Config, Database, Error};
use phalanx_testkit::postgres::messages::{put, put_welcome, take};
use phalanx_testkit::within_limit;

use super::execute;

/// The length of the messages, which are more than the client and the kernel keep.
const LENGTH: usize = 64 << 20;

/// Answers a query with one row and then with messages that make no sense.
fn serve(mut stream: TcpStream) {
    let (mut input, mut has_started) = (Vec::new(), false);
    loop {
        let mut part = [0; 1000];
        let Ok(length @ 1..) = stream.read(&mut part) else { return };
        input.extend_from_slice(&part[..length]);
        let mut output = Vec::new();
        while let Some((tag, _)) = take(&mut input, &mut has_started) {
            match tag {
                0 => put_welcome(&mut output),
                b'P' => put(&mut output, b'1', b""),
                b'D' => put(&mut output, b'n', b""),
                b'S' => put(&mut output, b'Z', b"I"),
                b'E' => {
                    put(&mut output, b'D', &vec![0; LENGTH]);
                    put(&mut output, b'?', &vec![0; LENGTH]);
                }
                _ => {}
            }
        }
        if stream.write_all(&output).is_err() {
            return;
        }
    }
}

/// Its receiving operation ends with the connection: otherwise the program would not drain.
#[test]
fn a_connection_that_is_given_up_receives_no_more() {
    within_limit(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config::tcp(listener.local_addr().unwrap());
        std::thread::spawn(move || serve(listener.accept().unwrap().0));
        let runtime = Runtime::new().processors(1).signals(false);
        let runtime = runtime.shutdown_timeout(Duration::from_secs(3600));
        let main = |database| async move {
            let executed = execute(database, "SELECT 1").await;
            assert!(matches!(executed, Err(Error::ConnectionLost { .. })), "{executed:?}");
        };
        runtime.block_on(|graph| Database::declare(graph, config), main).unwrap();
    });
}
