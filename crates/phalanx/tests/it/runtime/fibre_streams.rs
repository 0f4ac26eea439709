//! Streams of fibres, with code that blocks.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use phalanx::CallError;
use phalanx::fibre::{LocalFibres, net};
use phalanx::net::{IoTimeout, Listener, bind};
use phalanx::runtime::DriverChoice;
use phalanx::sleep;

use crate::runtime::harness::one;
use crate::runtime::on_each_driver;

on_each_driver![streams_work_with_blocking_code, a_writer_dropped_by_the_end_sends_nothing,];

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
