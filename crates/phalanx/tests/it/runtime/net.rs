//! TCP: listeners, connections and their errors.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;

use phalanx::net::{Bytes, IoTimeout, Listener, Payload, Stream, bind};
use phalanx::runtime::DriverChoice;
use phalanx::{Graph, SharedStage};
use socket2::{Domain, Socket, Type};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::bytes::pattern;
use phalanx_testkit::tcp::{listener, with_timeouts};

use crate::runtime::harness::{one, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(echo, both_ends, refused, a_taken_address, a_reset_connection);

pub(crate) fn payload(bytes: &[u8]) -> Payload {
    Payload { head: bytes.to_vec(), body: Bytes::new() }
}

/// Echoes everything, until the end of the stream.
async fn echo_all(stream: Stream) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    while stream.read(&mut buffer, IoTimeout::NONE.until_shutdown()).await? > 0 {
        // Alternately as head and as body, to test both.
        let bytes = std::mem::take(&mut buffer);
        let payload = match bytes.len() % 2 {
            0 => Payload { head: bytes, body: Bytes::new() },
            _ => Payload { head: Vec::new(), body: bytes.into() },
        };
        stream.write(payload, IoTimeout::NONE).await?;
    }
    Ok(())
}

async fn accept_all(listener: Listener, stage: SharedStage<()>) {
    while let Ok(stream) = listener.accept().await {
        stage.dispatch(move |_| async move { echo_all(stream).await.unwrap() }).unwrap();
    }
}

/// An echo server on two processors, and forty clients that send up to a megabyte each.
fn echo(driver: DriverChoice) {
    let listeners = bind((Ipv4Addr::LOCALHOST, 0).into(), 2).unwrap();
    let address = listeners[0].local_addr().unwrap();
    assert_eq!(address, listeners[1].local_addr().unwrap());
    let listeners = Mutex::new(listeners);
    let mut graph = Graph::new();
    let stage = graph.shared("echo", ());
    let (up, is_up) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let control: phalanx::runtime::Control = is_up.recv().unwrap();
            thread::scope(|scope| {
                for client in 0..40 {
                    let lengths = [1, 100, 8192, 8193, 40_000, 25_000 * client];
                    scope.spawn(move || exchange(address, &lengths));
                }
            });
            control.drain();
        });
        let start = |_: &phalanx::runtime::StartContext| {
            let listener = Listener::new(listeners.lock().unwrap().pop().unwrap())?;
            stage.dispatch(move |_| accept_all(listener, stage))?;
            Ok(())
        };
        let ready = |started: &phalanx::runtime::Started| up.send(started.control.clone()).unwrap();
        runtime(driver, 2).run_with_ready(graph, start, ready).unwrap();
    });
}

fn exchange(address: std::net::SocketAddr, lengths: &[usize]) {
    let stream = with_timeouts(TcpStream::connect(address).unwrap());
    for length in lengths {
        let sent = pattern(*length);
        let mut writer = stream.try_clone().unwrap();
        let mut received = vec![0; *length];
        thread::scope(|scope| {
            scope.spawn(|| writer.write_all(&sent).unwrap());
            (&stream).read_exact(&mut received).unwrap();
        });
        assert!(received == sent, "{length} bytes came back different");
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!((&stream).read(&mut [0]).unwrap(), 0, "and nothing more");
}

/// Connecting, addresses, a large payload of two parts, shutting down one direction, and the end.
fn both_ends(driver: DriverChoice) {
    let (listener, address) = listener();
    let peer = thread::spawn(move || {
        let (stream, from) = listener.accept().unwrap();
        let mut received = Vec::new();
        with_timeouts(stream.try_clone().unwrap()).read_to_end(&mut received).unwrap();
        (&stream).write_all(b"got it").unwrap();
        (received, from)
    });
    one(driver, move |_| async move {
        let stream = Stream::connect(address, IoTimeout::after(TIMEOUT)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        let body = Bytes::from(pattern(3_000_000));
        let head = Vec::with_capacity(100);
        let head = stream
            .write(Payload { head: [head, b"head".to_vec()].concat(), body }, IoTimeout::NONE)
            .await
            .unwrap();
        assert!(
            head.is_empty() && head.capacity() >= 4,
            "the memory of the head is returned, empty"
        );
        // An empty payload completes immediately.
        stream.write(payload(b""), IoTimeout::NONE).await.unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = b"> ".to_vec();
        while stream.read(&mut answer, IoTimeout::after(TIMEOUT)).await.unwrap() > 0 {}
        assert_eq!(answer, b"> got it", "the bytes are appended");
        let again = stream.read(&mut answer, IoTimeout::after(TIMEOUT)).await;
        assert_eq!(again.unwrap(), 0, "further reads return the end");
        let error = stream.write(payload(b"x"), IoTimeout::NONE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
    let (received, _) = peer.join().unwrap();
    assert!(received == [&b"head"[..], &pattern(3_000_000)].concat());
}

fn refused(driver: DriverChoice) {
    // Bound, but not listening: no other socket gets the port, and connections are refused.
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    taken.bind(&std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let address = taken.local_addr().unwrap().as_socket().unwrap();
    one(driver, move |_| async move {
        for _ in 0..10 {
            let error = Stream::connect(address, IoTimeout::NONE).await.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
    });
    drop(taken);
}

fn a_taken_address(driver: DriverChoice) {
    let (_listener, address) = listener();
    for processors in [1, 2] {
        let error = bind(address, processors).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
    // The same holds for another group of this program: it shares its port only within the group.
    let sockets = bind((Ipv4Addr::LOCALHOST, 0).into(), 2).unwrap();
    let address = sockets[0].local_addr().unwrap();
    assert_eq!(bind(address, 2).unwrap_err().kind(), ErrorKind::AddrInUse);
    one(driver, move |_| async move {
        let listener = Listener::new(sockets.into_iter().next().unwrap()).unwrap();
        assert_eq!(listener.local_addr().unwrap(), address);
        drop(listener);
        // The driver closes it when it is dropped, or a little later.
        while bind(address, 2).is_err() {
            phalanx::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
}

/// A peer that resets: the read fails, and the processor continues.
fn a_reset_connection(driver: DriverChoice) {
    let (listener, address) = listener();
    one(driver, move |_| async move {
        let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
        let (peer, _) = listener.accept().unwrap();
        socket2::SockRef::from(&peer).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(peer);
        let error = stream.read(&mut Vec::new(), IoTimeout::after(TIMEOUT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let error = stream.write(payload(b"x"), IoTimeout::after(TIMEOUT)).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
        let another = Stream::connect(address, IoTimeout::NONE).await.unwrap();
        another.write(payload(b"x"), IoTimeout::NONE).await.unwrap();
    });
}
