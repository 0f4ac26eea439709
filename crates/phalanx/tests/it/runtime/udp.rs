//! UDP sockets of operations.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::{IoTimeout, Received, UdpSocket, bind_quic, bind_udp};
use phalanx::runtime::{DriverChoice, StartContext, Started};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::bytes::pattern;

use crate::runtime::harness::{one, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(
    echo,
    a_long_datagram_is_truncated,
    connected_sockets,
    a_receive_times_out_and_goes_on,
    a_receive_that_was_dropped_and_repeated,
    two_receives_at_once,
    many_senders,
    a_server_on_two_processors,
    new_quic_connections_go_to_active_processors,
    impossible_addresses_and_datagrams,
);

fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn two() -> (UdpSocket, UdpSocket, SocketAddr) {
    let (one, two) = (UdpSocket::bind(any()).unwrap(), UdpSocket::bind(any()).unwrap());
    let address = two.local_addr().unwrap();
    (one, two, address)
}

fn echo(driver: DriverChoice) {
    one(driver, |_| async {
        let (one, two, address) = two();
        for length in [0, 1, 1400, 65_507] {
            one.send_to(pattern(length), address, IoTimeout::NONE).await.unwrap();
            let mut buffer = vec![0; 1 << 16];
            let Received { length, from, truncated } =
                two.recv_from(&mut buffer, IoTimeout::after(TIMEOUT)).await.unwrap();
            assert_eq!((from, truncated), (one.local_addr().unwrap(), false));
            two.send_to(buffer[..length].to_vec(), from, IoTimeout::NONE).await.unwrap();
            let mut back = vec![0; 1 << 16];
            let received = one.recv_from(&mut back, IoTimeout::after(TIMEOUT)).await.unwrap();
            assert!(back[..received.length] == pattern(length));
        }
        assert_eq!(two.drops().unwrap_or_default(), 0);
    });
}

fn a_long_datagram_is_truncated(driver: DriverChoice) {
    one(driver, |_| async {
        let (one, two, address) = two();
        for datagram in ["0123456789", "next"] {
            one.send_to(datagram, address, IoTimeout::NONE).await.unwrap();
        }
        let mut buffer = [0; 4];
        for (expected, long) in [(b"0123", true), (b"next", false)] {
            let received = two.recv_from(&mut buffer, IoTimeout::after(TIMEOUT)).await.unwrap();
            assert_eq!((received.length, received.truncated), (4, long));
            assert_eq!(&buffer, expected);
        }
    });
}

fn connected_sockets(driver: DriverChoice) {
    one(driver, |_| async {
        let (one, two, address) = two();
        let unconnected = UdpSocket::bind(any()).unwrap();
        let error = one.send("x", IoTimeout::NONE).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc_edestaddrreq()));
        assert_eq!(one.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        one.connect(address).unwrap();
        two.connect(one.local_addr().unwrap()).unwrap();
        assert_eq!(one.peer_addr().unwrap(), address);
        unconnected.send_to("from a stranger", address, IoTimeout::NONE).await.unwrap();
        one.send("right", IoTimeout::NONE).await.unwrap();
        let mut buffer = [0; 100];
        let received = two.recv(&mut buffer, IoTimeout::after(TIMEOUT)).await.unwrap();
        assert_eq!(&buffer[..received.length], b"right");
    });
}

/// `EDESTADDRREQ` of this system.
fn libc_edestaddrreq() -> i32 {
    if cfg!(target_os = "linux") { 89 } else { 39 }
}

