//! Streams of fibres, with code that blocks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use phalanx::CallError;
use phalanx::fibre::{LocalFibres, net};
use phalanx::net::{IoTimeout, Listener, bind};
use phalanx::runtime::DriverChoice;
use phalanx::sleep;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use tungstenite::Message;

use crate::runtime::harness::one;
use crate::runtime::on_each_driver;

on_each_driver![
    streams_work_with_blocking_code,
    a_writer_dropped_by_the_end_sends_nothing,
    rustls_works_unchanged,
    tungstenite_works_unchanged,
];

fn streams_work_with_blocking_code(driver: DriverChoice) {
    let socket = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().pop().unwrap();
    let address = socket.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let long = vec![b'x'; 1 << 20];
        let mut sending = stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            sending.write_all(b"one\ntwo\n").unwrap();
            sending.write_all(&long).unwrap();
            sending.write_all(b"\n").unwrap();
            sending.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        sender.join().unwrap();
        answer
    });
    one(driver, move |stage| async move {
        let listener = Listener::new(socket).unwrap();
        let call = stage.fibre(move |_, _| {
            let listener = net::Listener::from(listener);
            let stream = listener.accept().unwrap();
            stream.set_read_timeout(IoTimeout::after(Duration::from_secs(60)));
            for line in BufReader::new(&stream).lines() {
                let line = line.unwrap();
                writeln!(&mut &stream, "{} {}", line.len(), &line[..3]).unwrap();
            }
            assert_eq!((&stream).read(&mut []).unwrap(), 0);
            // Longer than one part.
            (&stream).write_all(&vec![b'y'; 200_000]).unwrap();
        });
        call.await.unwrap();
    });
    let answer = client.join().unwrap();
    assert_eq!(answer, format!("3 one\n3 two\n1048576 xxx\n{}", "y".repeat(200_000)));
}

/// `BufWriter` flushes when it is dropped; a fibre that unwinds must not wait for that.
fn a_writer_dropped_by_the_end_sends_nothing(driver: DriverChoice) {
    let socket = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().pop().unwrap();
    let address = socket.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        let mut answer = Vec::new();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        _ = stream.read_to_end(&mut answer);
        answer
    });
    one(driver, move |stage| async move {
        let listener = Listener::new(socket).unwrap();
        let call = stage.fibre(move |_, fibre| {
            let stream = net::Listener::from(listener).accept().unwrap();
            let mut writer = std::io::BufWriter::new(&stream);
            writer.write_all(b"unsent").unwrap();
            fibre.sleep(Duration::from_secs(3600));
        });
        sleep(Duration::from_millis(100)).await;
        call.cancel();
        assert_eq!(call.await, Err(CallError::Cancelled));
    });
    assert_eq!(client.join().unwrap(), b"");
}

/// Runs a server as a fibre, which is given its first connection, against a client on a thread.
fn serve_one(
    driver: DriverChoice,
    client: impl FnOnce(TcpStream) + Send + 'static,
    server: impl FnOnce(net::Stream) + Send + 'static,
) {
    let socket = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().pop().unwrap();
    let address = socket.local_addr().unwrap();
    let client = std::thread::spawn(move || client(TcpStream::connect(address).unwrap()));
    one(driver, move |stage| async move {
        let listener = net::Listener::from(Listener::new(socket).unwrap());
        let call = stage.fibre(move |_, _| server(listener.accept().unwrap()));
        call.await.unwrap();
    });
    client.join().unwrap();
}

const CONTENT_BYTES: usize = 300_000;

fn rustls_works_unchanged(driver: DriverChoice) {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(issued.signing_key.serialize_der().into());
    let mut roots = RootCertStore::empty();
    roots.add(issued.cert.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![issued.cert.der().clone()], key).unwrap();
    let ask = move |stream| {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        stream.write_all(b"a line\n").unwrap();
        let mut answer = vec![0; CONTENT_BYTES];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.iter().all(|byte| *byte == b'a'));
    };
    serve_one(driver, ask, move |stream| {
        let connection = ServerConnection::new(Arc::new(server)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let mut line = String::new();
        BufReader::new(&mut stream).read_line(&mut line).unwrap();
        assert_eq!(line, "a line\n");
        stream.write_all(&[b'a'; CONTENT_BYTES]).unwrap();
        stream.flush().unwrap();
    });
}

fn tungstenite_works_unchanged(driver: DriverChoice) {
    let ask = |stream| {
        let (mut socket, _) = tungstenite::client("ws://localhost/", stream).unwrap();
        for length in [0, 10, CONTENT_BYTES] {
            socket.send(Message::text("x".repeat(length))).unwrap();
            assert_eq!(socket.read().unwrap().len(), length);
        }
        socket.close(None).unwrap();
        while socket.read().is_ok() {}
    };
    serve_one(driver, ask, |stream| {
        let mut socket = tungstenite::accept(stream).unwrap();
        while let Ok(message) = socket.read() {
            if message.is_text() {
                socket.send(message).unwrap();
            }
        }
    });
}