fn a_receive_times_out_and_goes_on(driver: DriverChoice) {
    one(driver, |_| async {
        let (one, two, address) = two();
        let limit = IoTimeout::after(Duration::from_millis(1));
        let error = two.recv_from(&mut [0; 10], limit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        one.send_to("kept", address, IoTimeout::NONE).await.unwrap();
        let mut buffer = [0; 4];
        two.recv_from(&mut buffer, IoTimeout::after(TIMEOUT)).await.unwrap();
        assert_eq!(&buffer, b"kept");
    });
}

/// Like a server that waits for datagrams and for a timer.
fn a_receive_that_was_dropped_and_repeated(driver: DriverChoice) {
    one(driver, |_| async {
        let (one, two, address) = two();
        let mut buffer = [0; 4];
        for _ in 0..20 {
            let receive = two.recv_from(&mut buffer, IoTimeout::after(TIMEOUT));
            let waiting = phalanx::timeout(Duration::from_millis(1), receive).await;
            assert!(waiting.is_err(), "{waiting:?}");
        }
        one.send_to("kept", address, IoTimeout::NONE).await.unwrap();
        two.recv_from(&mut buffer, IoTimeout::after(TIMEOUT)).await.unwrap();
        assert_eq!(&buffer, b"kept");
    });
}

fn two_receives_at_once(driver: DriverChoice) {
    one(driver, |stage| async move {
        let (one, two, address) = two();
        let two = std::sync::Arc::new(two);
        let first = stage.call({
            let two = two.clone();
            move |_| async move {
                let mut byte = [0];
                two.recv_from(&mut byte, IoTimeout::after(TIMEOUT)).await.unwrap();
                byte[0]
            }
        });
        phalanx::sleep(Duration::from_millis(20)).await;
        let error = two.recv_from(&mut [0; 10], IoTimeout::after(TIMEOUT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        one.send_to("x", address, IoTimeout::NONE).await.unwrap();
        assert_eq!(first.await.unwrap(), b'x');
    });
}

fn many_senders(driver: DriverChoice) {
    one(driver, |stage| async move {
        let (one, two, address) = two();
        let one = std::sync::Arc::new(one);
        for n in 0..100_u8 {
            let one = one.clone();
            let send = stage.dispatch(move |_| async move {
                one.send_to(vec![n; 50], address, IoTimeout::after(TIMEOUT)).await.unwrap();
            });
            send.unwrap();
        }
        let (mut sizes, mut buffer) = (Vec::new(), [0; 50]);
        while sizes.len() < 100 {
            let received = two.recv_from(&mut buffer, IoTimeout::after(TIMEOUT)).await.unwrap();
            assert!(buffer[..received.length] == [buffer[0]; 50]);
            sizes.push(buffer[0]);
        }
        sizes.sort_unstable();
        assert!(sizes.into_iter().eq(0..100));
    });
}

/// Each processor has its own socket at the shared port, and every client is answered.
fn a_server_on_two_processors(driver: DriverChoice) {
    let sockets = bind_udp(any(), 2).unwrap();
    let address = sockets[0].local_addr().unwrap();
    let sockets = Mutex::new(sockets);
    let mut graph = Graph::new();
    let stage = graph.shared("echo", ());
    let start = |_: &StartContext| {
        let socket = UdpSocket::new(sockets.lock().unwrap().pop().unwrap())?;
        stage.dispatch(move |_| async move {
            let mut buffer = [0; 100];
            let wait = IoTimeout::NONE.until_shutdown();
            while let Ok(received) = socket.recv_from(&mut buffer, wait).await {
                let answer = buffer[..received.length].to_vec();
                socket.send_to(answer, received.from, IoTimeout::NONE).await.unwrap();
            }
        })?;
        Ok(())
    };
    let ready = |started: &Started| {
        let control = started.control.clone();
        std::thread::spawn(move || {
            for n in 0..50_u8 {
                let client = std::net::UdpSocket::bind(any()).unwrap();
                client.set_read_timeout(Some(TIMEOUT)).unwrap();
                client.send_to(&[n; 10], address).unwrap();
                let mut buffer = [0; 100];
                let (length, from) = client.recv_from(&mut buffer).unwrap();
                assert_eq!((&buffer[..length], from), (&[n; 10][..], address));
            }
            control.drain();
        });
    };
    runtime(driver, 2).run_with_ready(graph, start, ready).unwrap();
}

/// Only packets that may begin a connection are steered to active processors.
fn new_quic_connections_go_to_active_processors(driver: DriverChoice) {
    const PROCESSORS: u16 = 4;
    let sockets = bind_quic(any(), PROCESSORS.into()).unwrap();
    if sockets.len() == 1 {
        return println!("skipped: this system does not steer datagrams");
    }
    let address = sockets[0].local_addr().unwrap();
    let sockets = Mutex::new(sockets.into_iter().map(Some).collect::<Vec<_>>());
    let mut graph = Graph::new();
    let stage = graph.shared("echo", ());
    let start = |start: &StartContext| {
        let number = start.processor();
        let socket = UdpSocket::new(sockets.lock().unwrap()[number].take().unwrap())?;
        socket.steer_connections(PROCESSORS);
        stage.dispatch(move |_| async move {
            let mut buffer = [0; 100];
            let wait = IoTimeout::NONE.until_shutdown();
            while let Ok(received) = socket.recv_from(&mut buffer, wait).await {
                socket.send_to(vec![number as u8], received.from, IoTimeout::NONE).await.unwrap();
            }
        })?;
        Ok(())
    };
    let request = move |first: u8, identifier: u16| {
        let client = std::net::UdpSocket::bind(any()).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        let [high, low] = identifier.to_be_bytes();
        let long = [first, 0, 0, 0, 1, 8, high, low, 3, 4, 5, 6, 7, 8];
        let short = [first, high, low, 3, 4, 5, 6, 7, 8];
        client.send_to(if first < 0x80 { &short } else { &long }, address).unwrap();
        let mut answer = [0];
        assert_eq!(client.recv(&mut answer).unwrap(), 1);
        u16::from(answer[0])
    };
    let cores = std::thread::available_parallelism().unwrap().get();
    let drive = move |started: &Started| {
        let (control, active) = (started.control.clone(), started.active.clone());
        std::thread::spawn(move || {
            let driven = std::thread::spawn(move || {
                for count in [4, 1, 3, 2, 4] {
                    active.set(count);
                    let first = count.min(cores) as u16;
                    let initial_processor = |identifier: u16| match identifier % PROCESSORS {
                        number if number < first => number,
                        number => number % first,
                    };
                    // The change takes effect after a command to the first processor.
                    phalanx_testkit::eventually("the group is steered", || {
                        let steered = |id: &u16| request(0xc0, *id) == initial_processor(*id);
                        (0..PROCESSORS).all(|id| steered(&id)).then_some(())
                    });
                    for id in [0, 1, 2, 3, 7, 500, 0xffff] {
                        // An Initial and a 0-RTT packet, then a Handshake, a Retry and a 1-RTT packet.
                        assert_eq!(
                            [request(0xc3, id), request(0xd0, id)],
                            [initial_processor(id); 2],
                            "{count}: {id}"
                        );
                        let later = [0xe0, 0xf0, 0x40].map(|first| request(first, id));
                        assert_eq!(later, [id % PROCESSORS; 3], "{count}: {id}");
                    }
                }
            });
            let outcome = driven.join();
            control.drain();
            outcome.expect("every packet arrived");
        })
    };
    let mut driven = None;
    let ready = |started: &Started| driven = Some(drive(started));
    runtime(driver, PROCESSORS.into()).run_with_ready(graph, start, ready).unwrap();
    driven.expect("it has started").join().unwrap();
}

fn impossible_addresses_and_datagrams(driver: DriverChoice) {
    one(driver, |_| async {
        let (one, _two, address) = two();
        assert_eq!(UdpSocket::bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);
        let error = one.send_to(vec![0; 65_508], address, IoTimeout::NONE).await.unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    });
}
